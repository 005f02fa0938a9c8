/** The picture that the jobs of the tour draw: the Mandelbrot set, a tile per job. */

export const COLUMNS = 60
export const ROWS = 12
const TILE = 3
export const TILES = (COLUMNS / TILE) * ROWS

/** How often the formula is repeated before a point counts as inside. Inside is what costs time. */
const LIMIT = 1500
const SAMPLES = 6
const SHADES = ' .:-=+*#%@'
const INSIDE = SHADES.length - 1
/** The part of the plane that is shown; a character is about twice as high as wide. */
const LEFT = -2.15
const WIDTH = 3
const HEIGHT = 2.3

export interface Tile {
  /** Counted in rows, from the top left. */
  readonly number: number
  /** From 0 at the centre of the picture: the centre is drawn first. */
  readonly distance: number
}

export function tiles(): Tile[] {
  return Array.from({ length: TILES }, (_, number) => {
    const { column, row } = place(number)
    const distance = Math.hypot((column + TILE / 2) / COLUMNS - 0.55, (row + 0.5) / ROWS - 0.5)
    return { number, distance }
  })
}

/** The shades of one row of samples of a tile: numbers to be averaged by `shadesOf`. There are `SAMPLES` rows. */
export function sampleRow(number: number, sample: number): number[] {
  const { column, row } = place(number)
  const y = ((row + (sample + 0.5) / SAMPLES) / ROWS - 0.5) * HEIGHT
  return Array.from({ length: TILE }, (_, cell) => {
    let sum = 0
    for (let step = 0; step < SAMPLES; step++) {
      const x = LEFT + ((column + cell + (step + 0.5) / SAMPLES) / COLUMNS) * WIDTH
      sum += shadeAt(x, y)
    }
    return sum / SAMPLES
  })
}

export const SAMPLE_ROWS = SAMPLES

/** A digit per character of the tile: how light it is. */
export function shadesOf(rows: readonly (readonly number[])[]): string {
  return Array.from({ length: TILE }, (_, cell) => {
    const mean = rows.reduce((sum, row) => sum + row[cell]!, 0) / rows.length
    return String(Math.min(INSIDE, Math.round(mean)))
  }).join('')
}

function shadeAt(x: number, y: number): number {
  let a = 0
  let b = 0
  for (let turn = 0; turn < LIMIT; turn++) {
    const aa = a * a
    const bb = b * b
    if (aa + bb > 4) return Math.min(INSIDE - 1, Math.log2(turn + 1) * 1.35)
    b = 2 * a * b + y
    a = aa - bb + x
  }
  return INSIDE
}

function place(number: number): { column: number; row: number } {
  const perRow = COLUMNS / TILE
  return { column: (number % perRow) * TILE, row: Math.floor(number / perRow) }
}

/** What has been drawn so far. */
export class Picture {
  readonly #shades = new Map<number, string>()

  draw(number: number, shades: string): void {
    this.#shades.set(number, shades)
  }

  /** Each row as a list of shades, `undefined` where nothing has been drawn yet. */
  rows(): (number | undefined)[][] {
    return Array.from({ length: ROWS }, (_, row) =>
      Array.from({ length: COLUMNS }, (_, column) => {
        const shades = this.#shades.get((row * COLUMNS + column - (column % TILE)) / TILE)
        return shades === undefined ? undefined : Number(shades[column % TILE])
      }),
    )
  }

  /** Without colours. */
  text(): string[] {
    return this.rows().map((row) =>
      row
        .map((shade) => characterOf(shade))
        .join('')
        .trimEnd(),
    )
  }
}

export function characterOf(shade: number | undefined): string {
  return shade === undefined ? '·' : (SHADES[shade] ?? ' ')
}
