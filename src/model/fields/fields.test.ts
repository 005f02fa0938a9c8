import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { REGISTRIES } from './registries.ts'

const FILES = {
  lanes: 'lane.ts',
  budgets: 'budget.ts',
  pools: 'pool.ts',
  admission: 'admission.ts',
  schedules: 'schedule.ts',
} as const

test('every registry of fields has its file here', () => {
  expect(Object.keys(FILES).sort()).toEqual(Object.keys(REGISTRIES).sort())
})

describe.each(Object.entries(FILES))('the fields of %s', (thing, file) => {
  const source = readFileSync(new URL(file, import.meta.url), 'utf8')

  test('show in editors what their texts say', () => {
    const comments = [...source.matchAll(/^ {2}\/\*\* (.*)\. \*\/\n {2}(\w+): field\(/gm)].map(
      ([, comment, name]) => [name, comment],
    )
    expect(comments).toEqual(Object.entries(REGISTRIES[thing]!).map(([name, { text }]) => [name, text]))
  })
})
