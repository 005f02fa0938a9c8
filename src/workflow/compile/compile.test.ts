import { describe, expect, test } from 'vitest'
import { formatPath } from '../../model/setting-value.ts'
import { ALL } from '../graph.ts'
import { compileWorkflows } from './compile.ts'

const TASKS = new Set(['split', 'align', 'index', 'notify', 'report', 'tick'])

function problemsOf(
  definitions: Record<string, unknown>,
  known: { tasks: ReadonlySet<string> | undefined } = { tasks: TASKS },
): string[] {
  const { graphs, problems } = compileWorkflows(definitions, known)
  if (problems.length > 0) expect(graphs).toEqual({})
  return problems.map(({ path, message }) => `${formatPath(path)}: ${message}`)
}

/** Problems of one workflow `w`, with paths below its steps. */
function stepProblems(steps: unknown, more: Record<string, unknown> = {}): string[] {
  return problemsOf({ w: { steps, ...more } }).map((text) => text.replace(/^w\.steps\.?/, ''))
}

const split = { task: 'split' }

describe('a file with every kind of step', () => {
  const pipeline = {
    steps: {
      split: { task: 'split', with: { file: '${{ input.file }}' }, retry: { attempts: 5, delay: '2s' } },
      align: {
        task: 'align',
        needs: ['split'],
        with_items: '${{ steps.split.result.chunks }}',
        concurrency: 3,
        with: { chunk: '${{ item }}' },
        timeout: '10m',
        deadline: '1h',
      },
      publish: {
        needs: ['align'],
        strategy: 'all',
        steps: { index: { task: 'index' }, notify: { task: 'notify' } },
        output: '${{ steps.index.result }}',
      },
      rescue: { task: 'report', needs: ['publish'], on: 'failure' },
    },
    output: { index: '${{ steps.publish.result }}' },
  }
  const countdown = {
    steps: {
      tick: { task: 'tick', with: { n: '${{ input.n }}' } },
      next: {
        workflow: 'countdown',
        needs: ['tick'],
        when: '${{ input.n > 1 }}',
        with: { n: '${{ input.n - 1 }}' },
      },
    },
  }
  const crunch = {
    steps: {
      rows: {
        workflow: 'countdown',
        batch: { items: '${{ input.rows }}', size: 1000 },
        concurrency: 4,
        strategy: { percent: 95, of: 'leaves', early: true },
      },
    },
  }
  const { graphs, problems } = compileWorkflows({ pipeline, countdown, crunch }, { tasks: TASKS })

  test('compiles to graphs of plain JSON', () => {
    expect(problems).toEqual([])
    expect(graphs.pipeline).toStrictEqual(JSON.parse(JSON.stringify(graphs.pipeline)))
    expect(graphs.pipeline).toStrictEqual({
      version: 1,
      main: 'pipeline',
      workflows: {
        pipeline: {
          steps: [
            {
              name: 'split',
              run: { kind: 'task', task: 'split' },
              needs: [],
              on: 'success',
              with: { file: '${{ input.file }}' },
              retry: { attempts: 5, delayMs: 2000 },
              strategy: ALL,
            },
            {
              name: 'align',
              run: { kind: 'task', task: 'align' },
              needs: ['split'],
              on: 'success',
              with: { chunk: '${{ item }}' },
              each: { items: '${{ steps.split.result.chunks }}', window: 3 },
              timeoutMs: 600_000,
              deadlineMs: 3_600_000,
              strategy: ALL,
            },
            {
              name: 'publish',
              run: {
                kind: 'group',
                body: {
                  steps: [
                    {
                      name: 'index',
                      run: { kind: 'task', task: 'index' },
                      needs: [],
                      on: 'success',
                      strategy: ALL,
                    },
                    {
                      name: 'notify',
                      run: { kind: 'task', task: 'notify' },
                      needs: [],
                      on: 'success',
                      strategy: ALL,
                    },
                  ],
                  output: '${{ steps.index.result }}',
                },
              },
              needs: ['align'],
              on: 'success',
              strategy: ALL,
            },
            {
              name: 'rescue',
              run: { kind: 'task', task: 'report' },
              needs: ['publish'],
              on: 'failure',
              strategy: ALL,
            },
          ],
          output: { index: '${{ steps.publish.result }}' },
        },
      },
    })
  })

  test('puts into a graph the workflows that can be reached, itself once', () => {
    expect(Object.keys(graphs.countdown!.workflows)).toEqual(['countdown'])
    expect(Object.keys(graphs.crunch!.workflows)).toEqual(['countdown', 'crunch'])
  })

  test('keeps the size of a batch, the window and the strategy', () => {
    expect(graphs.crunch!.workflows.crunch!.steps[0]).toMatchObject({
      each: { items: '${{ input.rows }}', size: 1000, window: 4 },
      strategy: { rule: 'percent', n: 95, of: 'leaves', early: true },
    })
  })
})

