import type { LoadedConfig } from '../config/load-config.ts'
import { formatPath, formatPlace, type Path, type Place, type Problem } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { TaskSet } from './task-set.ts'
import type { WorkflowSet } from './workflow-set.ts'

/** Something a file says about a task that is not here: right where another program brings it, else a slip. */
export interface TaskOfOtherProgram extends Problem {
  readonly task: string
}

/** What a process without code has to take on trust, each with its place and what it means. */
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
        'has no exec, and no code here has the task: what is said of it applies in programs that have its code and this file',
      ),
    ),
    ...workflows.missing.map(({ path, task }) =>
      told(
        ['workflows', ...path],
        'value',
        task,
        [...here, ...tasks.elsewhere],
        `no task ${task} is here: the workflow can be submitted once a worker has brought it`,
      ),
    ),
  ]
}

/** In one line: where it is written, and what it means. */
export function formatElsewhere({ path, place, message }: TaskOfOtherProgram): string {
  return place === undefined ? `${path}: ${message}` : `${formatPlace(place)}: ${path}: ${message}`
}
