import { basename, relative } from 'node:path'
import type { Sluice } from '../app/app.ts'
import { SluiceError } from '../errors.ts'
import type { OpenOptions, World } from './command.ts'
import type { Interrupts } from './interrupts.ts'
import { StreamOutput } from './output/output.ts'

/** More than the largest input that can be stored, in any encoding. */
const MAX_STDIN_BYTES = 64 * 1024 * 1024

/**
 * The real world of a command.
 *
 * @param exit Called with an exit code when the standard output cannot be written: 141, as for SIGPIPE, if its reader has left.
 */
export function realWorld(interrupts: Interrupts, exit: (code: number) => void): Omit<World, 'catalogue'> {
  const environment = process.env
  // A worker goes on when its log cannot be written.
  const err = new StreamOutput(process.stderr, environment, () => {})
  return {
    out: new StreamOutput(process.stdout, environment, (error) => {
      if (error.code === 'EPIPE' || error.code === 'EIO') return exit(141)
      err.line(`error: the standard output cannot be written: ${error.message}`)
      exit(1)
    }),
    err,
    environment,
    folder: process.cwd(),
    program: programName(process.argv[1] ?? ''),
    interrupts,
    now: () => new Date(),
    readInput,
    open: (options) => open(options, err),
  }
}

/** A path that ends in the built file was typed, or is that of `npm start`; anything else is a link made by npm. */
function programName(path: string): string {
  return basename(path) === 'main.js' ? `node ${relative(process.cwd(), path)}` : 'npx sluice'
}

async function open(options: OpenOptions, err: StreamOutput): Promise<Sluice> {
  const { openSluice, sluice } = await import('../app/open.ts')
  const { createLog } = await import('./log.ts')
  const { config, program, dataFolder, reason } = options
  const why = reason === undefined ? {} : { reason }
  const log = options.log ?? createLog(err, { level: process.env.SLUICE_LOG ?? 'warn', json: false })
  if (config !== undefined) {
    // What the module exports was checked to be tasks when it was loaded.
    const own = config.tasks as NonNullable<Parameters<typeof sluice>[0]>['tasks'] & {}
    const tasks = [...own, ...(program?.tasks ?? [])]
    const workflows = [...config.workflows, ...(program?.workflows ?? [])]
    // What comes with the command, the tour for one, is no code of the config's author.
    const others = own.length === 0
    return openSluice(
      { ...program, config, tasks, workflows, dataFolder, log, ...why, ...options.settings },
      others,
    )
  }
  if (program !== undefined) return sluice({ ...program, dataFolder, log })
  // The embedded database belongs to this folder and nobody else minds; another one is migrated when somebody says so.
  const embedded = (process.env.DATABASE_URL ?? '') === ''
  return sluice({ dataFolder, log, publish: false, migrate: embedded, ...why })
}

async function readInput(): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of process.stdin) {
    size += (chunk as Buffer).length
    if (size > MAX_STDIN_BYTES)
      throw new SluiceError('NOT_STORABLE', `the standard input has more than ${MAX_STDIN_BYTES} bytes`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}
