import type { Course, Span } from './simulate.ts'
import type { Workload } from './workload.ts'

export interface Panel {
  readonly title: string
  readonly course: Course
}

const WIDTH = 1200
const LEFT = 96
const RIGHT = 24
const DEVICE_HEIGHT = 56
const DEVICE_GAP = 10
const QUEUE_HEIGHT = 40
/** Of equal brightness, and told apart by people who do not see all colours. */
const COLOURS = [
  '#4477aa',
  '#ee6677',
  '#228833',
  '#ccbb44',
  '#66ccee',
  '#aa3377',
  '#997700',
  '#44aa99',
  '#882255',
]

/**
 * A picture of what lay on the devices and when: for each policy a panel with a row per device, all on one time axis.
 *
 * A box is a copy of a model, as high as its part of the memory: hatched while it is loaded, full while jobs run, pale
 * while it is idle. Below the devices stands how many jobs wait.
 */
export function drawTimeline(workload: Workload, panels: readonly Panel[], title: string): string {
  const end = Math.max(1, ...panels.flatMap(({ course }) => course.stays.map(({ to }) => to)))
  const colours = new Map(workload.models.map(({ name }, index) => [name, COLOURS[index % COLOURS.length]!]))
  const x = (at: number) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / end
  const legend = drawLegend(colours)
  let top = 44 + legend.height
  const parts: string[] = []
  for (const panel of panels) {
    const drawn = drawPanel(workload, panel, colours, x, top)
    parts.push(drawn.text)
    top += drawn.height
  }
  parts.push(drawAxis(end, x, top))
  const height = top + 44
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"`,
    ` font-family="system-ui, sans-serif" font-size="12" fill="#222">`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    drawHatches(colours),
    `<text x="${LEFT}" y="26" font-size="16" font-weight="600">${inXml(title)}</text>`,
    legend.text,
    ...parts,
    '</svg>\n',
  ].join('\n')
}

