import type { Change } from './commit-stream.ts'

/** The tables that a job is spread over. */
export const JOB_TABLES = [
  'sluice.job_data',
  'sluice.queue',
  'sluice.running',
  'sluice.outcomes',
  'sluice.job_keys',
  'sluice.composites',
] as const

export type RowRule = 'one place' | 'copies agree' | 'keys agree' | 'one outcome'

type Row = Change['row']

interface Parts {
  data?: Row
  queue?: Row
  running?: Row
  outcome?: Row
  composite?: Row
  /** The row last handed on; absent until the job was in one place for the first time. */
  shown?: Row
  /** Its outcome was deleted, and it has been in no other place since then. */
  lostOutcome?: boolean
}

const PART = {
  'sluice.job_data': 'data',
  'sluice.queue': 'queue',
  'sluice.running': 'running',
  'sluice.outcomes': 'outcome',
  'sluice.composites': 'composite',
} as const satisfies Record<string, keyof Parts>

/** What is kept of each table: inputs are large, and no rule is about them. */
const KEPT: Readonly<Record<keyof typeof PART, ReadonlySet<string>>> = {
  'sluice.job_data': new Set([
    ...['id', 'submitted_at', 'parent_id', 'root_id', 'idx', 'class_id', 'composite'],
    ...['task', 'key', 'key_owner', 'superseded_at'],
  ]),
  'sluice.queue': new Set([
    ...['id', 'state', 'ready_at', 'started_at', 'parent_id', 'idx', 'class_id', 'attempt', 'losses'],
    ...['keyed', 'error'],
  ]),
  'sluice.running': new Set([
    ...['id', 'worker_id', 'ready_at', 'started_at', 'parent_id', 'idx', 'class_id', 'attempt', 'losses'],
    ...['keyed', 'error'],
  ]),
  'sluice.outcomes': new Set([
    ...['id', 'state', 'ready_at', 'started_at', 'finished_at', 'worker_id', 'class_id', 'attempt'],
    ...['losses', 'is_root', 'result', 'error'],
  ]),
  'sluice.composites': new Set(['job_id', 'ready_at', 'started_at', 'cancel_error', 'attempt', 'ended']),
}

/**
 * Puts the rows of a job together, to the one row that the view `sluice.jobs` shows of it, and judges what only the
 * tables can break: after every commit a job is in one place, what several tables hold of it agrees, and the keys of
 * jobs that have not ended are those in `job_keys`.
 *
 * A job that moves is deleted from one table and inserted into the next, in either order. In between it is in none or
 * in two, which is no state; each place that it is in alone is a step, also when a commit has several of them.
 */
export class JobRows {
  readonly #report: (rule: RowRule, what: string) => void
  readonly #jobs = new Map<string, Parts>()
  /** The jobs of each key, and the keys of each job, as `job_keys` has them. */
  readonly #holders = new Map<string, Set<string>>()
  readonly #keys = new Map<string, Set<string>>()
  #isJudging = true

  constructor(report: (rule: RowRule, what: string) => void) {
    this.#report = report
  }

  /** Takes over what was there before; it is not judged. */
  begin(changes: readonly Change[]): Change[] {
    this.#isJudging = false
    const shown = this.apply(changes)
    this.#isJudging = true
    return shown
  }

  /** The changes of a commit, those of jobs as changes of `sluice.jobs`. */
  apply(changes: readonly Change[]): Change[] {
    const out: Change[] = []
    const touched = new Set<string>()
    for (const change of changes) {
      const table = change.table as keyof typeof PART | 'sluice.job_keys'
      if (table === 'sluice.job_keys') this.#changeKey(change, touched)
      else if (PART[table] === undefined) out.push(change)
      else {
        if (table === 'sluice.composites') out.push(change)
        const id = change.row[table === 'sluice.composites' ? 'job_id' : 'id']!
        touched.add(id)
        this.#changePart(id, table, change)
        this.#show(id, out)
      }
    }
    for (const id of touched) this.#judge(id)
    return out
  }

