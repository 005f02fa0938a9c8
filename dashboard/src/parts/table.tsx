import { measureElement, useVirtualizer } from '@tanstack/react-virtual'
import {
  type CSSProperties,
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
  useRef,
  useState,
} from 'react'
import './table.css'

export interface Column<Row> {
  readonly id: string
  readonly head: ReactNode
  readonly cell: (row: Row) => ReactNode
  /** Of the column, in CSS: `120px`, `20%`. Without one it takes what is left. */
  readonly width?: string
  readonly align?: 'right'
  /**
   * On a phone: its width there; `below` for a second line, with its heading before it; false to leave it out. Without one
   * it shares what others leave.
   */
  readonly phone?: string | boolean
  /** Long texts go on in further lines rather than being cut. */
  readonly wrap?: boolean
  /** Whether a row has anything to show in it. A column that no row has gives its width to the others. */
  readonly has?: (row: Row) => boolean
}

export interface Selection {
  readonly chosen: ReadonlySet<string>
  readonly onChange: (chosen: ReadonlySet<string>) => void
}

interface TableProps<Row> {
  /** What it lists, for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string
  readonly onOpen?: (row: Row) => void
  readonly selection?: Selection
  /** In place of rows. */
  readonly empty?: ReactNode
  /** Asked for more once the last rows come into sight. */
  readonly onEnd?: () => void
}

const ROW_HEIGHT = 36
/**
 * Fewer are simply there; more are drawn as they come into sight. A list of 100 of which each row is another every second took
 * 26 ms to make and 50 ms to lay out and paint; of the 25 in sight it is a third.
 */
const WHOLE = 40
/** Above and below what is in sight: somebody who scrolls sees rows, not gaps. */
const SPARE = 8

/**
 * The keys j and k lead into the first list of the page from wherever one is, unless one is typing or is being asked. Arrow
 * keys do only inside it: elsewhere they move the page.
 */
function enterList(event: globalThis.KeyboardEvent): void {
  if ((event.key !== 'j' && event.key !== 'k') || event.metaKey || event.ctrlKey || event.altKey) return
  const from = event.target instanceof Element ? event.target : document.body
  if (from.closest('input:not([type="checkbox"]), textarea, select, [contenteditable], tr[data-at]') !== null)
    return
  if (document.querySelector('[role="dialog"], [role="alertdialog"]') !== null) return
  const row = document.querySelector<HTMLElement>('main tr[data-at][tabindex="0"]')
  if (row === null) return
  event.preventDefault()
  row.focus()
}

addEventListener('keydown', enterList)

/**
 * A table. Arrow keys or j and k move between rows, Enter opens, x or the space bar chooses.
 *
 * Any number of rows: with more than forty, only those in sight are drawn, in a box that scrolls by itself.
 */
