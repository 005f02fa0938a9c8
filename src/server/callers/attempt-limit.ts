interface Attempts {
  count: number
  /** When they begin to count anew. */
  readonly until: number
}

/**
 * Counts what each source does within a minute, in bounded memory: of more sources than that, those seen longest ago
 * are forgotten.
 */
export class AttemptLimit {
  readonly #most: number
  readonly #periodMs: number
  readonly #sources: number
  readonly #now: () => number
  readonly #attempts = new Map<string, Attempts>()

  constructor(
    options: { most: number; periodMs: number; sources: number },
    now: () => number = () => performance.now(),
  ) {
    this.#most = options.most
    this.#periodMs = options.periodMs
    this.#sources = options.sources
    this.#now = now
  }

  /** Milliseconds until this source may try again; 0 when it may now. */
  waitOf(source: string): number {
    const attempts = this.#attempts.get(source)
    if (attempts === undefined || attempts.count < this.#most) return 0
    return Math.max(0, attempts.until - this.#now())
  }

  /** Counts an attempt. False when it is one too many. */
  count(source: string): boolean {
    const now = this.#now()
    const known = this.#attempts.get(source)
    const attempts =
      known === undefined || known.until <= now ? { count: 0, until: now + this.#periodMs } : known
    attempts.count++
    // Set anew, it is the youngest: a map keeps the order in which things were put in.
    this.#attempts.delete(source)
    this.#attempts.set(source, attempts)
    if (this.#attempts.size > this.#sources) this.#attempts.delete(this.#attempts.keys().next().value!)
    return attempts.count <= this.#most
  }

  /** How many sources are remembered. */
  get size(): number {
    return this.#attempts.size
  }
}

/** An address of IPv4, or the /64 of one of IPv6: a single customer has all of that. */
export function sourceOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped !== null) return mapped[1]!
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('%', 1)[0]!.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const missing = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length)
  const groups = [...left, ...Array<string>(missing).fill('0'), ...right]
  return `${groups
    .slice(0, 4)
    .map((group) => (Number.parseInt(group, 16) || 0).toString(16))
    .join(':')}::/64`
}
