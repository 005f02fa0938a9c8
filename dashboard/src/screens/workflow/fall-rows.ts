import type { Waterfall } from '../../../../src/client/index.ts'

export type Span = Waterfall['spans'][number]

export interface FallRow {
  readonly span: Span
  readonly name: string
  /** `undefined`: nothing below it is among the spans. */
  readonly open: boolean | undefined
  /** After it and what is below it: how many of its parent's children are not among the spans. */
  readonly hidden: number
  /** After it and what is below it: what is still to come of those it belongs to, the innermost first. */
  readonly toCome: readonly ToCome[]
}

/** Steps that the run has not come to, below the span they belong to. */
export interface ToCome {
  readonly of: string
  readonly depth: number
  readonly steps: readonly string[]
  /** More than those. */
  readonly more: number
}

/** Spans that are in sight: below what is open. What the whole waited for is open until somebody closes it. */
export function fallRows(spans: readonly Span[], opened: ReadonlyMap<string, boolean>): FallRow[] {
  const byId = new Map(spans.map((span) => [span.id, span]))
  const parents = new Set(spans.map(({ parentId }) => parentId))
  const isOpen = (span: Span) => opened.get(span.id) ?? (span.depth === 0 || span.critical)
  const inSight = new Set<string>()
  const rows = spans.flatMap((span): FallRow[] => {
    const parent = span.parentId === null ? undefined : byId.get(span.parentId)
    if (parent !== undefined && !(inSight.has(parent.id) && isOpen(parent))) return []
    inSight.add(span.id)
    const name = parent?.kind === 'fanout' ? `[${span.index}]` : (span.step ?? span.task)
    const inside = parents.has(span.id) || span.notReached !== undefined
    return [{ span, name, open: inside ? isOpen(span) : undefined, hidden: 0, toCome: [] }]
  })
  // The last child in sight tells of those that are not there.
  const last = new Map(rows.map((row) => [row.span.parentId, row]))
  return rows.map((row, at) => {
    const { parentId } = row.span
    const toCome = toComeAfter(row, rows[at + 1], byId)
    if (parentId === null || last.get(parentId) !== row) return { ...row, toCome }
    return { ...row, hidden: byId.get(parentId)?.hidden ?? 0, toCome }
  })
}

/** With a row all spans end that the next one is not below: what they have still to do is told there. */
function toComeAfter(
  { span, open }: FallRow,
  next: FallRow | undefined,
  byId: ReadonlyMap<string, Span>,
): ToCome[] {
  const found: ToCome[] = []
  const nextDepth = next?.span.depth ?? 0
  let over: Span | undefined = open === true ? span : parentOf(span, byId)
  for (; over !== undefined && over.depth >= nextDepth; over = parentOf(over, byId)) {
    const { id, depth, notReached } = over
    if (notReached === undefined) continue
    const { total, steps } = notReached
    const names = steps.map(({ step }) => step)
    found.push({ of: id, depth: depth + 1, steps: names, more: total - names.length })
  }
  return found
}

function parentOf({ parentId }: Span, byId: ReadonlyMap<string, Span>): Span | undefined {
  return parentId === null ? undefined : byId.get(parentId)
}

/** Where a bar begins and how long it is, in percent of the whole. What has not ended reaches to the end. */
export function barOf(
  { since, until }: { readonly since: Date; readonly until: Date },
  from: Date,
  to: Date | null,
): { left: string; width: string } {
  const whole = Math.max(1, until.getTime() - since.getTime())
  const share = (at: Date) => Math.max(0, Math.min(1, (at.getTime() - since.getTime()) / whole))
  const left = share(from)
  return { left: `${left * 100}%`, width: `${Math.max(0, share(to ?? until) - left) * 100}%` }
}
