import { MAX_ASSIGNED } from './limits.ts'

const CELLS = MAX_ASSIGNED
const FREE = 0
const WAITING = 1
const RECALLED = 2

/** What the thread took back. */
export interface Recalled {
  readonly ids: readonly string[]
  /** The newest claim that the event loop knows of. */
  readonly known: bigint
  /** The epoch of the worker's holdings at that claim. */
  readonly epoch: number
}

/**
 * The jobs that are assigned to a worker and have not started, in memory that its event loop shares with its heartbeat
 * thread.
 *
 * While a task blocks the event loop, the thread takes these jobs back. Starting a job and taking it back are each one
 * atomic step on the same cell, so a job that was taken back never starts.
 */
export class AssignedCells {
  readonly buffer: SharedArrayBuffer
  readonly #states: Int32Array
  readonly #ids: BigInt64Array
  /** The newest claim that the event loop knows of, and the epoch of the worker's holdings. */
  readonly #known: BigInt64Array
  /** 1 while the response of a cycle has not been read. */
  readonly #cycling: Int32Array
  /** How often the thread took jobs back. */
  readonly #recalls: Int32Array
  /** 1 while the thread is taking jobs back and may not have read their ids yet. */
  readonly #recalling: Int32Array
  readonly #free: number[] = []
  /** Cells that were taken back. They cannot be reused before the thread has read their ids. */
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

  /** How many more jobs fit. Cells that the thread took back count only after `reuse`. */
  get room(): number {
    return this.#free.length
  }

  /**
   * Makes cells that were taken back usable again, unless the thread may still read their ids. The thread cannot
   * reduce `room` afterwards.
   */
  reuse(): void {
    if (this.#recalled.length > 0 && Atomics.load(this.#recalling, 0) === 0)
      this.#free.push(...this.#recalled.splice(0))
  }

  get recalls(): number {
    return Atomics.load(this.#recalls, 0)
  }

  /** Records that a cycle is in flight, sent by an event loop that knows of claims up to `known`. */
  sent(known: number, epoch: number): void {
    this.note(known, epoch)
    Atomics.store(this.#cycling, 0, 1)
  }

  /** Records that the response was read: the event loop now knows of claims up to `known`. */
  answered(known: number, epoch: number): void {
    this.note(known, epoch)
    Atomics.store(this.#cycling, 0, 0)
  }

  /** Stores the claim first and the epoch second. `recall` depends on this order. */
  note(known: number, epoch: number): void {
    Atomics.store(this.#known, 0, BigInt(known))
    Atomics.store(this.#known, 1, BigInt(epoch))
  }

  /** Stores a job and returns its cell. Callers check `room` first. */
  put(id: string): number {
    const cell = this.#free.pop()
    if (cell === undefined) throw new Error('no room for another assigned job')
    this.#ids[cell] = BigInt(id)
    Atomics.store(this.#states, cell, WAITING)
    return cell
  }

  /** Frees a cell. Returns false if the thread took the job back; the job must not start then. */
  take(cell: number): boolean {
    const isOurs = Atomics.exchange(this.#states, cell, FREE) === WAITING
    const unused = isOurs ? this.#free : this.#recalled
    unused.push(cell)
    return isOurs
  }

  /**
   * Takes back all jobs. The thread calls it while the event loop is blocked. A cycle in flight may have brought more
   * jobs that the event loop has not read. Returns `undefined` if there is nothing to take back.
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
    // The order matters: an event loop that reads its response now either sees the recall, or has already recorded the
    // claims it knows of.
    Atomics.add(this.#recalls, 0, 1)
    // The epoch is read first because the event loop writes it last: an older epoch has no effect, and a newer one
    // never comes with an older claim.
    const epoch = Number(Atomics.load(this.#known, 1))
    return { ids, known: Atomics.load(this.#known, 0), epoch }
  }
}
