import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasCode, type SluiceError } from '../errors.ts'
import { resolveSettings } from '../model/settings.ts'
import { checkConfig } from './check-config.ts'
import { lanesOfTasks } from './lanes-of-tasks.ts'
import { type ConfigInput, defineConfig } from './schema.ts'

function problemsOf(value: unknown): string[] {
  try {
    checkConfig(value)
  } catch (error) {
    expect(hasCode(error, 'INVALID_CONFIG')).toBe(true)
    const { problems } = (error as SluiceError).details as { problems: { path: string; message: string }[] }
    return problems.map(({ path, message }) => `${path}: ${message}`)
  }
  return []
}

const FULL = defineConfig({
  lanes: {
    interactive: { tasks: ['resize', 'align'], slots: 2, perWorker: 2, poll: '2s', stale: '15s' },
    night: { slots: 'none', perWorker: 'cores', enabled: false, ageing: '10m', prefetch: 'off' },
    system: null,
  },
  tasks: {
    align: {
      exec: ['./align.sh', '--fast', ''],
      requires: { os: 'linux', gpus: 2, fast: true },
      timeout: '10m',
      deadline: 'none',
      retry: { attempts: 3, backoff: 'exponential', delay: '1s', maxDelay: '1m' },
      onLost: 'fail',
      losses: 0,
      approval: false,
      keys: 'owner',
      priority: -5,
      env: { THREADS: '4', EMPTY: '' },
    },
    resize: { lane: 'interactive', timeout: 5000 },
  },
  capacity: 8,
  heartbeat: '5s',
  stale: '15s',
  cycleMax: 100,
  grace: 0,
  shutdownGrace: '1m',
  retention: '30d',
  deadline: '4h',
})

describe('a config with every key', () => {
  const config = checkConfig(FULL)

  test('comes back with durations in milliseconds', () => {
    expect(config.lanes?.interactive).toEqual({
      tasks: ['resize', 'align'],
      slots: 2,
      perWorker: 2,
      poll: 2000,
      stale: 15_000,
    })
    expect(config.lanes?.night).toEqual({
      slots: null,
      perWorker: 0,
      enabled: false,
      ageing: 600_000,
      prefetch: 0,
    })
    expect(config.lanes?.system).toEqual({})
    expect(config.tasks?.align).toMatchObject({
      exec: ['./align.sh', '--fast', ''],
      timeout: 600_000,
      deadline: null,
      retry: { attempts: 3, backoff: 'exponential', delay: 1000, maxDelay: 60_000 },
      env: { THREADS: '4', EMPTY: '' },
    })
    expect(config.tasks?.resize).toEqual({ lane: 'interactive', timeout: 5000 })
    expect(config).toMatchObject({ capacity: 8, heartbeat: 5000, grace: 0, retention: 2_592_000_000 })
  })

  test('means the same when it is checked again', () => {
    expect(checkConfig(config)).toEqual(config)
  })

  test('is what resolveSettings takes as the file', () => {
    const settings = resolveSettings({ file: config })
    expect(settings).toMatchObject({
      capacity: 8,
      shutdownGraceMs: 60_000,
      deadlineMs: 14_400_000,
    })
    expect(settings.lanes.get('night')).toMatchObject({
      slots: null,
      perWorker: 0,
      enabled: false,
      prefetch: 0,
    })
  })

  test('says which task is in which lane', () => {
    expect([...lanesOfTasks(config)]).toEqual([
      ['resize', 'interactive'],
      ['align', 'interactive'],
    ])
  })
})

test('an empty config is a config, and nothing is filled in', () => {
  expect(checkConfig({})).toEqual({})
  expect(checkConfig(null)).toEqual({})
  expect(checkConfig({ lanes: undefined, capacity: undefined })).toEqual({})
})

