import { count, roughly } from '../output/in-words.ts'
import { renderSpans, type Span } from '../output/spans.ts'
import type { Colour, Paint } from '../output/style.ts'
import { cut, widthOf } from '../output/text-width.ts'
import { COLUMNS, characterOf, type Picture, ROWS } from './picture.ts'
import type { Seat } from './scoreboard.ts'

export interface LaneView {
  readonly name: string
  /** `null`: no limit. */
  readonly slots: number | null
  readonly seats: readonly (Seat | undefined)[]
  readonly waiting: number
  readonly oldestMs: number | undefined
  readonly done: number
}

export interface TourView {
  readonly elapsedMs: number
  readonly perSecond: number
  readonly done: number
  readonly total: number
  readonly lanes: readonly LaneView[]
  readonly picture: Picture
  /** What happened, oldest first. */
  readonly events: readonly string[]
}

interface Size {
  readonly columns: number
  readonly rows: number
}

const MOST_EVENTS = 5
const LONGEST_NAME = 12

/** The lines of one frame: as many as fit, most important first, none too long. */
export function frame(view: TourView, size: Size, paint: Paint): string[] {
  const room = size.rows - 1
  const lines: Span[][] = [heading(view, size.columns)]
  const lanes = [laneTitles(size.columns), ...view.lanes.map((lane) => laneLine(lane, size.columns))]
  const total = totalLine(view, size.columns)
  if (room >= lines.length + lanes.length + 1) lines.push(...(room > 8 ? [[], ...lanes] : lanes.slice(1)))
  const picture = size.columns >= COLUMNS + 2 && room >= lines.length + ROWS + 4
  if (picture) lines.push([], ...pictureLines(view.picture))
  const left = room - lines.length - 1
  const events = Math.max(0, Math.min(MOST_EVENTS, left - 1))
  if (events > 0) {
    const shown = view.events.slice(-events)
    // Always as high as it will be, so that the line below does not jump.
    lines.push([], ...Array.from({ length: events }, (_, i): Span[] => [[`  ${shown[i] ?? ''}`, 'dim']]))
  }
  if (room > lines.length) lines.push(total)
  return lines.slice(0, Math.max(0, room)).map((line) => renderSpans(line, size.columns, paint))
}

function heading(view: TourView, columns: number): Span[] {
  const right = `${(view.elapsedMs / 1000).toFixed(1)}s  ${view.perSecond.toFixed(0)} jobs/s`
  const title = 'sluice tour'
  const caption = '  a job draws a tile, the centre has priority'
  const shown = columns >= title.length + caption.length + right.length + 2 ? caption : ''
  const gap = Math.max(2, columns - title.length - shown.length - right.length)
  return [[title, 'bold'], [shown, 'dim'], [`${' '.repeat(gap)}${right}`]]
}

/** The numbers of a lane, as many as a narrow terminal has room for; the boxes get the rest. */
interface NumberColumn {
  readonly title: string
  readonly width: number
  readonly value: (lane: LaneView) => string
  readonly colour?: Colour
}

const NUMBERS: readonly NumberColumn[] = [
  { title: 'waiting', width: 9, value: (lane) => String(lane.waiting) },
  {
    title: 'oldest',
    width: 8,
    value: ({ oldestMs }) => (oldestMs === undefined ? '' : roughly(oldestMs)),
  },
  { title: 'done', width: 7, value: (lane) => String(lane.done), colour: 'green' },
]
const LEAST_BOXES = 9

function numbersFor(columns: number): readonly NumberColumn[] {
  const room = columns - LONGEST_NAME - 1 - LEAST_BOXES
  return NUMBERS.filter((_, index) => sumOf(NUMBERS.slice(0, index + 1)) <= room)
}

function boxesWidth(columns: number): number {
  return Math.max(LEAST_BOXES, Math.min(44, columns - LONGEST_NAME - 1 - sumOf(numbersFor(columns))))
}

function sumOf(columns: readonly NumberColumn[]): number {
  return columns.reduce((sum, { width }) => sum + width, 0)
}

function laneTitles(columns: number): Span[] {
  const numbers = numbersFor(columns).map(({ title, width }) => title.padStart(width))
  const text = `${'lane'.padEnd(LONGEST_NAME + 1)}${'slots'.padEnd(boxesWidth(columns))}${numbers.join('')}`
  return [[text, 'dim']]
}

function laneLine(lane: LaneView, columns: number): Span[] {
  const width = boxesWidth(columns)
  const boxes = slotBoxes(lane, width)
  const used = boxes.reduce((sum, [text]) => sum + widthOf(text), 0)
  return [
    [cut(lane.name, LONGEST_NAME).padEnd(LONGEST_NAME + 1)],
    ...boxes,
    [' '.repeat(Math.max(0, width - used))],
    ...numbersFor(columns).map(({ value, width, colour }): Span => {
      const text = value(lane).padStart(width)
      return colour === undefined ? [text] : [text, colour]
    }),
  ]
}

/** A box per slot, filled as far as its job is. */
function slotBoxes({ slots, seats }: LaneView, width: number): Span[] {
  const number = Math.max(1, slots ?? seats.length, seats.length)
  const inner = Math.min(8, Math.floor(width / number) - 2)
  if (inner < 1) {
    const running = seats.filter((seat) => seat !== undefined).length
    return [[`${running} of ${slots ?? 'any'}`, 'cyan']]
  }
  return Array.from({ length: number }, (_, index): Span[] => {
    const seat = seats[index]
    const full = seat === undefined ? 0 : Math.round(seat.progress * inner)
    const rest = seat === undefined ? ' ' : '░'
    return [
      ['[', 'dim'],
      ['█'.repeat(full) + rest.repeat(inner - full), 'cyan'],
      [']', 'dim'],
    ]
  }).flat()
}

/** From far outside to inside. */
const SHADE_COLOURS: readonly Colour[] = [
  'dim',
  'blue',
  'blue',
  'cyan',
  'cyan',
  'green',
  'yellow',
  'yellow',
  'red',
  'magenta',
]

function pictureLines(picture: Picture): Span[][] {
  return picture.rows().map((row) => {
    const spans: [string, Colour][] = [['  ', 'dim']]
    for (const shade of row) {
      const colour = shade === undefined ? 'dim' : (SHADE_COLOURS[shade] ?? 'dim')
      const last = spans.at(-1)!
      if (last[1] === colour) last[0] += characterOf(shade)
      else spans.push([characterOf(shade), colour])
    }
    return spans
  })
}

function totalLine({ done, total }: TourView, columns: number): Span[] {
  const text = ` ${done} of ${count(total, 'job')}`
  const width = Math.max(0, Math.min(60, columns - 4 - text.length))
  const full = total === 0 ? 0 : Math.floor((done / total) * width)
  return [['  '], ['█'.repeat(full), 'green'], ['░'.repeat(width - full), 'dim'], [text]]
}
