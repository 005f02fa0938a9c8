import type { Change, Commit } from './commit-stream.ts'
import { JOB_TABLES } from './job-rows.ts'

/** The tables whose changes are replayed. */
export const WATCHED = [
  'sluice.lanes',
  'sluice.classes',
  'sluice.tasks',
  'sluice.workers',
  'sluice.pools',
  'sluice.holdings',
  ...JOB_TABLES,
  'sluice.attempts',
  'sluice.notes',
  'sluice.admission',
  'sluice.watch',
  'sluice.devices',
  'sluice.residents',
  'sluice.reservations',
] as const

export interface ReplayedJob {
  readonly state: string
  readonly attempt: number
  readonly worker: string | null
  readonly lane: string
  readonly classId: string
  /** Task and key in one text, with the owner where keys are each owner's. */
  readonly key: string | undefined
  readonly readyAt: number
  readonly startedAt: number
  /** By when it has to start; infinite where it has no such time. */
  readonly deadlineAt: number
  readonly finishedAt: string | null
  readonly losses: number
  readonly result: string | null
  readonly error: string | null
  /** A workflow, group or fan-out: it is never claimed. */
  readonly isComposite: boolean
  readonly isChild: boolean
  readonly parent: string | null
  /** A worker was lost that may have started it: its next claim starts it at once. */
  readonly isCertain: boolean
  /** Its first start lies in the future: not active yet. */
  readonly isScheduled: boolean
  readonly task: string
  readonly submittedAt: number
}

export interface ReplayedLane {
  /** null: no limit. */
  readonly slots: number | null
  /** null: no limit; 0: the worker's cores; -1: its capacity, or its cores where it has none. */
  readonly perWorker: number | null
  readonly enabled: boolean
  readonly staleMs: number
  readonly pollMs: number
  readonly spread: boolean
  /** How many jobs a worker may be assigned beyond its slots. */
  readonly prefetch: number
}

export interface ReplayedLimits {
  /** null: no ceiling. */
  readonly maxActive: number | null
  /** null: no limit. */
  readonly maxScheduled: number | null
  readonly maxQueued: Readonly<Record<string, number>>
}

/** What a commit did, in its order. */
export interface Steps {
  readonly jobs: { readonly id: string; readonly before?: ReplayedJob; readonly after?: ReplayedJob }[]
  readonly notes: { readonly jobId: string; readonly before: number; readonly after: number }[]
  /** Lanes in which somebody holds more slots than before. */
  readonly grown: Set<string>
  /** Holdings, as `worker/lane`, whose slots changed, whose lane changed, or under which jobs began or ended to run, or to be assigned. */
  readonly holdings: Set<string>
  readonly keys: Set<string>
  /** Attempts that went into the history, as `job/attempt`, with the way they ended. */
  readonly history: Map<string, string>
}

const TERMINAL = new Set(['completed', 'failed', 'cancelled', 'skipped'])

/** Whether a worker has it: it runs, or is assigned. */
export function isHeld(state: string | undefined): boolean {
  return state === 'running' || state === 'assigned'
}

export function hasEnded(state: string): boolean {
  return TERMINAL.has(state)
}

/** The tables as the commits so far left them, jobs as `JobRows` shows them, with the sums that limits are about. */
export class ReplayedState {
  readonly workers = new Map<string, { capacity: number; cores: number; seenAt: number }>()
  readonly runningUnder = new Counter()
  readonly runningIn = new Counter()
  readonly runningOn = new Counter()
  /** Jobs that are assigned and not known to have started, by `worker/lane`. */
  readonly assignedUnder = new Counter()
  readonly slotsIn = new Counter()
  readonly activeKeys = new Counter()
  /** Root jobs that have not ended: those whose first start lies in the future, the others, and of these the ones that wait, by task. */
  scheduled = 0
  active = 0
  readonly queued = new Counter()
  /** Jobs that could start before it skip the number of an attempt that a crash may have forgotten. */
  skipBefore = Number.NEGATIVE_INFINITY
  /** Of those that wait, the ones that came back after a start: their tasks, and when. */
  readonly #returned = new Map<string, { readonly task: string; readonly at: number }>()
  /** The limits there have been, the present ones last, with the time they came into force. */
  readonly #limits: { readonly since: number; readonly limits: ReplayedLimits }[] = []
  readonly #jobs = new Map<string, ReplayedJob>()
  readonly #classes = new Map<string, string>()
  /** The settings each lane has had, the present ones last, with the time they came into force. */
  readonly #lanes = new Map<string, { readonly since: number; readonly lane: ReplayedLane }[]>()
  /** Slots by `worker/lane`. */
  readonly #holdings = new Map<string, number>()
  readonly #lanesOf = new Map<string, Set<string>>()
  readonly #attempts = new Set<string>()
  readonly #notes = new Map<string, number>()

