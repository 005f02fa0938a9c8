import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { ClaimLatency } from '../../engine/dispatch/claim-latency.ts'
import { getAdmission } from '../../engine/operate/admission.ts'
import { readBudgets } from '../../engine/views/budget-view.ts'
import { EventCounter } from '../../engine/views/event-counter.ts'
import { viewFleet } from '../../engine/views/fleet-view.ts'
import { type SystemStatus, systemStatus } from '../../engine/views/system-status.ts'
import { DEPTH_WORDS } from '../../model/limits.ts'
import type { ServerParts } from '../parts.ts'
import { BudgetMetrics } from './budget-metrics.ts'
import { FleetMetrics } from './fleet-metrics.ts'

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const WAIT_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400]

/** Scrapes within this time get the same response, so that frequent scrapes do not load the database. */
const FRESH_MS = 1000

/**
 * The metrics for Prometheus. Requests are counted by each server as they arrive. The state of the system is read from the database at
 * each scrape, and is the same at every server.
 */
export class Metrics {
  readonly #parts: ServerParts
  readonly #claims: ClaimLatency
  readonly #registry = new Registry()
  readonly #requests: Histogram<'method' | 'route' | 'status'>
  readonly #submits: Histogram
  readonly #refused: Counter
  readonly #refusals: EventCounter
  readonly #claimLatency: Histogram<'lane'>
  readonly #byLane: Readonly<
    Record<'depth' | 'oldest' | 'running' | 'assigned' | 'slots' | 'held', Gauge<'lane'>>
  >
  readonly #byTask: Gauge<'lane' | 'task'>
  readonly #workers: Gauge
  readonly #duties: Gauge<'duty'>
  readonly #active: Gauge
  readonly #ceiling: Gauge
  readonly #scheduled: Gauge
  readonly #maxScheduled: Gauge
  readonly #busiestOwner: Gauge
  readonly #maxPerOwner: Gauge
  readonly #drainRate: Gauge
  readonly #reachable: Gauge
  readonly #budgets: BudgetMetrics
  readonly #fleet: FleetMetrics
  #text: Promise<string> | undefined
  #at = Number.NEGATIVE_INFINITY

