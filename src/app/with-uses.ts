import { resolveUses } from '../engine/submit/resolve-uses.ts'
import type { Submission } from '../engine/submit/submitter.ts'
import type { AnyTask } from '../worker/task.ts'
import { withField } from './submission.ts'
import { isExpressed } from './task-set.ts'

/**
 * Adds the amounts that the job uses, if they depend on the input.
 *
 * @throws {SluiceError} `EXPRESSION_FAILED` or `INVALID_INPUT`, which names task and budget.
 */
export function withUses(submission: Submission, task: AnyTask | undefined): Submission {
  if (task?.uses === undefined || !isExpressed(task)) return submission
  // Evaluated on the stored form, in which a Date is already text.
  const input: unknown = JSON.parse(submission.input)
  const uses = JSON.stringify(resolveUses(task.name, task.uses, task.perJob, input))
  return withField(submission, 'uses', uses)
}