function drawHatches(colours: ReadonlyMap<string, string>): string {
  const patterns = [...new Set(colours.values())].map(
    (colour) =>
      `<pattern id="${idOf(colour)}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
      `<rect width="5" height="5" fill="#fff"/><rect width="2" height="5" fill="${colour}"/></pattern>`,
  )
  return `<defs>${patterns.join('')}</defs>`
}

function idOf(colour: string): string {
  return `loading-${colour.slice(1)}`
}

/** Rows of at most this many models: their names may be long. */
const LEGEND_COLUMN = 150

function drawLegend(colours: ReadonlyMap<string, string>): { text: string; height: number } {
  const perRow = Math.floor((WIDTH - LEFT - RIGHT) / LEGEND_COLUMN)
  const entries: [string, (x: number, y: number) => string][] = [...colours].map(([name, colour]) => [
    name,
    (x, y) => box(x, y, 12, 12, colour),
  ])
  const [first] = colours.values()
  const grey = first ?? COLOURS[0]!
  entries.push(
    ['loading', (x, y) => box(x, y, 12, 12, `url(#${idOf(grey)})`, ` stroke="${grey}"`)],
    ['idle', (x, y) => box(x, y, 12, 12, grey, ' opacity="0.25"')],
  )
  const texts = entries.map(([name, draw], index) => {
    const x = LEFT + (index % perRow) * LEGEND_COLUMN
    const y = 38 + Math.floor(index / perRow) * 18
    const shown = name.length > 18 ? `${name.slice(0, 17)}…` : name
    return `${draw(x, y)}<text x="${x + 18}" y="${y + 10}">${inXml(shown)}</text>`
  })
  return { text: texts.join('\n'), height: Math.ceil(entries.length / perRow) * 18 + 6 }
}

function drawPanel(
  { devices }: Workload,
  { title, course }: Panel,
  colours: ReadonlyMap<string, string>,
  x: (at: number) => number,
  top: number,
): { text: string; height: number } {
  const parts = [`<text x="${LEFT}" y="${top + 14}" font-weight="600">${inXml(title)}</text>`]
  let y = top + 22
  for (const { key, memory } of devices) {
    parts.push(
      box(LEFT, y, WIDTH - LEFT - RIGHT, DEVICE_HEIGHT, '#f4f4f4'),
      `<text x="${LEFT - 8}" y="${y + DEVICE_HEIGHT / 2 + 4}" text-anchor="end">${inXml(shorten(key))}</text>`,
      drawDevice(course, key, memory, colours, x, y),
    )
    y += DEVICE_HEIGHT + DEVICE_GAP
  }
  parts.push(drawQueue(course, x, y))
  return { text: parts.join('\n'), height: y + QUEUE_HEIGHT + 16 - top }
}

function shorten(key: string): string {
  return key.length > 14 ? `${key.slice(0, 13)}…` : key
}

function drawDevice(
  course: Course,
  device: string,
  memory: number,
  colours: ReadonlyMap<string, string>,
  x: (at: number) => number,
  top: number,
): string {
  const stays = course.stays
    .filter((stay) => stay.device === device)
    .sort((one, other) => one.from - other.from)
  const offsets = stackUp(stays)
  const loads = byCopy(course.loads)
  const runs = byCopy(course.runs)
  return stays
    .map((stay) => {
      const colour = colours.get(stay.model)!
      const height = Math.max(3, (DEVICE_HEIGHT * stay.memory) / memory)
      const y = top + DEVICE_HEIGHT - (DEVICE_HEIGHT * offsets.get(stay.copy)!) / memory - height
      const draw = ({ from, to }: Pick<Span, 'from' | 'to'>, fill: string, more = '') =>
        box(x(from), y, Math.max(0.3, x(to) - x(from)), height, fill, more)
      return [
        draw(stay, colour, ' opacity="0.25"'),
        ...merge(runs.get(stay.copy) ?? [], (x(1) - x(0)) * 2).map((run) => draw(run, colour)),
        ...(loads.get(stay.copy) ?? []).map((load) => draw(load, `url(#${idOf(colour)})`)),
      ].join('')
    })
    .join('\n')
}

/** How far above the bottom of its device each copy lies, in bytes: the lowest gap that is free for its whole stay. */
function stackUp(stays: Course['stays']): Map<string, number> {
  const offsets = new Map<string, number>()
  const placed: { readonly stay: Course['stays'][number]; readonly offset: number }[] = []
  for (const stay of stays) {
    const beside = placed
      .filter((other) => other.stay.to > stay.from)
      .sort((one, other) => one.offset - other.offset)
    let offset = 0
    for (const other of beside) {
      if (other.offset - offset >= stay.memory) break
      offset = Math.max(offset, other.offset + other.stay.memory)
    }
    offsets.set(stay.copy, offset)
    placed.push({ stay, offset })
  }
  return offsets
}

function byCopy(spans: readonly Span[]): Map<string, Span[]> {
  const map = new Map<string, Span[]>()
  for (const span of spans) {
    const list = map.get(span.copy)
    if (list === undefined) map.set(span.copy, [span])
    else list.push(span)
  }
  return map
}

/** Jobs right after each other are one box: a picture of ten thousand jobs stays small. */
function merge(spans: readonly Span[], perMs: number): { from: number; to: number }[] {
  const merged: { from: number; to: number }[] = []
  const gap = perMs > 0 ? 0.2 / perMs : 0
  for (const { from, to } of [...spans].sort((one, other) => one.from - other.from)) {
    const last = merged.at(-1)
    if (last !== undefined && from - last.to <= gap) last.to = Math.max(last.to, to)
    else merged.push({ from, to })
  }
  return merged
}

/** How many jobs wait, as a line over time; sampled, since nobody sees more than the pixels. */
function drawQueue({ jobs }: Course, x: (at: number) => number, top: number): string {
  const changes = jobs.flatMap(({ at, startedAt }): [number, number][] =>
    startedAt === null
      ? [[at, 1]]
      : [
          [at, 1],
          [startedAt, -1],
        ],
  )
  changes.sort((one, other) => one[0] - other[0] || other[1] - one[1])
  let waiting = 0
  let most = 1
  const points: [number, number][] = [[0, 0]]
  for (const [at, by] of changes) {
    waiting += by
    most = Math.max(most, waiting)
    const last = points.at(-1)!
    if (x(at) - x(last[0]) < 0.5) last[1] = Math.max(last[1], waiting)
    else points.push([at, waiting])
  }
  points.push([points.at(-1)![0], 0])
  const y = (count: number) => top + QUEUE_HEIGHT - 6 - ((QUEUE_HEIGHT - 10) * count) / most
  const line = points.map(([at, count]) => `${round(x(at))},${round(y(count))}`).join(' ')
  return [
    `<text x="${LEFT - 8}" y="${top + QUEUE_HEIGHT / 2 + 4}" text-anchor="end" fill="#666">waiting, ≤ ${most}</text>`,
    `<polygon points="${round(x(0))},${round(y(0))} ${line}" fill="#ddd" stroke="#888" stroke-width="0.7"/>`,
  ].join('\n')
}

const STEPS_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12, 24, 48].map((hours) => hours * 3_600_000),
]

function drawAxis(end: number, x: (at: number) => number, top: number): string {
  const step = STEPS_MS.find((each) => end / each <= 12) ?? end / 8
  const ticks: string[] = [`<line x1="${LEFT}" y1="${top}" x2="${WIDTH - RIGHT}" y2="${top}" stroke="#222"/>`]
  for (let at = 0; at <= end; at += step)
    ticks.push(
      `<line x1="${round(x(at))}" y1="${top}" x2="${round(x(at))}" y2="${top + 5}" stroke="#222"/>` +
        `<text x="${round(x(at))}" y="${top + 20}" text-anchor="middle">${timeText(at)}</text>`,
    )
  return ticks.join('\n')
}

function timeText(ms: number): string {
  if (ms === 0) return '0'
  if (ms < 1000) return `${round(ms)} ms`
  if (ms < 60_000) return `${round(ms / 1000)} s`
  if (ms < 3_600_000) return `${round(ms / 60_000)} min`
  return `${round(ms / 3_600_000)} h`
}

function box(x: number, y: number, width: number, height: number, fill: string, more = ''): string {
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" fill="${fill}"${more}/>`
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}

function inXml(text: string): string {
  return text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`)
}
