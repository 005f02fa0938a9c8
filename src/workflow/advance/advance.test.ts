import { describe, expect, test } from 'vitest'
import type { JsonValue } from '../../model/json.ts'
import { compileWorkflows } from '../compile/compile.ts'
import { type Graph, stepAt } from '../graph.ts'
import { advance, type Child, type ChildState, type Effect } from './advance.ts'
import { reads } from './reads.ts'
import { renderChild } from './render-step.ts'
import type { Endings } from './strategy.ts'

type Definition = Record<string, unknown>

/** A graph with the workflow `main`, and with `inner`, which takes any input. */
function graphOf(steps: Definition, output?: unknown): Graph {
  const main = output === undefined ? { steps } : { steps, output }
  const { graphs, problems } = compileWorkflows(
    { main, inner: { steps: { only: { task: 'work', with: '${{ input }}' } } } },
    { tasks: new Set(['work']) },
  )
  expect(problems).toEqual([])
  return graphs.main!
}

function childrenOf(children: Record<string, ChildState | Child>): Map<string, Child> {
  return new Map(
    Object.entries(children).map(([name, child]) => [
      name,
      typeof child === 'string' ? { state: child } : child,
    ]),
  )
}

interface Case {
  path?: string
  input?: JsonValue
  children?: Record<string, ChildState | Child>
  leaves?: Endings
  output?: unknown
}

function effectsOf(steps: Definition, { children = {}, ...rest }: Case = {}): Effect[] {
  const { path = 'main', input = {}, leaves, output } = rest
  const node = { path, input, ...(leaves === undefined ? {} : { leaves }) }
  return advance(graphOf(steps, output), node, childrenOf(children))
}

/** Effects in one line: `start b`, `skip c`, `failed: ...`. */
function told(steps: Definition, given: Case = {}): string[] {
  return effectsOf(steps, given).map((effect) =>
    effect.kind === 'settle' ? effect.state : `${effect.kind} ${effect.step}`,
  )
}

const work = { task: 'work' }

describe('Order', () => {
  const chain = { a: work, b: { ...work, needs: ['a'] }, c: { ...work, needs: ['a', 'b'] } }

  test('steps without needs start at once', () => {
    expect(told({ a: work, b: work })).toEqual(['start a', 'start b'])
  })

  test('a step starts when the steps it needs have completed, not before', () => {
    expect(told(chain)).toEqual(['start a'])
    expect(told(chain, { children: { a: 'active' } })).toEqual([])
    expect(told(chain, { children: { a: 'completed' } })).toEqual(['start b'])
    expect(told(chain, { children: { a: 'completed', b: 'completed' } })).toEqual(['start c'])
  })

  test('being called once too often starts nothing twice', () => {
    expect(told(chain, { children: { a: 'completed', b: 'active' } })).toEqual([])
  })

  test('a child that is waiting counts as not started', () => {
    expect(told(chain, { children: { a: 'waiting' } })).toEqual(['start a'])
  })

  test('steps may be written in any order', () => {
    expect(told({ b: { ...work, needs: ['a'] }, a: work })).toEqual(['start a'])
  })
})

