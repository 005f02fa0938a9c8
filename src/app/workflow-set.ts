import { createHash } from 'node:crypto'
import { SluiceError } from '../errors.ts'
import type { JsonValue } from '../model/json.ts'
import type { WorkflowRecord } from '../store/save-workflows.ts'
import { canonicalJson } from '../workflow/canonical.ts'
import { compileWorkflows } from '../workflow/compile.ts'

export interface AnyWorkflow {
  readonly name: string
  /** In the shape of the config file. */
  readonly definition: unknown
}

/** The workflows of a program, checked and ready to be made known. */
export class WorkflowSet {
  readonly names: ReadonlySet<string>
  readonly records: readonly WorkflowRecord[]

  /** @throws {SluiceError} `INVALID_CONFIG` with every problem of every definition. */
  constructor(workflows: readonly AnyWorkflow[], tasks: ReadonlySet<string>) {
    const definitions: Record<string, unknown> = {}
    for (const { name, definition } of workflows) {
      if (Object.hasOwn(definitions, name))
        throw new SluiceError('INVALID_ARGUMENT', `two workflows are named ${name}: rename one`)
      definitions[name] = definition
    }
    const { graphs, problems } = compileWorkflows(definitions, { tasks })
    if (problems.length > 0) {
      const lines = problems.map(({ path, message }) => `workflows.${path.join('.')}: ${message}`)
      throw new SluiceError('INVALID_CONFIG', lines.join('\n'), { details: { problems } })
    }
    this.names = new Set(Object.keys(graphs))
    this.records = Object.entries(graphs).map(([name, graph]) => ({
      name,
      hash: createHash('sha256')
        .update(canonicalJson(graph as unknown as JsonValue))
        .digest('hex'),
      body: graph,
      priority: 0,
      deadlineMs: null,
      timeoutMs: null,
    }))
  }
}
