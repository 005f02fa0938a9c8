import type { Output } from './output/output.ts'
import { cut, printable } from './output/text-width.ts'
import type { System } from './system.ts'

const REDRAW_MS = 300

/** One line on a terminal that tells how a job is doing while somebody waits for it. Nothing where there is no terminal. */
export class StatusLine {
  readonly #output: Output
  readonly #system: System
  readonly #id: string
  #timer: NodeJS.Timeout | undefined
  #drawn = false

  constructor(output: Output, system: System, id: string) {
    this.#output = output
    this.#system = system
    this.#id = id
  }

  start(): void {
    if (this.#output.isTerminal) this.#timer = setTimeout(() => void this.#draw(), REDRAW_MS)
  }

  /** Removes the line. May be called twice. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#drawn) this.#output.write('\r\u001b[K')
    this.#drawn = false
  }

  /** Of a workflow or a job that has not started: what it waits for. */
  async #waitOf({ id, kind, status }: Awaited<ReturnType<System['getJob']>>): Promise<string> {
    if (kind === null && status === 'running') return ''
    const why = await this.#system.why(id).catch(() => undefined)
    return why === undefined || why.job.status !== status ? '' : `: ${why.reason}`
  }

  async #draw(): Promise<void> {
    const job = await this.#system.getJob(this.#id).catch(() => undefined)
    if (this.#timer === undefined) return
    if (job !== undefined) {
      const progress = job.progress === null ? '' : ` ${Math.round(job.progress * 100)}%`
      const waits = await this.#waitOf(job)
      if (this.#timer === undefined) return
      const text = `job ${job.id} is ${job.status}${progress} ${job.message ?? ''}${waits}`
      this.#output.write(`\r${cut(printable(text), (this.#output.columns ?? 80) - 1)}\u001b[K`)
      this.#drawn = true
    }
    this.#timer = setTimeout(() => void this.#draw(), REDRAW_MS)
  }
}