describe('names', () => {
  test('of workflows and steps are checked', () => {
    const bad = JSON.parse('{"w":{"steps":{"__proto__":{"task":"split"},"a b":{"task":"split"}}},"1x":{}}')

    expect(problemsOf(bad)).toEqual([
      expect.stringMatching(/^\["1x"\]: found the name "1x"; write a name of 1 to 100/),
      expect.stringMatching(/^w\.steps\["__proto__"\]: found the name "__proto__"; write a name/),
      expect.stringMatching(/^w\.steps\["a b"\]: found the name "a b"; write a name/),
    ])
  })

  test('that are properties of every object are plain names', () => {
    expect(stepProblems({ constructor: split, toString: { ...split, needs: ['constructor'] } })).toEqual([])
    expect(stepProblems({ a: { ...split, needs: ['valueOf'] } })).toEqual([
      'a.needs[0]: no step is called valueOf; there are no others',
    ])
  })

  test('of tasks and workflows must be known, near ones are suggested', () => {
    expect(stepProblems({ a: { task: 'splt' }, b: { workflow: 'v' }, c: { workflow: 'elsewhere' } })).toEqual(
      [
        'a.task: no task is called "splt"; did you mean split?',
        'b.workflow: no workflow is called "v"; did you mean w?',
        'c.workflow: no workflow is called "elsewhere"; there are w',
      ],
    )
  })

  test('distinguishes names of the other kind', () => {
    expect(stepProblems({ a: { task: 'w' }, b: { workflow: 'split' } })).toEqual([
      'a.task: w is a workflow; write workflow: w',
      'b.workflow: split is a task; write task: split',
    ])
  })

  test('of tasks are not checked when the tasks are not known', () => {
    expect(problemsOf({ w: { steps: { a: { task: 'anything' } } } }, { tasks: undefined })).toEqual([])
  })

  test('are refused when a workflow and a task share one', () => {
    expect(problemsOf({ split: { steps: { a: { task: 'align' } } } })).toEqual([
      'split: a task is called split too, and both are submitted by name; rename one',
    ])
  })
})

describe('a step', () => {
  test('runs exactly one thing', () => {
    expect(
      stepProblems({ a: {}, b: { task: 'split', workflow: 'w' }, c: null, d: 5, e: { task: 7 } }),
    ).toEqual([
      'a: says not what to run; write one of task, workflow or steps',
      'b: has task and workflow; a step runs one thing: keep one of them',
      'c: says not what to run; write one of task, workflow or steps',
      'd: found 5; write a map',
      'e.task: found 7; write the name of a task',
    ])
  })

  test('has known keys only', () => {
    expect(stepProblems({ a: { ...split, need: [] }, b: { ...split, colour: 1 } })).toEqual([
      'a.need: unknown key; did you mean needs?',
      expect.stringMatching(/^b\.colour: unknown key; the keys here are task, workflow, steps, needs, on/),
    ])
    expect(problemsOf({ w: { steps: { a: split }, timeout: '1s' } })).toEqual([
      'w.timeout: unknown key; the keys here are steps, output',
    ])
  })

  test.each(['lane', 'exec', 'executor', 'process', 'key', 'priority', 'uses', 'model', 'slots'])(
    'that is composite is refused with %s, because it never takes a slot',
    (option) => {
      const reason = `waits for its children and never takes a slot, so it has no ${option}; set ${option} on the tasks it runs`

      expect(
        stepProblems({ a: { steps: { x: split }, [option]: 'x' }, b: { workflow: 'w', [option]: 'x' } }),
      ).toEqual([`a.${option}: a group ${reason}`, `b.${option}: a sub-workflow ${reason}`])
      expect(problemsOf({ w: { steps: { a: split }, [option]: 'x' } })).toEqual([
        `w.${option}: a workflow ${reason}`,
      ])
    },
  )

  test('that runs a task says where the options of tasks belong', () => {
    expect(stepProblems({ a: { ...split, lane: 'x' } })).toEqual([
      'a.lane: belongs to the task, not to a step; set it under tasks.split',
    ])
  })

  test('that is composite has no retry', () => {
    expect(
      stepProblems({ a: { workflow: 'w', retry: { attempts: 2 } }, b: { steps: { x: split }, retry: {} } }),
    ).toEqual([
      'a.retry: a sub-workflow is not tried again; put retry on the tasks it runs',
      'b.retry: a group is not tried again; put retry on the tasks it runs',
    ])
  })

  test('has output or with only where they mean something', () => {
    expect(stepProblems({ a: { ...split, output: 1 }, b: { steps: { x: split }, with: {} } })).toEqual([
      'a.output: makes the result of a workflow or group; the result here is that of the task',
      'b.with: a group reads the scope around it and has no input of its own; remove it',
    ])
  })

  test('has durations and retries that can be kept', () => {
    const retry = { attempts: 0, backoff: 'linear', delay: '5 parsecs', maxDelay: -1, tries: 3 }

    expect(stepProblems({ a: { ...split, timeout: '0s', deadline: 'soon', retry } })).toEqual([
      'a.retry.tries: unknown key; the keys here are attempts, backoff, delay, maxDelay',
      'a.retry.attempts: found 0; write a whole number from 1 to 32767',
      'a.retry.backoff: found "linear"; write exponential or fixed',
      expect.stringMatching(/^a\.retry\.delay: found "5 parsecs"; write a duration/),
      expect.stringMatching(/^a\.retry\.maxDelay: found -1; write a duration/),
      expect.stringMatching(/^a\.timeout: found "0s"; write a duration above 0/),
      expect.stringMatching(/^a\.deadline: found "soon"; write a duration/),
    ])
    expect(stepProblems({ a: { ...split, retry: { delay: '2s', maxDelay: '1s' } } })).toEqual([
      'a.retry.maxDelay: is less than delay; write at least that much',
    ])
  })
})

