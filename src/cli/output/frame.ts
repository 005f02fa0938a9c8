import type { Output } from './output.ts'

/** Collects lines for one frame of a {@link Screen}, as wide and as colourful as the terminal that shows it. */
export class Frame implements Output {
  readonly lines: string[] = ['']
  readonly #terminal: Output

  constructor(terminal: Output) {
    this.#terminal = terminal
  }

  get isTerminal(): boolean {
    return this.#terminal.isTerminal
  }

  get hasColour(): boolean {
    return this.#terminal.hasColour
  }

  get columns(): number | undefined {
    return this.#terminal.columns
  }

  get rows(): number | undefined {
    return this.#terminal.rows
  }

  write(text: string): void {
    const [first = '', ...rest] = text.split('\n')
    this.lines[this.lines.length - 1] += first
    this.lines.push(...rest)
  }

  line(text = ''): void {
    this.write(`${text}\n`)
  }

  onResize(listener: () => void): () => void {
    return this.#terminal.onResize(listener)
  }
}
