import { lanesOfTasks } from '../config/lanes-of-tasks.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import type { TaskConfig } from '../config/schema.ts'
import { SluiceError } from '../errors.ts'
import { isExpression } from '../model/amount.ts'
import { formatPath, invalidConfig, type Problem } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import { storedDeadline } from '../model/task-fields.ts'
import type { TaskRecord } from '../model/task-record.ts'
import { type AnyTask, commonOptions } from '../worker/task.ts'
import { checkExpressions } from './check-uses.ts'

/** The tasks of a program: those in its code, with the options of the file applied, and the programs of the file. */
export class TaskSet {
  readonly byName: ReadonlyMap<string, AnyTask>
  /** Tasks that the file has settings for, but that neither file nor code defines. This process cannot run them. */
  readonly elsewhere: ReadonlySet<string>
  readonly others: boolean
  readonly #laneFrom = new Map<string, 'file' | 'code' | null>()

  /**
   * @param others Whether the file may have settings of tasks that are not defined here. A process without code, such
   * as
   *   a server, cannot know the tasks of other workers.
   * @throws {SluiceError} `INVALID_CONFIG` with each invalid setting and its position; `INVALID_ARGUMENT`.
   */
  constructor(
    code: readonly AnyTask[],
    file: LoadedConfig | undefined,
    lanes: Readonly<Record<string, readonly string[]>>,
    others = code.length === 0,
  ) {
    const byName = new Map<string, AnyTask>()
    for (const task of code) {
      if (byName.has(task.name))
        throw new SluiceError('INVALID_ARGUMENT', `two tasks are named ${task.name}: rename one`)
      checkExpressions(task)
      byName.set(task.name, task)
    }
    const elsewhere = new Set<string>()
    const problems: Problem[] = []
    for (const [name, options] of Object.entries(file?.config.tasks ?? {})) {
      const isHere = byName.has(name)
      const problem =
        isHere && options.exec !== undefined
          ? 'is defined in the code and has exec here: remove one'
          : isHere || options.exec !== undefined || others
            ? undefined
            : withoutTask(name, [...byName.keys()])
      const path = ['tasks', name]
      if (problem !== undefined)
        problems.push({ path: formatPath(path), place: file!.locate(path, 'key'), message: problem })
      else if (isHere || options.exec !== undefined)
        byName.set(name, withOptions(name, byName.get(name), options, file!.folder))
      else elsewhere.add(name)
    }
    if (problems.length > 0) throw invalidConfig(problems)
    this.elsewhere = elsewhere
    this.others = others
    const inFile = file === undefined ? new Map<string, string>() : lanesOfTasks(file.config)
    const inOptions = lanesOfOptions(lanes)
    for (const [name, task] of byName) {
      const inCode = inOptions.get(name) ?? task.lane
      byName.set(name, { ...task, lane: inFile.get(name) ?? inCode ?? 'default' })
      // If the file does not mention the task, it gets the default lane, so that removing a task from the file has an
      // effect.
      const byFile = inFile.has(name) || (inCode === undefined && file?.file !== undefined)
      this.#laneFrom.set(name, byFile ? 'file' : inCode !== undefined ? 'code' : null)
    }
    this.byName = byName
  }

  /** The tasks as the database stores them. */
  records(defaultDeadlineMs: number | null): TaskRecord[] {
    return [...this.byName.values()].map((task) => ({
      name: task.name,
      lane: task.lane ?? 'default',
      laneFrom: this.#laneFrom.get(task.name) ?? null,
      model: task.model ?? null,
      uses: task.uses ?? null,
      perJob: task.perJob ?? null,
      parallel: task.parallel,
      expressed: isExpressed(task),
      requires: task.requires,
      priority: task.priority,
      approval: task.approval ?? null,
      keys: task.keys ?? null,
      laneFixed: task.laneFixed ?? null,
      deadlineMs: task.deadlineMs ?? defaultDeadlineMs,
      maxLosses: task.losses,
      onLost: task.onLost,
    }))
  }
}

/** The lane of each task that the option `lanes` places. */
function lanesOfOptions(lanes: Readonly<Record<string, readonly string[]>>): ReadonlyMap<string, string> {
  const placed = new Map<string, string>()
  for (const [lane, tasks] of Object.entries(lanes)) {
    for (const task of tasks) {
      const other = placed.get(task)
      if (other !== undefined && other !== lane) {
        throw new SluiceError(
          'INVALID_ARGUMENT',
          `task ${task} is in two lanes, ${other} and ${lane}: leave it in one`,
        )
      }
      placed.set(task, lane)
    }
  }
  return placed
}

function withoutTask(name: string, known: readonly string[]): string {
  const near = suggest(name, known)
  const hint =
    near === undefined
      ? 'add exec: [program, argument, ...] or define it with task()'
      : `did you mean ${near}?`
  return `has no exec, and no task of that name is in the code: ${hint}`
}

function withOptions(name: string, code: AnyTask | undefined, options: TaskConfig, folder: string): AnyTask {
  const base = code ?? {
    ...commonOptions({ name }, `tasks.${name}`),
    execution: 'exec' as const,
    module: undefined,
    schema: undefined,
    program: { argv: options.exec!, folder, env: options.env ?? {}, user: options.user },
    run: () => {
      throw new Error(`task ${name} is a program`)
    },
  }
  const { retry } = options
  return {
    ...base,
    priority: options.priority ?? base.priority,
    timeoutMs: options.timeout === undefined ? base.timeoutMs : (options.timeout ?? undefined),
    deadlineMs: storedDeadline(options.deadline) ?? base.deadlineMs,
    onLost: options.onLost ?? base.onLost,
    losses: options.losses ?? base.losses,
    approval: options.approval ?? base.approval,
    keys: options.keys ?? base.keys,
    laneFixed: options.laneFixed ?? base.laneFixed,
    requires: { ...base.requires, ...options.requires },
    uses: merged(base.uses, options.uses),
    perJob: merged(base.perJob, options.perJob),
    model: options.model ?? base.model,
    parallel: options.parallel ?? base.parallel,
    retry: {
      attempts: retry?.attempts ?? base.retry.attempts,
      backoff: retry?.backoff ?? base.retry.backoff,
      delayMs: retry?.delay ?? base.retry.delayMs,
      maxDelayMs: retry?.maxDelay ?? base.retry.maxDelayMs,
    },
  }
}

/** Whether some amount depends on the input. */
export function isExpressed({ uses = {}, perJob = {} }: Pick<AnyTask, 'uses' | 'perJob'>): boolean {
  return [...Object.values(uses), ...Object.values(perJob)].some(isExpression)
}

/** Combines the amounts of code and file, key by key. The file wins. */
function merged(code: AnyTask['uses'], file: AnyTask['uses']): AnyTask['uses'] {
  const both = { ...code, ...file }
  return Object.keys(both).length === 0 ? undefined : both
}
