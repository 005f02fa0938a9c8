import { SluiceError } from '../errors.ts'

/** An amount of memory or storage: bytes as a number, or text such as `512MiB`, `24GB`, `1.5GB`. */
export type Size = number | string

// Powers of 1000 and of 1024 have different letters, as in the IEC standard: 24GB is 24,000,000,000 bytes.
// A card sold as "24 GB" reports 24,576 MiB, which is more, so reading GB as 1000^3 never promises too much.
const UNIT_BYTES: ReadonlyMap<string, number> = new Map([
  ['B', 1],
  ['KB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
  ['TB', 1e12],
  ['KiB', 2 ** 10],
  ['MiB', 2 ** 20],
  ['GiB', 2 ** 30],
  ['TiB', 2 ** 40],
])

/**
 * Bytes of a size, rounded to the next whole byte. `kB` is read as `KB`.
 *
 * @param where Names the setting in the error, for example `tasks.align.uses.vram`.
 * @throws {SluiceError} `INVALID_ARGUMENT` when it is no size, negative, or above 2^53 - 1 bytes.
 */
export function parseSize(value: Size, where: string): number {
  const bytes = typeof value === 'number' ? value : parseText(value)
  if (bytes === undefined || !Number.isSafeInteger(bytes) || bytes < 0) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${where}: ${JSON.stringify(value)} is no size; write whole bytes or text such as 512MiB, 24GB, 1.5GB`,
      { details: { where } },
    )
  }
  return bytes
}

function parseText(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*$/.exec(text)
  if (match === null) return undefined
  const unit = UNIT_BYTES.get(match[2] === 'kB' ? 'KB' : match[2]!)
  return unit === undefined ? undefined : Math.round(Number(match[1]) * unit)
}

/** The shortest exact text with at most three decimals: `1_500_000_000` becomes `1.5GB`, `536_870_912` `512MiB`. */
export function formatSize(bytes: number): string {
  let best = `${bytes}B`
  for (const [name, unit] of UNIT_BYTES) {
    const count = Math.round((bytes / unit) * 1000) / 1000
    const text = `${count}${name}`
    // Reading it back is the proof that nothing was rounded away.
    if (text.length < best.length && parseText(text) === bytes) best = text
  }
  return best
}