describe('a fan-out', () => {
  const list = '${{ input.list }}'

  test('has one list', () => {
    expect(stepProblems({ a: { ...split, with_items: list, batch: { items: list, size: 1 } } })).toEqual([
      'a.batch: stands beside with_items; a fan-out has one list: keep one of them',
    ])
  })

  test('has a list, or an expression that gives one', () => {
    expect(
      stepProblems({ a: { ...split, with_items: 'input.list' }, b: { ...split, with_items: 'x ${{ 1 }}' } }),
    ).toEqual([
      'a.with_items: found "input.list"; write a list or an expression that gives one, such as "${{ input.files }}"',
      'b.with_items: found "x ${{ 1 }}"; write a list or an expression that gives one, such as "${{ input.files }}"',
    ])
    expect(stepProblems({ a: { ...split, with_items: [1, list] } })).toEqual([])
  })

  test('has a window of at least 1, and only a fan-out has one', () => {
    expect(
      stepProblems({
        a: { ...split, with_items: list, concurrency: 0 },
        b: { ...split, with_items: list, concurrency: 1.5 },
        c: { ...split, concurrency: 3 },
      }),
    ).toEqual([
      'a.concurrency: found 0; write a whole number of at least 1',
      'b.concurrency: found 1.5; write a whole number of at least 1',
      'c.concurrency: bounds the children of a fan-out; add with_items or batch, or remove it',
    ])
  })

  test('of chunks has items and a size', () => {
    expect(
      stepProblems({
        a: { ...split, batch: { items: list, size: 0 } },
        b: { ...split, batch: { items: list } },
        c: { ...split, batch: { size: 3, concurrency: 2 } },
        d: { ...split, batch: list },
        e: { ...split, batch: { items: list, size: 2 }, with: { items: 1, index: 2 } },
        f: { ...split, batch: { items: list, size: 2 }, with: [1] },
      }),
    ).toEqual([
      'a.batch.size: found 0; write a whole number of at least 1',
      'b.batch: has no size; write batch: { items: "${{ ... }}", size: 1000 }',
      'c.batch.concurrency: unknown key; the keys here are items, size',
      'c.batch: has no items; write batch: { items: "${{ ... }}", size: 1000 }',
      'd.batch: found "${{ input.list }}"; write a map',
      'e.with.items: a batch gives each child items of its own; use another name',
      'e.with.index: a batch gives each child index of its own; use another name',
      'f.with: found a list; a batch adds items and index to it: write a map',
    ])
  })
})

