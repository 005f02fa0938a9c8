import pg from 'pg'
import type { Change } from './commit-stream.ts'

/** The tables that a job is spread over. */
export const JOB_TABLES = [
  'sluice.job_data',
  'sluice.queue',
  'sluice.claims',
  'sluice.outcomes',
  'sluice.job_keys',
  'sluice.composites',
] as const

export type RowRule = 'one place' | 'copies agree' | 'keys agree' | 'one outcome'

type Row = Change['row']

interface Parts {
  data?: Row
  queue?: Row
  /** What each claim that lists it says of it, by the name of the claim. More than one is a broken rule. */
  readonly claims: Map<string, Row>
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
  'sluice.outcomes': 'outcome',
  'sluice.composites': 'composite',
} as const satisfies Record<string, keyof Parts>

/** The arrays of a claim: what each says of a job, and what holds for all jobs where there is no array. */
const CLAIM_ARRAYS = {
  ready_ats: ['ready_at', null],
  attempts: ['attempt', '1'],
  losses: ['losses', '0'],
  parents: ['parent_id', null],
  idxs: ['idx', null],
  keyed: ['keyed', 'f'],
  errors: ['error', null],
  deadlines: ['deadline_at', null],
} as const
/** Arrays of which nothing is kept: no rule is about them, but each has as many elements as the claim has jobs. */
const OTHER_ARRAYS = ['failures'] as const

/** What is kept of each table: inputs are large, and no rule is about them. */
const KEPT: Readonly<Record<keyof typeof PART, ReadonlySet<string>>> = {
  'sluice.job_data': new Set([
    ...['id', 'submitted_at', 'parent_id', 'root_id', 'idx', 'class_id', 'composite'],
    ...['task', 'key', 'key_owner', 'superseded_at'],
  ]),
  'sluice.queue': new Set([
    ...['id', 'state', 'ready_at', 'started_at', 'parent_id', 'idx', 'class_id', 'attempt', 'losses'],
    ...['keyed', 'error', 'deadline_at', 'certain'],
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
  /** The row of each claim, by its name. */
  readonly #claims = new Map<string, Row>()
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
      if (change.table === 'sluice.claims') this.#changeClaim(change, touched, out)
      else if (table === 'sluice.job_keys') this.#changeKey(change, touched)
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
    const parts = this.#partsOf(id)
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

  /** A claim that is deleted has its key only in the stream, so what it listed is remembered. */
  #changeClaim({ kind, row, old }: Change, touched: Set<string>, out: Change[]): void {
    const name = claimName(row)
    const former = kind === 'INSERT' ? undefined : claimName(old ?? row)
    const before = former === undefined ? undefined : this.#claims.get(former)
    const changed = new Set<string>()
    if (former !== undefined) {
      this.#claims.delete(former)
      for (const id of arrayOf(before?.ids)) {
        this.#partsOf(id!).claims.delete(former)
        changed.add(id!)
      }
    }
    if (kind !== 'DELETE') {
      // An update leaves out large values that it does not change.
      const claim = { ...before, ...row }
      this.#claims.set(name, claim)
      for (const job of this.#open(name, claim)) {
        this.#partsOf(job.id!).claims.set(name, job)
        changed.add(job.id!)
      }
    }
    for (const id of changed) {
      touched.add(id)
      this.#show(id, out)
    }
  }

  /** The jobs of a claim, as the view `sluice.running` shows them. */
  #open(name: string, claim: Row): Row[] {
    const ids = arrayOf(claim.ids)
    for (const column of [...Object.keys(CLAIM_ARRAYS), ...OTHER_ARRAYS]) {
      const { length } = arrayOf(claim[column])
      if (claim[column] != null && length !== ids.length)
        this.#tell('copies agree', `claim ${name} has ${ids.length} jobs and ${length} ${column}`)
    }
    if (new Set(ids).size < ids.length)
      this.#tell('one place', `claim ${name} lists a job twice: ${ids.join()}`)
    const cancels = JSON.parse(claim.cancels ?? '{}') as Record<string, { error: string | null }>
    for (const id of Object.keys(cancels))
      if (!ids.includes(id))
        this.#tell('copies agree', `claim ${name} stops job ${id}, which it does not list`)
    const assigned = new Set(arrayOf(claim.assigned))
    for (const id of assigned)
      if (!ids.includes(id))
        this.#tell('copies agree', `claim ${name} has assigned job ${id}, which it does not list`)
    const arrays = Object.entries(CLAIM_ARRAYS).map(
      ([column, [field, otherwise]]) => [field, arrayOf(claim[column]), otherwise] as const,
    )
    return ids.map((id, at) => {
      const job: Record<string, string | null> = {
        id: id!,
        worker_id: claim.worker_id!,
        class_id: claim.class_id!,
        started_at: claim.started_at!,
        state: assigned.has(id) ? 'assigned' : 'running',
      }
      for (const [field, values, otherwise] of arrays) job[field] = values[at] ?? otherwise
      job.keyed = String(job.keyed === 't')
      job.error = cancels[id!]?.error ?? job.error ?? null
      return job
    })
  }

  #partsOf(id: string): Parts {
    const parts = this.#jobs.get(id) ?? { claims: new Map<string, Row>() }
    this.#jobs.set(id, parts)
    return parts
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
    const parts = this.#partsOf(id)
    const { data, queue, claims, outcome, composite } = parts
    const keys = this.#keys.get(id) ?? new Set<string>()
    if (data === undefined) {
      const left = [...placesOf(parts), ...(composite === undefined ? [] : ['composites'])]
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
    for (const row of [queue, ...claims.values()])
      if (row?.keyed != null && row.keyed !== String(data.key != null))
        this.#tell('keys agree', `job ${id} is keyed: ${row.keyed}, its key is ${data.key}`)
    if (keys.size === 0) this.#keys.delete(id)
  }

  #tell(rule: RowRule, what: string): void {
    if (this.#isJudging) this.#report(rule, what)
  }
}

