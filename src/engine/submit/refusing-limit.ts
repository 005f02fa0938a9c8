/** That a submission has a `runAt`. `certain`: it lies ahead, however wrong the clock of this program may be. */
export type Lateness = 'maybe' | 'certain'

/** The limit that the details of an `ADMISSION_REJECTED` name. */
export interface RefusingLimit {
  readonly kind: 'active' | 'scheduled' | 'owner' | 'queued'
  /** Of `queued`: whose jobs it counts. */
  readonly task: string | undefined
  /** Of `owner`: whose jobs it counts. */
  readonly owner?: string
  /** How many jobs it still had room for. */
  readonly room: number
}

export function refusingLimit(details: Readonly<Record<string, unknown>>): RefusingLimit {
  const { ceiling, active, maxScheduled, scheduled, owner, maxPerOwner, owned, task, maxQueued, queued } =
    details
  const room = (most: unknown, found: unknown) => Math.max(0, Number(most) - Number(found))
  if (ceiling !== undefined) return { kind: 'active', task: undefined, room: room(ceiling, active) }
  if (maxScheduled !== undefined)
    return { kind: 'scheduled', task: undefined, room: room(maxScheduled, scheduled) }
  if (maxPerOwner !== undefined)
    return { kind: 'owner', task: undefined, owner: String(owner), room: room(maxPerOwner, owned) }
  return { kind: 'queued', task: String(task), room: room(maxQueued, queued) }
}

/**
 * Whether a job counts against a limit, as far as its submission tells. Of one with a `runAt` only the database knows: the time may have
 * come, and a job that waits for approval is active whatever its time.
 */
export function countsAgainst(
  { kind, task, owner }: RefusingLimit,
  submission: {
    readonly task: string
    readonly later?: Lateness | undefined
    readonly owner?: string | undefined
  },
): boolean {
  if (kind === 'owner') return submission.owner === owner
  if (kind === 'scheduled') return submission.later !== undefined
  return submission.later === undefined && (task === undefined || submission.task === task)
}
