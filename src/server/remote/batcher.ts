export interface BatcherOptions<Question, Answer> {
  /** Answers all of them, in their order. */
  readonly answer: (questions: readonly Question[]) => Promise<readonly Answer[]>
  /** Only questions of the same likeness go together. */
  readonly likeness?: (question: Question) => string
  /** How many are under way at once. */
  readonly atOnce: number
  /** Questions in one, at most. */
  readonly most: number
  /** From one beginning to the next of the same likeness. The first never waits. */
  readonly everyMs: number
  /** Whether a failure may be that of one question only: then each is asked alone. Default: never. */
  readonly blamesOne?: (error: unknown) => boolean
}

interface Waiting<Question, Answer> {
  readonly question: Question
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** Questions that are alike. */
interface Like<Question, Answer> {
  readonly waiting: Waiting<Question, Answer>[]
  /** When some of them were asked last. */
  begunAt: number
}

/**
 * Asks questions of many callers with few statements.
 *
 * One that comes alone is asked in the same turn of the event loop. Those that come while others are under way, or less than
 * `everyMs` after their like, go together. Each is answered by a statement that began after it was asked. So however many callers
 * come at once, they take `atOnce` connections and of each likeness as many statements a second as `everyMs` allows; who comes
 * later waits, and nobody for the pause of another likeness.
 */
export class Batcher<Question, Answer> {
  readonly #options: BatcherOptions<Question, Answer>
  /** By likeness, in the order of their turns. Those without a question are there only for as long as their pause lasts. */
  readonly #likes = new Map<string, Like<Question, Answer>>()
  #underWay = 0
  /** In this turn of the event loop some are asked. */
  #isDue = false
  #timer: NodeJS.Timeout | undefined
  #wakeAt = Number.POSITIVE_INFINITY

  constructor(options: BatcherOptions<Question, Answer>) {
    this.#options = options
  }

  ask(question: Question): Promise<Answer> {
    const likeness = this.#options.likeness?.(question) ?? ''
    return new Promise((resolve, reject) => {
      const like = this.#likes.get(likeness)
      if (like === undefined || like.waiting.length === 0) {
        // Behind those that wait already.
        this.#likes.delete(likeness)
        const begunAt = like?.begunAt ?? Number.NEGATIVE_INFINITY
        this.#likes.set(likeness, { waiting: [{ question, resolve, reject }], begunAt })
      } else like.waiting.push({ question, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#isDue || this.#underWay >= this.#options.atOnce) return
    const now = performance.now()
    let first = Number.POSITIVE_INFINITY
    for (const [likeness, { waiting, begunAt }] of this.#likes) {
      const dueAt = begunAt + this.#options.everyMs
      if (waiting.length > 0) first = Math.min(first, dueAt)
      else if (dueAt <= now) this.#likes.delete(likeness)
    }
    if (first <= now) {
      this.#isDue = true
      setImmediate(() => this.#begin())
    } else if (first < this.#wakeAt) {
      this.#wakeAt = first
      clearTimeout(this.#timer)
      // Timers know whole milliseconds, and cut off the rest.
      this.#timer = setTimeout(() => this.#wake(), Math.ceil(first - now))
    }
  }

  #wake(): void {
    this.#wakeAt = Number.POSITIVE_INFINITY
    this.#schedule()
  }

  #begin(): void {
    this.#isDue = false
    const batch = this.#take()
    this.#underWay++
    // Others may be of another likeness, or too many for one.
    this.#schedule()
    void this.#answer(batch).then(() => {
      this.#underWay--
      this.#schedule()
    })
  }

  /** Whose turn it is of those whose pause is over. There is somebody: time only passes. */
  #take(): Waiting<Question, Answer>[] {
    const now = performance.now()
    const isDue = ({ waiting, begunAt }: Like<Question, Answer>) =>
      waiting.length > 0 && begunAt + this.#options.everyMs <= now
    const [likeness, like] = [...this.#likes].find(([, each]) => isDue(each))!
    const batch = like.waiting.splice(0, this.#options.most)
    like.begunAt = now
    // The others have their turn before the rest of these.
    this.#likes.delete(likeness)
    this.#likes.set(likeness, like)
    return batch
  }

  async #answer(batch: readonly Waiting<Question, Answer>[]): Promise<void> {
    try {
      const answers = await this.#options.answer(batch.map(({ question }) => question))
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index]!)
    } catch (error) {
      if (batch.length === 1 || this.#options.blamesOne?.(error) !== true) {
        for (const { reject } of batch) reject(error)
        return
      }
      for (const each of batch) await this.#answer([each])
    }
  }
}
