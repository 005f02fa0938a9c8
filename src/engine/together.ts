export interface TogetherOptions<Question, Answer> {
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
  readonly likeness: string
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/**
 * Asks questions of many callers with few statements.
 *
 * One that comes alone is asked in the same turn of the event loop. Those that come while others are under way, or less than
 * `everyMs` after them, go together. Each is answered by a statement that began after it was asked. So however many callers
 * come at once, they take `atOnce` connections and as many statements a second as `everyMs` allows; who comes later waits.
 */
export class Together<Question, Answer> {
  readonly #options: TogetherOptions<Question, Answer>
  #waiting: Waiting<Question, Answer>[] = []
  #underWay = 0
  #last = { likeness: '', at: Number.NEGATIVE_INFINITY }
  #scheduled = false

  constructor(options: TogetherOptions<Question, Answer>) {
    this.#options = options
  }

  ask(question: Question): Promise<Answer> {
    const likeness = this.#options.likeness?.(question) ?? ''
    return new Promise((resolve, reject) => {
      this.#waiting.push({ question, likeness, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#scheduled || this.#underWay >= this.#options.atOnce || this.#waiting.length === 0) return
    this.#scheduled = true
    const begin = () => {
      this.#scheduled = false
      void this.#begin()
    }
    const waitMs = this.#last.at + this.#options.everyMs - performance.now()
    if (waitMs > 0 && this.#waiting[0]!.likeness === this.#last.likeness) setTimeout(begin, waitMs)
    else setImmediate(begin)
  }

  async #begin(): Promise<void> {
    const batch = this.#take()
    this.#last = { likeness: batch[0]!.likeness, at: performance.now() }
    this.#underWay++
    // Others may be of another likeness, or too many for one.
    this.#schedule()
    await this.#answer(batch)
    this.#underWay--
    this.#schedule()
  }

  /** The ones that have waited longest, and are alike. */
  #take(): Waiting<Question, Answer>[] {
    const { likeness } = this.#waiting[0]!
    const batch: Waiting<Question, Answer>[] = []
    const left: Waiting<Question, Answer>[] = []
    for (const each of this.#waiting)
      (batch.length < this.#options.most && each.likeness === likeness ? batch : left).push(each)
    this.#waiting = left
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
