import { SluiceError } from '../../errors.ts'
import { checkOptions } from '../../model/argument.ts'
import type { Path } from '../../model/setting-value.ts'
import { checkBody } from '../compile/check-body.ts'
import { DefinitionPart, type WorkflowProblem } from '../compile/definition-part.ts'
import { readBody } from '../compile/read-definition.ts'
import { BodyDraft, invalidDefinition, stepLocation, type WorkflowDraft } from './body-draft.ts'
import { Flow, type ResultOf } from './flow.ts'
import { checkName, type Workflow } from './runnable.ts'

export interface WorkflowOptions<Input, Output> {
  /** Letters, digits, `_`, `.` and `-`. */
  readonly name: string
  /** Writes the steps down. Runs once, here. What it returns is the result of a run. */
  readonly steps: (flow: Flow<Input>) => Output
}

/**
 * Defines a workflow. The type of `flow` says what `submit` takes, what `steps` returns what `result()` gives.
 *
 * It is checked here: cycles, expressions, options that a step cannot have. Whether the program has its tasks is
 * checked by `sluice()`.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming each step that cannot work, and why.
 *
 * @example
 * const pipeline = workflow({
 *   name: 'pipeline',
 *   steps: (flow: Flow<{ file: string }>) => {
 *     const parts = flow.step('split', split, { file: flow.input.file })
 *     const aligned = flow.each('align', parts.result.chunks, align, (chunk) => ({ chunk }), { concurrency: 3 })
 *     return { files: aligned.results }
 *   },
 * })
 */
export function workflow<Input = unknown, Output = void>(
  options: WorkflowOptions<Input, Output>,
): Workflow<Input, ResultOf<Output>> {
  checkOptions(options, ['name', 'steps'], 'workflow')
  const name = checkName(options.name, 'workflow')
  if (typeof options.steps !== 'function') {
    throw invalidDefinition(
      stepLocation(name, []),
      'steps must be a function that writes them: (flow) => { ... }',
    )
  }
  const draft: WorkflowDraft = { name, tasks: new Set(), workflows: new Set(), named: new Set() }
  const body = new BodyDraft(draft)
  const { definition } = body.finish(options.steps(new Flow<Input>(body)))
  checkDefinition(draft, definition)
  return Object.freeze({
    name,
    definition,
    uses: { tasks: [...draft.tasks], workflows: [...draft.workflows] },
  })
}

/** Everything but the names of tasks and workflows, which only a program as a whole can know. */
function checkDefinition({ name, named }: WorkflowDraft, definition: object): void {
  const problems: WorkflowProblem[] = []
  const part = new DefinitionPart(definition, problems, [name])
  const body = readBody(part, { tasks: undefined, workflows: named })
  if (body !== undefined) checkBody(body, part)
  if (problems.length === 0) return
  const lines = problems.map(({ path, message }) => `${describePath(path)}: ${message}`)
  throw new SluiceError('INVALID_ARGUMENT', lines.join('\n'), { details: { problems } })
}

/** `workflow pipeline, step publish/index: with.file` */
function describePath([workflow, ...rest]: Path): string {
  const steps: string[] = []
  while (rest[0] === 'steps' && rest.length > 1) {
    steps.push(String(rest[1]))
    rest.splice(0, 2)
  }
  const place = stepLocation(String(workflow), steps)
  return rest.length === 0 ? place : `${place}: ${rest.join('.')}`
}
