import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { until } from '../support/until.ts'
import { CommandHost } from './command-host.ts'

export const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly folder?: string
  readonly input?: string
  /** For commands whose process is what is tested, or that run the code of a config: it is loaded once a process. */
  readonly ownProcess?: boolean
}

const host = new CommandHost(MAIN)

/** A folder for the tests of one file, and the command line called in it. */
export class Cli {
  readonly #environment: () => Readonly<Record<string, string>>
  readonly #running = new Set<Running>()
  folder = ''

  /**
   * Call it at the top of a test file.
   *
   * @param environment A function where it is known only once tests run.
   * @param sharing One with the same folder.
   */
  constructor(
    environment: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>) = {},
    sharing?: Cli,
  ) {
    this.#environment = typeof environment === 'function' ? environment : () => environment
    beforeAll(async () => {
      this.folder = sharing?.folder ?? (await mkdtemp(join(await realpath(tmpdir()), 'sluice-cli-')))
    })
    afterAll(async () => {
      for (const running of this.#running) await running.end('SIGKILL')
      if (sharing === undefined) await rm(this.folder, { recursive: true, force: true })
    })
  }

  async write(name: string, text: string): Promise<void> {
    await writeFile(join(this.folder, name), text)
  }

  /** Runs a command to its end. */
  async run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const { ownProcess = false, folder = this.folder, input = '' } = options
    if (!ownProcess && host.isFree)
      return host.run({ args, environment: this.#environmentOf(options), folder, input })
    const running = this.start(args, options)
    running.process.stdin!.end(input)
    const code = await running.exited
    return { code, stdout: running.stdout, stderr: running.stderr }
  }

  /** Runs a command that must succeed, and returns the JSON it prints. */
  async json<T = Record<string, unknown>>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run([...args, '--json'])
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} exited with ${code}: ${stderr}`)
    return JSON.parse(stdout) as T
  }

  /** Starts a command and does not wait. It is killed when the tests of the file are done. */
  start(args: readonly string[], options: RunOptions = {}): Running {
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: options.folder ?? this.folder,
      env: this.#environmentOf(options),
      stdio: 'pipe',
      // A group of its own, so that a test can do what Ctrl-C does.
      detached: true,
    })
    const running = new Running(child)
    this.#running.add(running)
    void running.exited.then(() => this.#running.delete(running))
    return running
  }

  #environmentOf({ environment }: RunOptions): Record<string, string> {
    const all = { ...process.env, ...this.#environment(), ...environment }
    return Object.fromEntries(
      Object.entries(all).filter((each): each is [string, string] => each[1] !== undefined),
    )
  }
}

export class Running {
  readonly process: ChildProcess
  readonly exited: Promise<number | null>
  stdout = ''
  stderr = ''

  constructor(child: ChildProcess) {
    this.process = child
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    child.stdin!.on('error', () => {})
    this.exited = once(child, 'close').then(() => child.exitCode)
  }

  /** Sends a signal to the whole group, as a terminal does. */
  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.process.pid!, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.signal(signal)
    return this.exited
  }

  /** Waits for a text in what it says, on either stream. */
  async says(text: string | RegExp, withinMs = 60_000): Promise<void> {
    const said = () => {
      const all = this.stdout + this.stderr
      return typeof text === 'string' ? all.includes(text) : text.test(all)
    }
    await until(said, `${text}`, withinMs).catch((error: Error) => {
      throw new Error(`${error.message} in: ${this.stdout}${this.stderr}`)
    })
  }
}
