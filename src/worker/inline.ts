import { SluiceError } from '../errors.ts'
import type { Attempt, Executor } from './attempt.ts'
import { createContext } from './context.ts'
import { runningJob } from './running-job.ts'
import type { AnyTask } from './task.ts'

/** Runs a task's function in the worker's own event loop. */
export function createInlineExecutor(task: AnyTask): Executor {
  return task.schema === undefined
    ? (attempt) => runningJob.run(attempt.jobId, task.run, attempt.input, createContext(attempt))
    : (attempt) => runningJob.run(attempt.jobId, runChecked, task, attempt)
}

async function runChecked(task: AnyTask, attempt: Attempt): Promise<unknown> {
  return task.run(await parseInput(task, attempt.input), createContext(attempt))
}

/**
 * The input as the task's schema sees it.
 *
 * @throws {SluiceError} `INVALID_INPUT` with every problem and its path.
 */
export async function parseInput(task: Pick<AnyTask, 'name' | 'schema'>, input: unknown): Promise<unknown> {
  if (task.schema === undefined) return input
  const result = await task.schema['~standard'].validate(input)
  if (result.issues === undefined) return result.value
  const problems = result.issues.map((issue) => {
    const path = (issue.path ?? [])
      .map((part) => String(typeof part === 'object' ? part.key : part))
      .join('.')
    return path === '' ? issue.message : `${path}: ${issue.message}`
  })
  throw new SluiceError(
    'INVALID_INPUT',
    `the input of task ${task.name} is not valid: ${problems.join('; ')}`,
    {
      details: { task: task.name, problems },
    },
  )
}
