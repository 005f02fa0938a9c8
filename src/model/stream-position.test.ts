import { expect, test } from 'vitest'
import { parseSnapshot } from './snapshot.ts'
import { readPosition, START, type StreamPosition, writePosition } from './stream-position.ts'

const seen = parseSnapshot('10:20:12')
const later = parseSnapshot('15:30:')

test('every position survives as a text without spaces', () => {
  const positions: StreamPosition[] = [
    START,
    { ...START, line: 7 },
    { line: 123456789012, seen, part: undefined, ended: false },
    { line: 5, seen: undefined, part: { job: 42n, half: 1, snapshot: later }, ended: false },
    { line: 5, seen, part: { job: 9223372036854775807n, half: 0, snapshot: later }, ended: false },
    { line: 5, seen, part: undefined, ended: true },
  ]
  for (const position of positions) {
    const text = writePosition(position)
    expect(text).toMatch(/^[0-9a-z.~]+$/)
    expect(readPosition(text)).toEqual(position)
  }
})

test('what no server wrote is no position', () => {
  const bad = [
    '',
    '5',
    'x~',
    '5~!',
    '5~a.b~42',
    '5~a.b~42~2~a.b',
    '5~a.b~0~1~a.b',
    '5~a.b~42~1~a.b~x',
    '-5~',
    '5~a.b~ended',
  ]
  for (const text of [...bad, `5~${'a.'.repeat(20_000)}a`]) expect(readPosition(text), text).toBeUndefined()
})
