import { SluiceError } from '../../errors.ts'
import { show } from '../../model/argument.ts'
import { isName, NAME_RULE } from '../../model/limits.ts'

/** What a step can run: a task, a workflow, or one of them by its name. */
export type Runnable<Input, Result> = TaskLike<Input, Result> | Workflow<Input, Result> | Named<Input, Result>

/** As much of a task as a definition needs. */
export interface TaskLike<Input, Result> {
  readonly name: string
  readonly run: (input: Input, ctx: never) => Result | Promise<Result>
}

/** A task of any types, as lists hold them. */
// biome-ignore lint/suspicious/noExplicitAny: a list of tasks cannot know their inputs
export type AnyTaskLike = TaskLike<any, any>

/** A workflow written in code. `Input` is what `submit` takes, `Result` what `result()` gives. */
export interface Workflow<Input = unknown, Result = unknown> {
  readonly name: string
  /** In the shape of the config file. */
  readonly definition: unknown
  /** The tasks and workflows its steps run, as far as they were given as such. */
  readonly uses: {
    readonly tasks: readonly AnyTaskLike[]
    readonly workflows: readonly AnyWorkflow[]
  }
  /** Never set. Carries the types. */
  readonly types?: (input: Input) => Result
}

/** A workflow of any types, in code or as a plain definition. */
export interface AnyWorkflow {
  readonly name: string
  /** In the shape of the config file. */
  readonly definition: unknown
  readonly uses?: Workflow['uses']
}

/** A task or workflow that is defined elsewhere, such as in a config file. */
export interface Named<Input, Result> {
  readonly kind: 'task' | 'workflow'
  readonly name: string
  /** Never set. Carries the types. */
  readonly types?: (input: Input) => Result
}

/**
 * A task by its name, for a program of the config file. Its types are taken on trust.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when no task can have that name.
 */
export function taskNamed<Input = unknown, Result = unknown>(name: string): Named<Input, Result> {
  return { kind: 'task', name: checkName(name, 'taskNamed') }
}

/**
 * A workflow by its name: of the config file, or one that is defined later. Its types are taken on trust.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when no workflow can have that name.
 */
export function workflowNamed<Input = unknown, Result = unknown>(name: string): Named<Input, Result> {
  return { kind: 'workflow', name: checkName(name, 'workflowNamed') }
}

export function checkName(name: unknown, where: string): string {
  if (typeof name === 'string' && isName(name)) return name
  throw new SluiceError('INVALID_ARGUMENT', `${where}: found the name ${show(name)}; write ${NAME_RULE}`)
}

/** What a step runs, told apart. Undefined: nothing that can be run. */
export function kindOf(
  run: unknown,
):
  | { readonly task: AnyTaskLike }
  | { readonly workflow: AnyWorkflow }
  | { readonly named: Named<unknown, unknown> }
  | undefined {
  if (typeof run !== 'object' || run === null || !('name' in run) || typeof run.name !== 'string')
    return undefined
  if ('run' in run && typeof run.run === 'function') return { task: run as AnyTaskLike }
  if ('definition' in run) return { workflow: run as AnyWorkflow }
  const isNamed = 'kind' in run && (run.kind === 'task' || run.kind === 'workflow')
  return isNamed ? { named: run as Named<unknown, unknown> } : undefined
}
