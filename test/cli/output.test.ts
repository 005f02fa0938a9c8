import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { changeOf } from '../../src/cli/commands/audit.ts'
import { createLog } from '../../src/cli/log.ts'
import { roughly } from '../../src/cli/output/in-words.ts'
import type { Output } from '../../src/cli/output/output.ts'
import { writeFacts, writeTable } from '../../src/cli/output/table.ts'
import { cut, printable, widthOf } from '../../src/cli/output/text-width.ts'

class Page implements Output {
  readonly lines: string[] = []
  readonly isTerminal: boolean
  readonly hasColour = false
  readonly columns: number | undefined
  readonly rows = 24

  constructor(columns?: number) {
    this.columns = columns
    this.isTerminal = columns !== undefined
  }
  write(text: string): void {
    this.lines.push(text)
  }
  line(text = ''): void {
    this.lines.push(text)
  }
  onResize(): () => void {
    return () => {}
  }
}

const row = { name: 'a name', text: 'a rather long text that may be cut', number: '7' }
const columns = [
  { title: 'NAME', value: (each: typeof row) => each.name },
  { title: 'N', value: (each: typeof row) => each.number, align: 'right' as const },
  { title: 'EMPTY', value: () => '', optional: true as const },
  { title: 'TEXT', value: (each: typeof row) => each.text, shrinks: true as const },
]

describe('a table', () => {
  test('is whole where there is no terminal', () => {
    const page = new Page()
    writeTable(page, columns, [row])
    expect(page.lines).toEqual(['NAME    N  TEXT', 'a name  7  a rather long text that may be cut'])
  })

  test('cuts what may be cut to the width of the terminal', () => {
    const page = new Page(30)
    writeTable(page, columns, [row])
    expect(page.lines).toEqual(['NAME    N  TEXT', 'a name  7  a rather long text…'])
  })

  test('never has a line wider than the terminal, and aligns whatever is in it', () => {
    const anyRow = fc.record({
      name: fc.string({ unit: 'grapheme' }),
      text: fc.string({ unit: 'grapheme' }),
      number: fc.nat().map(String),
    })
    fc.assert(
      fc.property(
        fc.array(anyRow, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 120 }),
        (rows, width) => {
          const page = new Page(width)
          writeTable(page, columns, rows)
          expect(page.lines).toHaveLength(rows.length + 1)
          for (const line of page.lines) expect(widthOf(line)).toBeLessThanOrEqual(width)
        },
      ),
    )
  })
})

describe('text from jobs', () => {
  test('cannot move the cursor, ring the bell or turn the line around', () => {
    expect(printable('a\u001b[2Jb\u0007\u009b1m\u202ec\nd\te')).toBe(
      'a\\u001b[2Jb\\u0007\\u009b1m\\u202ec d e',
    )
  })

  test('keeps its lines in a list of facts', () => {
    const page = new Page(80)
    writeFacts(page, [
      ['input', '{\n  "a": 1\n}'],
      ['absent', undefined],
      ['error', 'x\u001b[0m'],
    ])
    expect(page.lines).toEqual(['input  {', '         "a": 1', '       }', 'error  x\\u001b[0m'])
  })

  test.each([
    ['plain', 5],
    ['漢字', 4],
    ['e\u0301', 1],
    ['🎉', 2],
    ['👩‍👩‍👧', 2],
    ['', 0],
  ])('%j takes %i columns', (text, width) => {
    expect(widthOf(text)).toBe(width)
  })

  test('is cut at whole characters, with room for the ellipsis', () => {
    expect(cut('漢字漢字', 5)).toBe('漢字…')
    expect(cut('abc', 3)).toBe('abc')
    expect(cut('abcd', 3)).toBe('ab…')
    expect(cut('abcd', 0)).toBe('')
  })
})

test.each([
  [0, '0ms'],
  [999, '999ms'],
  [1234, '1.2s'],
  [61_000, '61s'],
  [150_000, '3m'],
  [8_000_000, '2h'],
  [200_000_000, '2d'],
  [-5, '0ms'],
])('%i ms is roughly %s', (ms, words) => {
  expect(roughly(ms)).toBe(words)
})

describe('the log', () => {
  test('is readable on a terminal, and quotes nothing a terminal would act on', () => {
    const page = new Page(80)
    createLog(page, { level: 'info', json: false }).warn({ job: '7', error: 'a\u001bb' }, 'lost a job')
    expect(page.lines).toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\d warn {2}lost a job job=7 error=a\\u001bb$/),
    ])
  })

  test('is JSON elsewhere and when asked for, and quiet below its level', () => {
    for (const [columns, json] of [
      [undefined, false],
      [80, true],
    ] as const) {
      const page = new Page(columns)
      const log = createLog(page, { level: 'warn', json })
      log.info({}, 'not told')
      log.error({ job: '7' }, 'told')
      expect(page.lines.map((line) => JSON.parse(line))).toEqual([
        expect.objectContaining({ level: 50, job: '7', msg: 'told' }),
      ])
    }
  })

  test('takes a level it does not know for info', () => {
    const page = new Page()
    createLog(page, { level: 'shout', json: true }).info({}, 'told')
    expect(page.lines).toHaveLength(1)
  })
})

test('a change in the audit shows the fields that differ, and no others', () => {
  expect(
    changeOf({ before: { slots: 2, poll: 5, tags: ['a'] }, after: { slots: 3, poll: 5, tags: ['a'] } }),
  ).toBe('{"slots":2} -> {"slots":3}')
  expect(changeOf({ before: { limit: null }, after: { limit: null, by: 'ann' } })).toBe('{} -> {"by":"ann"}')
  expect(changeOf({ before: { slots: 2 }, after: null })).toBe('{"slots":2} -> null')
  expect(changeOf({ before: null, after: { slots: 2 } })).toBe('{"slots":2}')
})
