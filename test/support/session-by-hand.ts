import type { Queryable, RawQueryable } from '../../src/db/database.ts'
import type { FillOrder } from '../../src/engine/dispatch/fill-order.ts'
import { WorkerSession } from '../../src/engine/dispatch/worker-session.ts'
import type { Log } from '../../src/engine/log.ts'
import type { CycleAnswer, EndedAttempt, Prefetch } from '../../src/model/assignment.ts'
import type { WorkerIdentity } from '../../src/model/worker-identity.ts'
import { endWorker } from '../../src/store/end-worker.ts'
import { registerWorker } from '../../src/store/register-worker.ts'

const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {} }

export interface SessionByHandOptions {
  readonly db: Queryable
  readonly connection: RawQueryable
  readonly identity: WorkerIdentity
  readonly hears?: () => boolean
}

/** The session of a worker that runs nothing by itself: a test makes each cycle. */
export class SessionByHand {
  readonly #options: SessionByHandOptions
  readonly #session: WorkerSession
  readonly #running = new Map<string, number>()
  readonly #over = new Set<string>()

  private constructor(options: SessionByHandOptions) {
    const { db, connection, identity, hears = () => true } = options
    const { tasks, labels } = identity
    this.#options = options
    this.#session = new WorkerSession({
      ...{ db, connection, tasks, labels, hears, processTasks: new Set(), log: SILENT, isLocal: true },
    })
  }

  static async open(options: SessionByHandOptions): Promise<SessionByHand> {
    const made = new SessionByHand(options)
    made.#session.follow(await registerWorker(options.connection, options.identity))
    await made.#session.catchUp({ ended: [], running: () => [] })
    return made
  }

  get workerId(): string {
    return this.#session.workerId
  }

  get order(): FillOrder {
    return this.#session.claiming.order
  }

  get lookAgainMs(): number {
    return this.#session.claiming.lookAgainMs
  }

  markOutOfStep(): void {
    this.#session.markOutOfStep()
  }

  /** From now on it does not name these jobs: it dropped them. */
  drop(ids: readonly string[]): void {
    for (const id of ids) this.#running.delete(id)
  }

  /** This job ends, and a later cycle reports it. */
  noteEnd(id: string): void {
    this.#over.add(id)
  }

  async cycle(
    ended: readonly EndedAttempt[],
    free: number,
    freeProcesses: number,
    prefetch?: Prefetch,
  ): Promise<CycleAnswer> {
    for (const { id } of ended) this.#running.delete(id)
    const running = () =>
      [...this.#running].map(([id, attempt]) => ({ id, attempt, ended: this.#over.has(id) }))
    const answer = await this.#session.cycle({
      ...{ ended, running, free, freeProcesses },
      ...(prefetch !== undefined && { prefetch }),
    })
    for (const { id, attempt } of answer.assignments) this.#running.set(id, attempt)
    return answer
  }

  async close(why: string): Promise<void> {
    await endWorker(this.#options.db, this.workerId, why)
  }
}