describe('a strategy', () => {
  const withStrategy = (strategy: unknown) => stepProblems({ a: { steps: { x: split }, strategy } })

  test.each([
    'all',
    'any',
    'ignore',
    { atLeast: 2 },
    { percent: 33.3 },
    { early: true },
    { rule: 'any', of: 'leaves' },
  ])('may be %j', (strategy) => {
    expect(withStrategy(strategy)).toEqual([])
  })

  test('is one of a few', () => {
    expect(withStrategy('most')).toEqual([
      'a.strategy: found "most"; write all, any, ignore, { atLeast: 3 } or { percent: 95 }',
    ])
    expect(withStrategy({ atLeast: 2, percent: 5 })).toEqual([
      'a.strategy: has atLeast and percent; keep one of them',
    ])
    expect(withStrategy({ atLeast: 0 })).toEqual([
      'a.strategy.atLeast: found 0; write a whole number of at least 1',
    ])
    expect(withStrategy({ percent: 101 })).toEqual([
      'a.strategy.percent: found 101; write a number above 0, up to 100, with at most three decimals',
    ])
    expect(withStrategy({ of: 'steps', early: 'yes' })).toEqual([
      'a.strategy.of: found "steps"; write children or leaves',
      'a.strategy.early: found "yes"; write true or false',
    ])
    expect(withStrategy({ rule: 'ignore', early: true })).toEqual([
      'a.strategy.early: with ignore the verdict is certain at once, and nothing would run; remove it',
    ])
  })

  test('has its place on groups and fan-outs only', () => {
    const message =
      'strategy: judges the children of a group or fan-out; add with_items or batch, or remove it'

    expect(stepProblems({ a: { ...split, strategy: 'any' }, b: { workflow: 'w', strategy: 'any' } })).toEqual(
      [`a.${message}`, `b.${message}`],
    )
  })
})

describe('needs', () => {
  test('name other steps of the same body, each once', () => {
    const steps = {
      first: split,
      b: { ...split, needs: ['frist', 'first', 'first', 'b', 3] },
      c: { ...split, needs: 'first' },
      d: { ...split, needs: ['nothing-like-it'] },
    }

    expect(stepProblems(steps)).toEqual([
      'b.needs[2]: first is listed twice; keep one',
      'b.needs[4]: found 3; write the name of a step',
      'c.needs: found "first"; write a list of steps, such as [split]',
      'b.needs[0]: no step is called frist; did you mean first?',
      'b.needs[3]: b needs itself; remove it',
      'd.needs[0]: no step is called nothing-like-it; there are first, b, c',
    ])
  })

  test('inside a group do not reach outside', () => {
    const group = { steps: { x: { ...split, needs: ['a'] }, y: { ...split, needs: ['g'] } } }

    expect(stepProblems({ a: split, g: group })).toEqual([
      'g.steps.x.needs[0]: a is a step outside the group; write it in the needs of g',
      'g.steps.y.needs[0]: g is the group this step is in; remove it',
    ])
  })

  test('outside a group do not reach inside', () => {
    expect(stepProblems({ g: { steps: { x: split } }, a: { ...split, needs: ['x'] } })).toEqual([
      'a.needs[0]: no step is called x; did you mean g?',
    ])
  })

  test('in a circle are printed', () => {
    const steps = {
      start: split,
      a: { ...split, needs: ['start', 'c'] },
      b: { ...split, needs: ['a'] },
      c: { ...split, needs: ['b'] },
      after: { ...split, needs: ['c'], with: '${{ steps.a.result }}' },
      p: { ...split, needs: ['q'] },
      q: { ...split, needs: ['p'] },
    }

    expect(stepProblems(steps)).toEqual([
      'a.needs: the steps need each other in a circle: a -> c -> b -> a; remove one of these needs',
      'p.needs: the steps need each other in a circle: p -> q -> p; remove one of these needs',
    ])
  })

  test('are missing where a step waits for a failure', () => {
    expect(stepProblems({ a: { ...split, on: 'failure' }, b: { ...split, on: 'error' } })).toEqual([
      'a.on: nothing that could fail leads here; add needs',
      'b.on: found "error"; write success or failure or always',
    ])
  })
})

