import { formatDuration } from './duration.ts'
import { type BlockingSession, cureOf, type HeldLock, holderOf } from './held-lock.ts'

/**
 * How urgent it is. `problem`: a guarantee is at risk. `warning`: it will be at risk, or work is not progressing.
 * `note`: a person's decision is needed.
 */
export type Severity = 'problem' | 'warning' | 'note'

/** A finding: something that needs attention. Subject and text together form a sentence. */
export interface Attention {
  /** The rule that produced the finding. Stable, for programs. */
  readonly rule: string
  readonly severity: Severity
  /** For example `worker w1` or `lane import`. */
  readonly subject: string
  readonly text: string
  /** What to do about it. */
  readonly advice: string
  /** The address of the dashboard screen that shows it. */
  readonly link: string
}

/** The input of the rules: one snapshot of the system. */
export interface AttentionFacts {
  readonly admission: {
    readonly maxActive: number | null
    readonly active: number | null
    readonly maxScheduled: number | null
    readonly scheduled: number | null
    readonly maxPerOwner: number | null
    readonly owners: Readonly<Record<string, number>> | null
  }
  readonly lanes: readonly {
    readonly name: string
    readonly slots: number | null
    readonly enabled: boolean
    readonly depth: number
  }[]
  readonly workers: { readonly live: number; readonly silent: number }
  readonly devices: readonly {
    readonly budget: string
    readonly host: string | null
    readonly name: string
    readonly lostAt: number | null
  }[]
  readonly states: { readonly awaiting_approval: number }
  readonly steps: { readonly awaiting_approval: number }
  readonly failed: { readonly tenMinutes: number; readonly hour: number }
  readonly recovered: { readonly drift: number }
  readonly concerns: Concerns
  /** Locks that other sessions hold on rows of lanes. */
  readonly laneLocks: readonly HeldLock[]
  /** Sessions that hold a lock for which sessions of Sluice wait. */
  readonly blocking: readonly BlockingSession[]
}

/** Facts that only these rules use. Every list is bounded. */
export interface Concerns {
  readonly silent: readonly { readonly name: string; readonly silentMs: number; readonly running: number }[]
  /**
   * Workers that have not reported their jobs after a crash of the database server. No job starts before they have.
   * `null` if there was no such crash.
   */
  readonly unreported: readonly string[] | null
  readonly broken: readonly { readonly name: string; readonly why: string }[]
  /** Tasks that workers failed to start. `able`: another worker can run them. */
  readonly withdrawn: readonly {
    readonly task: string
    /** The first few causes, each with the workers that report it. */
    readonly causes: readonly { readonly why: string; readonly workers: readonly string[] }[]
    /** How many causes there are. */
    readonly total: number
    readonly able: boolean
  }[]
  /** Tasks that no live worker can take: none runs them, or all that do are draining. */
  readonly tasks: readonly {
    readonly name: string
    readonly workers: number
    readonly waiting: number
    readonly waitedMs: number
  }[]
  /** Labels that waiting jobs require and that no live worker with their task has. */
  readonly labels: readonly {
    readonly task: string
    readonly requires: Readonly<Record<string, unknown>>
    readonly waiting: number
    readonly waitedMs: number
  }[]
  /** Whether pools exist. If so, a worker may be about to start. */
  readonly pools: boolean
  /** Workers with a blocked event loop. `jobs` lists the first few of the `running` jobs that may block it. */
  readonly blocked: readonly {
    readonly name: string
    readonly blockedMs: number
    readonly running: number
    readonly jobs: readonly { readonly id: string; readonly task: string }[]
  }[]
  /** Running fan-outs that can no longer succeed. */
  readonly doomed: readonly {
    readonly id: string
    readonly root: string
    readonly step: string
    readonly why: string
  }[]
  /** Fan-outs paused by a window of 0, with waiting children. */
  readonly fanOuts: readonly {
    readonly id: string
    readonly root: string
    readonly step: string
    readonly waiting: number
  }[]
  /** The queued job with the nearest start deadline, if little time is left. */
  readonly deadline: {
    readonly id: string
    readonly task: string
    readonly leftMs: number
    readonly allowedMs: number
    readonly others: number
  } | null
  /** Since any process last checked for duties. */
  readonly unattendedMs: number
  readonly duties: readonly {
    readonly name: string
    readonly lateMs: number
    readonly error: string | null
  }[]
  readonly schedules: readonly {
    readonly name: string
    readonly overdueMs: number | null
    readonly skipped: string | null
    readonly reason: string | null
    readonly jobId: string | null
    readonly error: string | null
  }[]
}

