import type { GraphStep } from './use-workflow.ts'

/**
 * What somebody who has chosen no step wants to see: what failed, else what runs, else the last that ended.
 *
 * @param before The step they see now. It stays until it has ended: one that is retried is what they wait for.
 */
export function mostWorthy(steps: readonly GraphStep[], before?: string): GraphStep | undefined {
  return (
    steps.find(({ job }) => job?.status === 'failed') ??
    steps.find(({ step, job }) => step === before && job?.status !== 'completed') ??
    steps.find(({ job }) => job?.status === 'running') ??
    steps.findLast(({ job }) => job?.status === 'completed') ??
    steps[0]
  )
}