describe('templates', () => {
  test('that cannot be parsed are reported where they are, with the place in the text', () => {
    const problems = stepProblems(
      { a: { ...split, with: { list: ['ok', '${{ input. }}'], open: 'x ${{ 1' } } },
      {
        output: '${{ steps.a.result + }}',
      },
    )

    expect(problems).toEqual([
      expect.stringMatching(/^a\.with\.list\[1\]: .*column \d+/),
      expect.stringMatching(/^a\.with\.open: .*column 3/),
      expect.stringMatching(/^w\.output: .*column \d+/),
    ])
  })

  test('hold only what can be stored', () => {
    const cyclic: Record<string, unknown> = {}
    cyclic.self = cyclic
    const proto = JSON.parse('{"deep":{"__proto__":1}}')

    expect(
      stepProblems({
        a: { ...split, with: { n: Number.NaN } },
        b: { ...split, with: 'nul \0' },
        c: { ...split, with: cyclic },
        d: { ...split, with: proto },
      }),
    ).toEqual([
      'a.with: the template cannot be stored: it contains NaN',
      'b.with: the template cannot be stored: it contains a NUL character',
      expect.stringMatching(/^c\.with: the template cannot be stored: .*circular/),
      expect.stringMatching(/^d\.with: .*__proto__/),
    ])
  })

  test('read known names only', () => {
    const reads = [
      'inptu.x',
      'steps',
      'steps[input.name].result',
      'steps.b',
      'steps.b.reslut',
      'steps.c.result',
      'item',
      'index',
    ]

    expect(
      stepProblems({
        b: split,
        a: { ...split, needs: ['b'], with: reads.map((read) => `\${{ ${read} }}`) },
      }).map((text) => text.replace(/^a\.with/, '')),
    ).toEqual([
      '[0]: reads inptu, which does not exist; did you mean input?',
      '[1]: reads steps as a whole; name the step: steps.NAME.result',
      '[2]: reads steps as a whole; name the step: steps.NAME.result',
      '[3]: reads steps.b as a whole; read one of result, status, results, error of it',
      '[4]: reads steps.b.reslut; a step has result, status, results, error; did you mean result?',
      '[5]: reads steps.c, and no step is called c; did you mean b?',
      '[6]: reads item, which only exists in a fan-out; add with_items or batch to the step',
      '[7]: reads index, which only exists in a fan-out; add with_items or batch to the step',
    ])
  })

  test('read only steps that have ended for certain', () => {
    const steps = {
      a: split,
      b: { ...split, needs: ['a'] },
      c: { ...split, needs: ['b'], with: '${{ steps.a.result }}' },
      d: { ...split, with: '${{ steps.a.result }}' },
      e: { ...split, when: '${{ steps.f.status == "failed" }}' },
      f: { ...split, needs: ['e'] },
      g: { ...split, with: '${{ steps.g.result }}' },
    }

    expect(stepProblems(steps)).toEqual([
      'd.with: reads steps.a, which d does not need; add a to its needs',
      'e.when: reads steps.f, which starts only after e has ended',
      'g.with: reads steps.g, which is this step itself',
    ])
  })

  test('in a group read the steps that the group needs', () => {
    const inner = {
      x: { ...split, with: '${{ steps.a.result }}' },
      y: { ...split, with: '${{ steps.x.result }}' },
    }

    expect(
      stepProblems({ a: split, b: { ...split, needs: ['a'] }, g: { needs: ['b'], steps: inner } }),
    ).toEqual(['g.steps.y.with: reads steps.x, which y does not need; add x to its needs'])
    expect(stepProblems({ a: split, g: { steps: { h: { steps: { x: inner.x } } } } })).toEqual([
      'g.steps.h.steps.x.with: reads steps.a, which the group g does not need; add a to the needs of g',
    ])
    expect(stepProblems({ g: { steps: { x: { ...split, with: '${{ steps.g.result }}' } } } })).toEqual([
      'g.steps.x.with: reads steps.g, which is the group around this step',
    ])
  })

  test('outside a group do not read its steps', () => {
    expect(
      stepProblems({
        grp: { steps: { x: split } },
        a: { ...split, needs: ['grp'], with: '${{ steps.x.result }}' },
      }),
    ).toEqual(['a.with: reads steps.x, and no step is called x; there are grp'])
  })

  test('explain how to refer to a step with a hyphen in its name', () => {
    expect(
      stepProblems({
        'mer-ge': split,
        a: { ...split, needs: ['mer-ge'], with: '${{ steps.mer-ge.result }}' },
        b: { ...split, needs: ['mer-ge'], with: "${{ steps['mer-ge'].result }}" },
      }),
    ).toEqual([
      "a.with: reads steps.mer, and no step is called mer; did you mean mer-ge? write steps['mer-ge'], since a hyphen subtracts",
      "a.with: reads ge, which does not exist; write steps['mer-ge'], since a hyphen subtracts",
    ])
  })

  test('of an output read every step of its body', () => {
    const output = ['${{ steps.a.result }}', '${{ steps.z.result }}']
    const g = {
      needs: ['a'],
      steps: { x: split },
      output: ['${{ steps.x.result }}', '${{ steps.b.result }}'],
    }

    expect(stepProblems({ a: split, b: split, g }, { output })).toEqual([
      'g.output[1]: reads steps.b, which the group g does not need; add b to the needs of g',
      expect.stringMatching(/^w\.output\[1\]: reads steps\.z, and no step is called z/),
    ])
  })

  test('read results of fan-outs only', () => {
    const steps = { a: split, b: { ...split, with_items: [1] } }

    expect(
      stepProblems(steps, {
        output: ['${{ steps.a.results }}', '${{ steps.b.results }}', '${{ steps.b.result }}'],
      }),
    ).toEqual(['w.output[0]: reads steps.a.results, but a is not a fan-out; read steps.a.result'])
  })

  test('know item in the children of a fan-out, not in what is rendered before there are any', () => {
    const inner = { steps: { x: { ...split, with: '${{ item }}', when: '${{ index > 0 }}' } } }
    const once = 'but this is rendered once, before there are items'

    expect(
      stepProblems({
        a: { with_items: [1], ...inner },
        b: { ...split, batch: { items: [], size: 1 }, with: { i: '${{ item }}' } },
      }),
    ).toEqual([])
    expect(stepProblems({ a: { ...split, with_items: '${{ item }}', when: '${{ index > 0 }}' } })).toEqual([
      `a.when: reads index, ${once}; read index in with`,
      `a.with_items: reads item, ${once}; read item in with`,
    ])
  })

  test('of when give true or false', () => {
    expect(
      stepProblems({
        a: { ...split, when: 'input.n > 1' },
        b: { ...split, when: 1 },
        c: { ...split, when: false },
      }),
    ).toEqual([
      'a.when: found "input.n > 1"; write true, false or an expression, such as "${{ input.n > 1 }}"',
      'b.when: found 1; write true, false or an expression, such as "${{ input.n > 1 }}"',
    ])
  })
})