describe('reports every problem with its path, what was found and what would be correct', () => {
  test('all at once', () => {
    const problems = problemsOf({
      lanes: {
        interactive: { slot: 2, slots: -1, perWorker: 1.5, poll: 'soon', enabled: 'yes', tasks: 'resize' },
        mail: { prefetch: 1001 },
      },
      tasks: {
        align: {
          exec: './align.sh --fast',
          retry: { attempts: 0, backoff: 'linear' },
          onLost: 'ignore',
          priority: 2_000_000,
          requires: { os: null },
        },
      },
      capacity: -1,
      cycle_max: 5,
    })
    expect(problems).toEqual([
      'lanes.interactive.slot: unknown key; did you mean slots?',
      'lanes.interactive.slots: found -1; write a whole number of at least 0, or none',
      'lanes.interactive.perWorker: found 1.5; write a whole number of at least 0, or cores, or capacity, or none',
      'lanes.interactive.poll: found "soon"; write a duration from 0ms up to 1h, such as 500ms, 15s, 10m, 4h or 7d',
      'lanes.interactive.enabled: found "yes"; write true or false',
      'lanes.interactive.tasks: found "resize"; write a list of task names, such as [resize, align]',
      'lanes.mail.prefetch: found 1001; write a whole number from 0 to 1000, or off',
      'tasks.align.exec: found "./align.sh --fast"; write the program and its arguments as a list, such as [./align.sh, --fast]; no shell is involved',
      'tasks.align.retry.attempts: found 0; write a whole number from 1 to 32767',
      'tasks.align.retry.backoff: found "linear"; write exponential or fixed',
      'tasks.align.onLost: found "ignore"; write retry or fail',
      'tasks.align.priority: found 2000000; write a whole number from -1000000 to 1000000',
      'tasks.align.requires.os: found nothing; write text, a number, true or false',
      'capacity: found -1; write a whole number of at least 0',
      'cycle_max: unknown key; did you mean cycleMax?',
    ])
  })

  test('lists the known keys for a key that resembles none of them', () => {
    expect(problemsOf({ tasks: { x: { retry: { jitter: 5 } } } })).toEqual([
      'tasks.x.retry.jitter: unknown key; the keys here are attempts, backoff, delay, maxDelay',
    ])
  })

  test('a pool has bounds that fit together, and only what is known of pools', () => {
    expect(
      problemsOf({ fleet: { pools: { a: null, b: { min: 3, idle: 'none', labels: { gpu: true } } } } }),
    ).toEqual([])
    expect(
      problemsOf({ fleet: { pools: { a: { min: 4 }, b: { min: 2, max: 1 }, c: { size: 3 } } } }),
    ).toEqual([
      'fleet.pools.a.min: is 4, more than max, which is 3; write at most 3, or raise max',
      'fleet.pools.b.max: is 1, less than min, which is 2; write at least 2, or lower min',
      expect.stringMatching(/^fleet\.pools\.c\.size: unknown key; /),
    ])
    expect(
      problemsOf({ fleet: { pools: { a: { idle: 0, provisioner: 'hand', labels: { gpu: [1] } } } } }),
    ).toEqual([
      expect.stringMatching(/^fleet\.pools\.a\.idle: found 0; write a duration above 0/),
      'fleet.pools.a.provisioner: found "hand"; write local or command or ecs or kubernetes',
      'fleet.pools.a.labels: found a map; write a map of text, numbers, true and false',
    ])
  })

  test('budgets are one amount, GPUs that are read, or declared devices', () => {
    const budgets = {
      licences: 3,
      tokens: '0.5',
      vram: { devices: 'auto', safety: '1GB', quantum: 4, maxWait: '30s' },
      ram: { gpu0: '24GB', gpu1: 48 },
      disks: { devices: { one: '1TB' } },
    } as const
    expect(
      problemsOf({ budgets, models: { 'llama3.1:8b': { load: '12s', pinned: true }, 'org/name': null } }),
    ).toEqual([])
    expect(
      problemsOf({
        budgets: {
          negative: -1,
          unit: '5XB',
          empty: {},
          mixed: { devices: 'auto', gpu0: '1GB' },
          bad: { gpu0: 'NaN', safety: -1, quantum: -1, maxWait: 'soon' },
          list: [1],
        },
        models: { m: { load: -1 }, n: { pinned: 1 }, o: { size: 1 }, p: 3 },
      }),
    ).toEqual([
      expect.stringMatching(/^budgets.negative: found -1; write an amount such as 3 or 24GB/),
      expect.stringMatching(/^budgets.unit: found "5XB"; write/),
      expect.stringMatching(/^budgets.empty: names no devices; write/),
      expect.stringMatching(/^budgets.mixed.gpu0: does not apply, because devices are detected/),
      expect.stringMatching(/^budgets.bad.gpu0: found "NaN"; write a number of at least 0, or a size/),
      expect.stringMatching(/^budgets.bad.safety: found -1; write/),
      expect.stringMatching(/^budgets.bad.quantum: found -1; write/),
      expect.stringMatching(/^budgets.bad.maxWait: found "soon"; write a duration/),
      expect.stringMatching(/^budgets.list: found .*; write/),
      expect.stringMatching(/^models.m.load: found -1; write a duration/),
      'models.n.pinned: found 1; write true or false',
      'models.o.size: unknown key; the keys here are load, pinned',
      'models.p: found 3; write a map such as { load: 12s, pinned: true }',
    ])
  })

  test('what a task draws is checked, its expressions too', () => {
    const good = {
      model: 'llama3.1:8b',
      uses: { vram: '5GB', n: '${{ input.n * 2 }}' },
      perJob: { vram: 1 },
      parallel: 4,
    }
    expect(problemsOf({ tasks: { align: { exec: ['a'], ...good } } })).toEqual([])
    const bad = {
      exec: ['a'],
      model: '',
      uses: {
        vram: -1,
        'no name': 1,
        a: '${{ steps.x.result }}',
        b: '${{ input. }}',
        c: { devices: 0, each: 1 },
      },
      parallel: 0,
    }
    expect(problemsOf({ tasks: { align: bad } })).toEqual([
      'tasks.align.model: found ""; write the name of a model: text of 1 to 200 characters without control characters',
      expect.stringMatching(/^tasks.align.uses.vram: found -1; write a number of at least 0, a size/),
      expect.stringMatching(/^tasks.align.uses\["no name"\]: found the name "no name"; write a name/),
      'tasks.align.uses.a: reads steps.x.result; only input is known here',
      expect.stringMatching(/^tasks.align.uses.b: /),
      expect.stringMatching(/^tasks.align.uses.c: found a map; write/),
      'tasks.align.parallel: found 0; write a whole number from 1 to 10000',
    ])
  })

  test.each([
    ['text', '"a"'],
    ['list', 'a list'],
    [5, '5'],
    [true, 'true'],
  ] as const)('a %s is no config', (given, found) => {
    const value = given === 'text' ? 'a' : given === 'list' ? [] : given
    expect(problemsOf(value)).toEqual([`: found ${found}; write a map`])
  })
})

