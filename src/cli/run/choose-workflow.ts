import { checkPerJob } from '../../app/check-uses.ts'
import { TaskSet } from '../../app/task-set.ts'
import { findTasksOfOtherPrograms, type TaskOfOtherProgram } from '../../app/tasks-of-other-programs.ts'
import { WorkflowSet } from '../../app/workflow-set.ts'
import type { LoadedConfig } from '../../config/load-config.ts'
import { SluiceError } from '../../errors.ts'
import { formatPath, invalidConfig, type Problem } from '../../model/setting-value.ts'
import { suggest } from '../../model/suggest.ts'
import { whyNotStartable } from '../../worker/find-program.ts'
import type { AnyTask } from '../../worker/task.ts'
import { HINT } from '../report-error.ts'

/** What a file has to run. */
export interface RunnableFile {
  readonly tasks: ReadonlyMap<string, AnyTask>
  /** Of tasks and steps, what other programs must bring. */
  readonly elsewhere: readonly TaskOfOtherProgram[]
  readonly workflows: WorkflowSet
}

/** @throws {SluiceError} `INVALID_CONFIG` with all that is wrong with tasks or workflows and where it is written. */
export function checkFile(config: LoadedConfig): RunnableFile {
  const tasks = new TaskSet(config.tasks as readonly AnyTask[], config, {})
  checkPerJob(tasks.byName, config)
  const workflows = new WorkflowSet(config.workflows, config, tasks)
  return { tasks: tasks.byName, elsewhere: findTasksOfOtherPrograms(config, tasks, workflows), workflows }
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
 * Refuses to begin what could not be done here: a task or program that is not there would let the run wait for another
 * worker.
 *
 * @throws {SluiceError} `INVALID_CONFIG` with each of them and where it is written.
 */
export function checkPrograms(
  file: RunnableFile,
  config: LoadedConfig,
  workflow: string,
  environment: NodeJS.ProcessEnv,
): void {
  const needed = new Set(file.workflows.records.find(({ name }) => name === workflow)?.tasks)
  const problems: Problem[] = file.elsewhere
    .filter(({ task }) => needed.has(task))
    .map(({ path, place, message }) => ({ path, place, message: `${message}; a run needs it here` }))
  for (const name of needed) {
    const program = file.tasks.get(name)?.program
    const why = program === undefined ? undefined : whyNotStartable(program, environment)
    if (why === undefined) continue
    const path = ['tasks', name, 'exec']
    problems.push({ path: formatPath(path), place: config.locate(path, 'value'), message: why })
  }
  if (problems.length > 0) throw invalidConfig(problems)
}
