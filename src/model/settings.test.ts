import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasCode, type SluiceError } from '../errors.ts'
import { formatDuration } from './duration.ts'
import { defaultsOf } from './fields/field.ts'
import { LANE_FIELDS } from './fields/lane.ts'
import { laneVariable } from './lane-settings.ts'
import { resolveSettings, SETTINGS, unknownVariables } from './settings.ts'

function problemsOf(sources: Parameters<typeof resolveSettings>[0]): string[] {
  try {
    resolveSettings(sources)
  } catch (error) {
    expect(hasCode(error, 'INVALID_CONFIG')).toBe(true)
    const { problems } = (error as SluiceError).details as { problems: { path: string; message: string }[] }
    return problems.map(({ path, message }) => `${path}: ${message}`)
  }
  return []
}

describe('without any source', () => {
  const settings = resolveSettings({})

  test('the defaults of the reference hold', () => {
    expect(settings).toMatchObject({
      capacity: 1,
      heartbeatMs: 5000,
      staleMs: 15_000,
      cycleMax: 200,
      graceMs: 10_000,
      shutdownGraceMs: 30_000,
      retentionMs: 604_800_000,
      deadlineMs: null,
    })
    expect(settings.given.size).toBe(0)
  })

  test('four lanes exist', () => {
    const lane = {
      ...defaultsOf(LANE_FIELDS),
      staleMs: 15_000,
      enabled: true,
      ageingMs: null,
      placement: 'fill',
      prefetch: 1000,
      given: new Set(),
    }
    expect(Object.fromEntries(settings.lanes)).toEqual({
      interactive: { ...lane, slots: 2, perWorker: null, pollMs: 2000 },
      maintenance: { ...lane, slots: 1, perWorker: null, pollMs: 15_000 },
      system: { ...lane, slots: 1, perWorker: null, pollMs: 30_000 },
      default: { ...lane, slots: null, perWorker: -1, pollMs: 2000 },
    })
  })
})

describe('precedence', () => {
  const file = { capacity: 2, heartbeat: '2s', deadline: '1h' }

  test('an option beats the environment, the environment the file, the file the default', () => {
    const environment = { SLUICE_CAPACITY: '3', SLUICE_HEARTBEAT: '3s' }
    const options = { capacity: 4 }
    const { capacity, heartbeatMs, deadlineMs, retentionMs, given } = resolveSettings({
      file,
      environment,
      options,
    })
    expect({ capacity, heartbeatMs, deadlineMs, retentionMs }).toEqual({
      capacity: 4,
      heartbeatMs: 3000,
      deadlineMs: 3_600_000,
      retentionMs: 604_800_000,
    })
    expect([...given].sort()).toEqual(['capacity', 'deadline', 'heartbeat'])
  })

  test('none in a stronger place switches off what a weaker one set', () => {
    const environment = { SLUICE_DEADLINE: 'none' }
    expect(resolveSettings({ file, environment })).toMatchObject({ deadlineMs: null })
  })

  test('an empty variable counts as not set', () => {
    expect(
      resolveSettings({ file, environment: { SLUICE_CAPACITY: '', SLUICE_HEARTBEAT: '  ' } }),
    ).toMatchObject({
      capacity: 2,
      heartbeatMs: 2000,
    })
  })

  test('whatever is given, the strongest place wins', () => {
    const maybe = fc.option(fc.integer({ min: 0, max: 1000 }), { nil: undefined })
    fc.assert(
      fc.property(maybe, maybe, maybe, (option, variable, inFile) => {
        const { capacity } = resolveSettings({
          file: { capacity: inFile },
          environment: { SLUICE_CAPACITY: variable?.toString() },
          options: { capacity: option },
        })
        expect(capacity).toBe(option ?? variable ?? inFile ?? 1)
      }),
    )
  })
})

