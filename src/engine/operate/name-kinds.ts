import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { show } from '../../model/argument.ts'
import { findKind, type NameKind } from '../../store/find-kind.ts'
import { knownNames } from '../../store/known-names.ts'

/** More names than any system has; somebody may make them up. */
const MOST = 10_000
/** The same number as for lanes. */
const LISTED = 20

/** Knows which names are tasks and which are workflows, so that one is not taken for the other. */
export class NameKinds {
  readonly #db: Queryable
  readonly #known = new Map<string, NameKind>()

  constructor(db: Queryable) {
    this.#db = db
  }

  /**
   * Refuses a task that was called a workflow, and the other way round; and a workflow that nobody knows. Of a task nobody
   * knows whoever stores the job says so. What is remembered only lets pass; before it refuses it looks again.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT`; `TASK_NOT_FOUND`.
   */
  async check(name: string, said: NameKind): Promise<void> {
    if (this.#known.get(name) === said) return
    const kind = await findKind(this.#db, name)
    if (kind === undefined && said === 'workflow') throw await this.#noWorkflow(name)
    if (kind === undefined) return
    if (this.#known.size >= MOST) this.#known.clear()
    this.#known.set(name, kind)
    if (kind === said) return
    throw new SluiceError('INVALID_ARGUMENT', `${said}: ${name} is a ${kind}: write {"${kind}": "${name}"}`, {
      details: { argument: said },
    })
  }

  async #noWorkflow(name: string): Promise<SluiceError> {
    const { workflows } = await knownNames(this.#db)
    const more = workflows.length > LISTED ? ` and ${workflows.length - LISTED} more` : ''
    const there =
      workflows.length === 0
        ? 'none exists'
        : `existing workflows: ${workflows.slice(0, LISTED).join(', ')}${more}`
    return new SluiceError('TASK_NOT_FOUND', `no workflow named ${show(name)}; ${there}`, {
      details: { name },
    })
  }
}
