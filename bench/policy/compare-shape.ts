import { generate } from '../../src/policy/sim/generate.ts'
import { type Measures, mean, measure } from '../../src/policy/sim/measure.ts'
import { POLICIES, type PolicyName } from '../../src/policy/sim/policies/by-name.ts'
import { simulate } from '../../src/policy/sim/simulate.ts'
import type { Shape } from './shapes.ts'

export const SIMPLE_POLICIES = [
  'fifo',
  'llama-swap',
  'lru',
  'ollama',
] as const satisfies readonly PolicyName[]

/** How many times what the best simple policy takes, at most. */
export const SHAPE_GOALS = { waitMean: 1.2, waitP95: 1.2, waitMax: 1.2, makespanMs: 1.2, loads: 1.3 } as const

export type ShapeGoal = keyof typeof SHAPE_GOALS

export interface ShapeResult {
  readonly shape: string
  /** The one simple policy with the lowest mean wait here. Everything is compared with it. `undefined`: none serves all jobs. */
  readonly rival: PolicyName | undefined
  readonly sluice: Measures
  readonly best: Measures | undefined
  readonly ratios: Readonly<Record<ShapeGoal, number>>
  readonly missed: readonly ShapeGoal[]
}

/** Plays a shape under the real policy and the simple ones; figures are means over the seeds. */
export function compareShape(shape: Shape, seeds: readonly number[]): ShapeResult {
  const workloads = seeds.map((seed) => generate(shape.describe(seed), seed))
  const play = (policy: PolicyName) =>
    mean(
      workloads.map((workload) =>
        measure(workload, simulate(workload, POLICIES[policy].make(workload.rules))),
      ),
    )
  const rivals = SIMPLE_POLICIES.map((policy) => ({ policy, measures: play(policy) }))
  const served = rivals.filter(({ measures }) => measures.unserved === 0)
  const rival = served.sort((one, other) => one.measures.waitMean - other.measures.waitMean)[0]
  const sluice = play('sluice')
  const ratios = Object.fromEntries(
    goals().map((goal) => [goal, rival === undefined ? 0 : ratio(sluice[goal], rival.measures[goal])]),
  ) as Record<ShapeGoal, number>
  return {
    shape: shape.name,
    rival: rival?.policy,
    sluice,
    best: rival?.measures,
    ratios,
    missed: goals().filter((goal) => ratios[goal] > SHAPE_GOALS[goal]),
  }
}

function goals(): ShapeGoal[] {
  return Object.keys(SHAPE_GOALS) as ShapeGoal[]
}

function ratio(value: number, other: number): number {
  return value === other ? 1 : value / other
}
