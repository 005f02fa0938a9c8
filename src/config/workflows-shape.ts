import { compileWorkflows } from '../workflow/compile/compile.ts'
import type { Key, Shape } from './shape.ts'

/** Workflows by name, as they are written: see `compileWorkflows` for what they may hold. */
export type WorkflowDefinitions = Readonly<Record<string, unknown>>

const STEP = 'NAME.steps.NAME'

/** For the reference. Groups have steps of their own, of the same shape. */
const KEYS: readonly Key[] = [
  { path: 'NAME' },
  { path: 'NAME.steps' },
  { path: 'NAME.output' },
  { path: STEP },
  ...['task', 'workflow', 'steps', 'output', 'needs', 'on', 'when', 'with', 'with_items'].map((key) => ({
    path: `${STEP}.${key}`,
  })),
  ...['batch', 'batch.items', 'batch.size', 'concurrency', 'strategy', 'retry', 'timeout', 'deadline'].map(
    (key) => ({ path: `${STEP}.${key}` }),
  ),
]

/**
 * The workflows of a config. What they are stays as it is written: graphs are made of it once all tasks are known.
 *
 * Whether the tasks exist is not looked at here: a program may bring more than the file names.
 */
export const workflows: Shape<WorkflowDefinitions | null, WorkflowDefinitions> = {
  keys: KEYS,
  check(found, at) {
    if (found === null) return {}
    const { problems } = compileWorkflows(found as WorkflowDefinitions, { tasks: undefined })
    for (const { path, part, message } of problems) {
      path.reduce((spot, key) => spot.below(key), at).report(message, part)
    }
    return problems.length > 0 ? undefined : (found as WorkflowDefinitions)
  },
}
