import { expect, test } from 'vitest'
import { barOf, fallRows, type Span } from './fall-rows.ts'

function span(id: string, parentId: string | null, more: Partial<Span> = {}): Span {
  return {
    ...{ id, parentId, step: id, index: 0, kind: null, task: 'work', status: 'completed', depth: 1 },
    ...{
      submittedAt: new Date(0),
      startedAt: new Date(0),
      finishedAt: new Date(10),
      critical: false,
      earlier: [],
      hidden: 0,
    },
    ...more,
  }
}

test('what the whole waited for is open, other branches are not, and somebody may decide otherwise', () => {
  const spans = [
    span('root', null, { kind: 'workflow', depth: 0, step: null }),
    span('fan', 'root', { kind: 'fanout', critical: true }),
    span('item', 'fan', { depth: 2, index: 7 }),
    span('group', 'root', { kind: 'group' }),
    span('deep', 'group', { depth: 2 }),
  ]
  expect(fallRows(spans, new Map()).map(({ name, open }) => [name, open])).toEqual([
    ['work', true],
    ['fan', true],
    ['[7]', undefined],
    ['group', false],
  ])
  const changed = new Map([
    ['fan', false],
    ['group', true],
  ])
  expect(fallRows(spans, changed).map(({ name }) => name)).toEqual(['work', 'fan', 'group', 'deep'])
})

test('the last child in sight tells how many of its siblings are not there', () => {
  const spans = [
    span('root', null, { kind: 'workflow', depth: 0, step: null }),
    span('fan', 'root', { kind: 'fanout', critical: true, hidden: 197 }),
    ...['a', 'b', 'c'].map((id) => span(id, 'fan', { depth: 2 })),
    span('after', 'root'),
  ]
  expect(fallRows(spans, new Map()).map(({ span: { id }, hidden }) => [id, hidden])).toEqual([
    ['root', 0],
    ['fan', 0],
    ['a', 0],
    ['b', 0],
    ['c', 197],
    ['after', 0],
  ])
})

test('what a span has still to do stands below all that is open in it', () => {
  const notReached = (...names: string[]): Pick<Span, 'notReached'> => ({
    notReached: {
      total: names.length + 1,
      steps: names.map((step) => ({ step, kind: 'task' as const, runs: 'work' })),
    },
  })
  const spans = [
    span('root', null, { kind: 'workflow', depth: 0, step: null, ...notReached('report') }),
    span('first', 'root', {}),
    span('group', 'root', { kind: 'group', critical: true, ...notReached('check', 'keep') }),
    span('read', 'group', { depth: 2 }),
  ]
  const told = (opened: ReadonlyMap<string, boolean>) =>
    fallRows(spans, opened).map(({ span: { id }, toCome }) => [
      id,
      ...toCome.map(({ of, depth, steps, more }) => [of, depth, ...steps, more]),
    ])
  expect(told(new Map())).toEqual([
    ['root'],
    ['first'],
    ['group'],
    ['read', ['group', 2, 'check', 'keep', 1], ['root', 1, 'report', 1]],
  ])
  // What is closed tells nothing of its inside; one that has nothing but steps to come can be opened all the same.
  expect(told(new Map([['group', false]]))).toEqual([
    ['root'],
    ['first'],
    ['group', ['root', 1, 'report', 1]],
  ])
  expect(fallRows([spans[0]!, spans[2]!], new Map()).map(({ open }) => open)).toEqual([true, true])
})

test('a bar has its share of the whole, and one that has not ended reaches to the end', () => {
  const whole = { since: new Date(0), until: new Date(100) }
  expect(barOf(whole, new Date(25), new Date(75))).toEqual({ left: '25%', width: '50%' })
  expect(barOf(whole, new Date(50), null)).toEqual({ left: '50%', width: '50%' })
})
