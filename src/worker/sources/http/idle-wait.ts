import type { CycleAnswerBody, CycleBody } from '../../../api/worker-protocol.ts'
import type { ServerLink } from './server-link.ts'

/** How long the server is asked to wait for a job. */
const WAIT_MS = 25_000
/** What the answer may take beyond that, before the connection counts as dead. */
const SLACK_MS = 10_000
/** An answer with nothing that comes sooner than this: the server is stopping, or somebody else speaks for this worker. */
const TOO_SOON_MS = 1000
const PAUSE_MS = 200
/** A poll that a newer request has overtaken is answered at once. One that is not went to another server. */
const OVERTAKEN_MS = 2000

/** How many jobs a question was for. */
export interface Asked {
  readonly free: number
  readonly freeProcesses: number
}

export interface IdleWaitOptions {
  readonly link: ServerLink
  /** What the worker runs, and where the request goes, at the moment it is sent. */
  readonly request: () => { readonly path: string } & Pick<CycleBody, 'running' | 'limits' | 'prefetch'>
  /**
   * Everything it is told while it waits. `asked` is missing when a newer request has been sent: then jobs come with that.
   * `ageMs`: since it asked.
   */
  readonly onAnswer: (answer: CycleAnswerBody, asked: Asked | undefined, ageMs: number) => void
  readonly onFailure: (error: unknown) => void
}

/** A worker's standing question for jobs and orders, while it has nothing to report. */
export class IdleWait {
  readonly #options: IdleWaitOptions
  #asked: Asked | undefined
  #timer: NodeJS.Timeout | undefined
  #underWay: AbortController | undefined

  constructor(options: IdleWaitOptions) {
    this.#options = options
  }

  /** Whether it waits, or is about to, for just that many jobs. */
  covers(free: number, freeProcesses: number): boolean {
    return this.#asked?.free === free && this.#asked.freeProcesses === freeProcesses
  }

  /** Asks in a moment, unless `stop()` comes first. */
  start(free: number, freeProcesses: number, inMs: number): void {
    this.stop()
    this.#asked = { free, freeProcesses }
    if (inMs === 0) void this.#ask(free, freeProcesses)
    else this.#timer = setTimeout(() => void this.#ask(free, freeProcesses), inMs)
  }

  /** A newer request is on its way, or none is wanted. What was asked is answered by the server, and the jobs ignored. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#asked = undefined
    const overtaken = this.#underWay
    this.#underWay = undefined
    if (overtaken !== undefined) setTimeout(() => overtaken.abort(), OVERTAKEN_MS).unref()
  }

  async #ask(free: number, freeProcesses: number): Promise<void> {
    const { link, request, onAnswer, onFailure } = this.#options
    const controller = new AbortController()
    this.#underWay = controller
    const { path, ...runs } = request()
    const body: CycleBody = { ...runs, free, freeProcesses, waitMs: WAIT_MS }
    const sentAt = performance.now()
    try {
      const options = { timeoutMs: WAIT_MS + SLACK_MS, signal: controller.signal }
      const answer = await link.post<CycleAnswerBody>(path, body, options)
      const current = this.#underWay === controller
      if (current) {
        this.#underWay = undefined
        this.#asked = undefined
      }
      if (current && isEmpty(answer)) {
        const tooSoon = performance.now() - sentAt < TOO_SOON_MS
        this.start(free, freeProcesses, tooSoon ? PAUSE_MS : 0)
      }
      onAnswer(answer, current ? { free, freeProcesses } : undefined, performance.now() - sentAt)
    } catch (error) {
      if (this.#underWay !== controller) return
      this.stop()
      onFailure(error)
    }
  }
}

function isEmpty({
  jobs,
  assigned = [],
  lost = [],
  unload = [],
  again = false,
  recall = false,
  yieldTo,
}: CycleAnswerBody): boolean {
  const count = jobs.length + assigned.length + lost.length + unload.length
  return count === 0 && !again && !recall && yieldTo === undefined
}
