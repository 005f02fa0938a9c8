import type { LoadedConfig } from '../config/load-config.ts'
import { formatPath, formatPlace, type Path, type Place, type Problem } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { TaskSet } from './task-set.ts'
import type { WorkflowSet } from './workflow-set.ts'

/**
 * Settings of a file for a task that this program lacks: correct if another program has the task, otherwise a mistake.
 */
export interface TaskOfOtherProgram extends Problem {
  readonly task: string
}

/** Lists what a process without code cannot verify, with its position and meaning. */
export function findTasksOfOtherPrograms(
  file: LoadedConfig | undefined,
  tasks: Pick<TaskSet, 'byName' | 'elsewhere'>,
  workflows: Pick<WorkflowSet, 'missing'>,
): TaskOfOtherProgram[] {
  if (file === undefined) return []
  const here = [...tasks.byName.keys()]
  const told = (path: Path, part: 'key' | 'value', task: string, known: readonly string[], text: string) => {
    const near = suggest(task, known)
    const hint = near === undefined ? '' : `; did you mean ${near}?`
    const place: Place | undefined = file.locate(path, part)
    return { task, path: formatPath(path), place, message: `${text}${hint}` }
  }
  return [
    ...[...tasks.elsewhere].map((task) =>
      told(
        ['tasks', task],
        'key',
        task,
        here,
        'has no exec and is not defined in this program; its settings apply to programs that have its code and this file',
      ),
    ),
    ...workflows.missing.map(({ path, task }) =>
      told(
        ['workflows', ...path],
        'value',
        task,
        [...here, ...tasks.elsewhere],
        `task ${task} is not defined here; the workflow can be submitted once a worker has registered the task`,
      ),
    ),
  ]
}

/** Formats position and meaning in one line. */
export function formatElsewhere({ path, place, message }: TaskOfOtherProgram): string {
  return place === undefined ? `${path}: ${message}` : `${formatPlace(place)}: ${path}: ${message}`
}
