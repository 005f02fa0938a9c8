/** What one job of the tour's worker is doing. */
export interface Seat {
  readonly job: string
  progress: number
}

/**
 * Counts, inside the tasks, how many run at once in each lane. The limits of the lanes are kept by the database; this is
 * the witness.
 */
export class Scoreboard {
  readonly #seats = new Map<string, (Seat | undefined)[]>()
  readonly #most = new Map<string, number>()

  /** The places in a lane; `undefined` is a free one. A job keeps its place while it runs. */
  seats(lane: string): readonly (Seat | undefined)[] {
    return this.#seats.get(lane) ?? []
  }

  running(lane: string): number {
    return this.seats(lane).filter((seat) => seat !== undefined).length
  }

  /** The most that ever ran at once. */
  most(lane: string): number {
    return this.#most.get(lane) ?? 0
  }

  /** Runs a job's work in a place of its lane. */
  async during<T>(lane: string, job: string, work: (seat: Seat) => Promise<T>): Promise<T> {
    const seat: Seat = { job, progress: 0 }
    const seats = this.#seats.get(lane) ?? []
    this.#seats.set(lane, seats)
    const free = seats.indexOf(undefined)
    const place = free < 0 ? seats.length : free
    seats[place] = seat
    this.#most.set(lane, Math.max(this.most(lane), this.running(lane)))
    try {
      return await work(seat)
    } finally {
      seats[place] = undefined
    }
  }
}
