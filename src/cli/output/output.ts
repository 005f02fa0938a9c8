/** Where a command writes. */
export interface Output {
  /** Text as it is, without a line end. */
  write(text: string): void
  line(text?: string): void
  readonly isTerminal: boolean
  readonly hasColour: boolean
  /** Of the terminal just now; `undefined` where there is none: nothing is cut then. */
  readonly columns: number | undefined
  readonly rows: number | undefined
  /** Calls back when the terminal changes its size, until the returned function is called. */
  onResize(listener: () => void): () => void
}

/** A stream of this process. */
export class StreamOutput implements Output {
  readonly #stream: NodeJS.WriteStream
  readonly #environment: NodeJS.ProcessEnv

  /**
   * @param failed Called when nothing can be written any more: the reader has left, as in `sluice logs -f 1 | head`, or
   *   the disk is full.
   */
  constructor(
    stream: NodeJS.WriteStream,
    environment: NodeJS.ProcessEnv,
    failed: (error: NodeJS.ErrnoException) => void,
  ) {
    this.#stream = stream
    this.#environment = environment
    stream.on('error', failed)
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true
  }

  /** https://no-color.org: any text in NO_COLOR switches colours off. */
  get hasColour(): boolean {
    const { NO_COLOR = '', TERM } = this.#environment
    return this.isTerminal && NO_COLOR === '' && TERM !== 'dumb'
  }

  get columns(): number | undefined {
    return this.isTerminal ? this.#stream.columns || 80 : undefined
  }

  get rows(): number | undefined {
    return this.isTerminal ? this.#stream.rows || 24 : undefined
  }

  write(text: string): void {
    this.#stream.write(text)
  }

  line(text = ''): void {
    this.#stream.write(`${text}\n`)
  }

  onResize(listener: () => void): () => void {
    this.#stream.on('resize', listener)
    return () => this.#stream.off('resize', listener)
  }
}