type Rule = (facts: AttentionFacts) => Attention[]

/** By this time, a worker that is being replaced is back. */
const RESTART_MS = 3000
/** Workers of a pool take about this long to start, so a task without a worker is not reported earlier. */
const ARRIVAL_MS = 10_000
/** Processes check for duties every 1.5 s. */
const UNATTENDED_MS = 30_000
/** With fewer failures in ten minutes, a rise is not significant. */
const FEWEST_FAILURES = 5
/** Failures are rising if ten minutes have more than this multiple of the rate of the rest of the hour. */
const RISE = 2

/** In order of severity, and in this order within a severity. */
const RULES: readonly Rule[] = [
  serverCrash,
  lockedLanes,
  blockingSessions,
  brokenWorkers,
  withdrawnTasks,
  lateDuties,
  schedules,
  noWorkers,
  strandedTasks,
  missingLabels,
  silentWorkers,
  blockedWorkers,
  fullSystem,
  fullSchedule,
  fullOwners,
  nearDeadline,
  risingFailures,
  pausedLanes,
  pausedFanOuts,
  doomedFanOuts,
  lostDevices,
  repairs,
  approvals,
]
const ORDER: Readonly<Record<Severity, number>> = { problem: 0, warning: 1, note: 2 }

/** Returns the findings, most severe first. Now, `doctor` and `/readyz` all use them. */
export function needsAttention(facts: AttentionFacts): Attention[] {
  return RULES.flatMap((rule) => rule(facts)).sort((a, b) => ORDER[a.severity] - ORDER[b.severity])
}

/** Returns the whole sentence, capitalized unless it begins with the name of a table. */
export function sentenceOf({ subject, text }: Pick<Attention, 'subject' | 'text'>): string {
  if (subject.startsWith('sluice.')) return `${subject} ${text}`
  return `${subject.charAt(0).toUpperCase()}${subject.slice(1)} ${text}`
}

function serverCrash({ concerns: { unreported } }: AttentionFacts): Attention[] {
  if (unreported === null) return []
  return [
    {
      rule: 'server_crashed',
      severity: 'problem',
      subject: 'PostgreSQL',
      text: `has recovered from a crash: no job starts until ${unreported.length === 0 ? 'every worker has' : `${unreported.length === 1 ? 'worker' : 'workers'} ${unreported.join(', ')} ${unreported.length === 1 ? 'has' : 'have'}`} reported or the leases have expired`,
      advice: 'Wait, or restart the workers named here',
      link: '/workers',
    },
  ]
}

function lockedLanes({ laneLocks }: AttentionFacts): Attention[] {
  return laneLocks.map((lock) => ({
    rule: 'lane_locked',
    severity: 'problem',
    subject: `lane ${lock.name}`,
    text: `is locked by ${holderOf(lock)}, so none of its jobs can start`,
    advice: cureOf(lock),
    link: `/lanes?lane=${lock.name}`,
  }))
}

function blockingSessions({ blocking, laneLocks }: AttentionFacts): Attention[] {
  // A session that locks a lane already has a finding, with the same advice.
  const named = new Set(laneLocks.map(({ pid }) => pid))
  return blocking
    .filter(({ pid }) => !named.has(pid))
    .map((session) => {
      const { pid, table, sessions, names, waitedMs } = session
      const what = table === null ? 'a lock' : `a lock on a row of sluice.${table}`
      const who = sessions === 1 ? names.join() : `${sessions} sessions (${names.join(', ')})`
      return {
        rule: 'session_blocks',
        severity: 'problem',
        subject: pid === null ? 'a prepared transaction' : `database session ${pid}`,
        text: `blocks Sluice: ${holderOf(session)} holds ${what}, and ${who} ${sessions === 1 ? 'has' : 'have'} waited ${durationText(waitedMs)} for it`,
        advice: cureOf(session),
        link: '/',
      }
    })
}

/** Finds sessions that lock a whole table against Sluice. */
export function lockedTables(locks: readonly HeldLock[]): Attention[] {
  return locks.map((lock) => ({
    rule: 'table_locked',
    severity: 'problem',
    subject: `sluice.${lock.name}`,
    text: `is locked by ${holderOf(lock)}; anything that ${lock.blocksReading ? 'uses' : 'changes'} it must wait`,
    advice: cureOf(lock),
    link: '/',
  }))
}

function brokenWorkers({ concerns }: AttentionFacts): Attention[] {
  return concerns.broken.map(({ name, why }) => ({
    rule: 'worker_broken',
    severity: 'problem',
    subject: `worker ${name}`,
    text: `cannot start jobs: ${why}`,
    advice: `Fix the cause, then run: sluice workers undrain ${name}`,
    link: `/workers?name=${encodeURIComponent(name)}`,
  }))
}

