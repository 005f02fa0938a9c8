import type { Queryable } from '../db/database.ts'
import { messageOf } from '../errors.ts'
import { Ticks } from '../model/cron.ts'
import { type FiringPlan, planFirings } from '../model/schedule.ts'
import { type DueSchedule, findDueSchedules } from '../store/find-due-schedules.ts'
import { type Fired, fireSchedule } from '../store/fire-schedule.ts'
import { fireSchedules } from '../store/fire-schedules.ts'
import type { Log } from './log.ts'

/** Schedules looked at in one go. */
const CHUNK = 500
/** Schedules fired in one statement. One at a time, 500 took 1.9 s in the median. */
const BATCH = 100
/** Each may have waited 2 s for a stranger's transaction; other duties wait meanwhile. */
const MAX_FAILURES = 3

export interface FiredCounts {
  readonly fired: number
  readonly skipped: number
}

/**
 * Deals with every tick that is due. Safe in any number of processes at once: each tick is one's, and its job and its
 * record are stored together or not at all. One schedule that cannot be fired keeps no other from it; it is tried again.
 *
 * @param now The database's clock unless given.
 */
export async function fireDue(db: Queryable, log: Log, now?: Date): Promise<FiredCounts> {
  let fired = 0
  let skipped = 0
  let failures = 0
  for (;;) {
    const due = await findDueSchedules(db, CHUNK, now)
    let progress = false
    const { done, left } = await fireTogether(db, log, due)
    for (const outcome of done) {
      progress = true
      if (outcome.skipped === null) fired++
      else skipped++
    }
    for (const planned of left) {
      const outcome = await fireOne(db, log, planned)
      for (const each of outcome.fired) {
        progress = true
        if (each.skipped === null) fired++
        else skipped++
      }
      if (outcome.failed && ++failures === MAX_FAILURES) return { fired, skipped }
    }
    // What is left now is somebody else's, or failed.
    if (due.length < CHUNK || !progress) return { fired, skipped }
  }
}

interface Planned {
  readonly schedule: DueSchedule
  readonly plan: FiringPlan
}

/**
 * Fires those that have one tick and nothing that passed before it, many in one statement.
 *
 * @returns what became of them, and those that have to be fired one at a time. All of a batch have to when one of its jobs would be
 *   refused: then the refusal is recorded for that one alone.
 */
async function fireTogether(
  db: Queryable,
  log: Log,
  due: readonly DueSchedule[],
): Promise<{ readonly done: readonly Fired[]; readonly left: readonly Planned[] }> {
  const done: Fired[] = []
  const left: Planned[] = []
  let batch: Planned[] = []
  const fireBatch = async (batch: readonly Planned[]) => {
    const ticks = batch.map(({ schedule: { name, version, nextAt }, plan }) => ({
      name,
      version,
      nextAt,
      tick: plan.fire[0]!,
      next: plan.next,
    }))
    try {
      for (const fired of await fireSchedules(db, ticks)) {
        tell(log, fired.schedule, [fired])
        done.push(fired)
      }
    } catch (error) {
      log.debug({ error: messageOf(error) }, 'schedules could not be fired together')
      left.push(...batch)
    }
  }
  // While the database stores one batch, the next is worked out.
  let storing = Promise.resolve()
  // Many schedules have the same times; to work these out takes longer than to store a job.
  const known = new Map<string, Ticks>()
  for (const schedule of due) {
    const { cron, timezone, nextAt, now } = schedule
    const name = `${cron}\n${timezone}`
    const ticks = known.get(name) ?? new Ticks(cron, timezone)
    known.set(name, ticks)
    const planned = { schedule, plan: planFirings(schedule, nextAt.getTime(), now.getTime(), ticks) }
    if (planned.plan.fire.length === 1 && planned.plan.passed === undefined) batch.push(planned)
    else left.push(planned)
    if (batch.length === BATCH) {
      await storing
      storing = fireBatch(batch)
      batch = []
    }
  }
  await storing
  if (batch.length > 0) await fireBatch(batch)
  return { done, left }
}

/** Its due ticks one after the other, as long as nobody else does it. */
async function fireOne(
  db: Queryable,
  log: Log,
  { schedule, plan }: Planned,
): Promise<{ readonly fired: readonly Fired[]; readonly failed: boolean }> {
  const { name, version } = schedule
  const all: Fired[] = []
  let failed = false
  let nextAt = schedule.nextAt.getTime()
  const ticks = plan.fire.length === 0 ? [undefined] : plan.fire
  try {
    for (const [index, tick] of ticks.entries()) {
      const then = ticks[index + 1] ?? plan.next
      const passed = index === 0 ? plan.passed : undefined
      const fired = await fireSchedule(
        db,
        { name, version, nextAt: new Date(nextAt) },
        { tick, passed, then },
      )
      if (fired.length === 0) break
      tell(log, name, fired)
      all.push(...fired)
      if (then === undefined) break
      nextAt = then
    }
  } catch (error) {
    failed = true
    log.warn({ schedule: name, error: messageOf(error) }, 'a schedule could not be fired; it is tried again')
  }
  return { fired: all, failed }
}

/** An episode of ticks that overlap with an earlier job is reported when it begins, and when it ends with their number. */
function tell(log: Log, schedule: string, fired: readonly Fired[]): void {
  for (const { tickAt, skipped, reason, overlapped } of fired) {
    const facts = { schedule, tickAt, skipped, reason }
    if (skipped === 'overlap' && overlapped > 1) log.debug(facts, 'a tick of a schedule got no job')
    else if (skipped !== null && skipped !== 'disabled') log.warn(facts, 'a tick of a schedule got no job')
    if (skipped !== 'overlap' && overlapped > 0)
      log.info(
        { schedule, tickAt, ticks: overlapped },
        'the earlier job of a schedule has ended; the ticks that overlapped with it got no job',
      )
  }
}
