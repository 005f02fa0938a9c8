import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { BrokenWorker } from '../../src/worker/attempt.ts'
import { type PoolOptions, ProcessPool } from '../../src/worker/pool/pool.ts'
import { expectGone, Fixture, isAlive, markDescendants } from '../support/processes.ts'
import { RecordedAttempt } from '../support/recorded-attempt.ts'

const module = new URL('../support/fixtures/process-tasks.mjs', import.meta.url).href
const descendants = markDescendants()
const folder = mkdtempSync(join(tmpdir(), 'sluice-pool-test-'))
const pools: ProcessPool[] = []

afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.stop(0)))
  expect(descendants.left()).toEqual([])
})

afterAll(async () => {
  await rm(folder, { recursive: true })
  await vi.waitFor(() => expect(descendants.left()).toEqual([]), { timeout: 60_000 })
})

function newPool(options: Partial<PoolOptions> = {}): ProcessPool {
  const pool = new ProcessPool({ size: 1, log: { info() {}, warn() {} }, ...options })
  pools.push(pool)
  return pool
}

async function startedPool(options: Partial<PoolOptions> = {}): Promise<ProcessPool> {
  const pool = newPool(options)
  await pool.start()
  return pool
}

function run(pool: ProcessPool, task: string, input?: unknown, attempt = new RecordedAttempt({ input })) {
  return pool.run({ module, task }, attempt)
}

async function expectFree(pool: ProcessPool, free: number): Promise<void> {
  await expect.poll(() => pool.free, { timeout: 60_000, interval: 5 }).toBe(free)
}

describe('the start', () => {
  test('has every process ready before it returns', async () => {
    const pool = newPool({ size: 3, initialiser: { module, export: 'initialise' } })
    expect(pool.free).toBe(0)

    await pool.start()

    expect(pool.free).toBe(3)
    expect(descendants.left()).toHaveLength(3)
  })

  test('starts as many processes as there are cores by default', () => {
    expect(new ProcessPool({ log: { info() {}, warn() {} } }).size).toBe(availableParallelism())
  })

  test.each([{ size: 0 }, { size: 1.5 }, { size: Number.NaN }, { maxJobsPerChild: -1 }])(
    'refuses sizes that cannot work: %j',
    (options) => {
      expect(() => newPool(options)).toThrow(/must be a whole number of at least/)
    },
  )

  test.each([
    ['failToInitialise', /a pool process did not start: the model file is missing/],
    ['exitAtInitialise', /a pool process did not start: it exited with code 9/],
    ['nothingOfTheKind', /exports no function named "nothingOfTheKind"; it exports .*initialise/],
  ])('fails with the cause when the initialiser does, and leaves no process: %s', async (name, message) => {
    const pool = newPool({ size: 2, initialiser: { module, export: name } })

    const starting = pool.start()

    await expect(starting).rejects.toBeInstanceOf(BrokenWorker)
    await expect(starting).rejects.toMatchObject({ message })
    expect(pool.free).toBe(0)
    expect(descendants.left()).toEqual([])
  })

  test('carries what the initialiser threw', async () => {
    const starting = newPool({ initialiser: { module, export: 'failToInitialise' } }).start()

    await expect(starting).rejects.toMatchObject({
      cause: { name: 'TypeError', message: 'the model file is missing' },
    })
  })

  test('may have a module as initialiser, for what loading it does', async () => {
    const broken = join(folder, 'broken.mjs')
    writeFileSync(broken, 'await Promise.reject(new Error("thrown while loading"))')
    const starting = newPool({ initialiser: { module: `file://${broken}` } }).start()

    await expect(starting).rejects.toThrow('thrown while loading')
  })

  test('gives up on an initialiser that does not end', async () => {
    const starting = newPool({
      initialiser: { module, export: 'initialiseForever' },
      startTimeoutMs: 300,
    }).start()

    await expect(starting).rejects.toThrow('it was not ready within 300 ms')
  })

  test('can be stopped half way', async () => {
    const pool = newPool({ initialiser: { module, export: 'initialiseForever' } })
    const starting = expect(pool.start()).rejects.toMatchObject({ code: 'CLOSED' })

    await pool.stop(60_000)

    await starting
    expect(descendants.left()).toEqual([])
  })

  test('happens once', async () => {
    const pool = await startedPool()

    await expect(pool.start()).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
  })
})