function withdrawnTasks({ concerns }: AttentionFacts): Attention[] {
  return concerns.withdrawn.map(({ task, causes, total, able }) => {
    const said = causes.map(
      ({ why, workers }) => `by ${workers.length === 1 ? 'worker' : 'workers'} ${workers.join(', ')}: ${why}`,
    )
    if (total > causes.length) said.push(`for ${count(total - causes.length, 'other cause')}`)
    return {
      rule: 'task_withdrawn',
      severity: able ? 'warning' : 'problem',
      subject: `task ${task}`,
      text: `cannot be started ${said.join('; ')}${able ? '' : '. No other worker takes its jobs'}`,
      advice: 'Provide what is missing. Each worker tries again within a minute',
      link: `/workers?name=${encodeURIComponent(causes[0]!.workers[0]!)}`,
    }
  })
}

function lateDuties({ concerns: { duties, unattendedMs } }: AttentionFacts): Attention[] {
  // A process that checks again catches up by itself, so only the absence of all processes matters. Silent workers have
  // a rule of their own.
  if (unattendedMs > UNATTENDED_MS) {
    if (!duties.some(({ name, lateMs }) => (name === 'promote' || name === 'expire') && lateMs > 0)) return []
    return [
      {
        rule: 'upkeep_missing',
        severity: 'problem',
        subject: 'upkeep',
        text: `has not run for ${durationText(unattendedMs)}: retries, scheduled jobs and deadlines are delayed`,
        advice: 'Start a worker or a server. If one is running, read its log',
        link: '/workers',
      },
    ]
  }
  return duties.map(({ name, lateMs, error }) => ({
    rule: error === null ? 'duty_late' : 'duty_failing',
    severity: 'problem',
    subject: `duty ${name}`,
    text: error === null ? `is ${durationText(lateMs)} late` : `fails: ${error}`,
    advice: 'Read the log of a worker or a server: it says why',
    link: '/recovery',
  }))
}

function schedules({ concerns }: AttentionFacts): Attention[] {
  return concerns.schedules.flatMap((schedule) => {
    const { name, overdueMs, skipped, reason, jobId, error } = schedule
    const link = `/schedules?name=${name}`
    const subject = `schedule ${name}`
    const found: Attention[] = []
    if (overdueMs !== null)
      found.push({
        rule: 'schedule_overdue',
        severity: 'problem',
        subject,
        text: `is overdue by ${durationText(overdueMs)} because no process fires it`,
        advice: 'Start a worker or a server. If one is running, its log says why',
        link,
      })
    if (skipped !== null || jobId !== null)
      found.push({
        rule: 'schedule_failing',
        severity: 'warning',
        subject,
        text:
          skipped !== null
            ? `created no job at its last tick: ${reason ?? skipped}`
            : `failed: its last job, ${jobId}, ended with ${error ?? 'an error'}`,
        advice:
          skipped !== null
            ? `Change it with: sluice schedules set ${name}`
            : `See why with: sluice trace ${jobId}`,
        link,
      })
    return found
  })
}

function noWorkers({ workers, lanes }: AttentionFacts): Attention[] {
  const waiting = lanes.reduce((sum, { depth }) => sum + depth, 0)
  if (workers.live > workers.silent || waiting === 0) return []
  return [
    {
      rule: 'no_worker',
      severity: 'warning',
      subject: 'no worker',
      text: `is alive, and ${count(waiting, 'job is', 'jobs are')} ready to start`,
      advice: 'Start a worker with: sluice worker. Tasks in code need the program that has them',
      link: '/workers',
    },
  ]
}

function strandedTasks({ workers, concerns }: AttentionFacts): Attention[] {
  return concerns.tasks.flatMap(({ name, workers: leaving, waiting, waitedMs }) => {
    const jobs = waiting >= 100 ? '100 or more jobs wait' : count(waiting, 'job waits', 'jobs wait')
    const link = waiting === 0 ? '/workers' : `/jobs?tab=queued&task=${name}&with=steps`
    if (leaving > 0)
      return {
        rule: 'task_draining',
        severity: 'warning',
        subject: `task ${name}`,
        text: `cannot run: every worker that runs it is draining${waiting === 0 ? '' : `, and ${jobs}`}`,
        advice: 'List workers with: sluice workers. Undrain one with: sluice workers undrain NAME',
        link,
      }
    // When no worker is alive, one finding covers all tasks.
    if (waitedMs < graceOf(concerns) || workers.live <= workers.silent) return []
    return {
      rule: 'task_without_worker',
      severity: 'warning',
      subject: `task ${name}`,
      text: `has no live worker, and ${jobs}`,
      advice: `Start a worker that has task ${name}`,
      link,
    }
  })
}

