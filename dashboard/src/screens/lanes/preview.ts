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
        ? 'Nothing runs in it now, and nothing new starts until it is resumed.'
        : `${count(now.running, 'job goes on to its end', 'jobs go on to their end')}; nothing new starts until it is resumed.`,
      ...(now.depth > 0
        ? [
            `${count(now.depth, 'job waits', 'jobs wait')} on, and so do those that come. Start deadlines go on running.`,
          ]
        : []),
    ]
  const before = now.enabled ? roomOf(now.slots, now.running) : 0
  const after = roomOf(slots, now.running)
  const starts = Math.max(0, Math.min(now.depth, after) - Math.min(now.depth, before))
  if (slots !== null && now.running > slots)
    words.push(
      `${now.running} run now, more than that: none is stopped, and nothing new starts until ${slots === 0 ? 'it has slots again' : `fewer than ${slots} run`}.`,
    )
  else if (now.depth === 0) words.push('Nothing waits in it now.')
  else if (starts === 0)
    words.push(
      `${count(now.depth, 'job waits', 'jobs wait')} ${after === 0 ? whyNoRoom(slots, now.running) : 'for something else: none starts because of it.'}`,
    )
  else
    words.push(
      `${count(now.depth, 'job waits', 'jobs wait')}; up to ${starts.toLocaleString()} can start at once.`,
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
  if (slots === 0) return 'on: with 0 slots nothing starts.'
  return `on: all ${slotWords(slots)} slots are taken, and one starts when one of the ${running.toLocaleString()} that run has ended.`
}
