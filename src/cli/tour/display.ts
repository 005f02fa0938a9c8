import type { Output } from '../output/output.ts'
import { Screen } from '../output/screen.ts'
import { painter } from '../output/style.ts'
import { frame, type TourView } from './view.ts'

/** Where the tour shows what goes on. */
export interface Display {
  /** @param now The state of things, asked for whenever it is drawn. */
  start(now: () => TourView): void
  tell(event: string): void
  /** Shows the last state and stops. May be called twice. */
  stop(): void
}

const FRAME_MS = 80

/** A picture that moves, for a terminal. */
export class LiveDisplay implements Display {
  readonly #output: Output
  #screen: Screen | undefined
  #now: (() => TourView) | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(output: Output) {
    this.#output = output
  }

  start(now: () => TourView): void {
    this.#now = now
    this.#screen = new Screen(this.#output)
    this.#timer = setInterval(() => this.#draw(), FRAME_MS)
    this.#draw()
  }

  /** Events are part of the view. Before it begins they are lines. */
  tell(event: string): void {
    if (this.#screen === undefined) this.#output.line(event)
  }

  stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#draw()
    this.#screen?.close()
  }

  #draw(): void {
    if (this.#screen === undefined || this.#now === undefined) return
    const { columns, rows } = this.#screen
    this.#screen.draw(frame(this.#now(), { columns, rows }, painter(this.#output)))
  }
}

const LINE_MS = 2000

/** A line now and then, for files and pipes. */
export class PlainDisplay implements Display {
  readonly #output: Output
  #timer: NodeJS.Timeout | undefined
  #now: (() => TourView) | undefined

  constructor(output: Output) {
    this.#output = output
  }

  start(now: () => TourView): void {
    this.#now = now
    this.#timer = setInterval(() => this.#output.line(statusLine(now())), LINE_MS)
  }

  tell(event: string): void {
    const at = this.#now === undefined ? '' : `${stamp(this.#now())} `
    this.#output.line(`${at}${event}`)
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}

/** For --json: nothing until the end. */
export class NoDisplay implements Display {
  start(): void {}
  tell(): void {}
  stop(): void {}
}

function stamp({ elapsedMs }: TourView): string {
  return `${(elapsedMs / 1000).toFixed(1)}s`.padStart(6)
}

function statusLine(view: TourView): string {
  const lanes = view.lanes.map(({ name, seats, slots, waiting }) => {
    const running = seats.filter((seat) => seat !== undefined).length
    return `${name} ${running} of ${slots ?? 'any'}, ${waiting} waiting`
  })
  return `${stamp(view)} ${view.done} of ${view.total} done; ${lanes.join('; ')}`
}
