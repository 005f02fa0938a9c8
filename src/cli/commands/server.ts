import { loadConfig } from '../../config/load-config.ts'
import type { Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { fired } from '../interrupts.ts'
import { createLog } from '../log.ts'
import { dataFolderOf } from '../operate.ts'
import { writeJsonLine } from '../output/json.ts'
import { addServeOptions, type ServeOptions, serve } from '../serve.ts'

/** `sluice server` */
export const declareServer: Declare = (command, act) => {
  addServeOptions(command)
  command
    .option('--config <file>', 'the config file with lanes, tasks, workflows and schedules')
    .addHelpText(
      'after',
      '\nServes the HTTP API under /api/v1, its description at /openapi.json and /docs, and the dashboard. Runs no jobs.' +
        '\nThe first start on a database prints the first API key once, and sets a ceiling of 1024 active jobs and a start' +
        '\ndeadline of 4 h, unless other values are set. On Ctrl-C or SIGTERM, requests may finish within shutdownGrace.' +
        '\nLogs to stderr; SLUICE_LOG sets the level (default info).',
    )
    .action((options: ServeOptions) => act((world) => server(world, options)))
}

async function server(world: World, options: ServeOptions): Promise<ExitCode> {
  const stops = world.interrupts.take()
  const config = await loadConfig({ path: options.config, folder: world.folder })
  const log = createLog(world.err, {
    level: world.environment.SLUICE_LOG ?? 'info',
    json: options.json === true,
  })
  const app = await world.open({ config, dataFolder: dataFolderOf(world, options), log })
  try {
    if (stops.soon.aborted) return world.interrupts.code ?? EXIT.failed
    const { server, adminKey, keyFile, limits } = await serve(world, app, log, options)
    if (options.json === true)
      writeJsonLine(world.out, {
        url: server.url,
        ...(adminKey !== undefined && { adminKey }),
        ...(keyFile !== undefined && { keyFile }),
      })
    else {
      if (adminKey !== undefined) world.out.line(`admin key: ${adminKey}`)
      if (keyFile !== undefined) world.out.line(`admin key: in ${keyFile}`)
      if (limits !== undefined) world.out.line(`limits set: ${limits}`)
      world.out.line(
        `listening on ${server.url}; dashboard at ${server.url}/, reference at ${server.url}/docs`,
      )
    }
    await fired(stops.soon)
    log.info({}, 'stopping: requests under way may finish; once more to stop at once')
    stops.now.addEventListener('abort', () => void server.stop({ now: true }), { once: true })
    await server.stop({ now: stops.now.aborted })
    log.info({}, 'stopped')
    return stops.now.aborted ? (world.interrupts.code ?? EXIT.failed) : EXIT.done
  } finally {
    await app.close({ now: stops.now.aborted })
  }
}