describe('between keys', () => {
  test('a task in two lanes is refused, and both places are named', () => {
    expect(
      problemsOf({
        lanes: { a: { tasks: ['x', 'y'] }, b: { tasks: ['z', 'x'] } },
        tasks: { z: { lane: 'b' }, y: { lane: 'b' } },
      }),
    ).toEqual([
      'lanes.b.tasks[1]: task x is placed in lane b here and in lane a at lanes.a.tasks[0]; a task is in one lane: keep one',
      'tasks.y.lane: task y is placed in lane b here and in lane a at lanes.a.tasks[1]; a task is in one lane: keep one',
    ])
  })

  test('a task listed twice in a lane is refused, and positions count also after a bad item', () => {
    expect(problemsOf({ lanes: { a: { tasks: ['x', 9, 'x'] } } }).at(-1)).toBe(
      'lanes.a.tasks[2]: task x is listed here and at lanes.a.tasks[0]; keep one',
    )
  })

  test('variables without a program are refused, since nothing would get them', () => {
    expect(problemsOf({ tasks: { x: { env: { A: '1' } } } })[0]).toContain('add exec, or remove env')
  })

  test('a program is not empty text', () => {
    expect(problemsOf({ tasks: { x: { exec: [''] } } })).toEqual([
      'tasks.x.exec[0]: found empty text; write the program to run',
    ])
    expect(problemsOf({ tasks: { x: { exec: [] } } })[0]).toContain('found an empty list')
  })

  test('the longest delay is not shorter than the first', () => {
    expect(problemsOf({ tasks: { x: { retry: { delay: '1m', maxDelay: '1s' } } } })).toEqual([
      'tasks.x.retry.maxDelay: is less than tasks.x.retry.delay; write at least that much',
    ])
    expect(
      problemsOf({ tasks: { x: { exec: ['a'], retry: { delay: '2h' } }, y: { retry: { delay: '2h' } } } }),
    ).toEqual([
      'tasks.x.retry.delay: is more than the longest delay, 1h by default; set maxDelay to at least as much',
    ])
  })

  test('stale must be greater than twice a heartbeat written in the same file', () => {
    const problems = problemsOf({
      heartbeat: '5s',
      stale: '11s',
      lanes: { a: { stale: '10s' }, b: { stale: '11s' } },
    })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(
      /^lanes\.a\.stale: .*set lanes\.a\.stale to more than 10s, or heartbeat to less than 5s$/,
    )
  })
})