  #changePart(id: string, table: keyof typeof PART, { kind, row }: Change): void {
    const parts = this.#jobs.get(id) ?? {}
    this.#jobs.set(id, parts)
    const part = PART[table]
    if (part === 'outcome') this.#noteOutcome(id, parts, kind)
    if (kind === 'DELETE') {
      delete parts[part]
      return
    }
    const kept = Object.entries(row).filter(([name]) => KEPT[table].has(name))
    // An update leaves out large values that it does not change.
    parts[part] = { ...(kind === 'UPDATE' ? parts[part] : {}), ...Object.fromEntries(kept) }
  }

  #noteOutcome(id: string, parts: Parts, kind: Change['kind']): void {
    if (kind === 'DELETE') parts.lostOutcome = true
    else if (kind === 'INSERT' && (parts.lostOutcome === true || parts.outcome !== undefined))
      this.#tell('one outcome', `the outcome of job ${id} was replaced by another`)
  }

  #changeKey({ kind, row, old }: Change, touched: Set<string>): void {
    // A deleted row has its key only, unless the table's replica identity is full; an updated one keeps its key, unless it says so.
    if (kind !== 'INSERT') this.#freeKey(old ?? (kind === 'DELETE' ? row : { ...row, job_id: null }), touched)
    if (kind === 'DELETE') return
    const [name, id] = [keyName(row), row.job_id!]
    this.#holders.set(name, (this.#holders.get(name) ?? new Set<string>()).add(id))
    this.#keys.set(id, (this.#keys.get(id) ?? new Set<string>()).add(name))
    touched.add(id)
  }

  #freeKey(row: Row, touched: Set<string>): void {
    const name = keyName(row)
    const holders = this.#holders.get(name) ?? new Set<string>()
    for (const id of [...holders]) {
      if (row.job_id != null && row.job_id !== id) continue
      holders.delete(id)
      this.#keys.get(id)?.delete(name)
      touched.add(id)
    }
    if (holders.size === 0) this.#holders.delete(name)
  }

  /** Hands a job on that is in one place now, or gone. */
  #show(id: string, out: Change[]): void {
    const parts = this.#jobs.get(id)!
    const { data, shown } = parts
    if (data === undefined) {
      if (shown === undefined) return
      delete parts.shown
      out.push({ table: 'sluice.jobs', kind: 'DELETE', row: { id } })
      return
    }
    if (misplaced(parts) !== undefined) return
    parts.lostOutcome = false
    const row = rowOf(parts, data)
    if (shown !== undefined && Object.keys(row).every((name) => row[name] === shown[name])) return
    parts.shown = row
    out.push({ table: 'sluice.jobs', kind: shown === undefined ? 'INSERT' : 'UPDATE', row })
  }

  #judge(id: string): void {
    const parts = this.#jobs.get(id) ?? {}
    const { data, queue, running, outcome, composite } = parts
    const keys = this.#keys.get(id) ?? new Set<string>()
    if (data === undefined) {
      const left = Object.entries({ queue, running, outcomes: outcome, composites: composite })
        .filter(([, row]) => row !== undefined)
        .map(([table]) => table)
      if (left.length > 0) this.#tell('one place', `job ${id} was deleted and is still in ${left.join(', ')}`)
      else this.#jobs.delete(id)
      if (keys.size > 0)
        this.#tell('keys agree', `job ${id} does not exist and has key ${[...keys].join(', ')}`)
      else this.#keys.delete(id)
      return
    }
    const where = misplaced(parts)
    if (where !== undefined) this.#tell('one place', `job ${id} ${where}`)
    const wrong = disagreement(parts, data)
    if (wrong !== undefined) this.#tell('copies agree', `job ${id} ${wrong}`)
    const own =
      data.key == null || outcome !== undefined
        ? undefined
        : keyName({ ...data, owner: data.key_owner ?? '' })
    const isTrue = own === undefined ? keys.size === 0 : keys.size === 1 && keys.has(own)
    if (!isTrue)
      this.#tell(
        'keys agree',
        `job ${id} ${own === undefined ? 'has no key in use' : `uses key ${own}`}, and job_keys has ${[...keys].join(', ') || 'none'}`,
      )
    for (const row of [queue, running])
      if (row?.keyed != null && row.keyed !== String(data.key != null))
        this.#tell('keys agree', `job ${id} is keyed: ${row.keyed}, its key is ${data.key}`)
    if (keys.size === 0) this.#keys.delete(id)
  }

  #tell(rule: RowRule, what: string): void {
    if (this.#isJudging) this.#report(rule, what)
  }
}

/** What is wrong with the places a job is in; `undefined` when it is in one. */
function misplaced({ data, queue, running, outcome, composite }: Parts): string | undefined {
  const places = Object.entries({ queue, running, outcomes: outcome })
    .filter(([, row]) => row !== undefined)
    .map(([name]) => name)
  if (places.length > 1) return `is in ${places.join(' and ')}`
  if (data?.composite == null)
    return places.length === 0 ? 'is in none of queue, running and outcomes' : undefined
  if (running !== undefined) return 'is a composite and in running'
  const { started_at: startedAt = null, ended = 'false' } = composite ?? {}
  const isEnded = ended === 'true'
  if (outcome !== undefined)
    return composite === undefined || isEnded ? undefined : 'is in outcomes and has not ended'
  if (isEnded) return 'has ended and is not in outcomes'
  if (queue !== undefined) return startedAt === null ? undefined : 'is in the queue and has started'
  return startedAt === null ? 'is a composite that is not in the queue and has not started' : undefined
}

/** Where a table has something else of a job than `job_data`. */
function disagreement({ queue, running, outcome }: Parts, data: Row): string | undefined {
  const isComposite = data.composite != null
  for (const row of [queue, running]) {
    if (row === undefined) continue
    for (const name of ['parent_id', 'idx'])
      if ((row[name] ?? null) !== (data[name] ?? null)) return `has ${name} ${row[name]} and ${data[name]}`
  }
  // One that runs keeps the class it was claimed in when its task moves.
  if (queue !== undefined && (queue.class_id ?? null) !== (data.class_id ?? null))
    return `waits in class ${queue.class_id} and is of class ${data.class_id}`
  if (isComposite && outcome?.class_id != null) return `is a composite and ended in class ${outcome.class_id}`
  if (outcome?.is_root != null && outcome.is_root !== String(data.parent_id == null))
    return `is a root: ${outcome.is_root}, its parent is ${data.parent_id}`
  return undefined
}

/** As the view `sluice.jobs` has it, except that a job which runs shows the class it was claimed in. */
function rowOf({ queue, running, outcome, composite }: Parts, data: Row): Row {
  const isComposite = data.composite != null
  const place = outcome ?? queue ?? running ?? composite ?? {}
  return {
    ...data,
    class_id: (running ?? data).class_id ?? null,
    state: outcome?.state ?? queue?.state ?? 'running',
    ready_at: place.ready_at ?? null,
    started_at: place.started_at ?? null,
    finished_at: outcome?.finished_at ?? null,
    worker_id: outcome?.worker_id ?? running?.worker_id ?? null,
    attempt: place.attempt ?? '0',
    losses: place.losses ?? '0',
    result: outcome?.result ?? null,
    error: (isComposite && place === composite ? place.cancel_error : place.error) ?? null,
  }
}

function keyName({ task, key, owner }: Row): string {
  return JSON.stringify(owner ? [task, key, owner] : [task, key])
}
