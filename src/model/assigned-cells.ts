/** More jobs of one task are not asked for at once. */
export const MAX_AHEAD = 1000
/** More jobs are not assigned to a worker beyond its slots, in all lanes together. */
export const MAX_ASSIGNED = 4000
const CELLS = MAX_ASSIGNED
const FREE = 0
const WAITING = 1
const RECALLED = 2

/** What a thread has taken back. */
export interface Recalled {
  readonly ids: readonly string[]
  /** The newest claim that the event loop knows of. */
  readonly known: bigint
  /** The epoch of the worker's holdings as of then. */
  readonly epoch: number
}

/**
 * The jobs that are assigned to a worker and have not started, in memory that its event loop shares with its heartbeat thread.
 *
 * While a task blocks the loop, the thread takes them back. Starting a job and taking it back are one atomic step each on the same
 * cell, so a job that was taken back is never started.
 */
export class AssignedCells {
  readonly buffer: SharedArrayBuffer
  readonly #states: Int32Array
  readonly #ids: BigInt64Array
  /** The newest claim that the loop knows of, and the epoch of the worker's holdings. */
  readonly #known: BigInt64Array
  /** 1 while the answer of a cycle has not been read. */
  readonly #cycling: Int32Array
  /** How often the thread has taken jobs back. */
  readonly #recalls: Int32Array
  /** 1 while the thread is taking jobs back: it may not have read the ids yet. */
  readonly #recalling: Int32Array
  readonly #free: number[] = []
  /** Cells that were taken back, and may not be used again before the thread has read their ids. */
  readonly #recalled: number[] = []

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(CELLS * 12 + 28)) {
    this.buffer = buffer
    this.#ids = new BigInt64Array(buffer, 0, CELLS)
    this.#known = new BigInt64Array(buffer, CELLS * 8, 2)
    this.#states = new Int32Array(buffer, CELLS * 8 + 16, CELLS)
    this.#recalls = new Int32Array(buffer, CELLS * 12 + 16, 1)
    this.#cycling = new Int32Array(buffer, CELLS * 12 + 20, 1)
    this.#recalling = new Int32Array(buffer, CELLS * 12 + 24, 1)
    for (let cell = CELLS - 1; cell >= 0; cell--) this.#free.push(cell)
  }

  /** How many more jobs there is room for. Cells that the thread has taken back count only after `reuse`. */
  get room(): number {
    return this.#free.length
  }

  /** Makes cells that were taken back usable again, unless the thread may still read their ids. What `room` says afterwards holds whatever the thread does. */
  reuse(): void {
    if (this.#recalled.length > 0 && Atomics.load(this.#recalling, 0) === 0)
      this.#free.push(...this.#recalled.splice(0))
  }

  get recalls(): number {
    return Atomics.load(this.#recalls, 0)
  }

  /** A cycle is sent by a loop that knows of claims up to this one. */
  sent(known: number, epoch: number): void {
    this.note(known, epoch)
    Atomics.store(this.#cycling, 0, 1)
  }

  /** Its answer has been read, so that the loop knows of claims up to this one. */
  answered(known: number, epoch: number): void {
    this.note(known, epoch)
    Atomics.store(this.#cycling, 0, 0)
  }

  /** The loop knows of claims up to this one, and of this epoch of the worker's holdings. In this order: see `recall`. */
  note(known: number, epoch: number): void {
    Atomics.store(this.#known, 0, BigInt(known))
    Atomics.store(this.#known, 1, BigInt(epoch))
  }

  /** The caller has seen that there is `room`. @returns the cell of the job. */
  put(id: string): number {
    const cell = this.#free.pop()
    if (cell === undefined) throw new Error('no room for another assigned job')
    this.#ids[cell] = BigInt(id)
    Atomics.store(this.#states, cell, WAITING)
    return cell
  }

  /** Frees a cell. False: the thread has taken the job back, and it must not start. */
  take(cell: number): boolean {
    const isOurs = Atomics.exchange(this.#states, cell, FREE) === WAITING
    const unused = isOurs ? this.#free : this.#recalled
    unused.push(cell)
    return isOurs
  }

  /**
   * For the thread, while the loop is blocked. Takes back all jobs. A cycle that is under way may have brought others, which the loop has not
   * read yet. `undefined`: there is nothing to take back.
   */
  recall(): Recalled | undefined {
    const ids: string[] = []
    Atomics.store(this.#recalling, 0, 1)
    for (let cell = 0; cell < CELLS; cell++) {
      if (Atomics.compareExchange(this.#states, cell, WAITING, RECALLED) === WAITING)
        ids.push(String(this.#ids[cell]))
    }
    Atomics.store(this.#recalling, 0, 0)
    if (ids.length === 0 && Atomics.load(this.#cycling, 0) === 0) return undefined
    // In this order: a loop that reads its answer now either sees the recall, or has said before which claims it knows of.
    Atomics.add(this.#recalls, 0, 1)
    // The epoch first, which the loop writes last: an older epoch does nothing, and a newer one never comes with an older claim.
    const epoch = Number(Atomics.load(this.#known, 1))
    return { ids, known: Atomics.load(this.#known, 0), epoch }
  }
}
