import type { Output } from './output.ts'

const HIDE_CURSOR = '\u001b[?25l'
const SHOW_CURSOR = '\u001b[?25h'
const TO_LINE_END = '\u001b[K'
const TO_SCREEN_END = '\u001b[J'
const CLEAR = '\u001b[2J\u001b[H'
/** Terminals that know it show a frame only when it is complete; others ignore it. */
const BEGIN_FRAME = '\u001b[?2026h'
const END_FRAME = '\u001b[?2026l'

/**
 * Draws frames over each other at the foot of a terminal.
 *
 * A frame is one write, and overwrites the last one line by line instead of clearing first: nothing flickers. Lines must
 * fit the width of the terminal and the frame its height less one.
 */
export class Screen {
  readonly #output: Output
  readonly #offResize: () => void
  readonly #restore = () => this.close()
  #height = 0
  #resized = false
  #open = true

  constructor(output: Output) {
    this.#output = output
    this.#offResize = output.onResize(() => {
      this.#resized = true
    })
    // However the process ends, the cursor comes back.
    process.once('exit', this.#restore)
    output.write(HIDE_CURSOR)
  }

  get columns(): number {
    return this.#output.columns ?? 80
  }

  get rows(): number {
    return this.#output.rows ?? 24
  }

  draw(lines: readonly string[]): void {
    if (!this.#open) return
    // A terminal rearranges lines when it changes its width: where the last frame began is anybody's guess then.
    const back = this.#resized ? CLEAR : this.#height > 0 ? `\u001b[${this.#height}A\r` : '\r'
    this.#resized = false
    this.#height = lines.length
    const text = lines.map((line) => `${line}${TO_LINE_END}\n`).join('')
    this.#output.write(`${BEGIN_FRAME}${back}${text}${TO_SCREEN_END}${END_FRAME}`)
  }

  /** Leaves the last frame where it is. May be called twice. */
  close(): void {
    if (!this.#open) return
    this.#open = false
    this.#offResize()
    process.off('exit', this.#restore)
    this.#output.write(SHOW_CURSOR)
  }
}
