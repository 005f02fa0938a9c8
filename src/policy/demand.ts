import {
  DEFAULT_RULES,
  type ModelView,
  type Need,
  type PlanInput,
  type QueueView,
  type Rules,
  UNKNOWN_MODEL,
} from './plan-input.ts'

/** What waits for one model, or in one class without a model. */
export interface Demand {
  readonly model: string | null
  /** In the order in which their heads go. */
  readonly queues: readonly Queue[]
  readonly priority: number
  /** Of the oldest head with that priority. */
  readonly waitingSince: number
  /** It has waited for as long as the rules allow. */
  readonly due: boolean
  readonly dueAt: number
  readonly times: ModelView
  /** When a job that starts now on a loaded copy will have ended, as far as one can say. */
  readonly jobEnd: number
  /** When a copy that is loaded now has served its turn, and its last job has ended. */
  readonly turnEnd: number
  readonly rules: Rules
  /** Of devices, for one copy: memory of the model and what its first job adds; without a model what a job takes. */
  readonly needs: readonly CopyNeed[]
}

export interface Queue {
  readonly view: QueueView
  readonly perJob: readonly Need[]
  /** Of shared budgets, for each job. */
  readonly shared: readonly Need[]
  /** Jobs that may still start, of those that wait. */
  left: number
}

export interface CopyNeed {
  readonly budget: string
  readonly devices: number
  readonly resident: number
  readonly perJob: number
}

