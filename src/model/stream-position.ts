import { readShortSnapshot, type Snapshot, shortSnapshot } from './snapshot.ts'

/** How far a reader has read a stream of a job or a tree. Any server can continue from it. */
export interface StreamPosition {
  /** Log lines up to this id have been sent. */
  readonly line: number
  /** Everything that this snapshot includes has been sent. Absent if nothing has. */
  readonly seen: Snapshot | undefined
  /** The next read has been sent up to this job, with or without its progress. */
  readonly part: StreamPart | undefined
  /** The last event has been sent. */
  readonly ended: boolean
}

export interface StreamPart {
  readonly job: bigint
  /** 0: its state. 1: its progress, too. */
  readonly half: 0 | 1
  readonly snapshot: Snapshot
}

export const START: StreamPosition = { line: 0, seen: undefined, part: undefined, ended: false }

/** Encodes a position as the `id:` of an event. */
export function writePosition({ line, seen, part, ended }: StreamPosition): string {
  const told = seen === undefined ? '' : shortSnapshot(seen)
  const base = `${line}~${told}`
  if (ended) return `${base}~end`
  return part === undefined ? base : `${base}~${part.job}~${part.half}~${shortSnapshot(part.snapshot)}`
}

/** Decodes a client's `Last-Event-ID`. Returns `undefined` if no server wrote it. */
export function readPosition(text: string): StreamPosition | undefined {
  const [line, told, ...rest] = text.split('~')
  if (line === undefined || told === undefined || !/^\d{1,15}$/.test(line) || text.length > 20_000)
    return undefined
  const seen = told === '' ? undefined : readShortSnapshot(told)
  if (told !== '' && seen === undefined) return undefined
  const base = { line: Number(line), seen, part: undefined, ended: false }
  if (rest.length === 0) return base
  if (rest.length === 1) return rest[0] === 'end' ? { ...base, ended: true } : undefined
  const part = readPart(rest)
  return part && { ...base, part }
}

function readPart([job, half, told, ...more]: readonly string[]): StreamPart | undefined {
  const snapshot = readShortSnapshot(told ?? '')
  if (more.length > 0 || snapshot === undefined || (half !== '0' && half !== '1')) return undefined
  return job !== undefined && /^[1-9]\d{0,18}$/.test(job)
    ? { job: BigInt(job), half: half === '1' ? 1 : 0, snapshot }
    : undefined
}
