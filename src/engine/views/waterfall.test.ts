import { expect, test } from 'vitest'
import type { TreeNode } from './tree.ts'
import { waterfallOf } from './waterfall.ts'

const at = (seconds: number) => new Date(1_000_000 + seconds * 1000)
let ids = 0

function node(step: string, from: number | null, to: number | null, children: TreeNode[] = []): TreeNode {
  return {
    id: `${step}-${++ids}`,
    parentId: null,
    previousId: null,
    nextId: null,
    firstChildId: null,
    step,
    index: ids,
    kind: children.length > 0 ? 'group' : null,
    task: step,
    status: to === null ? 'running' : 'completed',
    error: null,
    attempts: 1,
    submittedAt: at(from ?? 0),
    startedAt: from === null ? null : at(from),
    finishedAt: to === null ? null : at(to),
    earlierIds: [],
    children,
    hidden: 0,
  }
}

const named = (paths: readonly string[]) => paths.map((id) => id.split('-')[0])

test('the path goes back from what ended last to what ended last before it began', () => {
  const tree = node('root', 0, 20, [
    node('fetch', 0, 5),
    node('slow', 5, 15),
    node('fast', 5, 7),
    node('join', 15, 20),
    node('never', null, 20),
  ])
  const { criticalIds, spans, since, until } = waterfallOf(tree, at(99))
  expect(named(criticalIds)).toEqual(['fetch', 'slow', 'join'])
  expect([since, until]).toEqual([at(0), at(20)])
  expect(spans.map(({ step, depth, critical }) => [step, depth, critical])).toEqual([
    ['root', 0, true],
    ['fetch', 1, true],
    ['slow', 1, true],
    ['fast', 1, false],
    ['join', 1, true],
    ['never', 1, false],
  ])
})

test('it goes down into what has children, except where these are folded', () => {
  const inner = node('inner', 2, 9, [node('a', 2, 4), node('b', 4, 9)])
  const folded: TreeNode = { ...node('fan', 9, 30, [node('first', 9, 10)]), kind: 'fanout', hidden: 99 }
  expect(named(waterfallOf(node('root', 0, 30, [inner, folded]), at(99)).criticalIds)).toEqual([
    'a',
    'b',
    'fan',
  ])
})

test('what still runs reaches until now', () => {
  const tree = node('root', 0, null, [node('done', 0, 5), node('runs', 5, null)])
  const { criticalIds, until } = waterfallOf(tree, at(50))
  expect(named(criticalIds)).toEqual(['done', 'runs'])
  expect(until).toEqual(at(50))
})

test('shows the attempts before the last one as bars of their own', () => {
  const child = node('flaky', 20, 25)
  const first = { startedAt: at(1), endedAt: at(3), ending: 'failed' }
  const { spans } = waterfallOf(node('root', 0, 30, [child]), at(99), new Map([[child.id, [first]]]))
  expect(spans.map(({ step, earlier }) => [step, earlier])).toEqual([
    ['root', []],
    ['flaky', [first]],
  ])
})