/** One demand for each model and each class without one. In no order yet. */
export function demandsOf(input: PlanInput): Demand[] {
  const groups = new Map<string, QueueView[]>()
  for (const queue of input.queues) {
    if (queue.depth <= 0) continue
    const key = queue.model === null ? `class ${queue.classId}` : `model ${queue.model}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [queue])
    else group.push(queue)
  }
  return [...groups.values()].map((views) => demandOf(views, input))
}

function demandOf(views: QueueView[], input: PlanInput): Demand {
  views.sort(
    (one, other) =>
      other.head.priority - one.head.priority ||
      one.head.waitingSince - other.head.waitingSince ||
      one.classId - other.classId,
  )
  const queues = views.map((view) => queueOf(view, input))
  // A full lane is no reason to load a model: the first that can start speaks for the rest.
  const first = (queues.find(({ left }) => left > 0) ?? queues[0]!).view
  const needs = needsOf(first, input)
  const rules = rulesOf(needs, input)
  const { priority, waitingSince } = first.head
  const dueAt = waitingSince + rules.maxWaitMs
  const times = timesOf(first.model, input)
  const loadedAt = input.now + times.loadMs
  const turnMs = holdMs({ rules, times, waitingSince }, loadedAt)
  // Of jobs without a model, and of a model nobody has seen, no time is known: nothing is lent to them.
  const known = first.model !== null && input.models.has(first.model)
  return {
    model: first.model,
    queues,
    priority,
    waitingSince,
    due: input.now >= dueAt,
    dueAt,
    times,
    jobEnd: known ? input.now + times.runMs : Number.POSITIVE_INFINITY,
    turnEnd: known ? loadedAt + turnMs + times.runMs : Number.POSITIVE_INFINITY,
    rules,
    needs,
  }
}

/**
 * How long a copy may serve before a model that is due takes its place, in milliseconds from when it was loaded.
 *
 * The quantum keeps loading below 1 / (quantum + 1) of the time. The second term is for backlogs: a copy whose oldest
 * job had waited a minute when it was loaded may serve a minute. With the quantum alone, a burst that takes hours is cut
 * into quanta of seconds though nobody in it gets done sooner; this way the turns double, and their number grows with
 * the logarithm of the backlog. It ends by itself: once the copy has come to jobs that arrived after it was loaded, only
 * the quantum is left.
 */
export function holdMs(demand: Pick<Demand, 'rules' | 'times' | 'waitingSince'>, loadedAt: number): number {
  return Math.max(quantumMs(demand), loadedAt - demand.waitingSince)
}

export function quantumMs({ rules, times }: Pick<Demand, 'rules' | 'times'>): number {
  return rules.quantum * times.loadMs
}

export function timesOf(model: string | null, input: PlanInput): ModelView {
  return (model === null ? undefined : input.models.get(model)) ?? UNKNOWN_MODEL
}

function queueOf(view: QueueView, input: PlanInput): Queue {
  const isShared = ({ budget }: Need) => input.shared.has(budget)
  return {
    view,
    perJob: view.perJob.filter((need) => !isShared(need)),
    shared: addUp([...(view.head.uses ?? view.uses), ...view.perJob].filter(isShared)),
    left: Math.max(0, Math.min(view.depth, view.most)),
  }
}

/** One need for each budget: each by itself could fit where both do not. */
function addUp(needs: readonly Need[]): Need[] {
  const sums = new Map<string, Need>()
  for (const { budget, devices, each } of needs) {
    const sum = sums.get(budget) ?? { budget, devices, each: 0 }
    sums.set(budget, { budget, devices: Math.max(sum.devices, devices), each: sum.each + each })
  }
  return [...sums.values()]
}

function needsOf(view: QueueView, input: PlanInput): CopyNeed[] {
  const isDevice = ({ budget }: Need) => !input.shared.has(budget)
  const uses = (view.head.uses ?? view.uses).filter(isDevice)
  const perJob = view.perJob.filter(isDevice)
  if (view.model === null)
    return addUp([...uses, ...perJob]).map(({ budget, devices, each }) => ({
      budget,
      devices,
      resident: 0,
      perJob: each,
    }))
  const needs = uses.map(({ budget, devices, each }) => ({
    budget,
    devices,
    resident: each,
    perJob: perJob.find((need) => need.budget === budget)?.each ?? 0,
  }))
  // What only the jobs take of a budget decides where their model lies, all the same.
  const only = perJob.filter(({ budget }) => !uses.some((need) => need.budget === budget))
  return [
    ...needs,
    ...only.map(({ budget, devices, each }) => ({ budget, devices, resident: 0, perJob: each })),
  ]
}

/** The strictest of the budgets that are drawn from: the longest quantum, the shortest wait. */
export function rulesOf(needs: readonly { readonly budget: string }[], input: PlanInput): Rules {
  if (needs.length === 0) return DEFAULT_RULES
  // Nearly always, and asked for each copy that could go: nothing is built for it.
  if (needs.length === 1) return input.rules.get(needs[0]!.budget) ?? DEFAULT_RULES
  const all = needs.map(({ budget }) => input.rules.get(budget) ?? DEFAULT_RULES)
  return {
    quantum: Math.max(...all.map(({ quantum }) => quantum)),
    maxWaitMs: Math.min(...all.map(({ maxWaitMs }) => maxWaitMs)),
  }
}

export function leftOf(demand: Demand): number {
  let left = 0
  for (const queue of demand.queues) left += queue.left
  return left
}

/** All that waits, also what its lane holds back. */
export function depthOf(demand: Demand): number {
  let depth = 0
  for (const { view } of demand.queues) depth += view.depth
  return depth
}

/** Loads that may be spent on a queue before its length tells against it: in a mix of equals it never does. */
const SHORT_LOADS = 3

/**
 * Since when a demand waits, for comparing it with others: later by the time it would keep a device, up to a turn.
 *
 * Who is done soon goes first, as long as the other has not waited longer by as much. So a model with a few jobs is served on the
 * way, before a busy one is loaded back for a whole turn. The most that it moves anyone is fixed, so nobody is passed for ever.
 */
export function standingOf(demand: Demand): number {
  const { model, waitingSince, times, rules, queues } = demand
  if (model === null) return waitingSince
  const { parallel } = queues[0]!.view
  const workMs = Math.min((depthOf(demand) * times.runMs) / parallel, rules.quantum * times.loadMs)
  return waitingSince + Math.max(0, workMs - SHORT_LOADS * times.loadMs)
}
