import { BudgetChecker, type BudgetRule } from './budget-checker.ts'
import type { Change, Commit } from './commit-stream.ts'
import { FleetChecker, type FleetRule } from './fleet-checker.ts'
import { JobRows, type RowRule } from './job-rows.ts'
import { isLostUnstarted, PrefetchChecker, type PrefetchRule } from './prefetch-checker.ts'
import { hasEnded, isHeld, type ReplayedJob, ReplayedState, type Steps } from './replayed-state.ts'
import { TreeChecker, type TreeRule } from './tree-checker.ts'

export type Rule =
  | 'lane limit'
  | 'slots held'
  | 'lane disabled'
  | 'running within slots'
  | 'running under a holding'
  | 'one job per key'
  | 'worker capacity'
  | 'per worker'
  | 'one lease at a time'
  | 'lease expired'
  | 'attempts count up'
  | 'old lease'
  | 'transition'
  | 'ceiling'
  | 'scheduled'
  | 'depth'
  | RowRule
  | TreeRule
  | BudgetRule
  | FleetRule
  | PrefetchRule

export interface Violation {
  readonly rule: Rule
  readonly xid: string
  readonly what: string
}

/** From which states a job that has not ended may come into each one. */
const FROM: Readonly<Record<string, readonly string[]>> = {
  awaiting_approval: ['awaiting_approval', 'waiting'],
  scheduled: ['awaiting_approval', 'scheduled', 'running', 'assigned'],
  waiting: ['waiting'],
  ready: ['awaiting_approval', 'scheduled', 'waiting', 'ready', 'running', 'assigned'],
  assigned: ['ready', 'assigned'],
  running: ['ready', 'running', 'waiting', 'assigned'],
  // That an assigned job has started may be reported with its ending.
  completed: ['running', 'assigned'],
  failed: ['running', 'ready', 'assigned'],
  cancelled: ['awaiting_approval', 'scheduled', 'waiting', 'ready', 'running', 'assigned'],
}
/** The same for what only waits for its children. */
const COMPOSITE_FROM: Readonly<Record<string, readonly string[]>> = {
  scheduled: ['scheduled'],
  waiting: ['waiting'],
  running: ['scheduled', 'waiting', 'running'],
  completed: ['running'],
  failed: ['running'],
  cancelled: ['scheduled', 'waiting', 'running'],
}

/**
 * Replays commits in commit order and tells where one of them left a state that
 * Sluice promises never to be in. It knows nothing of the code that made the
 * commits: it sees rows, as a process would that looked after every commit.
 *
 * A lane's settings count for cycles that begin after the operator's commit. A
 * job's `started_at` is the beginning of the cycle that claimed it, so a claim
 * is judged by the most generous setting since then, less `visibleMs`: the time
 * between a commit's stamp and the moment others see it. Growth needs no such
 * grace, because it happens under the lane's lock; where there was no limit
 * there is no lock, and there it gets the same.
 */
