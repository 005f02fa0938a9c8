import type { Body, Graph } from '../graph.ts'
import { checkBody } from './check-body.ts'
import { DefinitionPart, type WorkflowProblem } from './definition-part.ts'
import { type MissingTask, readBody } from './read-definition.ts'

export interface CompiledWorkflows {
  /** By the name of the workflow. Empty when there are problems. */
  readonly graphs: Readonly<Record<string, Graph>>
  readonly problems: readonly WorkflowProblem[]
  /** Steps whose task is not known here, where that is no problem. */
  readonly missing: readonly MissingTask[]
}

/**
 * Checks definitions of workflows and makes the graphs they run as.
 *
 * Finds every problem, not only the first. A workflow may run any of the others, itself included.
 *
 * @param definitions Workflows by name, in the shape of the config file's `workflows`.
 * @param known The tasks that steps may name. Without the set, their names are not checked. With `others`, steps may name
 *   tasks that are not in it, and are told apart.
 */
export function compileWorkflows(
  definitions: Readonly<Record<string, unknown>>,
  known: { readonly tasks: ReadonlySet<string> | undefined; readonly others?: boolean },
): CompiledWorkflows {
  const problems: WorkflowProblem[] = []
  const top = new DefinitionPart(definitions, problems)
  const names = top.names() ?? []
  const missing: MissingTask[] = []
  const context = {
    tasks: known.tasks,
    workflows: new Set(names),
    missing: known.others === true ? missing : undefined,
  }
  const bodies = new Map<string, Body>()
  for (const name of names) {
    const part = top.below(name)
    if (known.tasks?.has(name)) {
      part.report(`a task is called ${name} too, and both are submitted by name; rename one`, 'key')
    }
    const body = readBody(part, context)
    if (body === undefined) continue
    checkBody(body, part)
    bodies.set(name, body)
  }
  if (problems.length > 0) return { graphs: {}, problems, missing }
  const graphs = Object.fromEntries(names.map((name) => [name, graphOf(name, bodies)]))
  return { graphs, problems, missing }
}

/** The graph of a workflow: its body, and those of the workflows it can come to run. */
function graphOf(main: string, bodies: ReadonlyMap<string, Body>): Graph {
  const reached = new Set([main])
  // The set grows while it is walked.
  for (const name of reached) for (const next of workflowsIn(bodies.get(name)!)) reached.add(next)
  const names = [...bodies.keys()].filter((name) => reached.has(name))
  return {
    version: 1,
    main,
    workflows: Object.fromEntries(names.map((name) => [name, bodies.get(name)!])),
  }
}

function workflowsIn(body: Body): string[] {
  return body.steps.flatMap(({ run }) => {
    if (run.kind === 'workflow') return [run.workflow]
    return run.kind === 'group' ? workflowsIn(run.body) : []
  })
}