describe('Paths', () => {
  const nextOn = (on: string, needs = ['a', 'b']) => ({ a: work, b: work, next: { ...work, needs, on } })
  const ended = (a: ChildState, b: ChildState): Case => ({ children: { a, b } })

  test('on: success is taken when all needs succeeded', () => {
    expect(told(nextOn('success'), ended('completed', 'completed'))).toEqual(['start next'])
    expect(told(nextOn('success'), ended('completed', 'failed'))).toEqual(['skip next', 'failed'])
    expect(told(nextOn('success'), ended('completed', 'skipped'))).toEqual(['skip next', 'completed'])
  })

  test('nothing is decided before all needs have ended', () => {
    expect(told(nextOn('success'), ended('failed', 'active'))).toEqual([])
    expect(told(nextOn('always'), ended('failed', 'active'))).toEqual([])
  })

  test('on: failure is taken when at least one need failed and all have ended', () => {
    expect(told(nextOn('failure'), ended('failed', 'active'))).toEqual([])
    expect(told(nextOn('failure'), ended('failed', 'completed'))).toEqual(['start next'])
    expect(told(nextOn('failure'), ended('completed', 'completed'))).toEqual(['skip next', 'completed'])
  })

  test('on: failure is taken when one need failed and another was skipped', () => {
    expect(told(nextOn('failure'), ended('failed', 'skipped'))).toEqual(['start next'])
  })

  test('on: failure is skipped when its needs were skipped', () => {
    expect(told(nextOn('failure'), ended('skipped', 'completed'))).toEqual(['skip next', 'completed'])
  })

  test('on: always is taken when all needs have ended', () => {
    expect(told(nextOn('always'), ended('failed', 'active'))).toEqual([])
    expect(told(nextOn('always'), ended('failed', 'skipped'))).toEqual(['start next'])
    expect(told(nextOn('always'), ended('completed', 'completed'))).toEqual(['start next'])
  })

  test('a cancelled child counts as failed', () => {
    expect(told(nextOn('failure'), ended('cancelled', 'completed'))).toEqual(['start next'])
    expect(effectsOf(nextOn('success'), ended('cancelled', 'completed'))).toEqual([
      { kind: 'skip', step: 'next', why: 'a was cancelled' },
      { kind: 'settle', state: 'failed', error: 'step a was cancelled' },
    ])
  })

  test('skipped propagates in one call, except to always', () => {
    const steps = {
      a: { ...work, when: false },
      b: { ...work, needs: ['a'] },
      c: { ...work, needs: ['b'] },
      last: { ...work, needs: ['c'], on: 'always' },
    }

    expect(effectsOf(steps)).toEqual([
      { kind: 'skip', step: 'a', why: 'when is false' },
      { kind: 'skip', step: 'b', why: 'a was skipped' },
      { kind: 'skip', step: 'c', why: 'b was skipped' },
      { kind: 'start', step: 'last', input: {} },
    ])
  })
})

describe('Handled failures', () => {
  const withRescue = (on: string) => ({ a: work, rescue: { ...work, needs: ['a'], on } })

  test.each(['failure', 'always'])(
    'a failure is handled when a step with on: %s that needs it completes',
    (on) => {
      expect(told(withRescue(on), { children: { a: 'failed', rescue: 'completed' } })).toEqual(['completed'])
    },
  )

  test('a failure is not handled by a step that failed itself', () => {
    expect(told(withRescue('failure'), { children: { a: 'failed', rescue: 'failed' } })).toEqual(['failed'])
  })

  test('a failure is not handled by a step that needs something else', () => {
    const steps = { a: work, b: work, rescue: { ...work, needs: ['b'], on: 'always' } }

    expect(told(steps, { children: { a: 'failed', b: 'completed', rescue: 'completed' } })).toEqual([
      'failed',
    ])
  })

  test('a workflow with an unhandled failure has failed, and says which', () => {
    const steps = { a: work, b: work, c: work, d: work, e: work, f: work }
    const child: Child = { state: 'failed', error: 'disk full' }

    expect(
      effectsOf(steps, {
        children: { a: 'completed', b: child, c: 'failed', d: 'completed', e: 'completed', f: 'completed' },
      }),
    ).toEqual([{ kind: 'settle', state: 'failed', error: 'step b failed: disk full; also failed: c' }])
  })

  test('a handled failure counts in no strategy of a group', () => {
    const group = {
      strategy: { percent: 100 },
      steps: { a: work, rescue: { ...work, needs: ['a'], on: 'failure' } },
    }

    expect(told({ g: group }, { path: 'main/g', children: { a: 'failed', rescue: 'completed' } })).toEqual([
      'completed',
    ])
  })
})

describe('when', () => {
  test('decides with the scope of the moment at which the needs have ended', () => {
    const steps = { a: work, b: { ...work, needs: ['a'], when: '${{ steps.a.result.go }}' } }

    expect(told(steps, { children: { a: { state: 'completed', result: { go: true } } } })).toEqual([
      'start b',
    ])
    expect(told(steps, { children: { a: { state: 'completed', result: { go: false } } } })).toEqual([
      'skip b',
      'completed',
    ])
  })

  test('that gives neither true nor false fails the step', () => {
    expect(effectsOf({ a: { ...work, when: '${{ input.n }}' } }, { input: { n: 1 } })).toEqual([
      { kind: 'fail', step: 'a', error: 'when: ${{ input.n }} gave 1; it must give true or false' },
      {
        kind: 'settle',
        state: 'failed',
        error: 'step a failed: when: ${{ input.n }} gave 1; it must give true or false',
      },
    ])
  })
})