describe('hostile values', () => {
  test('__proto__ is refused as a key and as a name, and pollutes nothing', () => {
    const value = JSON.parse(
      '{"__proto__":{"capacity":9},"lanes":{"__proto__":{"slots":1}},"tasks":{"x":{"exec":["a"],"env":{"__proto__":"1"}}}}',
    ) as unknown
    expect(problemsOf(value)).toHaveLength(3)
    expect(({} as { capacity?: number }).capacity).toBeUndefined()
  })

  test('rejects an object with its own prototype', () => {
    expect(problemsOf({ lanes: { __proto__: { slots: 1 } } })[0]).toContain('a prototype of its own')
    expect(problemsOf({ lanes: new Map([['a', {}]]) })[0]).toContain('a prototype of its own')
  })

  test('names of the language are only names', () => {
    const config = checkConfig({ tasks: { constructor: { timeout: '1s' } } })
    expect(config.tasks?.constructor).toEqual({ timeout: 1000 })
    expect(config.tasks?.toString).toBeUndefined()
  })

  test('rejects NUL and unpaired surrogates in every text', () => {
    expect(problemsOf({ tasks: { x: { exec: ['a\0b'], requires: { os: '\ud800' } } } })).toEqual([
      'tasks.x.exec[0]: contains a NUL character; remove it',
      'tasks.x.requires.os: contains an unpaired surrogate; remove it',
    ])
  })

  test('NaN and infinities are no numbers', () => {
    expect(
      problemsOf({
        capacity: Number.NaN,
        lanes: { a: { slots: Number.POSITIVE_INFINITY } },
        tasks: { x: { requires: { v: Number.NaN } } },
      }),
    ).toHaveLength(3)
  })

  test('the value of a variable is never repeated in a message', () => {
    const [problem] = problemsOf({ tasks: { x: { exec: ['a'], env: { PASSWORD: 12345 } } } })
    expect(problem).toBe('tasks.x.env.PASSWORD: found a number; write text; put quotes around it')
  })

  test('no value makes the check fail in any other way than with its own error', () => {
    const key = fc.oneof(
      fc.constantFrom('lanes', 'tasks', 'admission', 'retry', 'exec', 'slots', 'uses', 'env', '__proto__'),
      fc.string(),
    )
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof({ maxDepth: 5 }, fc.anything(), fc.array(tie('tree')), fc.dictionary(key, tie('tree'))),
    }))
    fc.assert(
      fc.property(tree, (value) => {
        problemsOf(value)
      }),
      { numRuns: 500 },
    )
  })
})

test('wrong keys and values do not type-check', () => {
  // @ts-expect-error a misspelt key
  const misspelt: ConfigInput = { lanes: { a: { slot: 1 } } }
  // @ts-expect-error a word that is no choice
  const wrong: ConfigInput = { tasks: { a: { onLost: 'ignore' } } }
  // @ts-expect-error a provisioner that does not exist
  const unknown: ConfigInput = { fleet: { pools: { a: { provisioner: 'hand' } } } }
  expect(problemsOf(misspelt)).toHaveLength(1)
  expect(problemsOf(unknown)).toHaveLength(1)
  expect(problemsOf(wrong)).toHaveLength(1)
})
