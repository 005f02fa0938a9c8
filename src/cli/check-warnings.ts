import { budgetWarnings } from '../app/budget-warnings.ts'
import { findUnknownLanes } from '../app/find-unknown-lanes.ts'
import { formatElsewhere, type TaskOfOtherProgram } from '../app/tasks-of-other-programs.ts'
import { unknownPlacements } from '../config/lanes-of-tasks.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import { hasCode } from '../errors.ts'
import type { BudgetSettings } from '../model/budget.ts'
import { formatPath, formatPlace, type Path } from '../model/setting-value.ts'
import { unknownVariables } from '../model/settings.ts'
import { suggest } from '../model/suggest.ts'
import { UNKNOWN_VARIABLE } from '../model/unknown-variables.ts'
import { findExecUser } from '../worker/exec-user.ts'
import { whyNotStartable } from '../worker/find-program.ts'
import type { AnyTask } from '../worker/task.ts'

/** What it is about, by kind and name, and what is odd about it. */
export interface Warning {
  readonly task?: string
  readonly lane?: string
  readonly schedule?: string
  readonly workflow?: string
  readonly variable?: string
  readonly message: string
}

interface Checked {
  readonly loaded: LoadedConfig
  readonly tasks: readonly AnyTask[]
  readonly elsewhere: readonly TaskOfOtherProgram[]
  readonly workflows: readonly string[]
  readonly schedules: readonly {
    readonly name: string
    readonly task: string | null
    readonly workflow: string | null
  }[]
  readonly environment: NodeJS.ProcessEnv
  readonly budgets: ReadonlyMap<string, BudgetSettings>
  readonly lanes: ReadonlySet<string>
}

/** What is likely a slip in a config that is valid: each of these may be right on other machines or with other programs. */
export function findWarnings(checked: Checked): Warning[] {
  const { loaded, tasks, elsewhere, workflows, schedules, environment, budgets, lanes } = checked
  const names = tasks.map(({ name }) => name)
  return [
    ...missingPrograms(tasks, environment),
    ...elsewhere.map((each) => ({ task: each.task, message: formatElsewhere(each) })),
    ...missingTargets(schedules, names, workflows),
    ...unknownTasks(loaded, names),
    ...unknownLanes(loaded, tasks, lanes),
    ...singleBraces(loaded),
    ...expressionsInPrograms(tasks),
    ...budgetWarnings(tasks, budgets, []),
    ...unknownModels(loaded, tasks),
    ...unknownVariables(environment).map((variable) => ({
      variable,
      message: UNKNOWN_VARIABLE,
    })),
  ]
}

/** The workers may run on other machines. */
function missingPrograms(tasks: readonly AnyTask[], environment: NodeJS.ProcessEnv): Warning[] {
  return tasks.flatMap(({ name, program }) => {
    const why = program === undefined ? undefined : whyNotStartable(program, environment)
    return why === undefined ? [] : [{ task: name, message: `${why}; a worker here could not start it` }]
  })
}

/** The workers may run on other machines, and as another user than the one who runs this check. */
export async function userWarnings(tasks: readonly AnyTask[]): Promise<Warning[]> {
  const warnings: Warning[] = []
  for (const { name, program } of tasks) {
    if (program?.user === undefined) continue
    try {
      await findExecUser(name, program.user)
    } catch (error) {
      if (!hasCode(error, 'EXEC_USER_UNAVAILABLE')) throw error
      warnings.push({
        task: name,
        message: `${error.message} (${error.code}: a worker here would not start)`,
      })
    }
  }
  return warnings
}

/** Another program may bring them. */
function missingTargets(
  schedules: Checked['schedules'],
  tasks: readonly string[],
  workflows: readonly string[],
): Warning[] {
  return schedules.flatMap(({ name, task, workflow }) => {
    const known = task !== null ? tasks.includes(task) : workflows.includes(workflow!)
    const what = task !== null ? `task ${task}` : `workflow ${workflow}`
    return known ? [] : [{ schedule: name, message: `${what} is not here; another program must bring it` }]
  })
}

/** Other programs may have the task. */
function unknownTasks({ config }: LoadedConfig, tasks: readonly string[]): Warning[] {
  const known = [...tasks, ...Object.keys(config.tasks ?? {})]
  return unknownPlacements(config, known).map(({ task, lane, near }) => {
    const hint = near === undefined ? 'another program must bring it' : `did you mean ${near}?`
    return { lane, message: `names task ${task}, which this file does not declare; ${hint}` }
  })
}

/** Another program may have made the lane; where none has, whatever starts with this file is refused. */
function unknownLanes(
  loaded: LoadedConfig,
  tasks: readonly AnyTask[],
  lanes: ReadonlySet<string>,
): Warning[] {
  const byName = new Map(tasks.map((task) => [task.name, task]))
  return findUnknownLanes(loaded, byName, lanes).map(({ task, path, place, message }) => ({
    task,
    message: `${place === undefined ? '' : `${formatPlace(place)}: `}${path}: ${message}; what starts with this file is refused unless another program has made that lane`,
  }))
}

/** Models need not be in the file: only a name that is nearly one of those there is told. */
function unknownModels({ config }: LoadedConfig, tasks: readonly AnyTask[]): Warning[] {
  const known = Object.keys(config.models ?? {})
  return tasks.flatMap(({ name, model }) => {
    const near = model === undefined || known.includes(model) ? undefined : suggest(model, known)
    return near === undefined
      ? []
      : [{ task: name, message: `names model ${model}, which models does not have; did you mean ${near}?` }]
  })
}

/** The input is data on stdin and never part of a command, so that nobody can inject one. */
function expressionsInPrograms(tasks: readonly AnyTask[]): Warning[] {
  return tasks.flatMap(({ name, program }) => {
    const found = program?.argv
      .map((part) => /\$\{\{.*?\}\}/.exec(part)?.[0])
      .find((each) => each !== undefined)
    if (found === undefined) return []
    const message = `exec has ${found} as plain text: expressions are not rendered in commands; the program reads the input as JSON on stdin`
    return [{ task: name, message }]
  })
}

const SINGLE_BRACE = /\$\{(?!\{)\s*((?:input|steps|item|index)\b[^{}]*)\}/

/** What reads like an expression and is plain text. `${HOME}` and its like may be meant for a shell. */
function singleBraces({ config, locate }: LoadedConfig): Warning[] {
  return Object.entries(config.workflows ?? {}).flatMap(([workflow, definition]) =>
    [...textsIn(definition, [])].flatMap(({ text, path }) => {
      const found = SINGLE_BRACE.exec(text)
      if (found === null) return []
      const place = locate(['workflows', workflow, ...path], 'value')
      const where = `${formatPath(path)}${place === undefined ? '' : ` (${formatPlace(place)})`}`
      const right = `\${{ ${found[1]!.trim()} }}`
      const message = `${where} has ${found[0]} as plain text; an expression has two braces: ${right}`
      return [{ workflow, message }]
    }),
  )
}

function* textsIn(value: unknown, path: Path): Generator<{ text: string; path: Path }> {
  if (typeof value === 'string') yield { text: value, path }
  if (typeof value !== 'object' || value === null) return
  for (const [key, below] of Object.entries(value))
    yield* textsIn(below, [...path, Array.isArray(value) ? Number(key) : key])
}