describe('Rendering', () => {
  test('the input of a step is its rendered with, or an empty map', () => {
    const steps = { a: work, b: { ...work, with: { file: '${{ input.file }}', text: 'n=${{ input.n }}' } } }

    expect(effectsOf(steps, { input: { file: ['x'], n: 2 } })).toEqual([
      { kind: 'start', step: 'a', input: {} },
      { kind: 'start', step: 'b', input: { file: ['x'], text: 'n=2' } },
    ])
  })

  test('results, statuses and errors of needed steps can be read', () => {
    const told = { s: '${{ steps.a.status }}', r: '${{ steps.a.result }}', e: '${{ steps.a.error }}' }
    const steps = { a: work, b: { ...work, needs: ['a'], on: 'always', with: told } }

    expect(effectsOf(steps, { children: { a: { state: 'failed', error: 'boom' } } })).toEqual([
      { kind: 'start', step: 'b', input: { s: 'failed', r: null, e: 'boom' } },
    ])
    expect(effectsOf(steps, { children: { a: { state: 'completed', result: [1] } } })).toEqual([
      { kind: 'start', step: 'b', input: { s: 'completed', r: [1], e: null } },
    ])
  })

  test('an expression that cannot be worked out fails the step with its place, and the rest goes on', () => {
    const steps = {
      a: { ...work, with: { deep: { value: '${{ input.absent.field }}' } } },
      b: { ...work, needs: ['a'], on: 'failure', with: '${{ steps.a.error }}' },
    }
    const [fail, start] = effectsOf(steps)

    expect(fail).toMatchObject({
      kind: 'fail',
      step: 'a',
      error: expect.stringMatching(/^with\.deep\.value: .*input\.absent\.field/),
    })
    expect(start).toEqual({ kind: 'start', step: 'b', input: (fail as { error: string }).error })
  })
})

describe('Results', () => {
  const children = {
    a: { state: 'completed', result: 1 },
    b: { state: 'completed', results: [1, 2] },
    c: 'skipped',
  } as const
  const steps = { a: work, b: { ...work, with_items: [1, 2] }, c: { ...work, when: false } }

  test('without output, the result holds the results of the steps by name, null where there is none', () => {
    expect(effectsOf(steps, { children })).toEqual([
      { kind: 'settle', state: 'completed', result: { a: 1, b: [1, 2], c: null } },
    ])
  })

  test('output makes the result', () => {
    const output = { sum: '${{ steps.a.result + steps.b.results[1] }}', c: '${{ steps.c.status }}' }

    expect(effectsOf(steps, { children, output })).toEqual([
      { kind: 'settle', state: 'completed', result: { sum: 3, c: 'skipped' } },
    ])
  })

  test('an output that cannot be rendered fails the workflow', () => {
    expect(effectsOf(steps, { children, output: '${{ steps.a.result + "x" }}' })).toEqual([
      { kind: 'settle', state: 'failed', error: expect.stringMatching(/^output: /) },
    ])
  })
})

