import { type FileHandle, open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import type { Logger } from 'pino'
import type { Sluice } from '../app/app.ts'
import type { Queryable } from '../db/database.ts'
import { createFirstKey, listKeys } from '../engine/access/keys.ts'
import { declareServerDefaults } from '../engine/operate/server-defaults.ts'
import { SluiceError } from '../errors.ts'
import { type Duration, parseDuration } from '../model/duration.ts'
import { type RunningServer, startServer } from '../server/start-server.ts'
import { duration } from './arguments.ts'
import type { CommonOptions, World } from './command.ts'

export interface ServeOptions extends CommonOptions {
  readonly port?: number
  readonly host: string
  readonly notice: Duration
  readonly firstKeyFile?: string
  readonly firstKeyExpires?: Duration
}

const DEFAULT_PORT = 8080
const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/

/** Options of the commands that listen. */
export function addServeOptions(command: Command): void {
  command
    .option(
      '--port <number>',
      `the port to listen on; 0: any free port (default: SLUICE_PORT, else ${DEFAULT_PORT})`,
      port,
    )
    .option(
      '--host <address>',
      'the address to listen on; 0.0.0.0: all addresses of this machine',
      '127.0.0.1',
    )
    .option(
      '--notice <duration>',
      'how long /readyz returns 503 before a stopping server accepts no more connections',
      duration,
      '0s',
    )
    .option(
      '--first-key-file <path>',
      'write the first API key of a new database to this file (mode 0600) instead of printing it',
    )
    .option('--first-key-expires <duration>', 'lifetime of the first API key, such as 1h', duration)
}

function port(text: string): number {
  const number = Number(text)
  if (!/^\d+$/.test(text.trim()) || number > 65_535)
    throw new InvalidArgumentError('Write a number from 0 to 65535.')
  return number
}

export interface Serving {
  readonly server: RunningServer
  /** The first key of the database, when this start has made it. */
  readonly adminKey: string | undefined
  /** The file that has it, where one was named. It is not printed then. */
  readonly keyFile: string | undefined
  /** In words, what this start has set for everyone who submits; `undefined` unless it is the first. */
  readonly limits: string | undefined
}

/**
 * Starts the HTTP server on an open application, and says on the standard output where it is; and, once in the life of a
 * database, its first key.
 */
export async function serve(world: World, app: Sluice, log: Logger, options: ServeOptions): Promise<Serving> {
  const { calls, settings } = app.services
  const { firstKeyFile } = options
  const file = await openKeyFile(calls, firstKeyFile && resolve(world.folder, firstKeyFile))
  try {
    const limits = await declareServerDefaults(calls, settings, 'server')
    const server = await startServer({
      app,
      log,
      host: options.host,
      port: options.port ?? portOf(world.environment),
      noticeMs: parseDuration(options.notice, 'notice'),
      graceMs: settings.shutdownGraceMs,
    })
    app.startDuties()
    await app.provision()
    // Last: a key that is made must be shown.
    const firstKey = await makeFirstKey(calls, file, options)
    warnOfPlainHttp(options.host, log)
    return { server, ...firstKey, limits }
  } catch (error) {
    // An empty file would keep the next start from making one.
    if (file !== undefined) await rm(file.path, { force: true })
    throw error
  } finally {
    await file?.handle.close()
  }
}

function warnOfPlainHttp(host: string, log: Logger): void {
  if (LOOPBACK.test(host)) return
  log.warn(
    { host },
    'listening beyond this machine without TLS: keys travel readable; put a proxy with TLS in front',
  )
}

/** A file for the first key. It is there before the key: a key that could not be kept would be lost, and there is only one first key. */
interface KeyFile {
  readonly path: string
  readonly handle: FileHandle
}

/**
 * Opens the file for the first key, if one is named and the database has no key yet.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when the file cannot be written, or exists.
 */
async function openKeyFile(calls: Queryable, path: string | undefined): Promise<KeyFile | undefined> {
  // A server that is started again finds the file of its first start.
  if (path === undefined || (await listKeys(calls, '0', 1)).length > 0) return undefined
  const handle = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'EEXIST' ? 'it exists already; remove it or name another file' : error.message
    throw new SluiceError('INVALID_CONFIG', `--first-key-file: cannot write ${path}: ${why}`)
  })
  return { path, handle }
}

/** Makes the first key of the database, if it has none. One that is to go to a file is made only where that is open. */
async function makeFirstKey(
  calls: Queryable,
  file: KeyFile | undefined,
  { firstKeyFile, firstKeyExpires }: ServeOptions,
): Promise<Pick<Serving, 'adminKey' | 'keyFile'>> {
  const livesMs =
    firstKeyExpires === undefined ? null : Math.round(parseDuration(firstKeyExpires, 'first-key-expires'))
  const none = { adminKey: undefined, keyFile: undefined }
  if (firstKeyFile !== undefined && file === undefined) return none
  const key = (await createFirstKey(calls, { livesMs }))?.key
  if (file === undefined) return { ...none, adminKey: key }
  if (key === undefined) {
    await rm(file.path)
    return none
  }
  await file.handle.writeFile(`${key}\n`)
  return { ...none, keyFile: file.path }
}

function portOf({ SLUICE_PORT }: NodeJS.ProcessEnv): number {
  if (SLUICE_PORT === undefined || SLUICE_PORT === '') return DEFAULT_PORT
  try {
    return port(SLUICE_PORT)
  } catch {
    throw new SluiceError(
      'INVALID_CONFIG',
      `SLUICE_PORT: ${JSON.stringify(SLUICE_PORT)} must be a number from 0 to 65535${SLUICE_PORT.startsWith('tcp:') ? '. Kubernetes sets it for a service called sluice: use --port, set SLUICE_PORT in the pod, or set enableServiceLinks: false' : ''}`,
    )
  }
}
