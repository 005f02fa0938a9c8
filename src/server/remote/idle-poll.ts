import type { WorkerSession } from '../../engine/dispatch/worker-session.ts'
import type { CycleAnswer, CycleRequest, NamedJob, WorkerOrders } from '../../model/assignment.ts'
import { RECALL, type RemoteAnswer, type RemotePrefetch } from './prefetch.ts'

/** A request as it comes over HTTP. */
export interface RemoteCycle extends Omit<CycleRequest, 'running' | 'prefetch'> {
  readonly running: readonly NamedJob[]
  /** Absent: it takes jobs only for free slots. */
  readonly prefetch?: RemotePrefetch
  /** The lanes to look at; left out: all. */
  readonly lanes?: ReadonlySet<string>
}

/** Nothing that a worker has to act upon. */
export function saysNothing({ assignments, lost, again, ...answer }: CycleAnswer): boolean {
  const { recall = false, unload = [], yieldTo } = answer
  const count = assignments.length + lost.length + unload.length
  return count === 0 && !again && !recall && yieldTo === undefined
}

/** All jobs that a worker names. */
export function namedBy({ running, prefetch }: RemoteCycle): readonly NamedJob[] {
  return prefetch === undefined || prefetch.waiting.length === 0 ? running : [...running, ...prefetch.waiting]
}

/** A request was judged when it came. One that waits no longer than others take is not judged again. */
const TRUSTED_MS = 100

const NOTHING: CycleAnswer = { assignments: [], lost: [], refused: [], again: false }

/** What a look for one worker came to. `nothing` of a worker that runs nothing means that nothing is there for its like. */
export type Looked = 'found' | 'nothing' | 'over'

/** What the room of idle polls sees of a worker. */
export interface IdleWorker {
  readonly id: string
  /** The smallest are given jobs first; among equals who came first, which is the smaller id. */
  readonly rank: number
  /** Workers with the same can run the same jobs. */
  readonly likeness: string
  readonly session: WorkerSession
  /** Some of its tasks need a process. */
  readonly hasPooled: boolean
  /** Others may need the room of its models: it is looked for also while it takes no jobs. */
  readonly offersDevices: boolean
  draining: boolean
  /** A cycle of it, one at a time. */
  look(request: RemoteCycle): Promise<RemoteAnswer>
  noteOffer(): void
}

/**
 * One request of an idle worker that waits for something to do.
 *
 * It is answered once: with what a look found, with orders, when its time is up, when a newer request of the worker
 * arrives or when the client is gone.
 */
export class IdlePoll {
  readonly worker: IdleWorker
  readonly answered: Promise<RemoteAnswer>
  readonly #request: RemoteCycle
  readonly #checkRight: () => Promise<void>
  readonly #since = performance.now()
  readonly #timer: NodeJS.Timeout
  #answer: (answer: RemoteAnswer) => void = () => {}
  #fail: (error: unknown) => void = () => {}
  #over = false
  #looking = false
  /** Came during a look: told after it, unless that has found something. */
  #orders: WorkerOrders | undefined

  /** @param checkRight Fails when the caller may take no jobs any more: a key may be revoked while it waits. */
  constructor(
    worker: IdleWorker,
    request: RemoteCycle,
    waitMs: number,
    checkRight: () => Promise<void> = async () => {},
  ) {
    this.worker = worker
    this.#checkRight = checkRight
    const { news: _, ...rest } = request
    this.#request = { ...rest, ended: [] }
    this.answered = new Promise((resolve, reject) => {
      this.#answer = resolve
      this.#fail = reject
    })
    // Who waits for it may have gone; its failure is then nobody's.
    this.answered.catch(() => {})
    this.#timer = setTimeout(() => this.end(), waitMs)
  }

  get over(): boolean {
    return this.#over
  }

  /** Whether there is something to look for, or it waits for orders only. */
  get hungry(): boolean {
    return this.#request.free > 0 || this.worker.offersDevices
  }

  /**
   * Whether finding nothing for this worker means that nothing is there for its like. Not so for one that runs something, which may
   * have as many of a lane as one worker may, that is draining, that cannot start some task, or that has no process free.
   */
  get speaksForOthers(): boolean {
    const { session, draining, hasPooled } = this.worker
    const { freeProcesses, limits } = this.#request
    return session.held.size === 0 && !draining && limits === undefined && (!hasPooled || freeProcesses > 0)
  }

  /** Looks for jobs, in these lanes or in all. What it finds is the answer. */
  async look(lanes?: ReadonlySet<string>): Promise<Looked> {
    if (this.#over || this.#looking) return 'over'
    this.#looking = true
    try {
      if (performance.now() - this.#since > TRUSTED_MS) await this.#checkRight()
      // Ended meanwhile: what it would claim might reach nobody.
      if (this.#over) {
        this.#looking = false
        this.#answer(NOTHING)
        return 'over'
      }
      const found = await this.worker.look(lanes === undefined ? this.#request : { ...this.#request, lanes })
      this.#looking = false
      if (saysNothing(found)) {
        if (this.#over) this.#answer(found)
        else if (this.#orders !== undefined) this.tell(this.#orders)
        return 'nothing'
      }
      this.#finish()
      this.#answer(this.#orders === undefined ? found : { ...found, orders: this.#orders })
      return 'found'
    } catch (error) {
      this.#looking = false
      this.#finish()
      this.#fail(error)
      return 'over'
    }
  }

  /** The worker has to hand back what is waiting. Nothing is lost if this comes during a look: after 100 ms it does so by itself. */
  recall(): void {
    if (this.#over || this.#looking || (this.#request.prefetch?.waiting.length ?? 0) === 0) return
    this.#finish()
    this.#answer(RECALL)
  }

  tell(orders: WorkerOrders): void {
    this.#orders = orders
    if (this.#over || this.#looking) return
    this.#finish()
    this.#answer({ ...NOTHING, orders })
  }

  /** Answers with nothing, or with what the look under way brings: jobs it claims must not get lost on the way. */
  end(): void {
    if (this.#over) return
    this.#finish()
    if (!this.#looking) this.#answer(NOTHING)
  }

  #finish(): void {
    this.#over = true
    clearTimeout(this.#timer)
  }
}
