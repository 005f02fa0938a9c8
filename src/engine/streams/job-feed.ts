import { includes } from '../../model/snapshot.ts'
import { type StreamPosition, writePosition } from '../../model/stream-position.ts'
import type { NewLogLine } from '../../store/read-new-logs.ts'
import { type Change, changesSince, type TreeSnapshot, xidOf } from './tree-snapshot.ts'

/** Something that happened to a job. Whoever has heard it goes on from its `id`. */
export interface JobEvent extends StreamedEvent {
  readonly event: 'state' | 'progress' | 'log' | 'end'
}

/** Something that readers of a stream are told. `data` is JSON. */
export interface StreamedEvent {
  readonly event: string
  readonly id: string
  readonly data: string
}

/** Who is told. */
export interface EventSink {
  /** False while what was sent before has not been taken. */
  readonly ready: boolean
  send(event: StreamedEvent): void
  /** Nothing more will come. */
  end(): void
}

/** Characters after which a reader is looked at before it gets more. */
const AT_ONCE = 64 * 1024

/** What one reader has been told of a job or a tree, and what it has not. */
export class JobFeed {
  readonly sink: EventSink
  readonly withLogs: boolean
  #position: StreamPosition
  /** All lines up to the bound of the last look have been told. */
  caughtUp = false
  ended = false

  constructor(sink: EventSink, withLogs: boolean, position: StreamPosition) {
    this.sink = sink
    this.withLogs = withLogs
    this.#position = position
  }

  /** The id of the last line it was told. */
  get line(): number {
    return this.#position.line
  }

  /**
   * Tells lines, in the order given.
   *
   * @param upTo Where these lines end: nothing is missing up to there.
   */
  tellLines(lines: readonly NewLogLine[], upTo: number): void {
    let characters = 0
    for (const { request, ...line } of lines) {
      if (characters > AT_ONCE && !this.sink.ready) return
      this.#position = { ...this.#position, line: line.id }
      const data = JSON.stringify({ ...line, id: String(line.id), at: line.at.toISOString() })
      characters += data.length
      this.#send('log', data)
    }
    if (upTo > this.line) this.#position = { ...this.#position, line: upTo }
  }

  /** Tells what it has not been told of a tree, and of its end when the job has ended. */
  tellStates(tree: TreeSnapshot, end: string | undefined): void {
    const { part, seen } = this.#position
    if (part !== undefined) {
      // Cut off in the middle of a look: first the rest of that.
      const rest = changesSince(tree, seen).filter(
        (change) =>
          includes(part.snapshot, xidOf(change)) && isAfter(change, { job: part.job, half: part.half }),
      )
      this.#tell(rest, part.snapshot)
    }
    this.#tell(changesSince(tree, this.#position.seen), tree.snapshot)
    if (end === undefined) return
    this.#position = { ...this.#position, ended: true }
    this.#send('end', end)
    this.ended = true
    this.sink.end()
  }

  #tell(changes: readonly Change[], snapshot: TreeSnapshot['snapshot']): void {
    for (const { node, half } of changes) {
      this.#position = { ...this.#position, part: { job: BigInt(node.row.id), half, snapshot } }
      if (half === 0) this.#send('state', node.state)
      else this.#send('progress', node.progress!)
    }
    this.#position = { ...this.#position, seen: snapshot, part: undefined }
  }

  #send(event: JobEvent['event'], data: string): void {
    this.sink.send({ event, id: writePosition(this.#position), data })
  }
}

function isAfter({ node, half }: Change, place: { readonly job: bigint; readonly half: 0 | 1 }): boolean {
  const id = BigInt(node.row.id)
  return id > place.job || (id === place.job && half > place.half)
}
