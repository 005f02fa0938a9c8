import { createHash } from 'node:crypto'
import type { LoadedConfig } from '../config/load-config.ts'
import { SluiceError } from '../errors.ts'
import type { JsonValue } from '../model/json.ts'
import { formatPath, invalidConfig } from '../model/setting-value.ts'
import type { WorkflowRecord } from '../store/save-workflows.ts'
import { canonicalJson } from '../workflow/canonical.ts'
import { compileWorkflows } from '../workflow/compile.ts'

export interface AnyWorkflow {
  readonly name: string
  /** In the shape of the config file. */
  readonly definition: unknown
}

/** The workflows of a program, those in its code and those of its config file, checked and ready to be made known. */
export class WorkflowSet {
  readonly names: ReadonlySet<string>
  readonly records: readonly WorkflowRecord[]

  /** @throws {SluiceError} `INVALID_CONFIG` with every problem of every definition, and where it is written. */
  constructor(code: readonly AnyWorkflow[], file: LoadedConfig | undefined, tasks: ReadonlySet<string>) {
    const inFile = file?.config.workflows ?? {}
    const definitions: Record<string, unknown> = { ...inFile }
    for (const { name, definition } of code) {
      if (Object.hasOwn(definitions, name))
        throw new SluiceError('INVALID_ARGUMENT', `two workflows are named ${name}: rename one`)
      definitions[name] = definition
    }
    const { graphs, problems } = compileWorkflows(definitions, { tasks })
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
