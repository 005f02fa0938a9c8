import { createHash } from 'node:crypto'
import type { LoadedConfig } from '../config/load-config.ts'
import { SluiceError } from '../errors.ts'
import type { JsonValue } from '../model/json.ts'
import { formatPath, invalidConfig } from '../model/setting-value.ts'
import type { WorkflowRecord } from '../store/save-workflows.ts'
import type { AnyTask } from '../worker/task.ts'
import { canonicalJson } from '../workflow/canonical.ts'
import { compileWorkflows } from '../workflow/compile/compile.ts'
import type { MissingTask } from '../workflow/compile/read-definition.ts'
import type { AnyWorkflow } from '../workflow/define/runnable.ts'
import { tasksOf } from '../workflow/graph.ts'
import type { TaskSet } from './task-set.ts'

/** The validated workflows of a program, from its code and its config file. */
export class WorkflowSet {
  readonly names: ReadonlySet<string>
  readonly records: readonly WorkflowRecord[]
  /**
   * Steps of the file whose tasks are not defined here. Their workflows can be submitted once another program has
   * registered the tasks.
   */
  readonly missing: readonly MissingTask[]

  /**
   * @param code Sub-workflows are added to them.
   * @param tasks If its file may have settings of other programs' tasks, steps of the file may run such tasks.
   * @throws {SluiceError} `INVALID_CONFIG` with every problem of every definition and its position;
   *   `INVALID_ARGUMENT` when two things have the same name.
   */
  constructor(
    code: readonly AnyWorkflow[],
    file: LoadedConfig | undefined,
    { byName: tasks, elsewhere, others }: Pick<TaskSet, 'byName' | 'elsewhere' | 'others'>,
  ) {
    const inFile = file?.config.workflows ?? {}
    const definitions: Record<string, unknown> = { ...inFile }
    for (const workflow of withThoseTheyRun(code)) {
      const { name, definition } = workflow
      if (Object.hasOwn(definitions, name))
        throw new SluiceError('INVALID_ARGUMENT', `two workflows are named ${name}: rename one`)
      checkTasks(workflow, tasks)
      definitions[name] = definition
    }
    const { graphs, problems, missing } = compileWorkflows(definitions, {
      tasks: new Set([...tasks.keys(), ...elsewhere]),
      others: others && code.length === 0,
    })
    if (problems.length > 0) {
      throw invalidConfig(
        problems.map(({ path, part, message }) => {
          const full = ['workflows', ...path]
          const written = Object.hasOwn(inFile, String(path[0]))
          return {
            path: formatPath(full),
            place: written ? file?.locate(full, part) : undefined,
            message,
          }
        }),
      )
    }
    this.missing = missing
    this.names = new Set(Object.keys(graphs))
    this.records = Object.entries(graphs).map(([name, graph]) => ({
      name,
      hash: createHash('sha256')
        .update(canonicalJson(graph as unknown as JsonValue))
        .digest('hex'),
      body: graph,
      tasks: [...tasksOf(graph)].sort(),
      priority: 0,
      deadlineMs: null,
      timeoutMs: null,
    }))
  }
}

function withThoseTheyRun(workflows: readonly AnyWorkflow[]): ReadonlySet<AnyWorkflow> {
  const found = new Set<AnyWorkflow>()
  for (const each of workflows) {
    if (found.has(each))
      throw new SluiceError('INVALID_ARGUMENT', `workflow ${each.name} is listed twice: remove one`)
    found.add(each)
  }
  // The set grows while it is iterated.
  for (const { uses } of found) for (const used of uses?.workflows ?? []) found.add(used)
  return found
}

/** Steps refer to tasks by name. A task object in a step must be the task that the program has under that name. */
function checkTasks({ name, uses }: AnyWorkflow, tasks: ReadonlyMap<string, AnyTask>): void {
  for (const task of uses?.tasks ?? []) {
    const known = tasks.get(task.name)
    // The program's tasks are copies with the options of lanes and files applied.
    if (known?.run === task.run) continue
    const what =
      known === undefined
        ? 'which is not among the tasks'
        : 'but another task of that name is among the tasks'
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `workflow ${name} runs task ${task.name}, ${what} passed to sluice(); add it there`,
    )
  }
}
