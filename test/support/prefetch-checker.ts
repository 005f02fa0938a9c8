import type { Change } from './commit-stream.ts'
import { hasEnded, isHeld, type ReplayedJob, type ReplayedState } from './replayed-state.ts'

export type PrefetchRule = 'prefetch' | 'started late' | 'start deadline'

/** What has not started this long after its worker was assigned it goes back to the queue: decision 33. */
const HAND_BACK_MS = 100
/** Nothing starts of an answer that took longer than this. */
const LATE_ANSWER_MS = 500
/** Nothing is assigned whose start deadline is nearer than this when it is claimed. */
const DEADLINE_MS = 1000

interface Worker {
  readonly registeredAt: number
  /** Since which crash of the server it has said what it runs. */
  readonly generation: string | null | undefined
  readonly pooled: ReadonlySet<string>
  readonly isBlocked: boolean
  readonly seenAt: number
  /** Since when it has been heard of without a break. */
  readonly steadySince: number
}

/**
 * The rules of prefetch, at every commit: what may be assigned to a worker beyond its slots, and what may become of it.
 *
 * A claim is judged by the most generous settings since its cycle began, less `visibleMs`, as all claims are: a change that commits while a
 * cycle runs may or may not count for it. Three settings are read by workers and not by the cycle, so a worker that has not heard of a change yet may
 * still assign: `placement` counts once every worker has sent a heartbeat (the lane's `stale`), and `onLost` and the process pool of a task are those
 * the worker registered with.
 *
 * An assigned job that has ended, or come back after a start, says when it started. It started within 600 ms of its claim, and never after its start deadline, whatever
 * happened to its worker. The time is that of the report, less the time for which the job ran by the clock of its worker, so it is too late by as long as the report was on its way.
 * `visibleMs` is allowed for that, and nothing for the start deadline: at its claim that was at least 400 ms further away than the job may start.
 *
 * A running job does not say when it started. The commit that reports a start comes later than the start. An assigned job may start until 100 ms after its worker got it, whatever happens to
 * the lane meanwhile: handing it back takes as long. The worker reports it with its next cycle, which it sends when a job ends, at the latest
 * after `poll`; and that cycle may wait for a lock or be sent again, for which `reportMs` is allowed. A worker that was not heard of for half of `stale`,
 * or whose event loop was blocked, may have been unable to report, so its time counts from the end of that on.
 *
 * Not judged: that lanes which share the capacity of a worker assign nothing, because no commit shows which other lanes had ready jobs; and programs,
 * because the database does not know how a task is run.
 */
export class PrefetchChecker {
  /** How much was replayed, to see that the rules were put to the test. */
  readonly seen = {
    /** Claims that assigned a job, starts of such jobs, and how many went back unstarted: by their worker, and with its lease. */
    assigned: 0,
    starts: 0,
    returned: 0,
    lost: 0,
    /** Of those that went back, the ones that had been cancelled. */
    cancelled: 0,
    /** Starts that were compared with a start deadline. */
    deadlines: 0,
    /** Starts whose time is known, and of these the ones that were compared with a start deadline. */
    known: 0,
    knownDeadlines: 0,
  }
  /** How many of them were assigned to each worker. */
  readonly assignedTo = new Map<string, number>()
  readonly #report: (rule: PrefetchRule, what: string) => void
  readonly #state: ReplayedState
  readonly #visibleMs: number
  readonly #reportMs: number
  readonly #workers = new Map<string, Worker>()
  /** Since when each class has drawn from budgets. */
  readonly #budgetedSince = new Map<string, number>()
  /** Since when each task fails when it is lost. */
  readonly #failsSince = new Map<string, number>()
  /** Since when holdings want slots, by lane and worker. */
  readonly #wantsSince = new Map<string, Map<string, number>>()
  readonly #windows = new Set<string>()
  /** Jobs that run and were assigned before. */
  readonly #running = new Set<string>()
  /** Workers that report in this commit for the first time since a crash. */
  readonly #reporting = new Set<string>()

  constructor(
    report: (rule: PrefetchRule, what: string) => void,
    state: ReplayedState,
    options: { readonly visibleMs: number; readonly reportMs: number },
  ) {
    this.#report = report
    this.#state = state
    this.#visibleMs = options.visibleMs
    this.#reportMs = options.reportMs
  }

