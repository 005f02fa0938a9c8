import type { Logger } from 'pino'
import type { Sluice } from '../../app/app.ts'
import { loadConfig } from '../../config/load-config.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { authorOfDatabase } from '../../engine/access/author.ts'
import { offerSignIn } from '../../engine/access/sessions.ts'
import { SETTINGS } from '../../model/settings.ts'
import { type Given, setting } from '../arguments.ts'
import type { Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { fired } from '../interrupts.ts'
import { createLog } from '../log.ts'
import { dataFolderOf } from '../operate.ts'
import { writeJsonLine } from '../output/json.ts'
import { addServeOptions, type ServeOptions, type Serving, serve } from '../serve.ts'
import { flow } from '../tour/flow.ts'
import { TourProduct } from '../tour/product.ts'

interface UpOptions extends ServeOptions {
  readonly capacity?: Given<number>
  readonly tour?: boolean
}

/** `sluice up` */
export const declareUp: Declare = (command, act) => {
  addServeOptions(command)
  command
    .option(
      '--capacity <number>',
      'jobs at once; 0: only the lanes limit it',
      setting(SETTINGS.capacity.reader),
    )
    .option('--tour', 'run sample jobs and workflows, on a simulated GPU')
    .option('--config <file>', 'the config file with lanes, tasks, workflows and schedules')
    .addHelpText(
      'after',
      '\nUses the database in DATABASE_URL, else an embedded PostgreSQL. The worker runs the tasks of the config.' +
        '\nPrints the first API key of a new database and, on a terminal only, an address that signs in one browser' +
        '\nwithin 15 minutes.' +
        '\nOn Ctrl-C or SIGTERM, requests and jobs may finish within shutdownGrace. A second signal stops at once.' +
        '\nLogs to stderr; SLUICE_LOG sets the level (default info).',
    )
    .action((options: UpOptions) => act((world) => up(world, options)))
}

async function up(world: World, options: UpOptions): Promise<ExitCode> {
  const stops = world.interrupts.take()
  const config = await loadConfig({ path: options.config, folder: world.folder })
  const log = createLog(world.err, {
    level: world.environment.SLUICE_LOG ?? 'info',
    json: options.json === true,
  })
  const tour = options.tour === true ? new TourProduct(config.file) : undefined
  const app = await world.open({
    config,
    dataFolder: dataFolderOf(world, options),
    log,
    ...(tour !== undefined && { program: tour.program }),
  })
  try {
    if (stops.soon.aborted) return world.interrupts.code ?? EXIT.failed
    // First: what cannot start must not leave a first key behind that nobody was shown.
    await work(app, log, options)
    const serving = await serve(world, app, log, options)
    const { server } = serving
    await sayWhere(world, app, serving, options)
    const flowing = tour === undefined ? undefined : flow(app, tour, log, world.now, stops.soon)
    await fired(stops.soon)
    log.info({}, 'stopping: requests and jobs may finish; once more to stop at once')
    stops.now.addEventListener('abort', () => void server.stop({ now: true }), { once: true })
    stops.now.addEventListener('abort', () => void app.close({ now: true }), { once: true })
    await server.stop({ now: stops.now.aborted })
    await flowing
    await app.close({ now: stops.now.aborted || options.tour === true })
    log.info({}, 'stopped')
    return stops.now.aborted ? (world.interrupts.code ?? EXIT.failed) : EXIT.done
  } finally {
    await app.close({ now: true })
  }
}

/** A program without tasks is still a server: others may work. */
async function work(app: Sluice, log: Logger, options: UpOptions): Promise<void> {
  if (app.services.tasks.byName.size === 0) {
    log.info({}, 'this process runs no worker: the config defines no tasks. Use --tour to try samples')
    return
  }
  // It would take everything, and no pool would ever be asked for anything.
  const { pools } = app.services.settings
  if (pools.size > 0 && options.capacity === undefined && options.tour !== true) {
    log.info(
      { pools: [...pools.keys()] },
      'this process runs no worker: pools start workers when jobs overflow',
    )
    return
  }
  await app.work({ capacity: options.capacity?.value ?? 0, name: `up-${process.pid}` })
}

async function sayWhere(
  world: World,
  app: Sluice,
  { server: { url }, adminKey, keyFile, limits }: Serving,
  options: UpOptions,
): Promise<void> {
  // A pipe mostly ends in a log, which others read for longer than 15 minutes.
  const token = world.out.isTerminal
    ? await transactWithRetries(app.services.db, (tx) => offerSignIn(tx, authorOfDatabase('up')))
    : undefined
  const signIn = token === undefined ? undefined : `${url}/#token=${token}`
  if (options.json === true) {
    writeJsonLine(world.out, {
      url,
      ...(adminKey !== undefined && { adminKey }),
      ...(keyFile !== undefined && { keyFile }),
      ...(signIn !== undefined && { signIn }),
    })
    return
  }
  if (adminKey !== undefined) world.out.line(`admin key: ${adminKey}`)
  if (keyFile !== undefined) world.out.line(`admin key: in ${keyFile}`)
  if (signIn !== undefined) world.out.line(`sign in:   ${signIn}`)
  const once = [
    ...(adminKey === undefined ? [] : ['the key is shown this once']),
    ...(signIn === undefined ? [] : ['the address signs one browser in, within 15 minutes']),
  ]
  if (once.length > 0) world.out.line(once.join('; '))
  if (limits !== undefined) world.out.line(`limits set: ${limits}`)
  world.out.line(`listening on ${url}; dashboard at ${url}/, reference at ${url}/docs; Ctrl-C stops it`)
  if (options.tour === true)
    world.out.line(
      `tour: workflows, failures, an approval, a full lane, a pool and models on a simulated GPU; watch with: ${world.program} top`,
    )
}
