import { describe, expect, test } from 'vitest'
import type { SluiceError } from '../errors.ts'
import { invalidConfig, type Problem } from '../model/setting-value.ts'
import { findProblems } from './check-config.ts'
import { readYaml } from './read-yaml.ts'

/** What is wrong with a file, as a reader is told. */
function problemsIn(text: string): string[] {
  const { value, locate, problems } = readYaml(text, 'sluice.yaml')
  const all: Problem[] = [...problems]
  findProblems(value, locate, all)
  if (all.length === 0) return []
  const { message } = invalidConfig(all) as SluiceError
  return message
    .split('\n')
    .filter((line) => !/^\d+ problems:$/.test(line))
    .map((line) => line.trim())
}

describe('schedules in a config file', () => {
  test('with every field are taken', () => {
    const text = `
schedules:
  nightly: { workflow: pipeline, cron: "0 3 * * *", timezone: Europe/Berlin }
  often:
    task: resize
    cron: "*/5 * * * *"
    input: { url: "https://example.org", sizes: [1, 2] }
    key: often
    priority: -3
    lane: interactive
    tags: [a, b]
    deadline: 10m
    enabled: false
    overlap: skip
    catchUp: 0
`
    expect(problemsIn(text)).toEqual([])
  })

  test.each([
    [
      'a: { task: x, cron: "61 * * * *" }',
      '2:23: schedules.a.cron: found "61 * * * *", which cannot be read: Invalid value for minute: 61',
    ],
    ['a: { task: x, cron: 5 }', '2:23: schedules.a.cron: found 5, which must be a text'],
    ['a: { task: x, cron: "0 0 31 4 *" }', '2:23: schedules.a.cron: found "0 0 31 4 *", which never occurs'],
    [
      'a: { task: x, cron: "@daily", timezone: Berlin }',
      '2:43: schedules.a.timezone: found "Berlin"; write the name of a time zone, such as Europe/Berlin',
    ],
    ['a: { cron: "@daily" }', '2:3: schedules.a: has neither task nor workflow'],
    ['a: { task: x, workflow: y, cron: "@daily" }', '2:3: schedules.a: has both task and workflow'],
    ['a: { task: x }', '2:3: schedules.a: has no cron'],
    ['a:', '2:3: schedules.a: has neither task nor workflow'],
    [
      'a: { task: x, cron: "@daily", overlap: queue }',
      '2:42: schedules.a.overlap: found "queue"; write allow or skip',
    ],
    [
      'a: { task: x, cron: "@daily", catchUp: -1 }',
      '2:42: schedules.a.catchUp: found -1; write a whole number from 0 to 100',
    ],
    ['a: { task: x, cron: "@daily", zone: UTC }', '2:33: schedules.a.zone: unknown key'],
    ['9a: { task: x, cron: "@daily" }', '2:3: schedules["9a"]: found the name "9a"; write a name'],
  ])('%s is refused with its line', (line, problem) => {
    const found = problemsIn(`schedules:\n  ${line}\n`)
    expect(found).toHaveLength(1)
    expect(found[0]).toContain(`sluice.yaml:${problem}`)
  })
})
