import type { Sluice } from '../../../app/app.ts'
import type { SluiceOptions } from '../../../app/open.ts'
import { ACTIVE_STATUSES } from '../../../model/job.ts'
import type { AnyTask } from '../../../worker/task.ts'
import type { AnyWorkflow } from '../../../workflow/define/runnable.ts'

/** What a part of the tour declares: the options of a program. */
export type Program = Pick<SluiceOptions, 'tasks' | 'workflows' | 'lanes' | 'budgets' | 'schedules' | 'fleet'>

/** A part of `sluice up --tour`, which shows one thing that Sluice does. */
export interface Scene {
  readonly program: Program
  /** Called every few seconds: submits what has to be there and is not. */
  tend?(app: Sluice): Promise<void>
}

/** The jobs of every scene have it, so that a filter finds them: `sluice ps --tag tour`. */
const TAGS: readonly string[] = ['tour']
/** More than any scene keeps active. */
const MANY = 500

/** How many jobs of a task or workflow have not ended. */
export async function activeJobs(app: Sluice, { name }: AnyTask | AnyWorkflow): Promise<number> {
  return (await app.listJobs({ task: name, status: ACTIVE_STATUSES, limit: MANY })).length
}

/** Whether the database has a job of a task or workflow, active or ended. */
export async function hasJob(app: Sluice, { name }: AnyTask | AnyWorkflow): Promise<boolean> {
  return (await app.listJobs({ task: name, limit: 1 })).length > 0
}

/** Submits as many jobs as are missing to have `wanted` active. */
export async function keepActive<Input>(
  app: Sluice,
  each: AnyTask | AnyWorkflow,
  wanted: number,
  input: (index: number) => Input,
): Promise<void> {
  const missing = wanted - (await activeJobs(app, each))
  if (missing > 0)
    await submitAll(
      app,
      each,
      Array.from({ length: missing }, (_, index) => input(index)),
    )
}

export async function submitAll(
  app: Sluice,
  { name }: AnyTask | AnyWorkflow,
  inputs: readonly unknown[],
): Promise<void> {
  await app.submitMany(name, inputs, { tags: TAGS })
}