export function Table<Row>({ columns: all, ...rest }: TableProps<Row>) {
  const { label, rows, rowKey, selection, empty } = rest
  const columns = all.filter(({ has }) => has === undefined || rows.length === 0 || rows.some(has))
  const props = { ...rest, columns }
  const box = useRef<HTMLDivElement>(null)
  const many = rows.length > WHOLE
  const drawn = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: SPARE,
    enabled: many,
    // Rows that are new are measured when the browser has laid them out: asked before that, it would do it at once.
    measureElement: (row, entry, drawn) =>
      entry === undefined
        ? (drawn.itemSizeCache.get(drawn.indexFromElement(row)) ?? ROW_HEIGHT)
        : measureElement(row, entry, drawn),
    // Heights are kept by place, not by row: in a list that moves there would be more of them with every row that passes.
  })
  const [at, setAt] = useState(0)
  const items = drawn.getVirtualItems()
  const [first, last] = many ? [items[0]?.index ?? 0, items.at(-1)?.index ?? -1] : [0, rows.length - 1]
  const above = many ? (items[0]?.start ?? 0) : 0
  const below = many ? drawn.getTotalSize() - (items.at(-1)?.end ?? 0) : 0
  const { onEnd } = props
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to))
    setAt(next)
    if (many) drawn.scrollToIndex(next)
    if (next >= rows.length - 5) onEnd?.()
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`tr[data-at="${next}"]`)?.focus())
  }
  const scrolled = () => {
    const element = box.current
    if (element === null || onEnd === undefined) return
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 400) onEnd()
  }
  return (
    <div className="table-box" data-many={many || undefined} ref={box} onScroll={scrolled}>
      <table
        className="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        data-lines={columns.some(({ phone }) => phone === 'below') || undefined}
      >
        <thead>
          <tr>
            {selection !== undefined && (
              <th className="table-choose">
                <ChooseAll rows={rows} rowKey={rowKey} selection={selection} />
              </th>
            )}
            {columns.map((column) => (
              <Head key={column.id} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 && <Gap height={above} />}
          {rows.slice(first, last + 1).map((row, offset) => (
            <Row
              key={rowKey(row)}
              {...props}
              row={row}
              at={first + offset}
              current={at === first + offset}
              measure={many ? drawn.measureElement : undefined}
              onMove={move}
            />
          ))}
          {below > 0 && <Gap height={below} />}
        </tbody>
      </table>
      {rows.length === 0 && empty}
    </div>
  )
}

function Head<Row>({ column }: { column: Column<Row> }) {
  return (
    <th scope="col" style={widthsOf(column)} data-align={column.align} data-phone={phoneOf(column)}>
      {column.head}
    </th>
  )
}

function widthsOf<Row>(column: Column<Row>): CSSProperties {
  return { ...(column.width !== undefined && { width: column.width }), ...phoneWidthOf(column) }
}

function phoneWidthOf<Row>({ phone }: Column<Row>): CSSProperties | undefined {
  return typeof phone === 'string' && phone !== 'below'
    ? ({ '--phone-width': phone, '--phone-grows': 0 } as CSSProperties)
    : undefined
}

function phoneOf<Row>({ phone }: Column<Row>): 'no' | 'below' | undefined {
  if (phone === false) return 'no'
  return phone === 'below' ? 'below' : undefined
}

function Gap({ height }: { height: number }) {
  return (
    <tr>
      <td style={{ height, padding: 0, border: 0 }} />
    </tr>
  )
}

function Row<Row>({
  row,
  at,
  current,
  columns,
  rowKey,
  onOpen,
  selection,
  measure,
  onMove,
}: TableProps<Row> & {
  row: Row
  at: number
  current: boolean
  /** Rows may have two lines: where only those in sight are drawn, their heights must be known. */
  measure: ((row: HTMLTableRowElement | null) => void) | undefined
  onMove: (to: number) => void
}) {
  const key = rowKey(row)
  const chosen = selection?.chosen.has(key) ?? false
  const pressed = (event: KeyboardEvent<HTMLTableRowElement>) => {
    if (event.target !== event.currentTarget || event.metaKey || event.ctrlKey || event.altKey) return
    const { key: pressedKey } = event
    if (pressedKey === 'ArrowDown' || pressedKey === 'j') onMove(at + 1)
    else if (pressedKey === 'ArrowUp' || pressedKey === 'k') onMove(at - 1)
    else if (pressedKey === 'Home') onMove(0)
    else if (pressedKey === 'Enter') onOpen?.(row)
    else if (pressedKey === ' ' || pressedKey === 'x') toggle(selection, key)
    else return
    event.preventDefault()
  }
  const clicked = (event: MouseEvent<HTMLTableRowElement>) => {
    // Links, buttons and boxes in a row do their own thing; so does whoever marks text to copy it.
    const inside = event.target instanceof Element && event.target.closest('a, button, input, label')
    if (inside || getSelection()?.isCollapsed === false) return
    onOpen?.(row)
  }
  return (
    <tr
      ref={measure}
      data-at={at}
      data-index={at}
      data-opens={onOpen === undefined ? undefined : ''}
      data-chosen={chosen || undefined}
      aria-rowindex={at + 2}
      aria-selected={selection === undefined ? undefined : chosen}
      tabIndex={current ? 0 : -1}
      onKeyDown={pressed}
      onClick={clicked}
    >
      {selection !== undefined && (
        <td className="table-choose">
          <label>
            <input
              type="checkbox"
              tabIndex={-1}
              aria-label={`Choose ${key}`}
              checked={chosen}
              onChange={() => toggle(selection, key)}
            />
          </label>
        </td>
      )}
      {columns.map((column) => (
        <td
          key={column.id}
          data-align={column.align}
          data-wrap={column.wrap || undefined}
          data-phone={phoneOf(column)}
          data-head={typeof column.head === 'string' ? column.head : undefined}
          style={phoneWidthOf(column)}
        >
          {column.cell(row)}
        </td>
      ))}
    </tr>
  )
}

function toggle(selection: Selection | undefined, key: string): void {
  if (selection === undefined) return
  const next = new Set(selection.chosen)
  if (!next.delete(key)) next.add(key)
  selection.onChange(next)
}

function ChooseAll<Row>({
  rows,
  rowKey,
  selection,
}: {
  rows: readonly Row[]
  rowKey: (row: Row) => string
  selection: Selection
}) {
  const all = rows.length > 0 && rows.every((row) => selection.chosen.has(rowKey(row)))
  const some = selection.chosen.size > 0
  return (
    <label>
      <input
        type="checkbox"
        aria-label="Choose all rows that are loaded"
        checked={all}
        ref={(element) => {
          if (element !== null) element.indeterminate = some && !all
        }}
        onChange={() => selection.onChange(all ? new Set() : new Set(rows.map(rowKey)))}
      />
    </label>
  )
}
