import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { SluiceError } from '../../errors.ts'
import type { JsonValue } from '../../model/json.ts'
import { canonicalJson } from '../canonical.ts'
import { compileWorkflows } from '../compile/compile.ts'
import { workflow } from './define.ts'
import type { Flow } from './flow.ts'
import { expr, type Ref, type StepHandle } from './reference.ts'
import { type AnyWorkflow, taskNamed, type Workflow, workflowNamed } from './runnable.ts'

interface Parts {
  chunks: string[]
  'odd name': { in: number }
}

const split = { name: 'split', run: (_: { file: string }) => ({}) as Parts }
const align = { name: 'align', run: (_: { chunk: string; place?: number }) => 1 }
const report = { name: 'report', run: (_: { what: unknown }) => 'told' }
const nothing = { name: 'nothing', run: () => {} }

function graphOf(main: string, definitions: Readonly<Record<string, unknown>>): string {
  const { graphs, problems } = compileWorkflows(definitions, { tasks: undefined })
  expect(problems).toEqual([])
  return canonicalJson(graphs[main] as unknown as JsonValue)
}

function expectSameGraph(yaml: string, ...workflows: readonly AnyWorkflow[]): void {
  const main = workflows[0]!.name
  const code = Object.fromEntries(workflows.map(({ name, definition }) => [name, definition]))
  expect(graphOf(main, code)).toBe(graphOf(main, parse(yaml)))
}

/** The steps of a workflow as they are in its definition. */
function stepsOf({ definition }: Workflow<never, unknown>): Record<string, Record<string, unknown>> {
  return (definition as { steps: Record<string, Record<string, unknown>> }).steps
}

function messageOf(define: () => unknown): string {
  try {
    define()
  } catch (error) {
    expect(error).toBeInstanceOf(SluiceError)
    expect((error as SluiceError).code).toBe('INVALID_ARGUMENT')
    return (error as Error).message
  }
  throw new Error('nothing was refused')
}

/** What is refused in a workflow called w. */
function refusal(steps: (flow: Flow<{ n: number; list: string[] }>) => unknown): string {
  return messageOf(() => workflow({ name: 'w', steps }))
}

/** Where types would have refused it already. */
function untyped(flow: Flow<never>): { [method: string]: (...args: unknown[]) => never } {
  return flow as never
}

