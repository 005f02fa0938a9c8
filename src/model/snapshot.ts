/**
 * Which transactions a reader of the database saw as ended.
 *
 * A row written by a transaction that the snapshot does not include has changed since.
 */
export interface Snapshot {
  /** All transactions below this had ended. */
  readonly min: bigint
  /** No transaction from this one on had begun. */
  readonly max: bigint
  /** The transactions in between that had not ended. */
  readonly running: readonly bigint[]
}

const HALF_WORD = 1n << 32n
/** Transactions 0 to 2 are reserved. They mark rows that were frozen long ago. */
const FIRST_REAL = 3n

/** Parses `pg_snapshot` as PostgreSQL writes it: `10:20:10,14`. */
export function parseSnapshot(text: string): Snapshot {
  const [min, max, running] = text.split(':')
  return {
    min: BigInt(min!),
    max: BigInt(max!),
    running: running === '' || running === undefined ? [] : running.split(',').map(BigInt),
  }
}

/** Completes a row's transaction id, of which the row stores only the lower half, relative to this snapshot. */
export function wholeXid(half: string, seenWith: Snapshot): bigint {
  const xid = BigInt(half)
  if (xid < FIRST_REAL) return 0n
  const whole = (seenWith.max / HALF_WORD) * HALF_WORD + xid
  return whole < seenWith.max ? whole : whole - HALF_WORD
}

export function includes(snapshot: Snapshot, xid: bigint): boolean {
  return xid < snapshot.min || (xid < snapshot.max && !snapshot.running.includes(xid))
}

/** Encodes a snapshot with letters, digits and dots: `a.3.0.1` for `10:13:10,11`. */
export function shortSnapshot({ min, max, running }: Snapshot): string {
  return [min, max - min, ...running.map((xid) => xid - min)].map((number) => number.toString(36)).join('.')
}

/** Decodes such a text. Returns `undefined` if it is not valid. */
export function readShortSnapshot(text: string): Snapshot | undefined {
  const parts = text.split('.')
  if (parts.length < 2 || !parts.every((part) => /^[0-9a-z]{1,13}$/.test(part))) return undefined
  const [min, span, ...running] = parts.map(fromBase36)
  return { min: min!, max: min! + span!, running: running.map((delta) => min! + delta) }
}

function fromBase36(text: string): bigint {
  let number = 0n
  for (const digit of text) number = number * 36n + BigInt(Number.parseInt(digit, 36))
  return number
}
