import type { WatchedTree } from '../../engine/streams/tree-watch.ts'
import type { World } from '../command.ts'
import type { Output } from '../output/output.ts'
import { Screen } from '../output/screen.ts'
import { painter } from '../output/style.ts'
import { printable } from '../output/text-width.ts'
import { Events } from './events.ts'
import { frame } from './view.ts'

/** Where a run shows how it goes. */
export interface Display {
  /** @param resumed What had ended before is not told again. */
  begin(workflow: string, id: string, resumed: boolean): void
  show(tree: WatchedTree): void
  /** What stands in the way just now; `undefined`: nothing. */
  note(text: string | undefined): void
  /** Something that happened. */
  tell(text: string): void
  /** Leaves the last state where it is. May be called twice. */
  stop(): void
}

const FRAME_MS = 80

export function displayFor(world: World, json: boolean): Display {
  if (json) return new NoDisplay()
  return world.out.isTerminal && world.environment.TERM !== 'dumb'
    ? new LiveDisplay(world.out)
    : new PlainDisplay(world.out)
}

/** A tree that moves, for a terminal. */
class LiveDisplay implements Display {
  readonly #output: Output
  #screen: Screen | undefined
  #timer: NodeJS.Timeout | undefined
  #run = { workflow: '', id: '' }
  #tree: WatchedTree | undefined
  #seenAt = 0
  #tick = 0
  #obstacle: string | undefined
  #told: string | undefined

  constructor(output: Output) {
    this.#output = output
  }

  begin(workflow: string, id: string): void {
    this.#run = { workflow, id }
  }

  show(tree: WatchedTree): void {
    this.#tree = tree
    this.#seenAt = performance.now()
    this.#screen ??= new Screen(this.#output)
    this.#timer ??= setInterval(() => this.#draw(), FRAME_MS)
  }

  note(text: string | undefined): void {
    this.#obstacle = text
  }

  /** Part of the view once there is one; before that, a line. */
  tell(text: string): void {
    if (this.#screen === undefined) this.#output.line(printable(text))
    else this.#told = text
  }

  stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#obstacle = undefined
    this.#told = undefined
    this.#draw()
    this.#screen?.close()
  }

  #draw(): void {
    if (this.#screen === undefined || this.#tree === undefined) return
    const { columns, rows } = this.#screen
    const sinceMs = performance.now() - this.#seenAt
    const view = {
      ...this.#run,
      tree: this.#tree,
      sinceMs,
      tick: this.#tick++,
      note: this.#told ?? this.#obstacle,
    }
    this.#screen.draw(frame(view, { columns, rows }, painter(this.#output)))
  }
}

/** A line per event, for files and pipes. */
class PlainDisplay implements Display {
  readonly #output: Output
  readonly #events = new Events()
  #beganAt = 0
  #silent = false
  #note: string | undefined

  constructor(output: Output) {
    this.#output = output
  }

  begin(workflow: string, id: string, resumed: boolean): void {
    this.#beganAt = performance.now()
    this.#silent = resumed
    this.tell(`${workflow} ${resumed ? 'goes on' : 'started'} (job ${id})`)
  }

  show(tree: WatchedTree): void {
    for (const line of this.#events.since(tree, { silent: this.#silent })) this.tell(line)
    this.#silent = false
  }

  note(text: string | undefined): void {
    if (text !== undefined && text !== this.#note) this.tell(text)
    this.#note = text
  }

  tell(text: string): void {
    const seconds = this.#beganAt === 0 ? 0 : (performance.now() - this.#beganAt) / 1000
    this.#output.line(`${`${seconds.toFixed(1)}s`.padStart(7)}  ${printable(text)}`)
  }

  stop(): void {}
}

/** For --json: nothing until the end. */
class NoDisplay implements Display {
  begin(): void {}
  show(): void {}
  note(): void {}
  tell(): void {}
  stop(): void {}
}
