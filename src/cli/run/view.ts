import type { WatchedNode, WatchedTree } from '../../engine/streams/tree-watch.ts'
import { roughly } from '../output/in-words.ts'
import { renderSpans, type Span, spansWidth } from '../output/spans.ts'
import type { Colour, Paint } from '../output/style.ts'
import { cut, printable, widthOf } from '../output/text-width.ts'
import { barOf, countsOf, fanOutBar } from './bars.ts'

/** What the view of a run shows. */
export interface RunView {
  readonly workflow: string
  readonly id: string
  readonly tree: WatchedTree
  /** How much longer than the tree's time it is. */
  readonly sinceMs: number
  /** Counts up, for what turns. */
  readonly tick: number
  /** One line about what is in the way, or what was asked for. */
  readonly note: string | undefined
}

interface Size {
  readonly columns: number
  readonly rows: number
}

interface Line {
  readonly node: WatchedNode
  readonly depth: number
}

const SPINNER = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const LONGEST_NAME = 30
const DEEPEST_INDENT = 8
const TIME_WIDTH = 7
const BAR = 28

/** The lines of one frame: as many as fit, what runs and what failed before the rest, none too long. */
export function frame(view: RunView, size: Size, paint: Paint): string[] {
  const room = Math.max(1, size.rows - 1)
  const lines = view.tree.root.children.flatMap((child) => flatten(child, 0))
  const footer: Span[][] =
    view.note === undefined
      ? []
      : [
          [
            ['  ', undefined],
            [printable(view.note), 'yellow'],
          ],
        ]
  const { shown, hidden } = fold(lines, room - 1 - footer.length)
  const width = Math.min(LONGEST_NAME, Math.max(0, ...shown.map(({ node, depth }) => nameWidth(node, depth))))
  const body = shown.map((line) => nodeLine(line, view, width, size.columns))
  if (hidden > 0) body.push([[`  … ${hidden} more not shown`, 'dim']])
  return [heading(view, size.columns), ...body, ...footer]
    .slice(0, room)
    .map((line) => renderSpans(line, size.columns, paint))
}

function flatten(node: WatchedNode, depth: number): Line[] {
  return [{ node, depth }, ...linesBelow(node).flatMap((child) => flatten(child, depth + 1))]
}

/** Of a fan-out the window tells what is in flight; lines have those with an inside of their own, and those that failed. */
function linesBelow({ kind, children }: WatchedNode): readonly WatchedNode[] {
  if (kind !== 'fanout') return children
  return children.filter((child) => child.status === 'failed' || child.children.length > 0)
}

/** What matters least goes first when there are too many lines; of those that matter, the middle. */
function fold(lines: readonly Line[], room: number): { shown: readonly Line[]; hidden: number } {
  let shown = lines
  for (let least = 3; least > 0 && shown.length > room; least--) {
    let excess = shown.length - (room - 1)
    shown = shown.filter(({ node }) => weight(node) !== least || excess-- <= 0)
  }
  if (shown.length > room) {
    const top = Math.max(0, Math.ceil((room - 1) / 2))
    const foot = Math.max(0, room - 1 - top)
    shown = [...shown.slice(0, top), ...(foot === 0 ? [] : shown.slice(-foot))]
  }
  return { shown, hidden: lines.length - shown.length }
}

function weight({ status }: WatchedNode): number {
  switch (status) {
    case 'running':
    case 'failed':
    case 'awaiting_approval':
      return 0
    case 'queued':
    case 'cancelled':
      return 1
    case 'pending':
      return 2
    default:
      return 3
  }
}

function heading({ workflow, id, tree, sinceMs }: RunView, columns: number): Span[] {
  const { root, at } = tree
  const ended = root.children.filter(({ finishedAt }) => finishedAt !== undefined).length
  const steps = `${ended} of ${root.children.length} steps`
  const right = `${steps}  ${clock(root, at, sinceMs).padStart(TIME_WIDTH)}`
  const title: Span[] = [
    [printable(workflow), 'bold'],
    [`  job ${id}  `, 'dim'],
    [root.status, colourOf(root)],
  ]
  const gap = Math.max(2, columns - spansWidth(title) - right.length)
  return [...title, [`${' '.repeat(gap)}${right}`]]
}

