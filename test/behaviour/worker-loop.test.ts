import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Assignment, CycleAnswer } from '../../src/model/assignment.ts'
import { DeviceWatch } from '../../src/worker/devices/device-watch.ts'
import type { JobSource, SourceEvents, SourceRequest } from '../../src/worker/job-source.ts'
import { ModelKeeper } from '../../src/worker/models/model-keeper.ts'
import { task } from '../../src/worker/task.ts'
import { Workdirs } from '../../src/worker/workdir.ts'
import { Worker } from '../../src/worker/worker.ts'
import { until } from '../support/until.ts'

// The loop of a worker against a source that a test controls to the microtask. Its poll is so long that whatever is
// not reported at once is not reported within the test.

const POLL_MS = 600_000
let root: string

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-loop-'))
})
afterEach(() => rm(root, { recursive: true, force: true }))

class ControlledSource implements JobSource {
  readonly pollMs = POLL_MS
  readonly lookAgainMs = Number.POSITIVE_INFINITY
  readonly isBehind = false
  readonly heartbeatMs = 5000
  readonly staleByLane = new Map<string, number>()
  readonly waiting: Assignment[] = []
  readonly reported: string[] = []
  readonly frees: number[] = []
  away = false
  events: SourceEvents | undefined

  async open(events: SourceEvents): Promise<void> {
    this.events = events
    events.beat({ lanes: [], cancels: [], draining: false, stopping: false, shares: null, resync: false })
  }

  async startOver(): Promise<void> {}

  renew(): void {}

  async cycle({ ended, free }: SourceRequest): Promise<CycleAnswer> {
    this.frees.push(free)
    if (this.away) throw new Error('the other side is away')
    for (const each of ended) this.reported.push(each.id)
    return {
      assignments: this.waiting.splice(0, free),
      lost: [],
      refused: [],
      again: false,
    }
  }

  servicesFor(): never {
    throw new Error('not used')
  }

  async reportDevices(): Promise<[]> {
    return []
  }

  async shareProcesses(): Promise<number> {
    return 0
  }

  broken(): void {}

  withdrawTask(): void {}

  restoreTask(): void {}

  flush(): undefined {
    return undefined
  }

  async close(): Promise<void> {}
}

function assignment(id: string): Assignment {
  return {
    id,
    attempt: 1,
    task: 'spin',
    lane: 'default',
    failures: 0,
    priority: 0,
    key: null,
    tags: [],
    submittedAt: '2030-01-01T00:00:00Z',
    input: null,
  }
}

async function start(source: ControlledSource, execute: () => unknown, capacity = 10): Promise<Worker> {
  const spin = task({ name: 'spin', run: () => null })
  const log = { info() {}, warn() {}, error() {} }
  const devices = new DeviceWatch({ source, host: 'here', log })
  const worker = new Worker({
    source,
    devices,
    models: new ModelKeeper({ models: new Map(), devices, log, onNews() {} }),
    tasks: new Map([['spin', spin]]),
    executors: new Map([['spin', execute]]),
    name: 'loop',
    pool: undefined,
    share: undefined,
    workdirs: await Workdirs.open(root),
    capacity,
    cycleMax: 5,
    graceMs: 100,
    shutdownGraceMs: 1000,
    log,
  })
  await worker.start()
  return worker
}

test.each(Array.from({ length: 24 }, (_, n) => n))(
  'an attempt that ends %i microtasks after the loop looked is reported without waiting for the poll',
  async (microtasks) => {
    const source = new ControlledSource()
    const worker = await start(source, async () => {
      await new Promise((resolve) => setImmediate(resolve))
      for (let i = 0; i < microtasks; i++) await null
    })
    source.waiting.push(assignment('1'))
    worker.nudge()

    await until(() => source.reported.includes('1'), 'the ending to be reported', 5000)
    await worker.stop()
  },
)

test.each(Array.from({ length: 12 }, (_, n) => n))(
  'a wake that comes %i microtasks after an answer is not lost',
  async (microtasks) => {
    const source = new ControlledSource()
    const worker = await start(source, () => null)
    const answer = source.cycle.bind(source)
    let armed = true
    source.cycle = async (request) => {
      const answered = await answer(request)
      if (armed) {
        armed = false
        void (async () => {
          for (let i = 0; i < microtasks; i++) await null
          source.waiting.push(assignment('1'))
          source.events!.wake(false)
        })()
      }
      return answered
    }
    source.events!.wake(false)

    await until(() => source.reported.includes('1'), 'the job to run', 5000)
    await worker.stop()
  },
)

test('endings that could not be sent are sent again, each once, when the other side is back', async () => {
  const source = new ControlledSource()
  const worker = await start(source, () => null)
  source.waiting.push(assignment('1'), assignment('2'))
  const answer = source.cycle.bind(source)
  let cycles = 0
  source.cycle = (request) => {
    source.away = cycles++ === 1
    return answer(request)
  }
  worker.nudge()

  await until(() => source.reported.length >= 2, 'both endings')
  await worker.stop()
  expect(source.reported.sort()).toEqual(['1', '2'])
})

test('one cycle takes no more than the cap, and no more than there is room for', async () => {
  const source = new ControlledSource()
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const worker = await start(source, () => held, 7)
  for (let i = 1; i <= 20; i++) source.waiting.push(assignment(String(i)))
  worker.nudge()

  await until(() => worker.running === 7, 'the worker to be full')
  expect(Math.max(...source.frees)).toBe(5)
  source.frees.length = 0
  worker.nudge()
  await until(() => source.frees.length > 0, 'another cycle')
  expect(new Set(source.frees)).toEqual(new Set([0]))
  release()
  await until(() => source.reported.length === 20, 'all to end')
  await worker.stop()
})
