import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { onTestFinished, vi } from 'vitest'
import type { LaneOptions, SluiceOptions } from '../../src/app/open.ts'
import type { WorkOptions } from '../../src/app/start-worker.ts'
import { until } from './until.ts'

// Starting processes takes its time on a machine that is busy with other things. What must be quick is bounded by itself.
vi.setConfig({ testTimeout: 240_000 })

const PROGRAMS = new URL('./programs/', import.meta.url)

/** What `programs/worker.mjs` tells. */
export type WorkerMessage =
  | { readonly kind: 'ready'; readonly url: string }
  | { readonly kind: 'closed' }
  | ({ readonly kind: 'started'; readonly folder?: string } & Attempted)
  | ({ readonly kind: 'stopped'; readonly reason: string; readonly at: number } & Attempted)
  | {
      readonly kind: 'log'
      readonly level: string
      readonly fields: Readonly<Record<string, unknown>>
      readonly message: string
      readonly at: number
    }

interface Attempted {
  readonly job: string
  readonly attempt: number
  readonly pid: number
}

export interface TaskSettings {
  readonly lane?: string
  readonly losses?: number
  readonly onLost?: 'retry' | 'fail'
  readonly retry?: { readonly attempts?: number; readonly delay?: number }
  readonly timeout?: number
  /** With `gpu-worker.mjs` one that takes so much on its device, and outlives a killed worker by so long. */
  readonly model?: string | { readonly name: string; readonly bytes: number; readonly lingerMs?: number }
  readonly uses?: Readonly<Record<string, number | string>>
}

export interface WorkerProcessOptions {
  readonly options?: Omit<SluiceOptions, 'tasks' | 'log' | 'config' | 'lanes'> & {
    readonly lanes?: Readonly<Record<string, LaneOptions>>
  }
  /** `false`: it submits only. */
  readonly work?: WorkOptions | false
  readonly tasks?: Readonly<Record<string, TaskSettings>>
  /** In place of `worker.mjs`: one of `programs/`, or the path of another. */
  readonly program?: string
  /** Where it gets its jobs, in place of a database. `options` are then not used. */
  readonly remote?: { readonly server: string; readonly key: string; readonly grace?: string }
  /** What to put in front of its command, for example to run it on another host. It has to become the command. */
  readonly within?: readonly string[]
}

/**
 * How many times as long as on a quiet machine a process may have to wait for a core. The tests themselves bring about two processes to
 * run a core; with a load of 20 on two cores live workers lost leases of 1.5 s.
 */
const SLOWER = Math.min(6, Math.max(1, loadavg()[0]! / availableParallelism() / 2))

/** Short, so that a take-over takes seconds; long enough for a machine that starts ten processes at once. */
export const HEARTBEAT_MS = Math.round(300 * SLOWER)
export const STALE_MS = 5 * HEARTBEAT_MS
export const SHORT_LEASES = { heartbeat: HEARTBEAT_MS, stale: STALE_MS } as const

/** A worker in a process of its own. What a task does is said by its input, see `programs/worker.mjs`. */
export class WorkerProcess {
  readonly process: ChildProcess
  readonly exited: Promise<void>
  readonly messages: WorkerMessage[] = []
  stderr = ''

  constructor(settings: WorkerProcessOptions) {
    const { options, work = {}, tasks = { act: {} }, remote, program = 'worker.mjs', within = [] } = settings
    const path = fileURLToPath(new URL(program, PROGRAMS))
    const given = JSON.stringify({ options: { ...SHORT_LEASES, ...options }, work, tasks, remote })
    const [command, ...args] = [...within, process.execPath, path, given]
    this.process = spawn(command!, args, {
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    })
    this.exited = new Promise((resolve) => this.process.once('exit', () => resolve()))
    this.process.on('message', (message) => this.messages.push(message as WorkerMessage))
    this.process.on('error', () => {})
    this.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
  }

  get pid(): number {
    return this.process.pid!
  }

  get running(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** Resolves when it takes jobs; gives the database's address. */
  async ready(): Promise<string> {
    const message = await until(
      () => this.#find('ready') ?? (this.running ? undefined : 'gone'),
      `worker ${this.pid} to be ready`,
    )
    if (message === 'gone') throw new Error(`worker ${this.pid} ended: ${this.stderr}`)
    return message.url
  }

  /** Resolves when it has begun the job, an attempt of at least this number. */
  started(job: string, attempt = 1): Promise<Extract<WorkerMessage, { kind: 'started' }>> {
    return until(
      () => this.#find('started', (each) => each.job === job && each.attempt >= attempt),
      `worker ${this.pid} to start attempt ${attempt} of job ${job}`,
    )
  }

  hasStarted(job: string, attempt = 1): boolean {
    return this.#find('started', (each) => each.job === job && each.attempt >= attempt) !== undefined
  }

  /** Resolves when the job's signal has fired. */
  stopped(job: string): Promise<Extract<WorkerMessage, { kind: 'stopped' }>> {
    return until(
      () => this.#find('stopped', (each) => each.job === job),
      `worker ${this.pid} to stop job ${job}`,
    )
  }

  /** Resolves when something with this text has been logged. */
  logged(text: string): Promise<Extract<WorkerMessage, { kind: 'log' }>> {
    return until(
      () => this.#find('log', (each) => each.message.includes(text)),
      `worker ${this.pid} to log "${text}"`,
    )
  }

  hasLogged(text: string): boolean {
    return this.#find('log', (each) => each.message.includes(text)) !== undefined
  }

  /** Lets a task with `gate` go on. */
  go(job: string): void {
    this.process.send({ go: job }, () => {})
  }

  /** Leaves in the orderly way and waits for the end. */
  async close(): Promise<void> {
    this.process.send({ close: true }, () => {})
    await this.exited
    if (this.#find('closed') === undefined)
      throw new Error(`worker ${this.pid} did not close: ${this.stderr}`)
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL')
    await this.exited
  }

  /** Stops every thread of it, as a debugger or a frozen machine would. Resolves when it stands. */
  async pause(): Promise<void> {
    this.process.kill('SIGSTOP')
    await until(() => stateOf(this.pid) === 'T', `worker ${this.pid} to stand still`)
  }

  resume(): void {
    this.process.kill('SIGCONT')
  }

  #find<K extends WorkerMessage['kind']>(
    kind: K,
    matches: (message: Extract<WorkerMessage, { kind: K }>) => boolean = () => true,
  ): Extract<WorkerMessage, { kind: K }> | undefined {
    return this.messages.find(
      (message): message is Extract<WorkerMessage, { kind: K }> =>
        message.kind === kind && matches(message as Extract<WorkerMessage, { kind: K }>),
    )
  }
}

/** Starts a worker for the running test and waits until it takes jobs. It does not outlive the test. */
export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const worker = new WorkerProcess(options)
  onTestFinished(async () => {
    if (worker.running) await worker.kill()
  })
  await worker.ready()
  return worker
}

/** The worker that runs the job, once one of them has begun an attempt of at least this number. */
export function whoStarted(
  workers: readonly WorkerProcess[],
  job: string,
  attempt = 1,
): Promise<WorkerProcess> {
  return until(
    () => workers.find((worker) => worker.hasStarted(job, attempt)),
    `attempt ${attempt} of job ${job} to start`,
  )
}

function stateOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2)[0]!
}
