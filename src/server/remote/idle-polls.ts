import type { HintTopic, Listener } from '../../db/listener.ts'
import type { Log } from '../../engine/log.ts'
import { messageOf } from '../../errors.ts'
import type { Orders } from '../../store/load-orders.ts'
import type { IdlePoll } from './idle-poll.ts'
import { PollGroup } from './poll-group.ts'
import type { RemoteAnswer } from './prefetch.ts'

/**
 * The polls of all idle workers of this server.
 *
 * They share one connection for hints. Workers that can run the same jobs are looked for together: one of them asks the
 * database, and the next one only when the first found something. So a hint does not make 500 idle workers look at once.
 */
export class IdlePolls {
  readonly #loadOrders: (workerIds: readonly string[]) => Promise<readonly Orders[]>
  readonly #log: Log
  readonly #groups = new Map<string, PollGroup>()
  readonly #polls = new Map<string, IdlePoll>()
  readonly #unsubscribe: () => void
  #ordering: Promise<void> | undefined
  #orderAgain = false
  #readyHints = 0
  #slotHints = 0
  #orderHints = 0
  #ordersTold = 0
  #closed = false

  constructor(options: {
    readonly listener: Listener
    readonly loadOrders: (workerIds: readonly string[]) => Promise<readonly Orders[]>
    readonly log: Log
  }) {
    this.#loadOrders = options.loadOrders
    this.#log = options.log
    this.#unsubscribe = options.listener.subscribe((topic) => this.#hear(topic))
    options.listener.start()
  }

  /** Changes with every hint that there may be jobs: a look that began at another number may have missed them. */
  get readyHints(): number {
    return this.#readyHints
  }

  /** Changes with every hint about lanes or slots: what was decided about them may not hold any more. */
  get slotHints(): number {
    return this.#slotHints
  }

  /** The same for cancels and drains: all who waited have been told what came before. */
  get ordersTold(): number {
    return this.#ordersTold
  }

  /**
   * Lets a worker wait. One poll a worker: an older one is answered.
   *
   * @param readyAt `readyHints` before its last look; `undefined`: it has not looked, and need not do so itself.
   * @param orderedAt `ordersTold` when it last waited.
   */
  async wait(poll: IdlePoll, readyAt: number | undefined, orderedAt: number): Promise<RemoteAnswer> {
    const { worker } = poll
    const { likeness } = worker
    if (this.#closed) poll.end()
    this.#polls.get(worker.id)?.end()
    this.#polls.set(worker.id, poll)
    let group = this.#groups.get(likeness)
    if (group === undefined) {
      group = new PollGroup()
      this.#groups.set(likeness, group)
    }
    group.add(poll)
    if (readyAt === undefined) group.arrive(poll)
    else if (readyAt !== this.#readyHints) group.look(true)
    if (orderedAt !== this.#orderHints) this.#order()
    try {
      return await poll.answered
    } finally {
      if (this.#polls.get(worker.id) === poll) this.#polls.delete(worker.id)
      group.remove(poll)
      if (group.size === 0) {
        group.stop()
        if (this.#groups.get(likeness) === group) this.#groups.delete(likeness)
      }
    }
  }

  /** A newer request of the worker has arrived, or it has gone. */
  end(workerId: string): void {
    this.#polls.get(workerId)?.end()
  }

  /** Answers everybody; who comes later is answered at once. */
  close(): void {
    this.#closed = true
    this.#unsubscribe()
    for (const poll of this.#polls.values()) poll.end()
  }

  #hear(topic: HintTopic): void {
    switch (topic) {
      case 'ready':
      case 'one':
        this.#lookAll(true)
        break
      case 'slots':
        for (const { worker } of this.#polls.values()) worker.session.slots.dropIdle()
        this.#recallAll()
        this.#lookAll(false)
        break
      case 'lane':
      case 'classes':
        for (const { worker } of this.#polls.values()) worker.noteOffer()
        if (topic === 'lane') this.#recallAll()
        this.#lookAll(topic === 'classes')
        break
      case 'cancel':
      case 'workers':
        this.#orderHints++
        this.#order()
        break
      default:
        break
    }
  }

  #recallAll(): void {
    this.#slotHints++
    for (const poll of this.#polls.values()) poll.recall()
  }

  #lookAll(again: boolean): void {
    this.#readyHints++
    for (const group of this.#groups.values()) group.look(again)
  }

  /** Asks once for all who wait. A hint meanwhile makes it ask once more. */
  #order(): void {
    this.#orderAgain = true
    this.#ordering ??= this.#orderUntilDone().finally(() => {
      this.#ordering = undefined
    })
  }

  async #orderUntilDone(): Promise<void> {
    while (this.#orderAgain && !this.#closed) {
      this.#orderAgain = false
      const hints = this.#orderHints
      const waiting = [...this.#polls.keys()]
      try {
        const told = waiting.length === 0 ? [] : await this.#loadOrders(waiting)
        this.#ordersTold = hints
        for (const orders of told) {
          const poll = this.#polls.get(orders.id)
          if (poll === undefined) continue
          const { cancels, draining, stopping } = orders
          if (cancels.length > 0 || stopping || draining !== poll.worker.draining) poll.tell(orders)
        }
      } catch (error) {
        // The heartbeats bring them too, a little later.
        this.#log.warn({ error: messageOf(error) }, 'could not read orders and shares for idle workers')
      }
    }
  }
}