  apply(commit: Commit): Steps {
    const steps: Steps = {
      jobs: [],
      notes: [],
      grown: new Set(),
      holdings: new Set(),
      keys: new Set(),
      history: new Map(),
    }
    for (const change of commit.changes) this.#apply(change, commit.at, steps)
    return steps
  }

  /** The slots of a holding, given as `worker/lane`; `undefined` when there is no such holding. */
  slotsOf(holding: string): number | undefined {
    return this.#holdings.get(holding)
  }

  /** The lanes that a worker has holdings in. */
  lanesOf(worker: string): string[] {
    return [...(this.#lanesOf.get(worker) ?? [])]
  }

  /** True when this attempt, as `job/attempt`, is in the history. */
  hasAttempt(name: string): boolean {
    return this.#attempts.has(name)
  }

  /** The settings a lane has had at any time since then, the present ones last. */
  laneSince(lane: string, since: number): ReplayedLane[] {
    const settings = this.#lanes.get(lane) ?? []
    return settings.filter((_, i) => (settings[i + 1]?.since ?? Infinity) >= since).map((each) => each.lane)
  }

  /** The limits on what may enter at any time since then, the present ones last. */
  limitsSince(since: number): ReplayedLimits[] {
    const all = this.#limits
    return all.filter((_, i) => (all[i + 1]?.since ?? Infinity) >= since).map((each) => each.limits)
  }

  /** Jobs of a task that wait, less those that came back since then: they are held, not refused, whoever submits meanwhile. */
  waitingBefore(task: string, since: number): number {
    const back = [...this.#returned.values()].filter((each) => each.task === task && each.at >= since)
    return this.queued.get(task) - back.length
  }

  #apply({ table, kind, row }: Change, at: number, steps: Steps): void {
    switch (table) {
      case 'sluice.lanes':
        if (kind !== 'DELETE') this.#changeLane(row, at, steps)
        break
      case 'sluice.classes':
        if (kind !== 'DELETE') this.#classes.set(row.id!, row.lane!)
        break
      case 'sluice.workers':
        if (kind === 'DELETE') this.workers.delete(row.id!)
        else this.workers.set(row.id!, workerOf(row))
        break
      case 'sluice.holdings':
        this.#changeHolding(kind, row, steps)
        break
      case 'sluice.jobs':
        this.#changeJob(row.id!, kind === 'DELETE' ? undefined : this.#jobOf(row), at, steps)
        break
      case 'sluice.admission':
        this.#limits.push({ since: at, limits: limitsOf(row) })
        break
      case 'sluice.watch':
        if (row.skip_before !== '-infinity') this.skipBefore = Date.parse(row.skip_before!)
        break
      case 'sluice.attempts':
        this.#changeAttempt(kind, row, steps)
        break
      case 'sluice.notes':
        this.#changeNote(row.job_id!, kind === 'DELETE' ? undefined : Number(row.attempt), steps)
        break
    }
  }

  #changeLane(row: Change['row'], at: number, steps: Steps): void {
    const lane = {
      slots: numberOrNull(row.slots),
      perWorker: numberOrNull(row.per_worker),
      enabled: row.enabled === 'true',
      staleMs: Number(row.stale_ms),
      pollMs: Number(row.poll_ms),
      spread: row.placement === 'spread',
      prefetch: Number(row.prefetch),
    }
    const settings = this.#lanes.get(row.name!) ?? []
    settings.push({ since: at, lane })
    this.#lanes.set(row.name!, settings)
    for (const holding of this.runningUnder.names()) {
      if (holding.endsWith(`/${row.name}`)) steps.holdings.add(holding)
    }
  }

  #changeHolding(kind: Change['kind'], row: Change['row'], steps: Steps): void {
    const name = `${row.worker_id}/${row.lane}`
    const before = this.#holdings.get(name) ?? 0
    const after = kind === 'DELETE' ? 0 : Number(row.slots)
    const lanes = this.#lanesOf.get(row.worker_id!) ?? new Set()
    if (kind === 'DELETE') {
      this.#holdings.delete(name)
      lanes.delete(row.lane!)
    } else {
      this.#holdings.set(name, after)
      lanes.add(row.lane!)
    }
    if (lanes.size > 0) this.#lanesOf.set(row.worker_id!, lanes)
    else this.#lanesOf.delete(row.worker_id!)
    this.slotsIn.add(row.lane!, after - before)
    if (after > before) steps.grown.add(row.lane!)
    steps.holdings.add(name)
  }