describe('a definition', () => {
  test('has steps', () => {
    expect(
      problemsOf({
        a: null,
        b: {},
        c: { steps: {} },
        d: { steps: [] },
        e: 'x',
        f: { steps: { g: { steps: null } } },
      }),
    ).toEqual([
      'a: has no steps; write steps: with at least one step',
      'b: has no steps; write steps: with at least one step',
      'c.steps: has no steps; write at least one',
      'd.steps: found a list; write a map',
      'e: found "x"; write a map',
      'f.steps.g.steps: has no steps; write at least one',
    ])
  })

  test('of objects with a prototype of their own is refused', () => {
    expect(problemsOf({ a: new Date(0) })).toEqual([
      'a: found an object with a prototype of its own; write a plain map',
    ])
  })

  test('may have 10,000 steps, groups included, and not one more', () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`s${n}`, split]))

    expect(stepProblems({ ...many(4_999), g: { steps: many(5_000) } })).toEqual([])
    expect(
      problemsOf({ w: { steps: { ...many(4_999), g: { steps: many(5_001) }, h: { steps: many(2) } } } }),
    ).toEqual(['w: has more than 10000 steps; use with_items, or split it into workflows'])
  })

  test('may be a chain of 10,000 steps that all read the first', () => {
    const steps = Object.fromEntries(
      Array.from({ length: 10_000 }, (_, n) => [
        `s${n}`,
        n === 0 ? split : { ...split, needs: [`s${n - 1}`], with: '${{ steps.s0.result }}' },
      ]),
    )

    expect(stepProblems(steps)).toEqual([])
  })

  test('that contains itself is refused for its depth', () => {
    const group: Record<string, unknown> = {}
    group.steps = { inner: group }

    expect(problemsOf({ w: { steps: { g: group } } })).toEqual([
      expect.stringMatching(/groups are nested more than 32 deep; make a workflow of the inner ones$/),
    ])
  })

  test('tells whether a problem is about a key or its value', () => {
    const { problems } = compileWorkflows(
      { w: { steps: { a: { ...split, lane: 'x', timeout: 'x' } } } },
      { tasks: TASKS },
    )

    expect(problems.map(({ path, part }) => [path.at(-1), part])).toEqual([
      ['lane', 'key'],
      ['timeout', 'value'],
    ])
  })
})