describe('code and files give the same graphs', () => {
  test('tasks, fan-outs, groups, paths and output', () => {
    const pipeline = workflow({
      name: 'pipeline',
      steps: (flow: Flow<{ file: string }>) => {
        const parts = flow.step('split', split, { file: flow.input.file })
        const aligned = flow.each(
          'align',
          parts.result.chunks,
          align,
          (chunk, index) => ({ chunk, place: index }),
          { concurrency: 3, retry: { attempts: 5, delay: '2s' }, strategy: { percent: 95, early: true } },
        )
        const publish = flow.group(
          'publish',
          (group) => {
            const index = group.step('index', report, { what: aligned.results })
            group.step('notify', report, { what: [index.status, `${flow.input.file}.gz`] })
            return { index: index.result }
          },
          { strategy: 'any', timeout: '1h' },
        )
        flow.step('rescue', report, { what: publish.error }, { on: 'failure', deadline: '5m' })
        return { files: aligned.results, status: publish.status }
      },
    })
    expectSameGraph(
      `
      pipeline:
        steps:
          split: { task: split, with: { file: "\${{ input.file }}" } }
          align:
            task: align
            needs: [split]
            with_items: "\${{ steps.split.result.chunks }}"
            with: { chunk: "\${{ item }}", place: "\${{ index }}" }
            concurrency: 3
            retry: { attempts: 5, delay: 2s }
            strategy: { percent: 95, early: true }
          publish:
            needs: [align]
            strategy: any
            timeout: 1h
            steps:
              index: { task: report, with: { what: "\${{ steps.align.results }}" } }
              notify:
                task: report
                needs: [index]
                with: { what: ["\${{ steps.index.status }}", "\${{ input.file }}.gz"] }
            output: { index: "\${{ steps.index.result }}" }
          rescue: { task: report, needs: [publish], on: failure, deadline: 5m, with: { what: "\${{ steps.publish.error }}" } }
        output: { files: "\${{ steps.align.results }}", status: "\${{ steps.publish.status }}" }
      `,
      pipeline,
    )
  })

  test('sub-workflows, the workflow itself, batches and conditions', () => {
    const countdown = workflow({
      name: 'countdown',
      steps: (flow: Flow<{ n: number }>) => {
        const tick = flow.step('tick', taskNamed<{ n: number }>('tick'), { n: flow.input.n })
        flow.step(
          'next',
          flow.self,
          { n: expr<number>`${flow.input.n} - 1` },
          { needs: [tick], when: expr`${flow.input.n} > 1` },
        )
      },
    })
    const crunch = workflow({
      name: 'crunch',
      steps: (flow: Flow<{ rows: { id: number }[] }>) => {
        flow.batch(
          'rows',
          { items: flow.input.rows, size: 1000 },
          workflowNamed<{ items: { id: number }[]; first: number }>('one_chunk'),
          (chunk, index) => ({ first: expr<number>`${index} * 1000 + size(${chunk})` }),
          { concurrency: 4, strategy: { atLeast: 2, of: 'leaves' } },
        )
        flow.eachGroup('each', flow.input.rows, (group, row) => {
          group.step('down', countdown, { n: row.id })
        })
        flow.batchGroup('chunks', { items: flow.input.rows, size: 2 }, (group, rows, index) => {
          group.each('down', rows, countdown, (row) => ({ n: row.id }))
          return index
        })
        flow.each('plain', ['a', 'b'], taskNamed('report'), undefined, { strategy: 'ignore' })
      },
    })
    expectSameGraph(
      `
      crunch:
        steps:
          rows:
            workflow: one_chunk
            batch: { items: "\${{ input.rows }}", size: 1000 }
            with: { first: "\${{ index * 1000 + size(item) }}" }
            concurrency: 4
            strategy: { atLeast: 2, of: leaves }
          each:
            with_items: "\${{ input.rows }}"
            steps: { down: { workflow: countdown, with: { n: "\${{ item.id }}" } } }
          chunks:
            batch: { items: "\${{ input.rows }}", size: 2 }
            steps: { down: { workflow: countdown, with_items: "\${{ item }}", with: { n: "\${{ item.id }}" } } }
            output: "\${{ index }}"
          plain: { task: report, with_items: [a, b], strategy: ignore }
      countdown:
        steps:
          tick: { task: tick, with: { n: "\${{ input.n }}" } }
          next: { workflow: countdown, needs: [tick], when: "\${{ input.n > 1 }}", with: { n: "\${{ input.n - 1 }}" } }
      one_chunk: { steps: { only: { task: nothing } } }
      `,
      crunch,
      countdown,
      { name: 'one_chunk', definition: { steps: { only: { task: 'nothing' } } } },
    )
    expect(crunch.uses.workflows).toEqual([countdown])
  })
})

