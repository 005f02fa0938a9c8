import { expect, test } from 'vitest'
import type { NewChild, TakenComposite } from '../../model/composite.ts'
import type { JsonValue } from '../../model/json.ts'
import { compileWorkflows } from '../compile/compile.ts'
import type { Graph } from '../graph.ts'
import { decide } from './decide.ts'

const TASK = { task: 'act' }

function compiled(definitions: Record<string, object>): Graph {
  const { graphs, problems } = compileWorkflows(definitions, { tasks: new Set(['act']) })
  expect(problems).toEqual([])
  return graphs.main!
}

/** What is made when a workflow begins. */
function begin(definitions: Record<string, object>, input: JsonValue = null): readonly NewChild[] {
  const composite: TakenComposite = {
    ...{
      id: '7',
      version: 1,
      kind: 'workflow',
      state: 'running',
      graph: 'g',
      node: 'main',
      input,
      window: null,
    },
    ...{
      total: null,
      completed: 0,
      failed: 0,
      cancelled: 0,
      closing: null,
      closingError: null,
      closed: false,
    },
    ...{ timedOut: false, chunk: null, chunkItems: null, children: [], wakeups: ['1'] },
  }
  return decide(compiled(definitions), composite, new Map()).children
}

test('makes the first steps of a workflow with it, and those of workflows among them', () => {
  const [child] = begin({
    main: { steps: { sub: { workflow: 'sub', with: { n: 1 } } } },
    sub: {
      steps: {
        work: { ...TASK, with: { n: '${{ input.n }}' } },
        deeper: { workflow: 'deep' },
        off: { ...TASK, when: '${{ input.n > 1 }}' },
        later: { ...TASK, needs: ['work'] },
      },
    },
    deep: { steps: { last: TASK } },
  })
  expect(child).toMatchObject({ parent: '7', step: 'sub', kind: 'workflow' })
  expect(child!.first).toMatchObject([
    { idx: 0, step: 'work', kind: null, input: { n: 1 }, state: 'ready' },
    { idx: 1, step: 'deeper', kind: 'workflow', first: [{ idx: 0, step: 'last' }] },
    { idx: 2, step: 'off', state: 'skipped' },
  ])
})

test('makes the first steps of a group from the scope that it is made with', () => {
  const [child] = begin(
    { main: { steps: { group: { steps: { one: { ...TASK, with: { all: '${{ input }}' } } } } } } },
    { bb: 1, a: 2 },
  )
  expect(JSON.stringify(child!.first![0]!.input)).toBe('{"all":{"a":2,"bb":1}}')
})

const WITHOUT: [what: string, sub: object, input?: JsonValue][] = [
  ['ends at once', { steps: { off: { ...TASK, when: '${{ false }}' } } }],
  ['begins with a fan-out', { steps: { work: TASK, fan: { ...TASK, with_items: [1, 2] } } }],
  ['has a large input', { steps: { work: TASK } }, 'x'.repeat(20_000)],
  ['has many steps', { steps: Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`s${n}`, TASK])) }],
]
test.for(WITHOUT)('makes a workflow without its first steps where it %s', ([, sub, input = null]) => {
  const [child] = begin({ main: { steps: { sub: { workflow: 'sub', with: '${{ input }}' } } }, sub }, input)
  expect(child).toMatchObject({ kind: 'workflow', state: 'ready' })
  expect(child!.first).toBeUndefined()
})

test('makes few first steps in one decision, however many workflows begin', () => {
  const steps = (n: number, step: object) =>
    Object.fromEntries(Array.from({ length: n }, (_, i) => [`s${i}`, step]))
  const children = begin({
    main: { steps: steps(100, { workflow: 'sub' }) },
    sub: { steps: steps(30, TASK) },
  })
  expect(children).toHaveLength(100)
  expect(children.filter(({ first }) => first?.length === 30)).toHaveLength(6)
  expect(children.filter(({ first }) => first === undefined)).toHaveLength(94)
})

test('makes few levels of a workflow that begins with itself', () => {
  let levels = 0
  const [child] = begin({ main: { steps: { again: { workflow: 'main' }, work: TASK } } })
  for (let each = child; each !== undefined; each = each.first?.find(({ kind }) => kind !== null) as NewChild)
    levels++
  expect(levels).toBe(9)
})