describe('lanes', () => {
  test('a variable whose lane is near a known one is refused with what was meant', () => {
    expect(problemsOf({ environment: { SLUICE_LANE_INTERCTIVE_SLOTS: '7' } })).toEqual([
      'SLUICE_LANE_INTERCTIVE_SLOTS: lane interctive does not exist; did you mean SLUICE_LANE_INTERACTIVE_SLOTS? Otherwise, declare the lane in the config file',
    ])
    const file = { lanes: { image: {} } }
    expect(problemsOf({ file, environment: { SLUICE_LANE_IMAGES_SLOTS: '7' } })).toHaveLength(1)
    const both = { lanes: { image: {}, images: {} } }
    expect(
      resolveSettings({ file: both, environment: { SLUICE_LANE_IMAGES_SLOTS: '7' } }).lanes.get('images'),
    ).toMatchObject({ slots: 7 })
  })

  test('variables of the environment bootstrap slots, below options and above the file', () => {
    const { lanes } = resolveSettings({
      file: { lanes: { interactive: { slots: 5 }, 'night-shift': { slots: 5 }, system: { slots: 5 } } },
      environment: {
        SLUICE_LANE_INTERACTIVE_SLOTS: '7',
        SLUICE_LANE_NIGHT_SHIFT_SLOTS: 'none',
        SLUICE_LANE_SYSTEM_SLOTS: '7',
        SLUICE_LANE_GPU_SLOTS: '1',
      },
      options: { lanes: { system: { slots: 9 } } },
    })
    expect(lanes.get('interactive')).toMatchObject({ slots: 7 })
    expect(lanes.get('night-shift')).toMatchObject({ slots: null, perWorker: -1 })
    expect(lanes.get('system')).toMatchObject({ slots: 9 })
    expect(lanes.get('gpu')).toMatchObject({ slots: 1, perWorker: null, pollMs: 2000 })
  })

  test('a lane of your own without slots is bounded by the capacity of each worker', () => {
    const { lanes } = resolveSettings({
      options: { lanes: { a: {}, b: { slots: 100 }, c: { perWorker: 'none' } } },
    })
    expect(['a', 'b', 'c'].map((name) => lanes.get(name)?.perWorker)).toEqual([-1, null, null])
  })

  test('prefetch is a whole number from 0 to 1000, and off is 0', () => {
    const prefetch = (value: number | 'off' | undefined) =>
      resolveSettings({ file: { lanes: { a: { prefetch: value } } } }).lanes.get('a')
    expect([undefined, 'off', 0, 1, 1000].map((value) => prefetch(value as number)?.prefetch)).toEqual([
      1000, 0, 0, 1, 1000,
    ])
    expect(prefetch('off')?.given).toEqual(new Set(['prefetch']))
    expect(prefetch(undefined)?.given).toEqual(new Set())
    for (const [value, found] of [
      [-1, '-1'],
      [1001, '1001'],
      [0.5, '0.5'],
      ['none', '"none"'],
      ['500', '"500"'],
      [null, 'nothing'],
    ] as const)
      expect(problemsOf({ options: { lanes: { a: { prefetch: value as number } } } })).toEqual([
        `option lanes.a.prefetch: found ${found}; write a whole number from 0 to 1000, or off`,
      ])
  })

  test('only fields that were given count as given', () => {
    const { lanes } = resolveSettings({
      file: { lanes: { interactive: { poll: '1s', enabled: false } } },
      environment: { SLUICE_LANE_INTERACTIVE_SLOTS: '3' },
    })
    expect([...lanes.get('interactive')!.given].sort()).toEqual(['enabled', 'poll', 'slots'])
    expect(lanes.get('interactive')).toMatchObject({ pollMs: 1000, enabled: false, slots: 3 })
  })

  test('a stale of its own beats the general one, wherever that is given', () => {
    const { lanes } = resolveSettings({
      file: { lanes: { interactive: { stale: '20s' } } },
      environment: { SLUICE_STALE: '1m' },
    })
    expect(lanes.get('interactive')?.staleMs).toBe(20_000)
    expect(lanes.get('system')?.staleMs).toBe(60_000)
    expect(lanes.get('system')?.given.has('stale')).toBe(true)
  })

  test('a variable that could mean two lanes is refused', () => {
    const environment = { [laneVariable('a-b')]: '1' }
    expect(problemsOf({ file: { lanes: { 'a-b': {}, a_b: {} } }, environment })).toEqual([
      'SLUICE_LANE_A_B_SLOTS: matches several lanes (a-b, a_b); set their slots in the config file and remove the variable',
    ])
  })

  test('a variable of a lane other than its slots is refused, not ignored', () => {
    expect(problemsOf({ environment: { SLUICE_LANE_SYSTEM_POLL: '2s' } })[0]).toContain(
      'Set other fields in the config file',
    )
  })

  test('a name no lane can have is refused', () => {
    const lanes = JSON.parse('{ "__proto__": { "slots": 1 } }') as Record<string, object>
    expect(problemsOf({ options: { lanes } })[0]).toContain('lanes["__proto__"]: the name of a lane must be')
    expect(problemsOf({ environment: { SLUICE_LANE_9_SLOTS: '1' } })[0]).toContain(
      'the name of a lane must be',
    )
  })
})