  #changeAttempt(kind: Change['kind'], row: Change['row'], steps: Steps): void {
    const name = `${row.job_id}/${row.attempt}`
    if (kind === 'DELETE') this.#attempts.delete(name)
    else {
      this.#attempts.add(name)
      steps.history.set(name, row.ending!)
    }
  }

  #changeNote(jobId: string, attempt: number | undefined, steps: Steps): void {
    const before = this.#notes.get(jobId) ?? 0
    if (attempt === undefined) this.#notes.delete(jobId)
    else {
      this.#notes.set(jobId, attempt)
      steps.notes.push({ jobId, before, after: attempt })
    }
  }

  #changeJob(id: string, after: ReplayedJob | undefined, at: number, steps: Steps): void {
    const before = this.#jobs.get(id)
    if (after === undefined || isHeld(after.state) || hasEnded(after.state)) this.#returned.delete(id)
    else if (isHeld(before?.state) && !after.isChild) this.#returned.set(id, { task: after.task, at })
    if (before !== undefined) this.#count(before, -1, steps)
    if (after === undefined) this.#jobs.delete(id)
    else {
      this.#jobs.set(id, after)
      this.#count(after, 1, steps)
    }
    steps.jobs.push({ id, ...(before && { before }), ...(after && { after }) })
  }

  #count(job: ReplayedJob, by: 1 | -1, steps: Steps): void {
    if (job.isScheduled) this.scheduled += by
    else if (!job.isChild && !hasEnded(job.state)) {
      this.active += by
      if (!isHeld(job.state)) this.queued.add(job.task, by)
    }
    if (job.key !== undefined && !hasEnded(job.state)) {
      this.activeKeys.add(job.key, by)
      steps.keys.add(job.key)
    }
    if (!isHeld(job.state) || job.isComposite) return
    const holding = `${job.worker}/${job.lane}`
    if (job.state === 'assigned') {
      this.assignedUnder.add(holding, by)
      steps.holdings.add(holding)
      return
    }
    this.runningUnder.add(holding, by)
    this.runningIn.add(job.lane, by)
    this.runningOn.add(job.worker!, by)
    steps.holdings.add(holding)
  }

  #jobOf(row: Change['row']): ReplayedJob {
    return {
      state: row.state!,
      attempt: Number(row.attempt),
      worker: row.worker_id ?? null,
      lane: this.#classes.get(row.class_id!) ?? `of class ${row.class_id}`,
      classId: row.class_id ?? '',
      key:
        row.key == null
          ? undefined
          : [row.task, JSON.stringify(row.key), row.key_owner ?? ''].join(' ').trimEnd(),
      readyAt: Date.parse(row.ready_at ?? ''),
      startedAt: Date.parse(row.started_at ?? ''),
      deadlineAt: row.deadline_at == null ? Number.POSITIVE_INFINITY : Date.parse(row.deadline_at),
      finishedAt: row.finished_at ?? null,
      losses: Number(row.losses),
      result: row.result ?? null,
      error: row.error ?? null,
      isComposite: row.composite != null,
      isChild: row.parent_id != null,
      parent: row.parent_id ?? null,
      isCertain: row.certain === 'true',
      isScheduled: row.state === 'scheduled' && row.started_at == null && row.parent_id == null,
      task: row.task!,
      submittedAt: Date.parse(row.submitted_at ?? ''),
    }
  }
}

class Counter {
  readonly #counts = new Map<string, number>()

  /** Those that are not 0. */
  names(): Iterable<string> {
    return this.#counts.keys()
  }

  get(name: string): number {
    return this.#counts.get(name) ?? 0
  }

  add(name: string, by: number): void {
    const count = this.get(name) + by
    if (count === 0) this.#counts.delete(name)
    else this.#counts.set(name, count)
  }
}

function workerOf(row: Change['row']): { capacity: number; cores: number; seenAt: number } {
  return { capacity: Number(row.capacity), cores: Number(row.cores), seenAt: Date.parse(row.seen_at!) }
}

function limitsOf(row: Change['row']): ReplayedLimits {
  const maxActive = numberOrNull(row.max_active)
  // As somebody said it, 0: no limit. Where nobody has, it comes with the ceiling.
  const said = numberOrNull(row.max_scheduled)
  return {
    maxActive,
    maxScheduled: said === null ? (maxActive === null ? null : 100_000) : said || null,
    maxQueued: JSON.parse(row.max_queued ?? '{}'),
  }
}

function numberOrNull(text: string | null | undefined): number | null {
  return text == null ? null : Number(text)
}
