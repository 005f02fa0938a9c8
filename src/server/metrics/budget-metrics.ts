import { Counter, Gauge, type Registry } from 'prom-client'
import type { BudgetsState } from '../../engine/views/budget-view.ts'

type OnDevice = 'budget' | 'device'

/** The metrics of budgets, devices and models. The database keeps their totals for the whole system. */
export class BudgetMetrics {
  readonly #held: Gauge<OnDevice>
  readonly #capacity: Gauge<OnDevice>
  readonly #used: Gauge<OnDevice>
  readonly #free: Gauge<OnDevice>
  readonly #lost: Gauge<OnDevice>
  readonly #short: Counter<OnDevice>
  readonly #depth: Gauge<'model'>
  readonly #oldest: Gauge<'model'>
  readonly #copies: Gauge<'model'>
  readonly #loadTime: Gauge<'model'>
  readonly #loads: Counter<'model'>
  readonly #loadSeconds: Counter<'model'>
  readonly #avoided: Counter<'model'>
  readonly #outOfMemory: Counter<'model'>

  constructor(registry: Registry) {
    const registers = [registry]
    const gauge = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
      new Gauge({ name: `sluice_${name}`, help, labelNames, registers })
    const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
      new Counter({ name: `sluice_${name}_total`, help, labelNames, registers })
    const device = ['budget', 'device'] as const
    this.#held = gauge(
      'budget_held',
      'Amount drawn from a device by running jobs and loaded models',
      ...device,
    )
    this.#capacity = gauge('budget_capacity', 'Capacity of a device; absent without a limit', ...device)
    this.#used = gauge('device_measured_used', 'Amount used by all processes, as last measured', ...device)
    this.#free = gauge('device_measured_free', 'Amount free, as last measured', ...device)
    this.#lost = gauge('device_lost', '1 for a device that was available and has disappeared', ...device)
    this.#short = counter('device_out_of_memory', 'Attempts that ran out of memory on a device', ...device)
    this.#depth = gauge('model_depth', 'Jobs of a model that could start and wait for a worker', 'model')
    this.#oldest = gauge('model_oldest_wait_seconds', 'How long the oldest of these jobs has waited', 'model')
    this.#copies = gauge('model_copies', 'Copies of a model that are loaded or about to be loaded', 'model')
    this.#loadTime = gauge('model_load_time_seconds', 'Load time of a model that Sluice plans with', 'model')
    this.#loads = counter('model_loads', 'Loads of a model', 'model')
    this.#loadSeconds = counter('model_load_seconds', 'Time spent on loading a model', 'model')
    this.#avoided = counter(
      'model_swaps_avoided',
      'Jobs that a loaded copy served ahead of an older job whose model was not loaded',
      'model',
    )
    this.#outOfMemory = counter(
      'model_out_of_memory',
      'Attempts with a model that ran out of memory',
      'model',
    )
  }

  set({ devices, models }: BudgetsState): void {
    for (const each of this.#all) each.reset()
    for (const device of devices) {
      const labels = { budget: device.budget, device: device.key }
      this.#held.set(labels, device.held)
      if (device.capacity !== null) this.#capacity.set(labels, device.capacity)
      if (device.measuredUsed !== null) this.#used.set(labels, device.measuredUsed)
      if (device.measuredFree !== null) this.#free.set(labels, device.measuredFree)
      if (device.key === '') continue
      this.#lost.set(labels, device.lostAt === null ? 0 : 1)
      this.#short.inc(labels, device.outOfMemory)
    }
    for (const { name, ...model } of models) {
      const labels = { model: name }
      this.#depth.set(labels, model.depth)
      this.#oldest.set(labels, model.waitedMs / 1000)
      this.#copies.set(labels, model.copies)
      if (model.loadMs !== null) this.#loadTime.set(labels, model.loadMs / 1000)
      this.#loads.inc(labels, model.loads)
      this.#loadSeconds.inc(labels, model.loadTotalMs / 1000)
      this.#avoided.inc(labels, model.swapsAvoided)
      this.#outOfMemory.inc(labels, model.outOfMemory)
    }
  }

  get #all(): readonly { reset(): void }[] {
    return [
      this.#held,
      this.#capacity,
      this.#used,
      this.#free,
      this.#lost,
      this.#short,
      this.#depth,
      this.#oldest,
      this.#copies,
      this.#loadTime,
      this.#loads,
      this.#loadSeconds,
      this.#avoided,
      this.#outOfMemory,
    ]
  }
}
