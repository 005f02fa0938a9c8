import { plan } from '../../src/policy/plan.ts'
import { planInputOf, sluicePolicy } from '../../src/policy/sim/policies/sluice.ts'
import { type SimPolicy, simulate } from '../../src/policy/sim/simulate.ts'
import type { SimJob, Workload } from '../../src/policy/sim/workload.ts'

/** A start that the policy estimated while a job was at the head of its queue, and when it really started. */
export interface Estimate {
  readonly saidAt: number
  readonly estimate: number
  readonly startedAt: number
}

/** Plays a workload and notes the first estimate that is given for each job. */
export function playEstimates(workload: Workload): Estimate[] {
  const first = new Map<SimJob, { saidAt: number; estimate: number }>()
  const policy = sluicePolicy(workload.rules)
  const listening: SimPolicy = {
    ...policy,
    decide(stage) {
      const moves = policy.decide(stage)
      if (moves.length > 0) return moves
      for (const worker of new Set(stage.devices().map((device) => device.worker)))
        for (const { classId, why } of plan(planInputOf(stage, worker, workload.rules)).verdicts) {
          const head = stage.queues.head(workload.models[classId]!)
          if (why.kind !== 'held' || why.until === null || head === undefined || first.has(head)) continue
          first.set(head, { saidAt: stage.now, estimate: why.until })
        }
      return moves
    },
  }
  simulate(workload, listening)
  return [...first].flatMap(([{ startedAt }, said]) => (startedAt === null ? [] : [{ ...said, startedAt }]))
}