describe('what a step needs', () => {
  test('is what it reads and what it names, in the order they are written', () => {
    const steps = stepsOf(
      workflow({
        name: 'w',
        steps: (flow: Flow<{ file: string }>) => {
          const a = flow.step('a', split, { file: 'a' })
          const b = flow.step('b', split, { file: 'b' })
          const c = flow.step('c', nothing)
          flow.step('read', report, { what: { deep: [b.result.chunks, a.status] } }, { needs: [c] })
          flow.step('text', report, { what: `${a.result} and ${c.status}` })
          flow.step('condition', nothing, undefined, { when: expr`size(${b.result.chunks}) > 0` })
          flow.each('items', a.result.chunks, report, () => ({ what: b.result }))
        },
      }),
    )
    expect(Object.entries(steps).map(([name, step]) => [name, step.needs])).toEqual([
      ['a', undefined],
      ['b', undefined],
      ['c', undefined],
      ['read', ['a', 'b', 'c']],
      ['text', ['a', 'c']],
      ['condition', ['b']],
      ['items', ['a', 'b']],
    ])
  })

  test('leaves out what it reads of steps that the named ones come after', () => {
    const steps = stepsOf(
      workflow({
        name: 'w',
        steps: (flow: Flow<{ file: string }>) => {
          const a = flow.step('a', split, { file: 'a' })
          const b = flow.step('b', report, { what: a.result })
          const c = flow.step('c', nothing, undefined, { needs: [b] })
          flow.step('rescue', report, { what: a.result.chunks }, { needs: [c], on: 'failure' })
        },
      }),
    )
    expect(steps.rescue!.needs).toEqual(['c'])
  })

  test('is, of a group, what its steps read outside', () => {
    const steps = stepsOf(
      workflow({
        name: 'w',
        steps: (flow: Flow<{ file: string }>) => {
          const a = flow.step('a', split, { file: 'a' })
          const b = flow.step('b', nothing)
          flow.group('outer', (outer) => {
            outer.group('inner', (inner) => {
              inner.step('deep', report, { what: a.result })
              return b.status
            })
          })
        },
      }),
    )
    expect(steps.outer!.needs).toEqual(['a', 'b'])
    expect((steps.outer!.steps as typeof steps).inner!.needs).toBeUndefined()
  })
})

describe('references', () => {
  const written = (make: (flow: Flow<Record<string, Parts>>) => unknown) =>
    stepsOf(
      workflow({
        name: 'w',
        steps: (flow: Flow<Record<string, Parts>>) => {
          flow.step('s', report, { what: make(flow) })
        },
      }),
    ).s!.with

  test('are written as expressions, with brackets where a name needs them', () => {
    expect(
      written(({ input }) => [input.a!['odd name'].in, input['a-b']!.chunks[3]!, input.if, input['"']]),
    ).toEqual({
      what: [
        `\${{ input.a["odd name"]["in"] }}`,
        `\${{ input["a-b"].chunks[3] }}`,
        `\${{ input["if"] }}`,
        `\${{ input["\\""] }}`,
      ],
    })
  })

  test('can be put into expressions, beside plain values, and these into others', () => {
    expect(
      written(({ input }) => {
        const size = expr<number>`size(${input.a!.chunks})`
        const part = expr<{
          of: number
        }>`${input.b} == null ? ${{ of: -1, 'the "x"': ['y', input.c] }} : ${input.b}`
        return [size, expr`${size} - ${-2} > 0 && ${'a'} != ${null}`, part.of]
      }),
    ).toEqual({
      what: [
        `\${{ size(input.a.chunks) }}`,
        `\${{ (size(input.a.chunks)) - (-2) > 0 && "a" != null }}`,
        `\${{ (input.b == null ? {"of": (-1), "the \\"x\\"": ["y", input.c]} : input.b).of }}`,
      ],
    })
  })

  test('cannot be taken apart before there is a value', () => {
    const cannot = (what: (input: Ref<Record<string, Parts>>) => unknown) =>
      messageOf(() => written(({ input }) => what(input)))
    expect(cannot((input) => ({ ...input }))).toBe(
      'input stands for a value that only a run will have, and cannot be taken apart; name the fields',
    )
    expect(cannot((input) => [...(input.a!.chunks as unknown as string[])])).toContain('use each()')
    expect(cannot((input) => Number(input.a))).toContain('cannot be calculated with; use expr')
    expect(cannot(() => expr`${Number.NaN} > 1`)).toBe(
      'an expression holds references and plain values, found NaN',
    )
    expect(cannot((input) => Object.assign(input, { a: 1 }))).toContain('cannot be changed')
  })

  test('dates become text, and what is undefined is left out', () => {
    expect(written(() => ({ at: new Date(0), gone: undefined }))).toEqual({
      what: { at: '1970-01-01T00:00:00.000Z' },
    })
  })
})