test('a poll of 0, and what is shorter than can be done, is the shortest there is', () => {
  for (const poll of [0, '0s', '9ms']) {
    const { lanes } = resolveSettings({ file: { lanes: { interactive: { poll } } }, environment: {} })
    expect(lanes.get('interactive')!.pollMs).toBe(10)
  }
})

describe('what cannot work', () => {
  test('reports every problem of every source in one error', () => {
    const problems = problemsOf({
      file: { capacity: -1, lanes: { interactive: { poll: '2h' } } },
      environment: { SLUICE_GRACE: 'soon', SLUICE_CYCLE_MAX: '0', SLUICE_LANE_SYSTEM_SLOTS: '-1' },
      options: { capacity: 3, retention: 0 },
    })
    expect(problems).toEqual([
      'capacity: found -1; write a whole number of at least 0',
      'SLUICE_CYCLE_MAX: found "0"; write a whole number of at least 1',
      'SLUICE_GRACE: found "soon"; write a duration from 0ms up to 24d, such as 500ms, 15s, 10m, 4h or 7d',
      'option retention: found 0; write a duration above 0 and up to 36500d, such as 500ms, 15s, 10m, 4h or 7d',
      'lanes.interactive.poll: found "2h"; write a duration from 0ms up to 1h, such as 500ms, 15s, 10m, 4h or 7d',
      'SLUICE_LANE_SYSTEM_SLOTS: found "-1"; write a whole number of at least 0, or none',
    ])
  })

  test('limits on what may enter have no default, and the environment only sets the ceiling', () => {
    expect(resolveSettings({}).admission).toEqual({})
    const file = { admission: { maxActive: 10, maxQueued: { align: 5, resize: 6 } } }
    const options = { admission: { maxQueued: { align: 'none' } } } as const
    expect(resolveSettings({ file, options, environment: { SLUICE_MAX_ACTIVE: 'none' } }).admission).toEqual({
      maxActive: null,
      maxQueued: { align: null, resize: 6 },
    })
    expect(
      problemsOf({
        environment: { SLUICE_MAX_ACTIVE: '0' },
        options: { admission: { maxQueued: { align: 0, 'no name': 1 } } },
      }),
    ).toEqual([
      'SLUICE_MAX_ACTIVE: found "0"; write a whole number from 1 to 2147483647, or none',
      'option admission.maxQueued.align: found 0; write a whole number from 1 to 2147483647, or none',
      expect.stringContaining('admission.maxQueued["no name"]: the name of a task must be'),
    ])
  })

  test('how many may wait of a task that draws from budgets can be set by environment', () => {
    expect(resolveSettings({}).maxQueued).toBe(500)
    expect(resolveSettings({ environment: { SLUICE_MAX_QUEUED: '20' } }).maxQueued).toBe(20)
    expect(problemsOf({ environment: { SLUICE_MAX_QUEUED: '0' } })).toHaveLength(1)
  })

  test('budgets and models of the file stand over those of the code, one by one', () => {
    const { budgets, models } = resolveSettings({
      file: { budgets: { licences: 3, vram: { gpu0: '24GB' } }, models: { m: { load: '2s' } } },
      options: { budgets: { licences: 9, seats: 1 }, models: { m: { load: '1s' }, n: { pinned: true } } },
    })
    expect([...budgets.keys()].toSorted()).toEqual(['licences', 'seats', 'vram'])
    expect(budgets.get('licences')).toMatchObject({ kind: 'shared', capacity: 3, bytes: false })
    expect(budgets.get('vram')).toMatchObject({
      kind: 'device',
      auto: false,
      devices: { gpu0: 24 * 1024 ** 3 },
      bytes: true,
    })
    expect(models).toEqual([
      { name: 'm', loadMs: 2000 },
      { name: 'n', pinned: true },
    ])
  })

  test('a wait no timer can hold is refused before it fires at once', () => {
    expect(problemsOf({ options: { heartbeat: '25d', stale: '60d' } })).toHaveLength(2)
  })

  test('stale must be greater than twice the heartbeat, and the text says what to change', () => {
    expect(problemsOf({ environment: { SLUICE_STALE: '10s' } })).toEqual([
      'SLUICE_STALE: stale must be greater than twice the heartbeat, but stale is 10s (SLUICE_STALE) and heartbeat is 5s ' +
        '(the default); set SLUICE_STALE to more than 10s, or heartbeat (SLUICE_HEARTBEAT) to less than 5s',
    ])
    expect(problemsOf({ options: { heartbeat: '8s' } })).toEqual([
      'option heartbeat: stale must be greater than twice the heartbeat, but stale is 15s (the default) and heartbeat is 8s ' +
        '(option heartbeat); set stale (SLUICE_STALE) to more than 16s, or option heartbeat to less than 7s500ms',
    ])
    const file = { lanes: { interactive: { stale: '9s' }, system: { stale: '11s' } } }
    expect(problemsOf({ file })).toEqual([
      'lanes.interactive.stale: stale must be greater than twice the heartbeat, but stale is 9s (lanes.interactive.stale) ' +
        'and heartbeat is 5s (the default); set lanes.interactive.stale to more than 10s, or heartbeat (SLUICE_HEARTBEAT) ' +
        'to less than 4s500ms',
    ])
  })

  test('the rule is exact for every pair', () => {
    const ms = fc.integer({ min: 1, max: 100_000 })
    fc.assert(
      fc.property(ms, ms, (heartbeat, stale) => {
        expect(problemsOf({ options: { heartbeat, stale } })).toHaveLength(stale > 2 * heartbeat ? 0 : 1)
      }),
    )
  })

  test('a message about the file says where the value is written', () => {
    const locate = () => ({ file: 'sluice.yaml', line: 3, column: 9 })
    expect(() => resolveSettings({ file: { stale: '1s' }, locate })).toThrow(/^sluice\.yaml:3:9: stale: /)
  })
})

