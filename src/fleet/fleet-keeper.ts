import { randomUUID } from 'node:crypto'
import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import { messageOf } from '../errors.ts'
import { toStorableText } from '../model/json.ts'
import { askForWorkers } from '../store/ask-for-workers.ts'
import { endAbandonedRequests } from '../store/end-abandoned-requests.ts'
import { endRequest } from '../store/end-request.ts'
import { type PoolLook, type PoolRequest, readPoolSnapshot } from '../store/read-pool-snapshot.ts'
import { recordGoneInstances } from '../store/record-gone-instances.ts'
import { recordOverflow } from '../store/record-overflow.ts'
import { recordStartedInstances } from '../store/record-started-instances.ts'
import { recordStoppedInstances } from '../store/record-stopped-instances.ts'
import { takeRequest } from '../store/take-request.ts'
import { type LeftInstances, takeStops } from '../store/take-stops.ts'
import { undrainWorkers } from '../store/undrain-workers.ts'
import { isTimeout, within } from '../within.ts'
import { decide, type FleetDecision } from './decide.ts'
import {
  checkStarted,
  type Provisioner,
  provisionerFailed,
  type Started,
  type StartRequest,
  WrongAnswer,
} from './provisioner.ts'

/**
 * A job that has waited for less may simply not have been found yet: a claim takes milliseconds, an idle poll two
 * seconds at most.
 */
const MOMENT_MS = 1000
/** The time limit of one call to a provisioner. */
const CALL_MS = 30_000
/** After this additional time, the calling process counts as dead and another process calls again. */
const TAKE_OVER_MS = 5000
/**
 * How long after a failed stop it is tried again, the last value repeatedly, because workers that are not needed cost
 * money. After a day of tries, it is left to people.
 */
const STOP_AGAIN_MS = [1000, 5000, 20_000, 60_000, 300_000]
const MAX_STOPS = 290
/** The longest message of a provisioner that is stored. */
const MAX_REASON = 2000
/** If a request is overdue for this long, no process scales its pool. */
const ABANDONED_MS = 300_000
/** How often a provisioner is asked about workers that have not arrived. */
const DESCRIBE_MS = 5000

export interface FleetKeeperOptions {
  readonly db: Queryable
  readonly log: Log
  /** Recorded as the author of decisions. */
  readonly name: string
  /** The provisioners of the pools that this process scales. */
  readonly provisioners: ReadonlyMap<string, Provisioner>
  readonly callMs?: number
  readonly momentMs?: number
}

/**
 * Scales pools: measures overflow, decides, and calls provisioners.
 *
 * Any number of processes may scale the same pools. Each decision is made under the lock of the pool's row, and only
 * if no other was made since. If a process dies during a call, another repeats the call with the same token.
 *
 * Nothing waits for a call to a provisioner: one that hangs or fails costs a log line and its pool's back-off. It ends
 * by its time limit, or when this keeper is stopped.
 */
export class FleetKeeper {
  readonly #options: FleetKeeperOptions
  readonly #callMs: number
  readonly #stop = new AbortController()
  /** One call for each pool at a time. */
  readonly #calls = new Map<string, Promise<void>>()
  /** Stops of workers that did not arrive, one per pool at a time. They do not delay requests for others. */
  readonly #stops = new Map<string, Promise<void>>()
  /** Pools whose overflow has been recorded. */
  readonly #overflowing = new Set<string>()

  constructor(options: FleetKeeperOptions) {
    this.#options = options
    this.#callMs = options.callMs ?? CALL_MS
    for (const pool of options.provisioners.keys()) this.#overflowing.add(pool)
  }