describe('a workflow is refused when it is defined', () => {
  test.each<[string, (flow: Flow<{ n: number; list: string[] }>) => unknown, string]>([
    [
      'a group with an executor',
      (flow) => flow.group('g', (group) => void group.step('a', nothing), { process: true } as object),
      'workflow w, step g: process: a group waits for its children and never takes a slot, so it has no process; set process on the tasks it runs',
    ],
    [
      'a sub-workflow in a lane',
      (flow) => flow.step('again', flow.self, { n: 1, list: [] }, { lane: 'fast' } as object),
      'workflow w, step again: lane: a sub-workflow waits for its children and never takes a slot, so it has no lane; set lane on the tasks it runs',
    ],
    [
      'a sub-workflow that is tried again',
      (flow) => flow.step('again', flow.self, { n: 1, list: [] }, { retry: { attempts: 2 } }),
      'workflow w, step again: retry: a sub-workflow is not tried again; put retry on the tasks it runs',
    ],
    [
      'a window of 0, inside a group',
      (flow) =>
        flow.group('g', (group) => {
          group.each('a', flow.input.list, report, (item) => ({ what: item }), { concurrency: 0 })
        }),
      'workflow w, step g/a: concurrency: found 0; write a whole number of at least 1',
    ],
    [
      'an expression that cannot be read',
      (flow) => flow.step('a', report, { what: expr`${flow.input.n} +` }),
      'workflow w, step a: with.what: ',
    ],
    [
      'a failure that nothing leads to',
      (flow) => flow.step('a', nothing, undefined, { on: 'failure' }),
      'workflow w, step a: on: nothing that could fail leads here; add needs',
    ],
    ['no steps', () => {}, 'workflow w: steps: has no steps; write at least one'],
    [
      'two steps of one name',
      (flow) => [flow.step('a', nothing), flow.step('a', nothing)],
      'workflow w, step a: there is one of that name already; rename one',
    ],
    [
      'a name that is none',
      (flow) => flow.step('a/b', nothing),
      'workflow w: found a step named "a/b"; write ',
    ],
    [
      'a name in place of a task',
      (flow) => untyped(flow as never).step!('a', 'split'),
      'workflow w, step a: found "split" to run; give a task or a workflow; by name: taskNamed("split")',
    ],
    [
      'a name in place of a step',
      (flow) => untyped(flow as never).step!('a', nothing, undefined, { needs: ['b'] }),
      'workflow w, step a: needs: found "b"; write steps as step(), each() and group() return them',
    ],
    [
      'an argument among the options',
      (flow) => untyped(flow as never).step!('a', nothing, undefined, { with: { n: 1 } }),
      'workflow w, step a: with is not an option here; it follows from the arguments',
    ],
    [
      'an option that does not exist',
      (flow) => untyped(flow as never).step!('a', nothing, undefined, { timout: '1s' }),
      'workflow w, step a: timout: unknown key; did you mean timeout?',
    ],
    [
      'a step in place of its result',
      (flow) => flow.step('b', report, { what: { of: flow.step('a', nothing) } }),
      'workflow w, step b: with.what.of: found step a itself; write .result, or another of its fields',
    ],
    [
      'a function in an input',
      (flow) => flow.step('a', report, { what: () => 1 }),
      'workflow w, step a: with.what: found a function',
    ],
    [
      'an input of each that is no function',
      (flow) => untyped(flow as never).each!('a', ['x'], report, { what: 1 }),
      'workflow w, step a: found an object for the input; write a function: (item, index) => input',
    ],
    [
      'an async function',
      async (flow) => void flow.step('a', nothing),
      'workflow w: the function that writes the steps must not be async',
    ],
  ])('%s', (_, steps, message) => {
    // What a step returns is no output here.
    const text = refusal((flow) => {
      const output = steps(flow)
      return output instanceof Promise ? output : undefined
    })
    expect(text.slice(0, message.length)).toBe(message)
  })

  test('with every problem at once', () => {
    const text = refusal((flow) => {
      flow.step('a', nothing, undefined, { timeout: 'soon' as '1s' })
      flow.each('b', [], nothing, undefined, { concurrency: -1 })
    })
    expect(text.split('\n').map((line) => line.split(':')[0])).toEqual([
      'workflow w, step a',
      'workflow w, step b',
    ])
  })

  test('without a name or a function', () => {
    expect(messageOf(() => workflow({ name: '1', steps: () => {} }))).toContain('found the name "1"')
    expect(messageOf(() => workflow({ name: 'w', steps: {} as never }))).toContain('must be a function')
    expect(messageOf(() => workflow({ name: 'w', steps: () => {}, lane: 'x' } as never))).toContain('lane')
    expect(messageOf(() => taskNamed(''))).toContain('taskNamed: found the name ""')
  })
})

