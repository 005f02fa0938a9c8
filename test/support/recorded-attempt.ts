import { type Attempt, type AttemptServices, Stop, type StopReason } from '../../src/worker/attempt.ts'

interface Line {
  readonly level: string
  readonly message: string
}

/** An attempt whose services keep everything in memory, and whose reports a test can wait for. */
export class RecordedAttempt implements Attempt, AttemptServices {
  readonly job
  readonly number: number
  readonly input: unknown
  readonly graceMs: number
  readonly lines: Line[] = []
  readonly progressed: [number, string | undefined][] = []
  readonly steps: Map<string, unknown>
  checkpoint: unknown
  readonly #controller = new AbortController()
  readonly #makeWorkdir: () => string
  readonly #watchers = new Set<() => void>()

  constructor(
    options: {
      input?: unknown
      task?: string
      number?: number
      graceMs?: number
      steps?: Map<string, unknown>
      workdir?: () => string
    } = {},
  ) {
    const task = options.task ?? 'sample'
    this.job = {
      id: 'job-1',
      task,
      key: 'k',
      priority: 5,
      tags: ['a'],
      submittedAt: new Date('2030-01-01T12:00:00Z'),
    }
    this.number = options.number ?? 1
    this.input = options.input ?? null
    this.graceMs = options.graceMs ?? 10_000
    this.steps = options.steps ?? new Map()
    this.#makeWorkdir =
      options.workdir ??
      (() => {
        throw new Error('this attempt was given no workdir')
      })
  }

  get jobId(): string {
    return this.job.id
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get services(): AttemptServices {
    return this
  }

  get messages(): string[] {
    return this.lines.map(({ message }) => message)
  }

  stop(reason: StopReason = 'cancelled'): void {
    this.#controller.abort(new Stop(reason, `${reason} by the test`))
  }

  workdir(): string {
    return this.#makeWorkdir()
  }

  progress(fraction: number, message?: string): void {
    this.progressed.push([fraction, message])
    this.#changed()
  }

  log(level: string, message: string): void {
    this.lines.push({ level, message })
    this.#changed()
  }

  async loadStep(name: string): Promise<{ result: unknown } | undefined> {
    return this.steps.has(name) ? { result: this.steps.get(name) } : undefined
  }

  async saveStep(name: string, result: unknown): Promise<unknown> {
    if (!this.steps.has(name)) this.steps.set(name, result)
    return this.steps.get(name)
  }

  async loadCheckpoint(): Promise<unknown> {
    return this.checkpoint
  }

  async saveCheckpoint(value: unknown): Promise<void> {
    this.checkpoint = value
  }

  /** The first log line that starts with `start`, once there is one; its rest. */
  async logged(start: string): Promise<string> {
    await this.#until(() => this.messages.some((message) => message.startsWith(start)), `log line ${start}`)
    return this.messages.find((message) => message.startsWith(start))!.slice(start.length)
  }

  async progressReported(): Promise<[number, string | undefined]> {
    await this.#until(() => this.progressed.length > 0, 'progress')
    return this.progressed[0]!
  }

  #changed(): void {
    for (const watcher of this.#watchers) watcher()
  }

  #until(condition: () => boolean, what: string): Promise<void> {
    if (condition()) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => end(() => reject(new Error(`no ${what}; got ${this.messages.join('\n')}`))),
        15_000,
      )
      const end = (settle: () => void) => {
        clearTimeout(timer)
        this.#watchers.delete(watcher)
        settle()
      }
      const watcher = () => {
        if (condition()) end(resolve)
      }
      this.#watchers.add(watcher)
    })
  }
}