/** The places a job is in, each claim for itself. */
function placesOf({ queue, claims, outcome }: Parts): string[] {
  return [
    ...(queue === undefined ? [] : ['queue']),
    ...[...claims.keys()].map((name) => `claim ${name}`),
    ...(outcome === undefined ? [] : ['outcomes']),
  ]
}

/** What is wrong with the places a job is in; `undefined` when it is in one. */
function misplaced(parts: Parts): string | undefined {
  const { data, queue, claims, outcome, composite } = parts
  const places = placesOf(parts)
  if (places.length > 1) return `is in ${places.join(' and ')}`
  if (data?.composite == null)
    return places.length === 0 ? 'is in none of queue, claims and outcomes' : undefined
  if (claims.size > 0) return `is a composite and in ${places.join()}`
  const { started_at: startedAt = null, ended = 'false' } = composite ?? {}
  const isEnded = ended === 'true'
  if (outcome !== undefined)
    return composite === undefined || isEnded ? undefined : 'is in outcomes and has not ended'
  if (isEnded) return 'has ended and is not in outcomes'
  if (queue !== undefined) return startedAt === null ? undefined : 'is in the queue and has started'
  return startedAt === null ? 'is a composite that is not in the queue and has not started' : undefined
}

/** Where a table has something else of a job than `job_data`. */
function disagreement({ queue, claims, outcome }: Parts, data: Row): string | undefined {
  const isComposite = data.composite != null
  for (const row of [queue, ...claims.values()]) {
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

/** As the view `sluice.jobs` has it, except that a job in a claim shows the class it was claimed in, and has a state of its own while it is assigned. */
function rowOf({ queue, claims, outcome, composite }: Parts, data: Row): Row {
  const [running] = claims.values()
  const isComposite = data.composite != null
  const place = outcome ?? queue ?? running ?? composite ?? {}
  return {
    ...data,
    class_id: (running ?? data).class_id ?? null,
    state: outcome?.state ?? queue?.state ?? running?.state ?? 'running',
    ready_at: place.ready_at ?? null,
    started_at: place.started_at ?? null,
    deadline_at: outcome === undefined ? (place.deadline_at ?? null) : null,
    certain: queue?.certain ?? 'false',
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

function claimName({ worker_id: worker, seq }: Row): string {
  return `${worker}/${seq}`
}

/** The type `text[]`: its elements stay texts. */
const TEXTS: number = 1009
const parseArray: (text: string) => (string | null)[] = pg.types.getTypeParser(TEXTS)

/** The elements of an array, as PostgreSQL prints it; none where there is no array. */
function arrayOf(text: string | null | undefined): readonly (string | null)[] {
  return text == null ? [] : parseArray(text)
}