describe('Fan-outs', () => {
  const graph = (step: Definition) => graphOf({ each: { ...work, ...step } })
  const childOf = (step: Definition, scope: JsonValue, item: JsonValue, index = 0) =>
    renderChild(stepAt(graph(step), 'main/each'), scope, item, index)

  test('with_items starts a fan-out with its items and what its children read', () => {
    const step = { with_items: '${{ input.files }}', with: { f: '${{ item }}', to: '${{ input.to }}' } }

    expect(effectsOf({ each: { ...work, ...step } }, { input: { files: ['x', 'y'], to: 'z' } })).toEqual([
      { kind: 'fanOut', step: 'each', scope: { input: { files: ['x', 'y'], to: 'z' } }, items: ['x', 'y'] },
    ])
    expect(childOf(step, { input: { to: 'z' } }, 'x')).toEqual({ input: { f: 'x', to: 'z' } })
  })

  test('a fan-out keeps nothing that its children do not read', () => {
    const step = { with_items: '${{ input.files }}', with: { n: '${{ index }}' } }

    expect(effectsOf({ each: { ...work, ...step } }, { input: { files: [1] } })).toEqual([
      { kind: 'fanOut', step: 'each', scope: {}, items: [1] },
    ])
    expect(childOf(step, {}, 'x', 7)).toEqual({ input: { n: 7 } })
  })

  test('a child without with gets its item', () => {
    expect(childOf({ with_items: [1] }, {}, { a: 1 })).toEqual({ input: { a: 1 } })
  })

  test('a child whose input cannot be rendered has failed', () => {
    expect(childOf({ with_items: [1], with: '${{ item.x.y }}' }, {}, {})).toEqual({
      error: expect.stringMatching(/^with: /),
    })
  })

  test('an empty list starts an empty fan-out', () => {
    expect(told({ each: { ...work, with_items: [] } })).toEqual(['fanOut each'])
  })

  test('items that are no list fail the step', () => {
    expect(effectsOf({ each: { ...work, with_items: '${{ input }}' } }, { input: {} })[0]).toEqual({
      kind: 'fail',
      step: 'each',
      error: 'with_items: ${{ input }} gave a map; it must give a list',
    })
    // Shown in one line, and cut.
    const long = `\${{\n input.${'x'.repeat(200)} }}`
    expect(effectsOf({ each: { ...work, with_items: long } }, { input: {} })[0]).toMatchObject({
      error: `with_items: \${{ input.${'x'.repeat(109)}… gave nothing; it must give a list`,
    })
  })

  test('a batch has chunks as items, the last one shorter', () => {
    const batch = { batch: { items: '${{ input.rows }}', size: 2 } }

    expect(
      effectsOf({ each: { workflow: 'inner', ...batch } }, { input: { rows: [1, 2, 3, 4, 5] } }),
    ).toEqual([{ kind: 'fanOut', step: 'each', scope: {}, items: [[1, 2], [3, 4], [5]] }])
  })

  test('a child of a batch gets with, the chunk as items, and its index', () => {
    const step = {
      batch: { items: [], size: 2 },
      with: { table: '${{ input.table }}', first: '${{ item[0] }}' },
    }

    expect(childOf(step, { input: { table: 't' } }, [5, 6], 3)).toEqual({
      input: { table: 't', first: 5, items: [5, 6], index: 3 },
    })
    expect(childOf({ batch: { items: [], size: 2 } }, {}, [5], 0)).toEqual({
      input: { items: [5], index: 0 },
    })
  })

  test('a child of a batch whose with gives no map has failed', () => {
    expect(childOf({ batch: { items: [], size: 2 }, with: '${{ item }}' }, {}, [1])).toEqual({
      error: 'with: ${{ item }} gave a list; a batch adds items and index to it, so it must give a map',
    })
  })
})