  /** Checks every pool once. Returns what was done, by pool, or `undefined` if there was nothing to do. */
  async tend(): Promise<Record<string, unknown> | undefined> {
    const done: Record<string, unknown> = {}
    for (const [pool, provisioner] of this.#options.provisioners) {
      if (this.#stop.signal.aborted) break
      const look = await readPoolSnapshot(this.#options.db, pool, this.#options.momentMs ?? MOMENT_MS)
      if (look === undefined) continue
      await this.#noteOverflow(pool, look)
      const decision = decide(look)
      if (await this.#act(pool, provisioner, look, decision)) done[pool] = decision.action
      if (look.stops) this.#stopBeside(pool, provisioner)
    }
    const forsaken = await endAbandonedRequests(this.#options.db, ABANDONED_MS)
    if (forsaken > 0)
      this.#options.log.warn({ requests: forsaken }, 'ended requests of pools that no server scales')
    return Object.keys(done).length === 0 ? undefined : done
  }

  /** Makes no more decisions, and abandons calls and worker child processes. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled([...this.#calls.values(), ...this.#stops.values()])
    await Promise.all([...this.#options.provisioners.values()].map((provisioner) => provisioner.close()))
  }

  /** Returns whether something was done. */
  async #act(
    pool: string,
    provisioner: Provisioner,
    look: PoolLook,
    decision: FleetDecision,
  ): Promise<boolean> {
    const { db, log, name: by } = this.#options
    const { reason } = decision
    const { overflow, newest: seen, request } = look
    switch (decision.action) {
      case 'start': {
        // A decision must be followed by its call immediately, so none is made while an earlier call is in progress.
        if (this.#calls.has(pool)) return false
        const token = randomUUID()
        const { count } = decision
        const callMs = this.#callMs + TAKE_OVER_MS
        const asked = await askForWorkers(db, { pool, seen, token, count, reason, overflow, by, callMs })
        if (asked === undefined) return false
        log.info({ pool, workers: asked.count, reason }, 'requested workers')
        this.#call(pool, () => this.#start(pool, provisioner, { ...asked, token }, look))
        return true
      }
      case 'call-again': {
        if (this.#calls.has(pool)) return false
        if (!(await takeRequest(db, request!.id, this.#callMs + TAKE_OVER_MS))) return false
        log.warn({ pool, reason }, 'calling the provisioner again')
        const { id, token, wanted: count } = request!
        this.#call(pool, () => this.#start(pool, provisioner, { id, token, count }, look))
        return true
      }
      case 'bring-back': {
        const returned = await undrainWorkers(db, pool, seen, decision.count, { reason, overflow, by })
        if (returned > 0)
          log.info({ pool, workers: returned, reason }, 'kept workers that were about to shut down')
        return returned > 0
      }
      case 'close': {
        if (!(await endRequest(db, request!.id, decision.outcome, reason))) return false
        log[decision.outcome === 'arrived' ? 'info' : 'warn'](
          { pool, outcome: decision.outcome, reason },
          'request for workers ended',
        )
        this.#stopBeside(pool, provisioner)
        return true
      }
      case 'nothing':
        if (
          request !== null &&
          request.started !== null &&
          request.lookedMs > DESCRIBE_MS &&
          !this.#calls.has(pool)
        )
          this.#call(pool, () => this.#describe(provisioner, request))
        return false
      default:
        return decision satisfies never
    }
  }

  async #noteOverflow(pool: string, { overflow }: PoolLook): Promise<void> {
    if (overflow.length === 0 && !this.#overflowing.has(pool)) return
    const began = await recordOverflow(this.#options.db, pool, overflow)
    if (overflow.length === 0) this.#overflowing.delete(pool)
    else this.#overflowing.add(pool)
    if (!began) return
    const jobs = overflow.reduce((sum, lane) => sum + lane.jobs, 0)
    const lanes = overflow.map(({ lane, reason }) => `${lane}: ${reason}`)
    this.#options.log.warn({ pool, jobs, lanes }, 'overflow: jobs are waiting that no worker can take')
  }

  /** Runs in the background. Errors are logged. */
  #call(pool: string, work: () => Promise<void>): void {
    const call = work()
      .catch((error: unknown) => {
        if (this.#stop.signal.aborted) return
        this.#options.log.warn({ pool, error: messageOf(error) }, 'fleet: a call failed')
      })
      .finally(() => this.#calls.delete(pool))
    this.#calls.set(pool, call)
  }

  async #start(
    pool: string,
    provisioner: Provisioner,
    asked: { readonly id: string; readonly token: string; readonly count: number },
    { capacity, labels }: PoolLook,
  ): Promise<void> {
    const { db, log } = this.#options
    const { id, token, count } = asked
    const members = Array.from({ length: count }, (_, index) => index + 1)
    const request: StartRequest = { token, pool, members, capacity, labels }
    let started: Started
    try {
      const answer = await this.#within((signal) => provisioner.start(request, signal))
      started = checkStarted(answer, members)
    } catch (error) {
      // A stop is not a failure: another process calls again and finds what was started.
      if (this.#stop.signal.aborted) return
      const why = toStorableText(messageOf(error), MAX_REASON)
      log.warn({ pool, error: why }, 'could not start workers; the pool backs off')
      const left = error instanceof WrongAnswer ? error.instances : []
      // Recorded before the request ends: if this process dies first, the workers are stopped when the request expires.
      if (left.length > 0) await recordStartedInstances(db, id, { instances: left, failures: [] })
      await endRequest(db, id, 'failed', why)
      if (left.length > 0) this.#stopBeside(pool, provisioner)
      return
    }
    const { instances } = started
    const failures = started.failures.map(({ member, message }) => ({
      member,
      message: toStorableText(message, MAX_REASON),
    }))
    for (const { member, message } of failures)
      log.warn({ pool, member, error: message }, 'could not start a worker')
    // If this fails, the request stays open: the provisioner is called again with the same token and finds them.
    if (await recordStartedInstances(db, id, { instances, failures })) return
    // The request was abandoned in the meantime.
    this.#stopBeside(pool, provisioner)
  }

  async #describe(provisioner: Provisioner, request: PoolRequest): Promise<void> {
    const ids = missing(request)
    const states = await this.#within((signal) => provisioner.describe(ids, signal)).catch(
      async (error: unknown) => {
        // It is asked again after the same time, not at every check.
        await recordGoneInstances(this.#options.db, request.id, request.gone)
        throw error
      },
    )
    const gone = states.filter(({ state }) => state === 'stopped').length
    await recordGoneInstances(this.#options.db, request.id, gone)
  }

  /**
   * Workers that did not arrive in time must not arrive later, when they are no longer needed. The database marks them
   * when their request ends, because the process that ended it may have died.
   */
  #stopBeside(pool: string, provisioner: Provisioner): void {
    if (this.#stops.has(pool)) return
    const stop = this.#stopLeft(pool, provisioner)
      .catch((error: unknown) => {
        if (this.#stop.signal.aborted) return
        this.#options.log.warn(
          { pool, error: messageOf(error) },
          'fleet: could not read which workers to stop',
        )
      })
      .finally(() => this.#stops.delete(pool))
    this.#stops.set(pool, stop)
  }

  async #stopLeft(pool: string, provisioner: Provisioner): Promise<void> {
    const left = await takeStops(this.#options.db, pool, this.#callMs + TAKE_OVER_MS)
    await Promise.all(left.map((each) => this.#stopInstances(pool, provisioner, each)))
  }

  async #stopInstances(pool: string, provisioner: Provisioner, left: LeftInstances): Promise<void> {
    const { db, log } = this.#options
    const { instances, tries } = left
    log.warn({ pool, instances, tries }, 'stopped workers that did not arrive')
    let againMs: number | null = null
    try {
      await this.#within((signal) => provisioner.stop(instances, 'the worker did not arrive in time', signal))
    } catch (error) {
      // Another process takes over when the time of this call is up.
      if (this.#stop.signal.aborted) return
      againMs = tries < MAX_STOPS ? (STOP_AGAIN_MS[tries - 1] ?? STOP_AGAIN_MS.at(-1)!) : null
      const facts = { pool, instances, error: messageOf(error), againMs }
      log[againMs === null ? 'error' : 'warn'](facts, 'could not stop workers that did not arrive')
    }
    await recordStoppedInstances(db, left, againMs)
  }

  async #within<T>(call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await within(this.#callMs, this.#stop.signal, call)
    } catch (error) {
      throw isTimeout(error)
        ? provisionerFailed('timeout', `no response within ${this.#callMs / 1000} s`)
        : error
    }
  }
}

/** Instances whose workers have not arrived. */
function missing({ instances, members }: PoolRequest): string[] {
  return instances.filter(({ member }) => !members.includes(member)).map(({ id }) => id)
}
