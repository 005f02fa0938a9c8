import type { WatchedNode } from '../../engine/streams/tree-watch.ts'
import type { FanoutCounts } from '../../engine/views/tree.ts'
import type { Span } from '../output/spans.ts'

const EIGHTHS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
/** A wider window is told in numbers. */
const WIDEST_WINDOW = 16

/** A bar, filled as far as something is. */
export function barOf(fraction: number, width: number): Span[] {
  const full = Math.round(Math.min(1, Math.max(0, fraction)) * width)
  return [
    ['█'.repeat(full), 'cyan'],
    ['░'.repeat(width - full), 'dim'],
  ]
}

/**
 * A fan-out as a row of its items: those that have ended, the window with a sign for each place in it, those that wait.
 *
 * A sign rises with the progress of its child. A window too wide for that has how many are in flight in it.
 */
export function fanOutBar(node: WatchedNode, width: number): Span[] {
  const state = node.counts!
  const { total, completed, failed, cancelled } = state
  const window = node.finishedAt === undefined ? windowOf(node, state, width) : []
  const room = Math.max(0, width - window.reduce((sum, [text]) => sum + text.length, 0))
  const ended = completed + failed + cancelled
  // In flight is what the window shows; the bars beside it share the rest.
  const beside = Math.max(1, total - (window.length === 0 ? 0 : state.inFlight))
  const cells = (count: number) => Math.round((Math.min(count, beside) / beside) * room)
  const filled = cells(ended)
  const red = failed === 0 ? 0 : Math.min(filled, Math.max(1, cells(failed)))
  return [
    ['█'.repeat(filled - red), 'green'],
    ['█'.repeat(red), 'red'],
    ...window,
    ['░'.repeat(room - filled), 'dim'],
  ]
}

function windowOf(node: WatchedNode, { window, inFlight, total }: FanoutCounts, width: number): Span[] {
  if (window === null) return []
  const framed = (inside: readonly Span[]): Span[] => [['[', 'bold'], ...inside, [']', 'bold']]
  if (window === 0) return framed([[inFlight === 0 ? 'paused' : `paused, ${inFlight} left`, 'yellow']])
  const places = Math.min(Math.max(window, inFlight), total)
  if (places > Math.min(WIDEST_WINDOW, width - 8)) return framed([[`${inFlight} of ${window}`, 'cyan']])
  const signs = node.children.slice(0, places).map(signOf).join('')
  return framed([[signs.padEnd(Math.min(places, inFlight), '·').padEnd(places), 'cyan']])
}

/** What a child in flight does. */
function signOf({ status, retrying, progress }: WatchedNode): string {
  if (retrying) return '↻'
  if (status !== 'running') return '·'
  if (progress === null) return '▸'
  return EIGHTHS[Math.min(EIGHTHS.length - 1, Math.floor(progress * EIGHTHS.length))]!
}

export function countsOf({ id, counts, finishedAt }: WatchedNode): Span[] {
  const { total, completed, failed, cancelled, window, inFlight } = counts!
  const spans: Span[] = [[`${completed} of ${total}`]]
  if (failed > 0) spans.push([`, ${failed} failed`, 'red'])
  if (cancelled > 0) spans.push([`, ${cancelled} cancelled`, 'yellow'])
  if (finishedAt !== undefined) return spans
  if (window !== null) spans.push([`, window ${window} (job ${id})`, 'dim'])
  else if (inFlight > 0) spans.push([`, ${inFlight} in flight`, 'dim'])
  return spans
}