  /** Takes note of settings, before the steps of the same commit are judged. */
  apply(changes: readonly Change[], at: number): void {
    this.#reporting.clear()
    for (const { table, kind, row } of changes) {
      const isGone = kind === 'DELETE'
      if (table === 'sluice.workers') this.#changeWorker(row, isGone, at)
      else if (table === 'sluice.classes')
        keepSince(this.#budgetedSince, row.id!, row.budgeted === 'true', at)
      else if (table === 'sluice.tasks') keepSince(this.#failsSince, row.name!, row.on_lost === 'fail', at)
      else if (table === 'sluice.holdings') {
        const wants = this.#wantsSince.get(row.lane!) ?? new Map<string, number>()
        keepSince(wants, row.worker_id!, !isGone && row.wants === 'true', at)
        this.#wantsSince.set(row.lane!, wants)
      } else if (table === 'sluice.composites') {
        if (!isGone && row.window_size != null) this.#windows.add(row.job_id!)
        else this.#windows.delete(row.job_id!)
      }
    }
  }

  /** One step of a job that was assigned before it, or is after it. */
  judge(id: string, before: ReplayedJob, after: ReplayedJob, at: number): void {
    if (after.state === 'assigned' && !isHeld(before.state)) this.#judgeClaim(id, before, after)
    if (!isHeld(after.state) && this.#running.delete(id)) this.#judgeKnownStart(id, before, after)
    if (before.state !== 'assigned' || after.state === 'assigned') return
    const isBack = after.attempt < before.attempt
    if (isBack) this.seen.returned++
    else if (isLostUnstarted(before, after)) this.seen.lost++
    if (after.state === 'cancelled') this.seen.cancelled++
    else if (!isBack && !isLostUnstarted(before, after)) this.#judgeStart(id, before, after, at)
    if (after.state === 'ready' && !isBack && !after.isCertain && !this.#holds(before))
      this.#report('prefetch', `job ${id} was lost with its worker, and may be assigned the next time`)
  }

  /** From when on the settings of its lane count for a job that is reported as started: those of a claim since it, those of an assigned job for as long as it may have waited. */
  settingsSince(before: ReplayedJob, after: ReplayedJob, at: number): number {
    const earliest = before.startedAt - this.#visibleMs
    const toleranceMs = this.#toleranceMs(before, at)
    if (before.state !== 'assigned' || toleranceMs === undefined) return after.startedAt - this.#visibleMs
    return Math.max(earliest, startOf(after, at) - toleranceMs - this.#visibleMs)
  }

  #judgeClaim(id: string, before: ReplayedJob, after: ReplayedJob): void {
    this.seen.assigned++
    const { lane, classId, task, startedAt, parent, deadlineAt } = after
    this.assignedTo.set(after.worker!, (this.assignedTo.get(after.worker!) ?? 0) + 1)
    const name = `${after.worker}/${lane}`
    const since = startedAt - this.#visibleMs
    const settings = this.#state.laneSince(lane, since)
    // It is given back what had started and ended before the crash: nothing is to start, whatever the lane allows.
    if (this.#reporting.has(after.worker!)) return
    const wrong = (why: string) => this.#report('prefetch', `job ${id} was assigned to ${name}: ${why}`)

    const prefetch = Math.max(...settings.map((each) => each.prefetch))
    if (prefetch === 0) wrong('prefetch is off in the lane')
    if (settings.every(({ slots }) => slots !== null && slots <= 1)) wrong('the lane has one slot')
    if (!settings.some((each) => each.enabled)) wrong('the lane is paused')
    const heard = this.#state.laneSince(lane, since - Math.max(...settings.map((each) => each.staleMs)))
    if (heard.every((each) => each.spread)) wrong('the jobs of the lane are spread')
    const limit = Math.max(...settings.map(({ slots }) => slots ?? Number.POSITIVE_INFINITY))
    const held = this.#state.slotsIn.get(lane)
    if (held > limit) wrong(`the limit was lowered to ${limit}, and ${held} slots are held`)
    for (const [worker, wantsSince] of this.#wantsSince.get(lane) ?? [])
      if (limit !== Number.POSITIVE_INFINITY && worker !== after.worker && wantsSince < since)
        wrong(`worker ${worker} waits for slots of the lane`)
    // Those that have started since the cycle was sent take up slots, and are reported with the next one.
    const { capacity } = this.#state.workers.get(after.worker!) ?? { capacity: 0 }
    const slots = limit === Number.POSITIVE_INFINITY ? capacity : this.#state.slotsOf(name)
    const assigned = this.#state.assignedUnder.get(name)
    if (slots && assigned > prefetch + slots)
      wrong(`it is assigned ${assigned} jobs with ${slots} slots, and the bound of the lane is ${prefetch}`)

    const { pooled } = this.#workers.get(after.worker!) ?? {}
    if ((this.#failsSince.get(task) ?? Number.POSITIVE_INFINITY) < since)
      wrong('its task fails when it is lost')
    if (pooled?.has(task)) wrong('its task runs in the process pool')
    if ((this.#budgetedSince.get(classId) ?? Number.POSITIVE_INFINITY) < since)
      wrong('its task draws from budgets')
    if (parent !== null && this.#windows.has(parent)) wrong(`it holds a place in the window of job ${parent}`)
    if (before.isCertain) wrong('a worker was lost that may have started it')
    // The clock of both is that of the claim, so this is exact but for the fractions of a millisecond.
    if (deadlineAt < startedAt + DEADLINE_MS - 1)
      wrong(`its start deadline is ${deadlineAt - startedAt} ms away`)
  }

  #judgeStart(id: string, before: ReplayedJob, after: ReplayedJob, at: number): void {
    this.seen.starts++
    if (after.state === 'running') this.#running.add(id)
    else this.#judgeKnownStart(id, before, after)
    const toleranceMs = this.#toleranceMs(before, at)
    if (toleranceMs === undefined) return
    const { worker, lane, startedAt, deadlineAt } = before
    if (deadlineAt < Number.POSITIVE_INFINITY) this.seen.deadlines++
    if (after.state === 'running') {
      const steadySince = this.#workers.get(worker!)?.steadySince ?? 0
      const lateMs = at - Math.max(startedAt, steadySince) - toleranceMs - this.#visibleMs
      if (lateMs > 0) this.#reportLate(id, before, at)
      if (at - Math.max(deadlineAt, steadySince) > toleranceMs + this.#visibleMs)
        this.#reportAfterDeadline(id, before, at)
    }
    // Starts that are reported before the ending are judged as every start.
    const settings = this.#state.laneSince(lane, this.settingsSince(before, after, at))
    if (after.state !== 'running' && !settings.some((each) => each.enabled))
      this.#report(
        'started late',
        `job ${id} started in lane ${lane}, which had been paused for long enough to hand it back`,
      )
  }

  /** Of a job that runs no more, and was assigned before it ran. */
  #judgeKnownStart(id: string, before: ReplayedJob, after: ReplayedJob): void {
    const start = after.startedAt
    // What was cancelled may never have started.
    if (after.state === 'cancelled' || Number.isNaN(start)) return
    this.seen.known++
    if (before.deadlineAt < Number.POSITIVE_INFINITY) this.seen.knownDeadlines++
    if (start - before.startedAt > HAND_BACK_MS + LATE_ANSWER_MS + this.#visibleMs)
      this.#reportLate(id, before, start)
    if (start > before.deadlineAt) this.#reportAfterDeadline(id, before, start)
  }

  #reportLate(id: string, { worker, startedAt }: ReplayedJob, start: number): void {
    this.#report(
      'started late',
      `job ${id}, assigned to ${worker}, started ${start - startedAt} ms after its claim`,
    )
  }

  #reportAfterDeadline(id: string, { deadlineAt }: ReplayedJob, start: number): void {
    this.#report('start deadline', `job ${id} started ${start - deadlineAt} ms after its start deadline`)
  }

  /** How long after its claim an assigned job may be reported as started. `undefined`: its worker was silent or blocked just now. */
  #toleranceMs({ worker, lane, startedAt }: ReplayedJob, at: number): number | undefined {
    const settings = this.#state.laneSince(lane, startedAt - this.#visibleMs)
    const known = this.#workers.get(worker!)
    if (known === undefined || known.isBlocked || at - known.seenAt > this.#breakMs(lane)) return undefined
    return HAND_BACK_MS + Math.max(0, ...settings.map((each) => each.pollMs)) + this.#reportMs
  }

  #breakMs(lane: string): number {
    return (this.#state.laneSince(lane, Number.POSITIVE_INFINITY).at(-1)?.staleMs ?? 0) / 2
  }

  /** Whether the worker still has a holding in the lane of the job: one that goes takes the lease with it. */
  #holds({ worker, lane }: ReplayedJob): boolean {
    return this.#state.slotsOf(`${worker}/${lane}`) !== undefined
  }

  #changeWorker(row: Change['row'], isGone: boolean, at: number): void {
    const id = row.id!
    if (isGone) {
      this.#workers.delete(id)
      return
    }
    const before = this.#workers.get(id)
    if (before !== undefined && before.generation !== row.generation) this.#reporting.add(id)
    const seenAt = Date.parse(row.seen_at!)
    const isBlocked = row.blocked_since != null
    // The shortest `stale` of its lanes is the strictest measure of a break; what it holds says which lanes these are.
    const shortest = Math.min(...this.#state.lanesOf(id).map((lane) => this.#breakMs(lane)))
    const isSteady = before !== undefined && !before.isBlocked && seenAt - before.seenAt <= shortest
    this.#workers.set(id, {
      registeredAt: Date.parse(row.started_at!),
      generation: row.generation,
      pooled: new Set((row.pooled ?? '{}').slice(1, -1).split(',').filter(Boolean)),
      isBlocked,
      seenAt,
      steadySince: isSteady ? before.steadySince : at,
    })
  }
}

/** An assigned job whose worker was lost: it keeps the number of its attempt, and its next claim has to start it at once. */
export function isLostUnstarted(before: ReplayedJob, after: ReplayedJob): boolean {
  return (
    before.state === 'assigned' &&
    after.state === 'ready' &&
    before.attempt === after.attempt &&
    after.isCertain
  )
}

/** When an assigned job started, at the latest: what runs no more says for how long it ran. */
function startOf(after: ReplayedJob, at: number): number {
  return (hasEnded(after.state) || !isHeld(after.state)) && !Number.isNaN(after.startedAt)
    ? after.startedAt
    : at
}

function keepSince(since: Map<string, number>, name: string, isTrue: boolean, at: number): void {
  if (!isTrue) since.delete(name)
  else if (!since.has(name)) since.set(name, at)
}