export class CommitChecker {
  readonly violations: Violation[] = []
  /** How much of what was replayed, to see that the rules were put to the test. */
  readonly seen = { commits: 0, claims: 0, growths: 0, outcomes: 0, takeovers: 0, admissions: 0 }
  /** The most that ran at once, by lane. */
  readonly peak = new Map<string, number>()
  readonly #visibleMs: number
  readonly #rows = new JobRows((rule, what) => this.#report(rule, what))
  readonly #state = new ReplayedState()
  readonly trees = new TreeChecker((rule, what) => this.#report(rule, what))
  readonly budgets = new BudgetChecker((rule, what) => this.#report(rule, what))
  readonly fleet = new FleetChecker((rule, what) => this.#report(rule, what))
  readonly prefetch: PrefetchChecker
  #commit: Commit = { xid: '0', at: 0, changes: [] }

  /** @param options.reportMs How long it may take to report that an assigned job has started, beside the poll of its lane. */
  constructor(options: { visibleMs?: number; reportMs?: number } = {}) {
    const { visibleMs = 1000, reportMs = 5000 } = options
    this.#visibleMs = visibleMs
    const report = (rule: PrefetchRule, what: string) => this.#report(rule, what)
    this.prefetch = new PrefetchChecker(report, this.#state, { visibleMs, reportMs })
  }

  /** Takes over what was there before the first commit; it is not judged. */
  begin(present: readonly Change[]): void {
    const changes = this.#rows.begin(present)
    this.#state.apply({ xid: '0', at: 0, changes })
    this.trees.begin(changes)
    this.budgets.begin(changes)
    this.fleet.begin(changes)
    this.prefetch.apply(changes, 0)
  }

  apply(commit: Commit): void {
    this.#commit = commit
    this.seen.commits++
    const changes = this.#rows.apply(commit.changes)
    const steps = this.#state.apply({ ...commit, changes })
    this.prefetch.apply(changes, commit.at)
    for (const { id, before, after } of steps.jobs) {
      if (after === undefined) this.#judgeDelete(id, before)
      else if (before === undefined) this.#judgeInsert(id, after)
      else this.#judgeUpdate(id, before, after, steps)
    }
    this.trees.apply(changes)
    this.budgets.apply(changes)
    this.fleet.apply(changes)
    this.#judgeHoldings(steps)
    this.#judgeAdmission(steps)
    for (const key of steps.keys) {
      const active = this.#state.activeKeys.get(key)
      if (active > 1) this.#report('one job per key', `${active} active jobs with task and key ${key}`)
    }
    for (const { jobId, before, after } of steps.notes) {
      if (after < before)
        this.#report('old lease', `attempt ${after} of job ${jobId} overwrote the notes of ${before}`)
    }
  }

  #judgeInsert(id: string, job: ReplayedJob): void {
    // A step that was decided as it was made, or a composite, which begins at once.
    const isDecided = job.isChild && (job.state === 'skipped' || job.state === 'failed')
    const isOpen = job.isComposite ? job.state !== 'ready' : !isHeld(job.state)
    if (job.attempt > 0 || !(isDecided || (isOpen && !hasEnded(job.state))))
      this.#report('transition', `job ${id} began as ${job.state}, attempt ${job.attempt}`)
  }

  #judgeDelete(id: string, before: ReplayedJob | undefined): void {
    if (before !== undefined && !hasEnded(before.state))
      this.#report('transition', `job ${id} was deleted while ${before.state}`)
  }

  #judgeUpdate(id: string, before: ReplayedJob, after: ReplayedJob, steps: Steps): void {
    const claimed =
      !after.isComposite && isHeld(after.state) && (!isHeld(before.state) || before.attempt !== after.attempt)
    if (!after.isComposite && !this.#mayFollow(before, after, claimed)) {
      this.#report(
        'attempts count up',
        `job ${id}, ${before.state} -> ${after.state}: attempt ${before.attempt} was followed by ${after.attempt}`,
      )
    }
    if (!after.isComposite && after.state === 'running' && (claimed || before.state === 'assigned'))
      this.#judgeStart(id, before, after)
    if (!after.isComposite) this.prefetch.judge(id, before, after, this.#commit.at)
    if (hasEnded(before.state)) {
      this.#judgeAfterEnd(id, before, after, steps)
      return
    }
    const from = after.isComposite ? COMPOSITE_FROM : FROM
    if (!from[after.state]?.includes(before.state))
      this.#report('transition', `job ${id} went from ${before.state} to ${after.state}`)
    if (isHeld(before.state) && isHeld(after.state)) this.#judgeHolder(id, before, after, claimed)
    if (after.losses > before.losses || isLostUnstarted(before, after)) this.#judgeTakeover(id, before)
    if (after.losses > before.losses && before.state === 'assigned')
      this.#report('transition', `job ${id} was lost before it is known to have started, and counts a loss`)
    if (hasEnded(after.state)) this.#judgeOutcome(id, after)
  }

  /**
   * A claim raises the attempt by 1. After a crash in which a worker died it may skip a number, which that worker may have used; and
   * a job in line may be given the number of an attempt that the crash forgot. One that was assigned and goes back without having started
   * keeps its number for the next claim.
   */
  #mayFollow(before: ReplayedJob, after: ReplayedJob, claimed: boolean): boolean {
    const by = after.attempt - before.attempt
    if (by === (claimed ? 1 : 0)) return true
    if (by === -1 && before.state === 'assigned') return ['ready', 'cancelled'].includes(after.state)
    const isSkipped = claimed && by === 2 && before.readyAt < this.#state.skipBefore
    return isSkipped || (by === 1 && before.state === 'ready' && after.state === 'ready')
  }

