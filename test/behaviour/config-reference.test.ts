import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { PAGES, withParts } from '../../scripts/reference.mjs'
import { checkConfig } from '../../src/config/check-config.ts'
import { readYaml } from '../../src/config/read-yaml.ts'
import { CONFIG } from '../../src/config/schema.ts'
import { formatDuration } from '../../src/model/duration.ts'
import { LANE_DEFAULTS, LANE_FIELDS } from '../../src/model/fields/lane.ts'
import { REGISTRIES } from '../../src/model/fields/registries.ts'
import { laneVariable } from '../../src/model/lane-settings.ts'
import { DEFAULT_RETRY } from '../../src/model/retry.ts'
import { SETTINGS, type Setting, UNSUPPORTED_VARIABLES } from '../../src/model/settings.ts'

const page = await readFile(
  fileURLToPath(new URL('../../docs/reference/configuration.md', import.meta.url)),
  'utf8',
)

/** The rows of the tables whose header starts with this word, cells without backticks. */
function rows(firstHeader: string): string[][] {
  let inside = false
  const found: string[][] = []
  for (const line of page.split('\n')) {
    const cells = line.startsWith('|')
      ? line
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.replaceAll('`', '').trim())
      : []
    if (cells.length === 0) inside = false
    else if (!inside) inside = cells[0] === firstHeader
    else if (!cells[0]!.startsWith('---')) found.push(cells)
  }
  return found
}

describe('the reference of the configuration', () => {
  test('lists exactly the keys that are accepted or known', () => {
    const listed = rows('key').map(([key]) => key)
    expect(listed.toSorted()).toEqual(CONFIG.keys.map(({ path }) => path).toSorted())
  })

  test('gives the bound of each key that has one', () => {
    const bounds = new Map(rows('key').map((cells) => [cells[0], cells.at(-1)]))
    for (const { path, bound } of CONFIG.keys) {
      if (bound !== undefined) expect([path, bounds.get(path)]).toEqual([path, bound])
    }
  })

  test('shows the table of settings: key, default, variable, bound', () => {
    const shown = rows('key').filter((cells) => cells.length === 4)
    const settings: readonly Setting<unknown, unknown>[] = Object.values(SETTINGS)
    expect(shown).toEqual(
      settings.map(({ key, default: value, environment, reader }) => [
        key,
        reader.format(value),
        environment,
        reader.bound,
      ]),
    )
  })

  test('names the variables that are refused', () => {
    expect(rows('variable').map(([variable]) => variable)).toEqual([...UNSUPPORTED_VARIABLES])
  })

  test('shows the lanes that always exist', () => {
    expect(rows('lane')).toEqual(
      Object.entries(LANE_DEFAULTS).map(([name, { slots, perWorker, pollMs }]) => [
        name,
        LANE_FIELDS.slots.format(slots),
        LANE_FIELDS.perWorker.format(perWorker),
        LANE_FIELDS.poll.format(pollMs),
        laneVariable(name),
      ]),
    )
  })

  test.each(PAGES)('has the generated parts that follow from the fields: %s', async (file) => {
    const page = await readFile(file, 'utf8')
    // If this fails: npm run build && npm run reference
    expect(withParts(page, REGISTRIES)).toBe(page)
  })

  test('shows the default prefetch of a lane', () => {
    const row = rows('key').find(([key]) => key === 'lanes.NAME.prefetch')
    expect(row?.[1]).toBe(String(LANE_FIELDS.prefetch.default))
  })

  test('shows the defaults of a retry', () => {
    const defaults = new Map(
      rows('key').map(([key, value]) => [key!.replace('tasks.NAME.retry.', ''), value]),
    )
    expect(['attempts', 'backoff', 'delay', 'maxDelay'].map((key) => defaults.get(key))).toEqual([
      String(DEFAULT_RETRY.attempts),
      DEFAULT_RETRY.backoff,
      formatDuration(DEFAULT_RETRY.delayMs),
      formatDuration(DEFAULT_RETRY.maxDelayMs),
    ])
  })

  test('opens with an example that works', () => {
    const example = /```yaml\n([\s\S]*?)```/.exec(page)?.[1]
    const { value, problems } = readYaml(example ?? '', 'example')
    expect(problems).toEqual([])
    expect(checkConfig(value)).toMatchObject({ tasks: { align: { exec: ['./align.sh', '--fast'] } } })
  })
})