test('each setting can be given in the environment as the reference writes its default', () => {
  for (const { environment, reader, default: value } of Object.values(SETTINGS)) {
    const text = typeof value === 'number' ? (reader.format as (v: number) => string)(value) : 'none'
    expect(() => resolveSettings({ environment: { [environment]: text } })).not.toThrow()
  }
  expect(formatDuration(SETTINGS.retention.default)).toBe('7d')
})

test('a variable whose name is nearly right is refused, and so are slots of a lane under a wrong name', () => {
  const environment = {
    SLUICE_CAPACTIY: '5',
    SLUICE_LANES_IMAGES_SLOTS: '1',
    SLUICE_IMAGES_SLOTS: '1',
    SLUICE_LANES: '{}',
  }
  expect(problemsOf({ environment })).toEqual([
    'SLUICE_CAPACTIY: is not a variable of Sluice; did you mean SLUICE_CAPACITY?',
    'SLUICE_LANES_IMAGES_SLOTS: is not a variable of Sluice; the slots of a lane are set with SLUICE_LANE_IMAGES_SLOTS',
    'SLUICE_IMAGES_SLOTS: is not a variable of Sluice; the slots of a lane are set with SLUICE_LANE_IMAGES_SLOTS',
    'SLUICE_LANES: is not a variable of Sluice; the only lane variable is SLUICE_LANE_<NAME>_SLOTS. Set other fields in the config file',
  ])
})

test('any other unknown variable is named, but not those that Kubernetes sets', () => {
  const environment = {
    SLUICE_SERVICE_HOST: '10.0.0.1',
    SLUICE_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
    SLUICE_UI_PORT: 'tcp://10.0.0.1:8080',
    SLUICE_WEB_SERVICE_PORT_HTTP: '8080',
    SLUICE_TEST_SERVER: 'postgres://127.0.0.1/postgres',
    SLUICE_KEY: 'sl_1',
    SLUICE_HEARTBEAT: '5s',
    SLUICE_LANE_IMAGES_SLOTS: '1',
    SLUICE_EMPTY: ' ',
    SLUICE_TEAM: 'blue',
    TEAM: 'red',
  }
  expect(problemsOf({ environment })).toEqual([])
  expect(unknownVariables(environment)).toEqual(['SLUICE_TEAM'])
})
