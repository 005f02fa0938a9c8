import type { Rules } from '../plan-input.ts'
import { Seeded } from './seeded.ts'
import type { Arrival, Loss, SimDevice, SimModel, Workload } from './workload.ts'

/** How a workload comes about. Milliseconds and bytes; the file of `sluice sim` has units. */
export interface Description {
  readonly devices: readonly SimDevice[]
  readonly models: readonly ModelDescription[]
  readonly arrivals: ArrivalDescription
  readonly losses: readonly Loss[]
  readonly rules: Rules
  readonly unloadMs: number
  readonly capacity: number
  /** Load time, run time and memory that the policy believes at first are off by up to this share. */
  readonly error: number
}

export interface ModelDescription extends Omit<SimModel, 'believed'> {
  /** Share of the jobs, relative to the others. */
  readonly weight: number
  readonly priority: number
}

export type ArrivalDescription =
  /** `tasks` jobs at once. */
  | { readonly kind: 'burst'; readonly tasks: number }
  /** Poisson; `load`: mean work that arrives, without loading, in relation to what the devices can do. */
  | { readonly kind: 'steady'; readonly tasks: number; readonly load: number }
  /** Poisson with a rate that swings between 0 and twice the mean. */
  | { readonly kind: 'diurnal'; readonly tasks: number; readonly load: number; readonly periodMs: number }
  /** One model after another, evenly spaced: the worst order for those who take jobs as they come. */
  | { readonly kind: 'alternating'; readonly tasks: number; readonly load: number }
  | { readonly kind: 'recorded'; readonly jobs: readonly Arrival[] }

/** The workload that a seed makes of a description. */
export function generate(description: Description, seed: number): Workload {
  const { devices, losses, rules, unloadMs, capacity, error } = description
  const random = new Seeded(seed)
  const models = description.models.map((model) => {
    const believed = believe(model, error, random)
    // A belief that fits on no device would be refused when a job is submitted.
    const most = Math.floor(largest(devices, model.devices) - model.perJob)
    return { ...model, believed: { ...believed, memory: Math.min(believed.memory, most) } }
  })
  return {
    devices,
    models,
    arrivals: arrivalsOf(description, random),
    losses,
    rules,
    unloadMs,
    capacity,
  }
}

/** The memory that so many devices have at least. */
function largest(devices: readonly SimDevice[], count: number): number {
  const memories = devices.map(({ memory }) => memory).sort((one, other) => other - one)
  return memories[Math.min(count, memories.length) - 1] ?? 0
}

function believe(model: ModelDescription, error: number, random: Seeded): SimModel['believed'] {
  const { memory, loadMs, runMs } = model
  if (error === 0) return { memory, loadMs, runMs }
  const off = () => 1 + random.between(-error, error)
  return { memory: memory * off(), loadMs: loadMs * off(), runMs: runMs * off() }
}

function arrivalsOf(description: Description, random: Seeded): readonly Arrival[] {
  const { arrivals, models } = description
  if (arrivals.kind === 'recorded') return [...arrivals.jobs].sort((one, other) => one.at - other.at)
  const weights = models.map(({ weight }) => weight)
  const gapMs = arrivals.kind === 'burst' ? 0 : meanWork(models) / (arrivals.load * slotsOf(description))
  const jobs: Arrival[] = []
  let at = 0
  for (let index = 0; index < arrivals.tasks; index++) {
    const model = arrivals.kind === 'alternating' ? index % models.length : random.pick(weights)
    const { runMs, priority } = models[model]!
    jobs.push({ at, model, runMs: random.exponential(runMs), priority })
    at += gapAfter(arrivals, at, gapMs, random)
  }
  return jobs
}

function gapAfter(arrivals: ArrivalDescription, at: number, gapMs: number, random: Seeded): number {
  if (arrivals.kind === 'burst') return 0
  if (arrivals.kind === 'alternating') return gapMs
  if (arrivals.kind !== 'diurnal') return random.exponential(gapMs)
  // Thinning: candidates come at the highest rate, and stay as often as the rate of their time says.
  let gap = 0
  for (;;) {
    gap += random.exponential(gapMs / 2)
    const share = (1 + Math.sin((2 * Math.PI * (at + gap)) / arrivals.periodMs)) / 2
    if (random.next() < share) return gap
  }
}

/** Of a job, in milliseconds of one slot. */
function meanWork(models: readonly ModelDescription[]): number {
  const total = models.reduce((sum, { weight }) => sum + weight, 0)
  return models.reduce((sum, { weight, runMs, devices, parallel }) => {
    return sum + (weight / total) * ((runMs * devices) / parallel)
  }, 0)
}

/** How many models of mean size can be loaded at once. */
function slotsOf({ devices, models }: Description): number {
  const total = models.reduce((sum, { weight }) => sum + weight, 0)
  const mean = models.reduce(
    (sum, { weight, memory, perJob }) => sum + (weight / total) * (memory + perJob),
    0,
  )
  return devices.reduce((sum, { memory }) => sum + Math.max(1, Math.floor(memory / mean)), 0)
}