describe('names mean what they meant where they were read', () => {
  test('a group keeps its steps to itself', () => {
    const text = refusal((flow) => {
      let inner: StepHandle<string> | undefined
      flow.group('g', (group) => {
        inner = group.step('a', report, { what: 1 })
      })
      flow.step('b', report, { what: inner!.result })
    })
    expect(text).toBe(
      'workflow w, step b: with: reads step a of another group or workflow, which keeps its steps to itself; return from there what is needed, and read the result',
    )
  })

  test('a step of a group that hides one outside is refused only where the latter is read', () => {
    const define = (name: string) => () =>
      workflow({
        name: 'w',
        steps: (flow: Flow<object>) => {
          const a = flow.step('a', report, { what: 1 })
          flow.group('g', (group) => {
            group.step('b', report, { what: a.result })
            group.step(name, nothing)
          })
        },
      })
    expect(define('c')).not.toThrow()
    expect(messageOf(define('a'))).toBe(
      'workflow w, step g/b: with: reads step a outside the group, which has a step of that name itself; rename one',
    )
  })

  test('items belong to their fan-out', () => {
    const hidden = refusal((flow) => {
      flow.eachGroup('outer', [[1]], (group, outer) => {
        group.each('inner', outer, report, () => ({ what: outer }))
      })
    })
    expect(hidden).toBe(
      'workflow w, step outer/inner: with: reads item of another fan-out; here it is that of inner',
    )
    const escaped = refusal((flow) => {
      let kept: unknown
      flow.each('a', [1], report, (item) => {
        kept = item
        return { what: item }
      })
      flow.step('b', report, { what: kept })
    })
    expect(escaped).toBe('workflow w, step b: with: reads item outside of its fan-out')
  })

  test('the input of another workflow is not there', () => {
    const text = refusal((outer) => {
      workflow({
        name: 'inner',
        steps: (flow: Flow<object>) => {
          flow.step('a', report, { what: outer.input.n })
        },
      })
    })
    expect(text).toContain('workflow inner, step a: with: reads the input of another workflow')
  })

  test('a step is added where it is written', () => {
    expect(
      refusal((flow) => {
        flow.group('g', () => {
          flow.step('a', nothing)
        })
      }),
    ).toContain('workflow w, step a: is written inside group g but added outside of it')
    let late: Flow<object> | undefined
    workflow({
      name: 'w',
      steps: (flow: Flow<object>) => {
        late = flow
        flow.step('a', nothing)
      },
    })
    expect(messageOf(() => late!.step('b', nothing))).toContain('the steps have been written')
    expect(
      refusal((flow) => {
        const a = flow.step('a', nothing)
        flow.group('g', (group) => {
          group.step('b', nothing, undefined, { needs: [a] })
        })
      }),
    ).toBe('workflow w, step g/b: needs: a is a step outside the group; write it in the needs of g')
  })
})
