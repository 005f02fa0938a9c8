import type { Change } from './commit-stream.ts'

export type BudgetRule = 'budget' | 'budget drawn' | 'copy of a model'

interface Part {
  readonly budget: string
  readonly device: string
  readonly amount: number
}

/**
 * Replays what counts against budgets, and tells where a commit left more held of a device than it has, wherever that
 * grew; and jobs that run in a class which is claimed by plan without anything that says where. Jobs come as `JobRows`
 * shows them.
 */
export class BudgetChecker {
  /** How much was put to the test, and the largest share of a device that was ever held. */
  readonly seen = { reservations: 0, copies: 0, peak: 0 }
  readonly #report: (rule: BudgetRule, what: string) => void
  readonly #jobs = new Map<string, { running: boolean; attempt: number; classId: string; worker: string }>()
  readonly #budgeted = new Set<string>()
  readonly #ended = new Set<string>()
  readonly #capacity = new Map<string, number>()
  /** By `job/attempt`, then by device. */
  readonly #reservations = new Map<string, Map<string, Part>>()
  readonly #copies = new Map<string, Part & { readonly worker: string }>()

  constructor(report: (rule: BudgetRule, what: string) => void) {
    this.#report = report
  }

  begin(changes: readonly Change[]): void {
    for (const change of changes) this.#apply(change, new Set(), new Set())
  }

  apply(changes: readonly Change[]): void {
    const grown = new Set<string>()
    const started = new Set<string>()
    for (const change of changes) this.#apply(change, grown, started)
    for (const name of grown) {
      const capacity = this.#capacity.get(name) ?? Number.POSITIVE_INFINITY
      const held = this.heldOf(name)
      if (Number.isFinite(capacity)) this.seen.peak = Math.max(this.seen.peak, held / capacity)
      if (held > capacity * (1 + 2e-9)) this.#report('budget', `${held} of ${capacity} are held of ${name}`)
    }
    for (const id of started) {
      const job = this.#jobs.get(id)
      if (job === undefined || !job.running || !this.#budgeted.has(job.classId)) continue
      if (!this.#reservations.has(`${id}/${job.attempt}`))
        this.#report('budget drawn', `job ${id} runs as attempt ${job.attempt} and draws from nothing`)
    }
  }

  /** What counts against a device, named `budget/key`. */
  heldOf(name: string): number {
    let held = 0
    for (const [attempt, parts] of this.#reservations) {
      const part = parts.get(name)
      if (part === undefined) continue
      const [id, number] = attempt.split('/')
      const job = this.#jobs.get(id!)
      if (job?.running === true && job.attempt === Number(number)) held += part.amount
    }
    for (const copy of this.#copies.values()) {
      if (`${copy.budget}/${copy.device}` === name && !this.#ended.has(copy.worker)) held += copy.amount
    }
    return held
  }

  #apply({ table, kind, row }: Change, grown: Set<string>, started: Set<string>): void {
    switch (table) {
      case 'sluice.classes':
        if (row.budgeted === 'true') this.#budgeted.add(row.id!)
        else if (kind !== 'DELETE') this.#budgeted.delete(row.id!)
        break
      case 'sluice.workers':
        if (kind === 'DELETE' || row.ended_at != null) this.#ended.add(row.id!)
        break
      case 'sluice.devices':
        if (kind !== 'DELETE') this.#capacity.set(`${row.budget}/${row.key}`, capacityOf(row))
        break
      case 'sluice.jobs':
        this.#changeJob(kind, row, started)
        break
      case 'sluice.reservations':
        this.#changeReservation(kind, row, grown)
        break
      case 'sluice.residents':
        this.#changeCopy(kind, row, grown)
        break
    }
  }

  #changeJob(kind: Change['kind'], row: Change['row'], started: Set<string>): void {
    if (kind === 'DELETE') {
      this.#jobs.delete(row.id!)
      return
    }
    const job = {
      running: row.state === 'running',
      attempt: Number(row.attempt),
      classId: row.class_id ?? '',
      worker: row.worker_id ?? '',
    }
    const before = this.#jobs.get(row.id!)
    this.#jobs.set(row.id!, job)
    if (job.running && !(before?.running === true && before.attempt === job.attempt)) started.add(row.id!)
  }

  #changeReservation(kind: Change['kind'], row: Change['row'], grown: Set<string>): void {
    const attempt = `${row.job_id}/${row.attempt}`
    const name = `${row.budget}/${row.device}`
    const parts = this.#reservations.get(attempt) ?? new Map<string, Part>()
    if (kind === 'DELETE') {
      const job = this.#jobs.get(row.job_id!)
      if (job?.running === true && job.attempt === Number(row.attempt))
        this.#report('budget drawn', `what job ${row.job_id} draws from ${name} was removed while it runs`)
      parts.delete(name)
      if (parts.size === 0) this.#reservations.delete(attempt)
      return
    }
    this.seen.reservations++
    const amount = Number(row.amount)
    parts.set(name, { budget: row.budget!, device: row.device!, amount })
    this.#reservations.set(attempt, parts)
    // A job that adds nothing to its model makes nothing grow.
    if (amount > 0) grown.add(name)
  }

  #changeCopy(kind: Change['kind'], row: Change['row'], grown: Set<string>): void {
    const key = JSON.stringify([row.worker_id, row.model, row.device, row.budget])
    if (kind === 'DELETE') {
      this.#copies.delete(key)
      return
    }
    const before = this.#copies.get(key)
    const amount = Number(row.amount)
    if (before === undefined) this.seen.copies++
    if (before === undefined || amount > before.amount) grown.add(`${row.budget}/${row.device}`)
    this.#copies.set(key, { budget: row.budget!, device: row.device!, amount, worker: row.worker_id! })
  }
}

function capacityOf(row: Change['row']): number {
  return Math.min(
    row.total == null ? Infinity : Number(row.total),
    row.most == null ? Infinity : Number(row.most),
  )
}
