import { checkPerJob } from '../../app/check-uses.ts'
import { TaskSet } from '../../app/task-set.ts'
import { WorkflowSet } from '../../app/workflow-set.ts'
import type { LoadedConfig } from '../../config/load-config.ts'
import { SluiceError } from '../../errors.ts'
import { suggest } from '../../model/suggest.ts'
import { whyNotStartable } from '../../worker/find-program.ts'
import type { AnyTask } from '../../worker/task.ts'
import { HINT } from '../report-error.ts'

/** What a file has to run. */
export interface RunnableFile {
  readonly tasks: ReadonlyMap<string, AnyTask>
  readonly workflows: WorkflowSet
}

/** @throws {SluiceError} `INVALID_CONFIG` with all that is wrong with tasks or workflows and where it is written. */
export function checkFile(config: LoadedConfig): RunnableFile {
  const tasks = new TaskSet(config.tasks as readonly AnyTask[], config, {}).byName
  checkPerJob(tasks, config)
  return { tasks, workflows: new WorkflowSet(config.workflows, config, tasks) }
}

/**
 * The workflow to run: the one that was named, else the only one.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` or `INVALID_CONFIG`, with those that are there.
 */
export function chooseWorkflow(
  { workflows }: RunnableFile,
  config: LoadedConfig,
  wanted: string | undefined,
): string {
  const names = [...workflows.names]
  const file = config.file ?? config.folder
  if (names.length === 0) {
    throw new SluiceError('INVALID_CONFIG', `${file} has no workflow to run`, {
      details: { [HINT]: 'workflows: { NAME: { steps: { first: { task: TASK } } } }' },
    })
  }
  if (wanted === undefined) {
    if (names.length === 1) return names[0]!
    throw new SluiceError('INVALID_ARGUMENT', `${file} has ${names.length} workflows: ${names.join(', ')}`, {
      details: { workflows: names, [HINT]: `choose one: --workflow ${names[0]}` },
    })
  }
  if (workflows.names.has(wanted)) return wanted
  const near = suggest(wanted, names)
  throw new SluiceError('INVALID_ARGUMENT', `--workflow: ${file} has no workflow ${JSON.stringify(wanted)}`, {
    details: {
      workflows: names,
      [HINT]: near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`,
    },
  })
}

/**
 * Refuses to begin what could not be done here: a program that is not there would break the worker, and the run would wait
 * for another one.
 */
export function checkPrograms(file: RunnableFile, workflow: string, environment: NodeJS.ProcessEnv): void {
  const graph = file.workflows.records.find(({ name }) => name === workflow)?.body
  const problems = [...tasksIn(graph)].flatMap((name) => {
    const program = file.tasks.get(name)?.program
    const why = program === undefined ? undefined : whyNotStartable(program, environment)
    return why === undefined ? [] : [`task ${name}: ${why}`]
  })
  if (problems.length > 0) throw new SluiceError('INVALID_CONFIG', problems.join('\n'))
}

/** The names of all tasks in a graph, groups and other workflows included. */
function tasksIn(part: unknown, found = new Set<string>()): Set<string> {
  if (typeof part !== 'object' || part === null) return found
  const { kind, task } = part as Record<string, unknown>
  if (kind === 'task' && typeof task === 'string') found.add(task)
  for (const below of Object.values(part)) tasksIn(below, found)
  return found
}
