import { count } from '../../parts/count.ts'

/** How a lane stands, as far as it matters for what a change does. */
export interface LaneStand {
  readonly slots: number | null
  readonly running: number
  /** Jobs that could start. */
  readonly depth: number
  readonly enabled: boolean
}

export interface LaneChange {
  readonly slots?: number | null
  readonly enabled?: boolean
}

/**
 * What a change does at once, in sentences. Workers, budgets and keys may hold jobs back besides the lane, so what starts is
 * told as a bound.
 */
export function previewLane(now: LaneStand, change: LaneChange): string[] {
  const slots = change.slots === undefined ? now.slots : change.slots
  const enabled = change.enabled ?? now.enabled
  const words: string[] = []
  if (change.slots !== undefined && change.slots !== now.slots)
    words.push(`Slots: ${slotWords(now.slots)} → ${slotWords(slots)}.`)
  if (!enabled)
    return [
      ...words,
      now.running === 0
        ? 'No job is running. No new job starts until the lane is resumed.'
        : `${count(now.running, 'running job finishes', 'running jobs finish')}. No new job starts until the lane is resumed.`,
      ...(now.depth > 0
        ? [
            `${count(now.depth, 'job keeps', 'jobs keep')} waiting, and so do new ones. Start deadlines still apply.`,
          ]
        : []),
    ]
  const before = now.enabled ? roomOf(now.slots, now.running) : 0
  const after = roomOf(slots, now.running)
  const starts = Math.max(0, Math.min(now.depth, after) - Math.min(now.depth, before))
  if (slots !== null && now.running > slots)
    words.push(
      `${count(now.running, 'job is', 'jobs are')} running, more than the new limit. None is stopped, and no new job starts until ${slots === 0 ? 'the lane has slots again' : `fewer than ${slots} are running`}.`,
    )
  else if (now.depth === 0) words.push('No jobs are waiting.')
  else if (starts === 0)
    words.push(
      `${count(now.depth, 'job is', 'jobs are')} waiting${after === 0 ? whyNoRoom(slots, now.running) : ' for other reasons. The change starts none of them.'}`,
    )
  else
    words.push(
      `${count(now.depth, 'job is', 'jobs are')} waiting. Up to ${starts.toLocaleString()} can start at once.`,
    )
  return words
}

/** Free places; without a limit any number. */
function roomOf(slots: number | null, running: number): number {
  return slots === null ? Number.POSITIVE_INFINITY : Math.max(0, slots - running)
}

function slotWords(slots: number | null): string {
  return slots === null ? 'no limit' : slots.toLocaleString()
}

function whyNoRoom(slots: number | null, running: number): string {
  if (slots === 0) return '. With 0 slots, no job starts.'
  return `. All ${slotWords(slots)} slots are busy; the next job starts when one of the ${running.toLocaleString()} running jobs ends.`
}