function missingLabels({ concerns }: AttentionFacts): Attention[] {
  return concerns.labels
    .filter(({ waitedMs }) => waitedMs >= graceOf(concerns))
    .map(({ task, requires, waiting }) => {
      const labels = Object.entries(requires).map(([name, value]) => `${name}=${String(value)}`)
      const jobs = waiting >= 100 ? '100 or more jobs wait' : count(waiting, 'job waits', 'jobs wait')
      return {
        rule: 'labels_missing',
        severity: 'warning',
        subject: `task ${task}`,
        text: `requires ${labels.length === 1 ? 'label' : 'labels'} ${labels.join(', ')}, which no live worker that runs it has, and ${jobs}`,
        advice: `Start a worker with: sluice worker${labels.map((label) => ` --label ${label}`).join('')}`,
        link: `/jobs?tab=queued&task=${task}&with=steps`,
      }
    })
}

/** How long a task may lack a worker before it is reported. */
function graceOf({ pools }: Concerns): number {
  return pools ? ARRIVAL_MS : RESTART_MS
}

function blockedWorkers({ concerns }: AttentionFacts): Attention[] {
  return concerns.blocked.map(({ name, blockedMs, running, jobs }) => {
    const named = jobs.map(({ id, task }) => `job ${id} (${task})`)
    if (running > jobs.length) named.push(`${running - jobs.length} more`)
    return {
      rule: 'worker_blocked',
      severity: 'warning',
      subject: `worker ${name}`,
      text: `has had a blocked event loop for ${durationText(blockedMs)}, so no other job starts or stops there${named.length === 0 ? '' : `. It is running ${named.join(', ')}`}`,
      advice: "Run CPU-bound tasks in a separate process: execution: 'process'",
      link: `/workers?name=${encodeURIComponent(name)}`,
    }
  })
}

function silentWorkers({ workers, concerns }: AttentionFacts): Attention[] {
  return concerns.silent.map(({ name, silentMs, running }) => ({
    rule: 'worker_silent',
    severity: running > 0 ? 'warning' : 'note',
    subject: `worker ${name}`,
    text: `has sent no heartbeat for ${durationText(silentMs)}; it ${running === 0 ? 'ran nothing' : `ran ${count(running, 'job')}`}`,
    advice:
      workers.live <= workers.silent
        ? 'Start a worker. It takes over the jobs of this one'
        : 'A live worker takes over its jobs within seconds. If this persists, read its log',
    link: `/workers?name=${encodeURIComponent(name)}`,
  }))
}

function fullSystem({ admission: { maxActive, active } }: AttentionFacts): Attention[] {
  if (maxActive === null || active === null || active < maxActive) return []
  return [
    {
      rule: 'ceiling_reached',
      severity: 'warning',
      subject: 'admission',
      text: `rejects new jobs: ${active.toLocaleString('en')} of ${maxActive.toLocaleString('en')} are active`,
      advice: 'Raise the ceiling with: sluice admission --max-active NUMBER, or let jobs finish',
      link: '/jobs?tab=active',
    },
  ]
}

function fullSchedule({ admission: { maxScheduled, scheduled } }: AttentionFacts): Attention[] {
  if (maxScheduled === null || scheduled === null || scheduled < maxScheduled) return []
  return [
    {
      rule: 'scheduled_limit_reached',
      severity: 'warning',
      subject: 'admission',
      text: `rejects new scheduled jobs: ${scheduled.toLocaleString('en')} of ${maxScheduled.toLocaleString('en')} are scheduled`,
      advice: 'Raise the limit with: sluice admission --max-scheduled NUMBER, or cancel scheduled jobs',
      link: '/jobs?tab=scheduled',
    },
  ]
}

function fullOwners({ admission: { maxPerOwner, owners } }: AttentionFacts): Attention[] {
  if (maxPerOwner === null || owners === null) return []
  const full = Object.entries(owners).filter(([, jobs]) => jobs >= maxPerOwner)
  return full.map(([owner, jobs]) => ({
    rule: 'owner_limit_reached',
    severity: 'note',
    subject: `owner ${owner}`,
    text: `cannot submit more jobs: ${jobs.toLocaleString('en')} of ${maxPerOwner.toLocaleString('en')} have not ended`,
    advice: 'Raise the limit with: sluice admission --max-per-owner NUMBER, or let their jobs finish',
    link: `/jobs?submittedBy=${encodeURIComponent(owner)}`,
  }))
}