describe('a process is replaced', () => {
  test('after so many jobs, never with more processes than the size', async () => {
    const pool = await startedPool({ maxJobsPerChild: 2 })
    const pids: unknown[] = []
    for (let job = 0; job < 6; job++) {
      await expectFree(pool, 1)
      pids.push(await run(pool, 'pid'))
      expect(descendants.left().length).toBeLessThanOrEqual(1)
    }

    expect(new Set(pids).size).toBe(3)
    expect(pids[0]).toBe(pids[1])
    expect(pids[2]).toBe(pids[3])
  })

  test('not at all when the number of jobs is 0', async () => {
    const pool = await startedPool({ maxJobsPerChild: 0 })
    const pids = new Set<unknown>()
    for (let job = 0; job < 20; job++) pids.add(await run(pool, 'pid'))

    expect(pids.size).toBe(1)
  })

  test('when its memory has grown past the limit', async () => {
    const pool = await startedPool({ maxMemoryBytes: 200_000_000 })
    const first = await run(pool, 'pid')
    expect(await run(pool, 'grow')).toBe(first)

    await expectFree(pool, 1)
    expect(await run(pool, 'pid')).not.toBe(first)
    await expectGone(first as number)
  })

  test('when it is killed while idle', async () => {
    const warned: string[] = []
    const log = { info() {}, warn: (_fields: object, message: string) => void warned.push(message) }
    const pool = await startedPool({ log })
    const first = (await run(pool, 'pid')) as number

    process.kill(first, 'SIGKILL')

    await expect.poll(() => warned.length, { timeout: 60_000, interval: 5 }).toBe(1)
    await expectFree(pool, 1)
    expect(await run(pool, 'pid')).not.toBe(first)
    expect(warned).toEqual([expect.stringMatching(/^pool process was killed by SIGKILL.*; it is replaced$/)])
  })

  test('when it dies just before it gets a job, which then counts as not begun', async () => {
    const pool = await startedPool()
    const first = (await run(pool, 'pid')) as number
    process.kill(first, 'SIGKILL')

    // In the same turn, so the pool cannot have heard of it.
    expect(pool.free).toBe(1)
    await expect(run(pool, 'pid')).rejects.toMatchObject({ code: 'START_FAILED' })

    await expectFree(pool, 1)
    expect(await run(pool, 'pid')).not.toBe(first)
  })

  test('with pauses while it does not start, which is reported after three times, and works once it does', async () => {
    const broken = join(folder, 'is-broken')
    process.env.SLUICE_TEST_BROKEN = broken
    const causes: unknown[] = []
    const times: number[] = []
    const log = {
      info() {},
      warn: (fields: object) => void ('failures' in fields && times.push(performance.now())),
    }
    const initialiser = { module, export: 'initialiseUnlessBroken' }
    const pool = await startedPool({ initialiser, log, onBroken: (cause) => causes.push(cause) })
    writeFileSync(broken, '')

    await expect(run(pool, 'crash', 'kill')).rejects.toThrow('SIGKILL')
    await expect.poll(() => times.length, { timeout: 60_000 }).toBe(4)
    expect(pool.free).toBe(0)
    rmSync(broken)
    await expectFree(pool, 1)

    expect(causes).toEqual([
      expect.objectContaining({ code: 'WORKER_BROKEN', cause: new Error('still broken') }),
    ])
    // 100, 200 and 400 ms before the next try, less a timer's rounding.
    expect(times[1]! - times[0]!).toBeGreaterThan(95)
    expect(times[2]! - times[1]!).toBeGreaterThan(190)
    expect(times[3]! - times[2]!).toBeGreaterThan(380)
    expect(await run(pool, 'pid')).toEqual(expect.any(Number))
  })
})

describe('the stop', () => {
  test('waits for what runs and takes nothing new', async () => {
    const pool = await startedPool({ size: 2 })
    const gate = join(folder, 'stop-gate')
    const attempt = new RecordedAttempt({ input: gate })
    const running = run(pool, 'gate', undefined, attempt)
    await attempt.logged('pid ')

    const stopping = pool.stop(60_000)
    expect(pool.free).toBe(0)
    await expect(run(pool, 'pid')).rejects.toMatchObject({ code: 'CLOSED' })
    writeFileSync(gate, '')

    expect(await running).toEqual(expect.any(Number))
    await stopping
    expect(descendants.left()).toEqual([])
  })

  test('kills what still runs after the grace', async () => {
    const pool = await startedPool()
    const attempt = new RecordedAttempt()
    const running = expect(run(pool, 'block', undefined, attempt)).rejects.toMatchObject({ code: 'CLOSED' })
    const pid = Number(await attempt.logged('pid '))

    await pool.stop(50)

    await running
    expect(isAlive(pid)).toBe(false)
  })

  test('can be made shorter by a second one', async () => {
    const pool = await startedPool()
    const attempt = new RecordedAttempt()
    const running = expect(run(pool, 'block', undefined, attempt)).rejects.toMatchObject({ code: 'CLOSED' })
    await attempt.logged('pid ')

    const patient = pool.stop(60_000)
    await pool.stop(0)

    await Promise.all([patient, running])
  })

  test('does no harm twice, nor before the start', async () => {
    const pool = newPool()
    await Promise.all([pool.stop(0), pool.stop(0)])
    await pool.stop(0)
    await expect(pool.start()).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
  })

  test('during a pause between failed starts ends the pause', async () => {
    const broken = join(folder, 'is-broken-too')
    process.env.SLUICE_TEST_BROKEN = broken
    const causes: unknown[] = []
    const pool = await startedPool({
      initialiser: { module, export: 'initialiseUnlessBroken' },
      onBroken: (cause) => causes.push(cause),
    })
    writeFileSync(broken, '')
    await expect(run(pool, 'crash', 'exit')).rejects.toThrow('exited with code 0')
    await expect.poll(() => causes.length, { timeout: 60_000 }).toBe(1)

    await pool.stop(60_000)
    expect(descendants.left()).toEqual([])
  })
})

test('all processes die with their worker, even when it is killed with SIGKILL and they are busy', async () => {
  const owner = new Fixture('pool-owner.mjs')
  const pids = [await owner.line(), await owner.line(), await owner.line()].map((line) =>
    Number(/\d+/.exec(line)?.[0]),
  )
  expect(pids.every(isAlive)).toBe(true)

  await owner.kill('SIGKILL')

  await expectGone(...pids)
})
