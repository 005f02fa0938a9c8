import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { now } from './clock.mjs'

// A worker that finishes nothing for this long while it is waited for has stopped working.
const STALL_MS = 60_000
const AGENT = fileURLToPath(new URL('./agent.mjs', import.meta.url))

/** One process of a measurement, as the coordinator sees it. */
class Agent {
  #child = fork(AGENT, { serialization: 'advanced' })
  #pending = new Map()
  #nextId = 1
  finished = 0

  constructor(onProgress, onDeath) {
    this.#child.on('message', ({ id, answer, error, progress }) => {
      if (progress !== undefined) {
        this.finished = progress.finished
        onProgress(progress)
        return
      }
      const { resolve, reject } = this.#pending.get(id)
      this.#pending.delete(id)
      if (error === undefined) resolve(answer)
      else reject(new Error(`agent: ${error}`))
    })
    this.#child.on('exit', (code, signal) => {
      const error = new Error(`an agent died: ${signal ?? code}`)
      for (const { reject } of this.#pending.values()) reject(error)
      this.#pending.clear()
      onDeath(error)
    })
  }

  ask(command, argument) {
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      this.#pending.set(id, { resolve, reject })
      this.#child.send({ id, command, argument })
    })
  }

  kill() {
    this.#child.removeAllListeners('exit')
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    return ended
  }
}

/**
 * The processes of a measurement and what they have done so far. `timeline` holds one sample per
 * progress report: time, jobs finished by all of them, and the resident memory of the reporter.
 */
export class Agents {
  #agents
  #waiting = []
  #death = null
  timeline = []
  firstAt = null

  constructor(count) {
    this.#agents = Array.from(
      { length: count },
      () =>
        new Agent(
          (progress) => this.#note(progress),
          (error) => this.#fail(error),
        ),
    )
  }

  static async start(count, name, connection) {
    const agents = new Agents(count)
    await agents.askAll('open', { name, connection })
    return agents
  }

  get finished() {
    return this.#agents.reduce((sum, agent) => sum + agent.finished, 0)
  }

  askAll(command, argument) {
    return Promise.all(this.#agents.map((agent) => agent.ask(command, argument)))
  }

  /**
   * Resolves when the handlers of all processes together have finished `count` jobs. Rejects when a
   * process dies, or when none of them has finished anything for a minute.
   */
  async untilFinished(count) {
    while (this.finished < count) {
      const before = this.finished
      await new Promise((resolve, reject) => {
        if (this.#death !== null) reject(this.#death)
        const stalled = () => {
          if (this.finished > before) resolve()
          else reject(new Error(`no job finished for ${STALL_MS} ms; ${before} of ${count} are done`))
        }
        const timer = setTimeout(stalled, STALL_MS)
        this.#waiting.push({ count, resolve, reject, timer })
      })
    }
  }

  /** When the `count`-th job was finished, read between two samples. */
  timeOf(count) {
    const after = this.timeline.findIndex((sample) => sample.finished >= count)
    if (after < 0) return null
    const later = this.timeline[after]
    const earlier = this.timeline[after - 1] ?? { at: this.firstAt, finished: 0 }
    const share = (count - earlier.finished) / (later.finished - earlier.finished)
    return earlier.at + (later.at - earlier.at) * share
  }

  /** Jobs a second between the `from`-th and the `to`-th job. */
  rateBetween(from, to) {
    const start = from === 0 ? this.firstAt : this.timeOf(from)
    return ((to - from) / (this.timeOf(to) - start)) * 1000
  }

  /** Ends all processes at once: what they were doing is of no further interest. */
  async kill() {
    await Promise.all(this.#agents.map((agent) => agent.kill()))
  }

  #note({ at, firstAt, rss }) {
    if (firstAt !== null && (this.firstAt === null || firstAt < this.firstAt)) this.firstAt = firstAt
    const last = this.timeline.at(-1)
    const finished = this.finished
    // Reports of several processes may arrive out of order by a few ms; time never runs backwards.
    this.timeline.push({ at: last === undefined ? at : Math.max(at, last.at), finished, rss, seen: now() })
    this.#waiting = this.#waiting.filter((waiter) => {
      if (waiter.count > finished) return true
      clearTimeout(waiter.timer)
      waiter.resolve()
      return false
    })
  }

  #fail(error) {
    this.#death = error
    for (const { reject, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer)
      reject(error)
    }
  }
}
