import { resolveUses } from '../engine/submit/resolve-uses.ts'
import type { Submission } from '../engine/submit/submitter.ts'
import type { AnyTask } from '../worker/task.ts'
import { withField } from './submission.ts'
import { isExpressed } from './task-set.ts'

/**
 * The submission with what its job draws, where that depends on the input. Other tasks are left alone.
 *
 * @throws {SluiceError} `EXPRESSION_FAILED` or `INVALID_INPUT`, naming task and budget.
 */
export function withUses(submission: Submission, task: AnyTask | undefined): Submission {
  if (task?.uses === undefined || !isExpressed(task)) return submission
  // As the database will have it: a Date is text by now.
  const input: unknown = JSON.parse(submission.input)
  const uses = JSON.stringify(resolveUses(task.name, task.uses, task.perJob, input))
  return withField(submission, 'uses', uses)
}
