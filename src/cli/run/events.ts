import type { WatchedNode, WatchedTree } from '../../engine/streams/tree-watch.ts'
import { count, roughly } from '../output/in-words.ts'

/** Steps deeper than this are told of only when they fail: a recursion would tell the same over and over. */
const TOLD_LEVELS = 4
/** A fan-out tells how far it is this often. */
const COUNT_MS = 2000

interface Told {
  status: string
  attempt: number
  counts: string
  at: number
}

/** Turns looks at a tree into lines: what has begun, ended, failed since the last one. */
export class Events {
  readonly #told = new Map<string, Told>()

  /** What is new. The first look of a run that goes on tells nothing of what had ended before. */
  since(view: WatchedTree, options: { readonly silent?: boolean } = {}): string[] {
    const lines: string[] = []
    for (const child of view.root.children) this.#visit(child, '', 1, false, view.at.getTime(), lines)
    return options.silent === true ? [] : lines
  }

  #visit(
    node: WatchedNode,
    before: string,
    depth: number,
    inFanOut: boolean,
    now: number,
    lines: string[],
  ): void {
    const path = node.name.startsWith('[')
      ? `${before}${node.name}`
      : before === ''
        ? node.name
        : `${before}.${node.name}`
    if (node.id !== undefined) {
      const line = this.#change(node, now)
      const isTold = (depth <= TOLD_LEVELS && !inFanOut) || node.status === 'failed'
      if (line !== undefined && isTold) lines.push(`${path} ${line}`)
    }
    const inside = inFanOut || node.kind === 'fanout'
    for (const child of node.children) this.#visit(child, path, depth + 1, inside, now, lines)
  }

  #change(node: WatchedNode, now: number): string | undefined {
    const counts = node.counts === undefined ? '' : countsOf(node)
    const status = node.retrying ? 'retrying' : node.status
    const last = this.#told.get(node.id!)
    const isNew = last === undefined || last.status !== status || last.attempt !== node.attempt
    if (!isNew && (last.counts === counts || now - last.at < COUNT_MS)) return undefined
    this.#told.set(node.id!, { status, attempt: node.attempt, counts, at: now })
    return isNew ? words(node, counts) : counts
  }
}

function words(node: WatchedNode, counts: string): string | undefined {
  const { status, error, attempt, startedAt, finishedAt, id } = node
  const took =
    startedAt === undefined || finishedAt === undefined
      ? ''
      : ` in ${roughly(finishedAt.getTime() - startedAt.getTime())}`
  if (node.retrying) return `failed at attempt ${attempt} (${error}); tried again`
  switch (status) {
    case 'running':
      return `started (job ${id})${startOf(node)}${node.kind === 'task' && attempt > 1 ? `, attempt ${attempt}` : ''}`
    case 'completed':
      return `completed${took}${counts === '' ? '' : `: ${counts}`}`
    case 'failed':
      return `failed${took}${counts === '' ? '' : ` (${counts})`}: ${error}`
    case 'cancelled':
      return 'was cancelled'
    case 'skipped':
      return 'skipped'
    case 'awaiting_approval':
      return `waits for approval: sluice approve ${id}`
    default:
      return undefined
  }
}

function startOf({ counts }: WatchedNode): string {
  if (counts === undefined) return ''
  const { total, window } = counts
  return `: ${count(total, 'item')}${window === null ? '' : `, ${window} at once`}`
}

function countsOf({ counts, finishedAt }: WatchedNode): string {
  const { total, completed, failed, cancelled, inFlight } = counts!
  return [
    `${completed} of ${total}`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(cancelled > 0 ? [`${cancelled} cancelled`] : []),
    ...(finishedAt === undefined ? [`${inFlight} in flight`] : []),
  ].join(', ')
}