  constructor(parts: ServerParts) {
    this.#parts = parts
    this.#claims = new ClaimLatency(parts.services.calls)
    this.#refusals = new EventCounter(parts.services.calls, 'refused')
    const registers = [this.#registry]
    collectDefaultMetrics({ register: this.#registry })
    const gauge = <L extends string>(name: string, help: string, labelNames: L[] = []) =>
      new Gauge({ name: `sluice_${name}`, help, labelNames, registers })
    this.#requests = new Histogram({
      name: 'sluice_http_request_duration_seconds',
      help: 'Duration of requests to this server, by route',
      labelNames: ['method', 'route', 'status'],
      buckets: SECONDS,
      registers,
    })
    this.#submits = new Histogram({
      name: 'sluice_submit_duration_seconds',
      help: 'Duration of accepted submissions of single jobs to this server',
      buckets: SECONDS,
      registers,
    })
    this.#refused = new Counter({
      name: 'sluice_admission_refused_total',
      help: 'Submissions that this server rejected with 429',
      registers,
    })
    this.#claimLatency = new Histogram({
      name: 'sluice_claim_latency_seconds',
      help: 'Time from when a job could start to when it started; whole system, sampled at each scrape',
      labelNames: ['lane'],
      buckets: WAIT_SECONDS,
      registers,
    })
    this.#byLane = {
      depth: gauge('lane_depth', `Jobs that could start and wait for a worker; ${DEPTH_WORDS}`, ['lane']),
      oldest: gauge('lane_oldest_wait_seconds', 'How long the oldest of these jobs has waited', ['lane']),
      running: gauge('lane_running', 'Running jobs', ['lane']),
      assigned: gauge('lane_assigned', 'Jobs that workers have beyond their slots and have not started', [
        'lane',
      ]),
      slots: gauge('lane_slots', 'Slots of the lane; absent without a limit', ['lane']),
      held: gauge('lane_held_slots', 'Slots that workers hold, including briefly idle ones', ['lane']),
    }
    this.#byTask = gauge('task_depth', 'Jobs of a task that could start and wait for a worker', [
      'lane',
      'task',
    ])
    this.#workers = gauge('workers', 'Live workers')
    this.#duties = gauge(
      'duty_age_seconds',
      'Time since any process last did a duty, or found that there was nothing to do',
      ['duty'],
    )
    this.#active = gauge('admission_active', 'Active root jobs; absent without a ceiling')
    this.#ceiling = gauge('admission_ceiling', 'Maximum number of active root jobs; absent without a ceiling')
    this.#scheduled = gauge(
      'admission_scheduled',
      'Root jobs whose first start lies in the future; absent without a limit',
    )
    this.#maxScheduled = gauge(
      'admission_max_scheduled',
      'Maximum number of root jobs whose first start lies in the future; absent without a limit',
    )
    this.#busiestOwner = gauge(
      'admission_busiest_owner',
      'Unfinished root jobs of the owner with the most; absent without a limit per owner',
    )
    this.#maxPerOwner = gauge(
      'admission_max_per_owner',
      'Maximum number of unfinished root jobs per owner; absent without a limit per owner',
    )
    this.#drainRate = gauge('admission_drain_rate', 'Root jobs that end per second, as last measured')
    this.#reachable = gauge('database_reachable', '1 if this scrape could read the database')
    this.#budgets = new BudgetMetrics(this.#registry)
    this.#fleet = new FleetMetrics(this.#registry)
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  observe(method: string, route: string, status: number, seconds: number): void {
    this.#requests.observe({ method, route, status: String(status) }, seconds)
    if (method !== 'POST' || route !== '/api/v1/jobs') return
    if (status === 200 || status === 202) this.#submits.observe(seconds)
    if (status !== 429) return
    this.#refused.inc()
    this.#refusals.add()
  }

  /** Stores the refusals that have been counted but not stored yet. */
  async close(): Promise<void> {
    await this.#refusals.close()
  }

  /** The metrics in the Prometheus text format. Without the database, it still contains the metrics of this process. */
  text(): Promise<string> {
    if (this.#text === undefined || performance.now() - this.#at > FRESH_MS) {
      this.#at = performance.now()
      this.#text = this.#read()
    }
    return this.#text
  }

  async #read(): Promise<string> {
    try {
      const { calls } = this.#parts.services
      const [status, admission, claims] = [
        await systemStatus(calls),
        await getAdmission(calls),
        await this.#claims.look(),
      ]
      this.#setStatus(status)
      this.#budgets.set(await readBudgets(calls))
      this.#fleet.set((await viewFleet(calls, { limit: 1 })).pools)
      for (const { lane, seconds } of claims) this.#claimLatency.observe({ lane }, seconds)
      setOrRemove(this.#active, admission.active)
      setOrRemove(this.#ceiling, admission.maxActive)
      setOrRemove(this.#scheduled, admission.scheduled)
      setOrRemove(this.#maxScheduled, admission.maxScheduled)
      const { owners, maxPerOwner } = admission
      setOrRemove(this.#busiestOwner, owners === null ? null : Math.max(0, ...Object.values(owners)))
      setOrRemove(this.#maxPerOwner, maxPerOwner)
      this.#drainRate.set(admission.drainRate)
      this.#reachable.set(1)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'metrics: the database cannot be read')
      this.#reachable.set(0)
    }
    return this.#registry.metrics()
  }

  #setStatus({ lanes, queues, workers, duties }: SystemStatus): void {
    for (const each of [...Object.values(this.#byLane), this.#byTask, this.#duties]) each.reset()
    const { depth, oldest, running, assigned, slots, held } = this.#byLane
    for (const lane of lanes) {
      const name = { lane: lane.name }
      running.set(name, lane.running)
      assigned.set(name, lane.assigned)
      held.set(name, lane.held)
      if (lane.slots !== null) slots.set(name, lane.slots)
      const waiting = queues.filter((queue) => queue.lane === lane.name)
      depth.set(
        name,
        waiting.reduce((sum, queue) => sum + queue.depth, 0),
      )
      oldest.set(name, Math.max(0, ...waiting.map(({ waitedMs }) => waitedMs / 1000)))
      for (const queue of waiting) this.#byTask.inc({ ...name, task: queue.task }, queue.depth)
    }
    this.#workers.set(workers.length)
    for (const { name, agoMs } of duties) if (agoMs !== null) this.#duties.set({ duty: name }, agoMs / 1000)
  }
}

/** Removes the gauge if there is no value: any number would be wrong. */
function setOrRemove(gauge: Gauge, value: number | null): void {
  if (value === null) gauge.remove()
  else gauge.set(value)
}