describe('Scopes', () => {
  const publish = {
    needs: ['split'],
    steps: {
      index: { ...work, with: { parts: '${{ steps.split.result }}', to: '${{ input.to }}' } },
      check: { ...work, needs: ['index'], with: '${{ steps.index.result }}' },
    },
  }
  const split: Child = { state: 'completed', result: ['p', 'q'] }

  test('a group starts with the part of the enclosing scope that its steps read', () => {
    expect(effectsOf({ split: work, publish }, { input: { to: 'x' }, children: { split } })).toEqual([
      {
        kind: 'start',
        step: 'publish',
        input: { input: { to: 'x' }, steps: { split: { result: ['p', 'q'] } } },
      },
    ])
  })

  test('the steps of a group read that scope and their own steps', () => {
    const input = { input: { to: 'x' }, steps: { split: { result: ['p', 'q'] } } }
    const inside: Case = { path: 'main/publish', input }

    expect(effectsOf({ split: work, publish }, inside)).toEqual([
      { kind: 'start', step: 'index', input: { parts: ['p', 'q'], to: 'x' } },
    ])
    expect(
      effectsOf(
        { split: work, publish },
        { ...inside, children: { index: { state: 'completed', result: 5 } } },
      ),
    ).toEqual([{ kind: 'start', step: 'check', input: 5 }])
  })

  test('a step inside a group hides the one of its name outside', () => {
    const group = {
      needs: ['a'],
      steps: { a: work, b: { ...work, needs: ['a'], with: '${{ steps.a.result }}' } },
    }
    const children = { a: { state: 'completed', result: null } } as const

    expect(
      effectsOf({ a: work, g: group }, { children: { a: { state: 'completed', result: 'outer' } } }),
    ).toEqual([{ kind: 'start', step: 'g', input: {} }])
    expect(
      effectsOf(
        { a: work, g: group },
        { path: 'main/g', input: { steps: { a: { result: 'outer' } } }, children },
      ),
    ).toEqual([{ kind: 'start', step: 'b', input: null }])
  })

  test('a group in a group keeps what the inner one reads', () => {
    const outer = { needs: ['a'], steps: { g: { steps: { x: { ...work, with: '${{ steps.a.result }}' } } } } }
    const input = { steps: { a: { result: 1 } } }
    const steps = { a: work, outer }

    expect(effectsOf(steps, { children: { a: { state: 'completed', result: 1 } } })).toEqual([
      { kind: 'start', step: 'outer', input },
    ])
    expect(effectsOf(steps, { path: 'main/outer', input })).toEqual([{ kind: 'start', step: 'g', input }])
    expect(effectsOf(steps, { path: 'main/outer/g', input })).toEqual([
      { kind: 'start', step: 'x', input: 1 },
    ])
  })

  test('the groups of a fan-out know their item and index, and so do groups in them', () => {
    const inner = { steps: { x: { ...work, with: ['${{ item }}', '${{ index }}'] } } }
    const steps = { each: { with_items: ['i'], steps: { inner } } }
    const child = renderChild(stepAt(graphOf(steps), 'main/each'), {}, 'i', 4)

    expect(child).toEqual({ input: { item: 'i', index: 4 } })
    expect(effectsOf(steps, { path: 'main/each', input: (child as { input: JsonValue }).input })).toEqual([
      { kind: 'start', step: 'inner', input: { item: 'i', index: 4 } },
    ])
    expect(effectsOf(steps, { path: 'main/each/inner', input: { item: 'i', index: 4 } })).toEqual([
      { kind: 'start', step: 'x', input: ['i', 4] },
    ])
  })

  test('a fan-out in a group of a fan-out renders its list with the outer item and its children with their own', () => {
    const inner = { ...work, with_items: '${{ item }}', with: '${{ item }}' }
    const steps = { each: { with_items: [['a', 'b']], steps: { inner } } }

    expect(effectsOf(steps, { path: 'main/each', input: { item: ['a', 'b'], index: 0 } })).toEqual([
      { kind: 'fanOut', step: 'inner', scope: {}, items: ['a', 'b'] },
    ])
    expect(renderChild(stepAt(graphOf(steps), 'main/each/inner'), {}, 'b', 1)).toEqual({ input: 'b' })
  })

  test('a sub-workflow sees only its with', () => {
    const steps = { a: work, sub: { workflow: 'inner', needs: ['a'], with: { n: '${{ input.n }}' } } }

    expect(effectsOf(steps, { input: { n: 1, secret: 2 }, children: { a: 'completed' } })).toEqual([
      { kind: 'start', step: 'sub', input: { n: 1 } },
    ])
    expect(effectsOf(steps, { path: 'inner', input: { n: 1 } })).toEqual([
      { kind: 'start', step: 'only', input: { n: 1 } },
    ])
  })
})