function nodeLine({ node, depth }: Line, view: RunView, width: number, columns: number): Span[] {
  const indent = indentOf(depth)
  const name = cut(printable(node.name), Math.max(4, width - indent - 2))
  const left = `${name}${' '.repeat(Math.max(1, width - indent - 2 - widthOf(name) + 2))}`
  const time = clock(node, view.tree.at, view.sinceMs).padStart(TIME_WIDTH)
  const room = columns - width - 3 - TIME_WIDTH
  const middle = withinRoom(details(node, Math.min(BAR, Math.max(8, room - 20))), room - 1)
  return [
    [' '.repeat(indent + 1)],
    [`${iconOf(node, view.tick)} `, colourOf(node)],
    [left, node.status === 'pending' || node.status === 'skipped' ? 'dim' : undefined],
    ...middle,
    [' '.repeat(Math.max(0, room - spansWidth(middle))) + time, 'dim'],
  ]
}

function nameWidth(node: WatchedNode, depth: number): number {
  return indentOf(depth) + 2 + widthOf(printable(node.name))
}

function indentOf(depth: number): number {
  return Math.min(depth, DEEPEST_INDENT) * 2
}

function withinRoom(spans: readonly Span[], room: number): Span[] {
  const fitted: Span[] = []
  let left = Math.max(0, room)
  for (const [text, colour] of spans) {
    if (left === 0) break
    const part = cut(text, left)
    fitted.push([part, colour])
    left = part === text ? left - widthOf(text) : 0
  }
  return fitted
}

/** What there is to tell beside the name. */
function details(node: WatchedNode, width: number): Span[] {
  if (node.counts !== undefined && node.counts.total > 0) {
    // How many were cancelled is counted already.
    const trouble = node.status === 'cancelled' ? [] : troubleOf(node)
    const apart: Span[] = trouble.length === 0 ? [] : [['  '], ...trouble]
    return [...fanOutBar(node, width), ['  '], ...countsOf(node), ...apart]
  }
  switch (node.status) {
    case 'pending':
      return [[node.needs.length === 0 ? '' : `after ${node.needs.join(', ')}`, 'dim']]
    case 'queued':
      return node.retrying ? troubleOf(node) : [['waits for a slot', 'dim']]
    case 'awaiting_approval':
      return [[`waits for approval: sluice approve ${node.id}`, 'yellow']]
    case 'running':
      return running(node, width)
    case 'completed':
      return node.attempt > 1 ? [[`at attempt ${node.attempt}`, 'dim']] : []
    default:
      return troubleOf(node)
  }
}

function running(node: WatchedNode, width: number): Span[] {
  const message = node.message === null ? '' : printable(node.message)
  if (node.progress === null) return [[message, 'dim']]
  const percent = `  ${Math.round(node.progress * 100)}%`
  return [...barOf(node.progress, width), [percent], [message === '' ? '' : `  ${message}`, 'dim']]
}

function troubleOf({ status, retrying, error, attempt }: WatchedNode): Span[] {
  const text = error === null ? '' : printable(error)
  if (retrying) return [[`attempt ${attempt} failed: ${text}`, 'yellow']]
  if (status === 'failed') return [[`  ${text}`.trimStart(), 'red']]
  if (status === 'cancelled') return [['cancelled', 'yellow']]
  return status === 'skipped' ? [['skipped', 'dim']] : []
}

function iconOf({ status, retrying, kind }: WatchedNode, tick: number): string {
  switch (status) {
    case 'completed':
      return '✓'
    case 'failed':
      return '✗'
    case 'cancelled':
      return '⊘'
    case 'skipped':
      return '–'
    case 'running':
      return kind === 'task' || kind === 'fanout' ? SPINNER[tick % SPINNER.length]! : '▾'
    case 'awaiting_approval':
      return '?'
    default:
      return retrying ? '↻' : '○'
  }
}

function colourOf({ status, retrying }: WatchedNode): Colour {
  switch (status) {
    case 'completed':
      return 'green'
    case 'failed':
      return 'red'
    case 'cancelled':
    case 'awaiting_approval':
      return 'yellow'
    case 'running':
      return 'cyan'
    default:
      return retrying ? 'yellow' : 'dim'
  }
}

/** How long it took, or has taken so far. */
function clock({ startedAt, finishedAt }: WatchedNode, at: Date, sinceMs: number): string {
  if (startedAt === undefined) return ''
  const end = finishedAt?.getTime() ?? at.getTime() + sinceMs
  return roughly(end - startedAt.getTime())
}