  #judgeHolder(id: string, before: ReplayedJob, after: ReplayedJob, claimed: boolean): void {
    if (!claimed && before.worker === after.worker) return
    const [old, now] = [before, after].map((job) => `worker ${job.worker}, attempt ${job.attempt}`)
    this.#report('one lease at a time', `job ${id} was claimed while it ran: ${old}, and ${now}`)
  }

  /** Only a holder that was silent for its lane's `stale` may lose a job: until then its code counts as running. */
  #judgeTakeover(id: string, before: ReplayedJob): void {
    this.seen.takeovers++
    const silentMs = this.#commit.at - (this.#state.workers.get(before.worker ?? '')?.seenAt ?? 0)
    const lanes = this.#state.laneSince(before.lane, this.#commit.at - this.#visibleMs)
    const staleMs = Math.min(...lanes.map((lane) => lane.staleMs))
    if (silentMs < staleMs) {
      this.#report(
        'lease expired',
        `job ${id} was taken from worker ${before.worker}, silent for ${silentMs} of ${staleMs} ms`,
      )
    }
  }

  #judgeOutcome(id: string, after: ReplayedJob): void {
    this.seen.outcomes++
    const proof = attemptIn(after.result)
    const isOwn = after.state === 'completed' && !after.isComposite
    if (isOwn && proof !== undefined && proof !== after.attempt)
      this.#report('old lease', `the result of attempt ${proof} of job ${id} ended attempt ${after.attempt}`)
  }

  /** An outcome stays as it is, unless the job is asked to run again. */
  #judgeAfterEnd(id: string, before: ReplayedJob, after: ReplayedJob, steps: Steps): void {
    if (!hasEnded(after.state)) {
      // A rerun leaves the last attempt in the history, unless it was there before, or there was none.
      const name = `${id}/${before.isComposite ? Math.max(1, before.attempt) : before.attempt}`
      const known =
        (before.attempt === 0 && !before.isComposite) ||
        (this.#state.hasAttempt(name) && !steps.history.has(name))
      if (!known && steps.history.get(name) !== 'rerun')
        this.#report('one outcome', `job ${id} had ended and went back to the queue without a rerun`)
    } else if (
      before.state !== after.state ||
      before.finishedAt !== after.finishedAt ||
      before.result !== after.result ||
      before.error !== after.error
    ) {
      this.#report('one outcome', `job ${id} was ${before.state} and became ${after.state}`)
    }
  }

  #judgeStart(id: string, before: ReplayedJob, after: ReplayedJob): void {
    this.seen.claims++
    const { lane, worker } = after
    const { runningIn, runningUnder, runningOn, workers } = this.#state
    const since = this.prefetch.settingsSince(before, after, this.#commit.at)
    const settings = this.#state.laneSince(lane, since)
    const running = runningIn.get(lane)
    this.peak.set(lane, Math.max(this.peak.get(lane) ?? 0, running))
    const limit = most(settings.map((each) => each.slots))
    if (running > limit)
      this.#report('lane limit', `${running} run in lane ${lane}, which has ${limit} slots`)
    if (!settings.some((each) => each.enabled))
      this.#report('lane disabled', `job ${id} was started in lane ${lane}, which is disabled`)
    const { capacity, cores } = workers.get(worker!) ?? { capacity: 0, cores: 1 }
    const perWorker = most(settings.map((each) => perWorkerOf(each.perWorker, capacity, cores)))
    const here = runningUnder.get(`${worker}/${lane}`)
    if (here > perWorker)
      this.#report('per worker', `worker ${worker} runs ${here} in lane ${lane}, ${perWorker} are allowed`)
    const all = runningOn.get(worker!)
    if (capacity > 0 && all > capacity)
      this.#report('worker capacity', `worker ${worker} runs ${all}, its capacity is ${capacity}`)
  }

  /**
   * What was submitted, was accepted within the limits; jobs whose time has come are let in above them. A limit counts for submissions that began after its commit: those that began in a
   * transaction before it are judged by the one they saw.
   */
  #judgeAdmission({ jobs }: Steps): void {
    const entered = jobs.filter(
      ({ before, after }) =>
        after !== undefined &&
        !after.isChild &&
        !hasEnded(after.state) &&
        (before === undefined || hasEnded(before.state)),
    )
    if (entered.length === 0) return
    this.seen.admissions += entered.length
    const began = Math.min(
      ...entered.map(({ before, after }) => (before === undefined ? after!.submittedAt : this.#commit.at)),
    )
    const limits = this.#state.limitsSince(began - this.#visibleMs)
    const ceiling = most(limits.map((each) => each.maxActive))
    const active = entered.filter(({ after }) => !after!.isScheduled)
    if (limits.length > 0 && active.length > 0 && this.#state.active > ceiling)
      this.#report('ceiling', `${this.#state.active} root jobs are active, ${ceiling} may be`)
    const maxScheduled = most(limits.map((each) => each.maxScheduled))
    if (limits.length > 0 && active.length < entered.length && this.#state.scheduled > maxScheduled)
      this.#report('scheduled', `${this.#state.scheduled} root jobs are scheduled, ${maxScheduled} may be`)
    for (const task of new Set(
      active.filter(({ after }) => !isHeld(after!.state)).map(({ after }) => after!.task),
    )) {
      const depth = most(limits.map((each) => each.maxQueued[task] ?? null))
      const queued = this.#state.waitingBefore(task, began - this.#visibleMs)
      if (limits.length > 0 && queued > depth)
        this.#report('depth', `${queued} jobs of ${task} wait, ${depth} may`)
    }
  }

  #judgeHoldings({ grown, holdings }: Steps): void {
    for (const lane of grown) {
      this.seen.growths++
      const settings = this.#state.laneSince(lane, this.#commit.at - this.#visibleMs)
      const unlocked = settings.some((each) => each.slots === null)
      const limit = unlocked ? Infinity : most([settings.at(-1)?.slots ?? null])
      const held = this.#state.slotsIn.get(lane)
      if (held > limit)
        this.#report(
          'slots held',
          `a holding grew: ${held} slots are held in lane ${lane}, which has ${limit}`,
        )
    }
    for (const name of holdings) {
      const running = this.#state.runningUnder.get(name)
      const assigned = this.#state.assignedUnder.get(name)
      const slots = this.#state.slotsOf(name)
      if (running + assigned > 0 && slots === undefined)
        this.#report(
          'running under a holding',
          `${running} run and ${assigned} are assigned under ${name}, a holding that does not exist`,
        )
      // Where there is no limit, slots are not counted.
      const limit = this.#state.laneSince(name.slice(name.indexOf('/') + 1), Infinity).at(-1)?.slots ?? null
      if (limit !== null && running > (slots ?? 0))
        this.#report(
          'running within slots',
          `${running} run under holding ${name}, which has ${slots ?? 0} slots`,
        )
    }
  }

  #report(rule: Rule, what: string): void {
    this.violations.push({ rule, xid: this.#commit.xid, what })
  }
}

/** Jobs of a lane that one worker may run at once; null stands for no limit. -1 means its capacity, where it has one. */
function perWorkerOf(perWorker: number | null, capacity: number, cores: number): number | null {
  if (perWorker === null || perWorker > 0) return perWorker
  return perWorker === -1 && capacity > 0 ? capacity : cores
}

/** The largest; null stands for no limit. */
function most(limits: readonly (number | null)[]): number {
  return Math.max(...limits.map((limit) => limit ?? Infinity))
}

/** Tasks of the tests put the attempt they ran as into their result: `{"attempt": 2}`. */
function attemptIn(result: string | null): number | undefined {
  const match = /"attempt": ?(\d+)/.exec(result ?? '')
  return match === null ? undefined : Number(match[1])
}