describe('Groups', () => {
  const group = (strategy: unknown) => ({ g: { strategy, steps: { a: work, b: work, c: work } } })
  const inside = (strategy: unknown, a: ChildState, b: ChildState, c: ChildState) =>
    told(group(strategy), { path: 'main/g', children: { a, b, c } })

  test('a group ends when all its steps have ended, by its strategy', () => {
    expect(inside('all', 'completed', 'completed', 'active')).toEqual([])
    expect(inside('all', 'completed', 'completed', 'completed')).toEqual(['completed'])
    expect(inside('all', 'completed', 'completed', 'failed')).toEqual(['failed'])
    expect(inside('any', 'completed', 'failed', 'failed')).toEqual(['completed'])
    expect(inside('any', 'skipped', 'failed', 'failed')).toEqual(['failed'])
    expect(inside({ atLeast: 2 }, 'completed', 'completed', 'failed')).toEqual(['completed'])
    expect(inside({ atLeast: 2 }, 'completed', 'skipped', 'failed')).toEqual(['failed'])
    expect(inside({ percent: 50 }, 'completed', 'skipped', 'failed')).toEqual(['completed'])
    expect(inside('ignore', 'failed', 'failed', 'cancelled')).toEqual(['completed'])
  })

  test('an early group ends as soon as its verdict is certain', () => {
    expect(inside({ rule: 'any', early: true }, 'completed', 'active', 'active')).toEqual(['completed'])
    expect(inside({ rule: 'all', early: true }, 'failed', 'active', 'active')).toEqual(['failed'])
    expect(inside({ atLeast: 2, early: true }, 'failed', 'failed', 'active')).toEqual(['failed'])
    expect(inside({ atLeast: 2, early: true }, 'failed', 'active', 'active')).toEqual([])
  })

  test('an early group does not wait for steps that are sure to be skipped', () => {
    const next = { ...work, needs: ['a', 'b'] }
    const g = {
      strategy: { atLeast: 3, early: true },
      steps: { a: work, b: work, next, last: { ...work, needs: ['next'] } },
    }

    expect(told({ g }, { path: 'main/g', children: { a: 'failed', b: 'active' } })).toEqual(['failed'])
  })

  test('an early group waits for a step that may still handle the failure', () => {
    const rescue = { ...work, needs: ['a'], on: 'failure' }
    const steps = { g: { strategy: { early: true }, steps: { a: work, rescue, c: work } } }
    const at = (state: ChildState): Case => ({
      path: 'main/g',
      children: { a: 'failed', rescue: state, c: 'active' },
    })

    expect(told(steps, at('active'))).toEqual([])
    expect(told(steps, at('completed'))).toEqual([])
    expect(told(steps, at('failed'))).toEqual(['failed'])
  })

  test('an early end starts nothing more, and shows what it cuts off as cancelled', () => {
    const steps = { a: work, b: work, c: { ...work, needs: ['b'] } }
    const g = {
      strategy: { rule: 'any', early: true },
      steps,
      output: '${{ [steps.a.status, steps.b.status] }}',
    }

    expect(effectsOf({ g }, { path: 'main/g', children: { a: 'completed', b: 'active' } })).toEqual([
      { kind: 'settle', state: 'completed', result: ['completed', 'cancelled'] },
    ])
  })

  test('the groups of a fan-out are judged by all, whatever the strategy of the fan-out', () => {
    const steps = { g: { strategy: 'ignore', with_items: [1], steps: { a: work } } }

    expect(told(steps, { path: 'main/g', children: { a: 'failed' } })).toEqual(['failed'])
  })

  test('of: leaves counts the leaf jobs below, handled or not', () => {
    const steps = group({ percent: 50, of: 'leaves' })
    const children: Case['children'] = { a: 'completed', b: 'completed', c: 'failed' }
    const leaves = { completed: 1, failed: 3, cancelled: 0, skipped: 0 }

    expect(effectsOf(steps, { path: 'main/g', children, leaves })).toEqual([
      { kind: 'settle', state: 'failed', error: '1 of 4 leaves completed; 50 % must, which is 2' },
    ])
    expect(told(steps, { path: 'main/g', children: { ...children, c: 'active' }, leaves })).toEqual([])
  })

  test('of: leaves counts a step that could not be rendered as one failed leaf', () => {
    const steps = {
      g: { strategy: { rule: 'all', of: 'leaves' }, steps: { a: { ...work, with: '${{ input.x.y }}' } } },
    }

    expect(told(steps, { path: 'main/g', input: { input: {} } })).toEqual(['fail a', 'failed'])
  })
})

describe('reads', () => {
  const steps = {
    a: work,
    b: { ...work, with_items: [1] },
    c: { ...work, needs: ['a', 'b'], with: ['${{ steps.a.result }}', '${{ steps.b.status }}'] },
    d: { ...work, needs: ['c'] },
  }
  const needed = (children: Record<string, ChildState>, output?: unknown) =>
    reads(graphOf(steps, output), { path: 'main', input: {} }, childrenOf(children))
  const none = { result: [], results: [] }

  test('names the results that steps which may start will read', () => {
    expect(needed({ a: 'completed', b: 'active' })).toEqual(none)
    expect(needed({ a: 'completed', b: 'completed' }, {})).toEqual({ result: ['a'], results: [] })
  })

  test('names those the result of the composite is made of once nothing is active', () => {
    const ended = { a: 'completed', b: 'completed', c: 'completed', d: 'skipped' } as const

    expect(needed(ended)).toEqual({ result: ['a', 'c'], results: ['b'] })
    expect(needed(ended, '${{ steps.c.result }}')).toEqual({ result: ['c'], results: [] })
    expect(needed({ ...ended, d: 'active' })).toEqual(none)
  })

  test('asks for nothing of a step that has no result', () => {
    expect(needed({ a: 'failed', b: 'skipped' })).toEqual(none)
  })
})

test('a chain of thousands of skipped steps is decided in one call', () => {
  const names = Array.from({ length: 9_000 }, (_, n) => `s${n}`)
  const steps = Object.fromEntries(
    names.map((name, n) => [name, n === 0 ? work : { ...work, needs: [`s${n - 1}`], when: false }]),
  )
  const graph = graphOf(steps)
  const children = childrenOf({ s0: 'completed' })
  const effects = advance(graph, { path: 'main', input: {} }, children)

  expect(effects).toHaveLength(9_000)
  expect(effects.at(-1)).toMatchObject({ kind: 'settle', state: 'completed' })
})
