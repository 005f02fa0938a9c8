/** How often the log says that something still fails. */
const AGAIN_MS = 60_000

/**
 * Warns of something that is tried again and again: once when it begins to fail, once a minute with how often, and once when it
 * works again. An outage of an hour wrote thousands of lines, which hid what else there was.
 */
export class RepeatedWarning {
  readonly #log: { warn(fields: object, message: string): void }
  readonly #recovered: string
  #since: number | undefined
  #toldAt = 0
  #times = 0

  /** @param recovered What the log says when it works again. */
  constructor(log: { warn(fields: object, message: string): void }, recovered: string) {
    this.#log = log
    this.#recovered = recovered
  }

  failed(facts: Readonly<Record<string, unknown>>, message: string): void {
    const now = performance.now()
    this.#times++
    if (this.#since === undefined) {
      this.#since = now
      this.#log.warn(facts, message)
    } else if (now - this.#toldAt >= AGAIN_MS) {
      this.#log.warn(
        { ...facts, times: this.#times, forMs: Math.round(now - this.#since) },
        `${message} (still)`,
      )
    } else return
    this.#toldAt = now
  }

  worked(): void {
    if (this.#since === undefined) return
    // After a single failure there is nothing to sum up.
    if (this.#times > 1) {
      const forMs = Math.round(performance.now() - this.#since)
      this.#log.warn({ times: this.#times, forMs }, this.#recovered)
    }
    this.#since = undefined
    this.#times = 0
  }
}
