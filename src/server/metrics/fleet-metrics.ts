import { Counter, Gauge, type Registry } from 'prom-client'
import type { PoolView } from '../../engine/views/fleet-view.ts'

/** The metrics of pools. The database keeps their totals for the whole system. */
export class FleetMetrics {
  readonly #workers: Gauge<'pool' | 'state'>
  readonly #max: Gauge<'pool'>
  readonly #overflow: Gauge<'pool'>
  readonly #overflows: Counter<'pool'>
  readonly #requests: Counter<'pool'>
  readonly #failed: Counter<'pool'>
  readonly #arrived: Counter<'pool'>
  readonly #returned: Counter<'pool'>

  constructor(registry: Registry) {
    const registers = [registry]
    const gauge = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
      new Gauge({ name: `sluice_pool_${name}`, help, labelNames, registers })
    const counter = (name: string, help: string) =>
      new Counter({ name: `sluice_pool_${name}_total`, help, labelNames: ['pool'] as const, registers })
    this.#workers = gauge(
      'workers',
      'Live workers of a pool, by state: taking jobs or draining',
      'pool',
      'state',
    )
    this.#max = gauge('max_workers', 'Maximum number of workers of a pool', 'pool')
    this.#overflow = gauge(
      'overflow_jobs',
      'Jobs that workers of a pool could run and that no live worker can take, for longer than a moment',
      'pool',
    )
    this.#overflows = counter('overflows', 'How often overflow began in a pool')
    this.#requests = counter('requests', 'Requests for workers')
    this.#failed = counter('requests_failed', 'Requests for workers that produced none')
    this.#arrived = counter('workers_arrived', 'Workers that registered for a request')
    this.#returned = counter('workers_returned', 'Stopping workers that a pool kept')
  }

  set(pools: readonly PoolView[]): void {
    const totals = [this.#overflows, this.#requests, this.#failed, this.#arrived, this.#returned]
    for (const each of [this.#workers, this.#max, this.#overflow, ...totals]) each.reset()
    for (const { name: pool, ...view } of pools) {
      this.#workers.set({ pool, state: 'taking' }, view.workers)
      this.#workers.set({ pool, state: 'draining' }, view.draining)
      this.#max.set({ pool }, view.max)
      this.#overflow.set({ pool }, view.overflow)
      this.#overflows.inc({ pool }, view.overflows)
      this.#requests.inc({ pool }, view.requests)
      this.#failed.inc({ pool }, view.failed)
      this.#arrived.inc({ pool }, view.arrived)
      this.#returned.inc({ pool }, view.returned)
    }
  }
}
