import { expect, test } from 'vitest'
import { ListTurns } from './list-turns.ts'

/** Looks for so long, each look costing `costMs`, with half of the time between them; counts the looks at each list. */
function look(
  turns: ListTurns,
  lists: ReadonlyMap<string, ReadonlySet<string>>,
  forMs: number,
  costMs: number,
) {
  const looks = new Map<string, number[]>()
  for (let now = 0; now < forMs; ) {
    const turn = turns.next(lists, now)
    if (turn === undefined) break
    if ('inMs' in turn) {
      now += turn.inMs
      continue
    }
    turns.looked(turn.key, lists.get(turn.key)!, now, costMs)
    looks.set(turn.key, [...(looks.get(turn.key) ?? []), now])
    now += 2 * costMs
  }
  return looks
}

test('somebody with a thousand lists delays nobody by more than a look', () => {
  const many = Array.from({ length: 1000 }, (_, n) => [`many ${n}`, new Set(['greedy'])] as const)
  const lists = new Map<string, ReadonlySet<string>>([...many, ['one', new Set(['modest'])]])
  const looks = look(new ListTurns(), lists, 60_000, 20)
  const gaps = looks.get('one')!.map((at, n, all) => at - (all[n - 1] ?? 0))
  expect(Math.max(...gaps)).toBeLessThanOrEqual(1000 + 2 * 20)
  const greedy = [...looks].filter(([key]) => key !== 'one').flatMap(([, at]) => at).length
  // A second at once, and then a tenth of the time.
  expect(greedy * 20).toBeLessThanOrEqual(1000 + 6000 + 20)
  expect(greedy * 20).toBeGreaterThan(6000)
})

test('the lists of one reader are looked at in turn, each at most once a second', () => {
  const lists = new Map([
    ['a', new Set(['r'])],
    ['b', new Set(['r'])],
  ])
  const looks = look(new ListTurns(), lists, 10_000, 5)
  for (const at of looks.values()) {
    expect(at.length).toBeGreaterThanOrEqual(9)
    expect(Math.min(...at.slice(1).map((each, n) => each - at[n]!))).toBeGreaterThanOrEqual(1000)
  }
})

test('who leaves and comes back has not got a new part', () => {
  const turns = new ListTurns()
  const lists = new Map([['a', new Set(['r'])]])
  turns.looked('a', new Set(['r']), 0, 5000)
  turns.forget(new Map(), 1000)
  expect(turns.next(lists, 2000)).toEqual({ inMs: 50_000 - 10_000 - 2000 })
})