function nearDeadline({ concerns: { deadline } }: AttentionFacts): Attention[] {
  if (deadline === null) return []
  const { id, task, leftMs, allowedMs, others } = deadline
  const more = others === 0 ? '' : `; ${count(others, 'other job is', 'other jobs are')} due as soon`
  const left = leftMs <= 0 ? 'now' : `within ${durationText(leftMs)}`
  return [
    {
      rule: 'deadline_near',
      severity: 'warning',
      subject: `job ${id}`,
      text: `of task ${task} must start ${left} or it fails; its start deadline is ${durationText(allowedMs)}${more}`,
      advice: `See why it is waiting with: sluice why ${id}`,
      link: `/jobs/${id}`,
    },
  ]
}

function risingFailures({ failed: { tenMinutes, hour } }: AttentionFacts): Attention[] {
  const before = hour - tenMinutes
  if (tenMinutes < FEWEST_FAILURES || tenMinutes * 5 <= RISE * before) return []
  return [
    {
      rule: 'failures_rising',
      severity: 'warning',
      subject: 'failures',
      text: `are rising: ${count(tenMinutes, 'job')} failed in the last 10 minutes, ${before.toLocaleString('en')} in the 50 minutes before`,
      advice: 'See what the errors have in common with: sluice errors --since 1h',
      link: '/errors?span=1h',
    },
  ]
}

function pausedLanes({ lanes }: AttentionFacts): Attention[] {
  return lanes
    .filter(({ enabled, slots, depth }) => (!enabled || slots === 0) && depth > 0)
    .map(({ name, enabled, depth }) => ({
      rule: 'lane_paused',
      severity: 'warning',
      subject: `lane ${name}`,
      text: `${enabled ? 'is closed (0 slots)' : 'is paused'} while ${count(depth, 'job waits', 'jobs wait')}`,
      advice: enabled
        ? `Open it with: sluice lanes set ${name} --slots NUMBER`
        : `Resume it with: sluice resume ${name}`,
      link: `/lanes?lane=${name}`,
    }))
}

function pausedFanOuts({ concerns }: AttentionFacts): Attention[] {
  return concerns.fanOuts.map(({ id, root, step, waiting }) => ({
    rule: 'fanout_paused',
    severity: 'warning',
    subject: `fan-out ${step}`,
    text: `of job ${root} is paused while ${count(waiting, 'child waits', 'children wait')}`,
    advice: `Resume it with: sluice window ${id} resume`,
    link: `/workflows/${root}`,
  }))
}

function doomedFanOuts({ concerns }: AttentionFacts): Attention[] {
  return concerns.doomed.map(({ id, root, step, why }) => ({
    rule: 'fanout_failing',
    severity: 'warning',
    subject: `fan-out ${step}`,
    text: `of job ${root} is still running but will fail: ${why}`,
    advice: `See why with: sluice trace ${id}. Let the other children finish, or stop them with: sluice cancel ${id}`,
    link: `/workflows/${root}`,
  }))
}

function lostDevices({ devices }: AttentionFacts): Attention[] {
  return devices
    .filter(({ lostAt }) => lostAt !== null)
    .map(({ name, budget, host }) => ({
      rule: 'device_gone',
      severity: 'warning',
      subject: `device ${name}`,
      text: `of ${budget}${host === null ? '' : ` on ${host}`} is missing`,
      advice: 'Check whether its machine still reports it: sluice devices',
      link: '/gpu',
    }))
}

function repairs({ recovered: { drift } }: AttentionFacts): Attention[] {
  if (drift === 0) return []
  return [
    {
      rule: 'drift',
      severity: 'warning',
      subject: 'the reconciler',
      text: `repaired ${count(drift, 'difference')} in the last hour`,
      advice: 'This is a bug in Sluice. Please report the log lines with DRIFT',
      link: '/recovery',
    },
  ]
}

/** Includes steps of workflows, because each needs its own decision. */
function approvals({ states, steps }: AttentionFacts): Attention[] {
  const waiting = states.awaiting_approval + steps.awaiting_approval
  if (waiting === 0) return []
  return [
    {
      rule: 'approval_waiting',
      severity: 'note',
      subject: count(waiting, 'job'),
      text: `${waiting === 1 ? 'waits' : 'wait'} for approval`,
      advice: 'Decide with: sluice approve ID or sluice reject ID',
      link: '/approvals',
    },
  ]
}

function durationText(ms: number): string {
  return formatDuration(ms < 1000 ? Math.round(ms) : Math.round(ms / 1000) * 1000)
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`
}
