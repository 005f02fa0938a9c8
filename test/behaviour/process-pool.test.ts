import { existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { SluiceError } from '../../src/errors.ts'
import { errorText } from '../../src/worker/ending.ts'
import { ProcessPool } from '../../src/worker/pool/pool.ts'
import { expectGone, markDescendants } from '../support/processes.ts'
import { RecordedAttempt } from '../support/recorded-attempt.ts'

const module = new URL('../support/fixtures/process-tasks.mjs', import.meta.url).href
const quiet = { info() {}, warn() {} }
const descendants = markDescendants()
const folder = mkdtempSync(join(tmpdir(), 'sluice-pool-test-'))
let pool: ProcessPool

beforeAll(async () => {
  pool = new ProcessPool({
    size: 2,
    initialiser: { module, export: 'initialise' },
    log: quiet,
  })
  await pool.start()
})

afterAll(async () => {
  await pool.stop(0)
  await rm(folder, { recursive: true })
  await vi.waitFor(() => expect(descendants.left()).toEqual([]), { timeout: 60_000 })
})

function run(
  task: string,
  input?: unknown,
  attempt = new RecordedAttempt({ input, task }),
): Promise<unknown> {
  return pool.run({ module, task }, attempt)
}

describe('a task in a process', () => {
  test('gets its input, its job, its attempt and a workdir, after the initialiser has run', async () => {
    const attempt = new RecordedAttempt({ input: { n: 1 }, number: 2, workdir: () => folder })

    const result = await run('report', undefined, attempt)

    expect(result).toEqual({
      input: { n: 1 },
      attempt: 2,
      job: { ...attempt.job, submittedAt: '2030-01-01T12:00:00.000Z' },
      workdir: folder,
      initialised: 'yes',
      pid: expect.any(Number) as number,
    })
    expect((result as { pid: number }).pid).not.toBe(process.pid)
  })

  test('uses steps, checkpoint, progress and log as inline code does', async () => {
    const attempt = new RecordedAttempt()

    const first = await run('traces', undefined, attempt)
    const second = await run('traces', undefined, attempt)

    const one = { made: expect.any(Number) as number, cost: { euros: 5 } }
    expect(first).toEqual({ one, after: { at: 7 } })
    expect(second).toEqual({ before: { at: 7 }, one: (first as { one: object }).one, after: { at: 7 } })
    expect(attempt.progressed.at(-1)).toEqual([1, 'n 1000'])
    expect(attempt.progressed.length).toBeLessThan(1000)
    expect(attempt.lines).toContainEqual({ level: 'warn', message: 'from the task' })
  })

  test('reports progress even while it holds its event loop', async () => {
    const gate = join(folder, 'compute-gate')
    const attempt = new RecordedAttempt({ input: gate })
    const computing = run('compute', undefined, attempt)

    expect(await attempt.progressReported()).toEqual([0.5, 'computing'])
    writeFileSync(gate, '')
    expect(await computing).toBeGreaterThan(0)
  })

  test('learns that a service refused, with the code', async () => {
    const attempt = new RecordedAttempt()
    attempt.saveStep = () => Promise.reject(new SluiceError('LEASE_LOST', 'taken over'))

    expect(await run('refused', undefined, attempt)).toBe('SluiceError LEASE_LOST: taken over')
  })

  test('has its input checked by its schema, as inline', async () => {
    expect(await run('doubled', 4)).toBe(8)
    await expect(run('doubled', 3)).rejects.toMatchObject({ code: 'INVALID_INPUT', message: /must be even/ })
  })

  test('reports a missing workdir', async () => {
    await expect(run('report')).rejects.toMatchObject({ code: 'WORKER_BROKEN', message: /given no workdir/ })
  })

  test('may be written in TypeScript, and shares its module with the initialiser', async () => {
    const typescript = new URL('../support/fixtures/typescript-tasks.ts', import.meta.url).href
    const own = new ProcessPool({
      size: 1,
      initialiser: { module: typescript, export: 'initialise' },
      log: quiet,
    })
    await own.start()
    try {
      const attempt = new RecordedAttempt({ input: { name: 'Ada' } })
      expect(await own.run({ module: typescript, task: 'greet' }, attempt)).toBe('hello Ada')
    } finally {
      await own.stop(0)
    }
  })

  test('that is not exported is named, with what is', async () => {
    await expect(run('notATask')).rejects.toMatchObject({
      code: 'START_FAILED',
      cause: expect.objectContaining({ code: 'TASK_NOT_FOUND' }),
      message:
        /exports no task named "notATask" with a run function.*notATask \(object\).*report \(task "report"\)/,
    })
    const missing = pool.run({ module: 'file:///nowhere/tasks.mjs', task: 'a' }, new RecordedAttempt())
    await expect(missing).rejects.toMatchObject({
      code: 'START_FAILED',
      message: expect.stringContaining('/nowhere/tasks.mjs') as string,
      cause: expect.objectContaining({ code: 'ERR_MODULE_NOT_FOUND' }),
    })
  })

  test('cannot have a pool of its own', async () => {
    await expect(run('poolInPool')).rejects.toMatchObject({ code: 'WOULD_DEADLOCK' })
  })

  test('goes on when a service manager asks every process to stop', async () => {
    expect(await run('signalSelf')).toBe('survived')
  })

  test('reaches nobody through the context of an attempt that has ended', async () => {
    const own = new ProcessPool({ size: 1, log: quiet })
    await own.start()
    try {
      const [first, second] = [new RecordedAttempt(), new RecordedAttempt()]
      await own.run({ module, task: 'leaveBehind' }, first)
      const failures = await own.run({ module, task: 'useLeftBehind' }, second)

      expect(failures).toEqual(Array(3).fill('the attempt this context belongs to has ended'))
      for (const attempt of [first, second]) expect([attempt.lines, attempt.progressed]).toEqual([[], []])
    } finally {
      await own.stop(0)
    }
  })
})

describe('a result', () => {
  test('is what JSON makes of it', async () => {
    expect(await run('result', 'undefined')).toBeNull()
    expect(await run('result', 'money')).toEqual({ cost: { euros: 5 }, at: '1970-01-01T00:00:00.000Z' })
  })

  test.each([
    ['bigint', /the result of task result cannot be stored: Do not know how to serialize a BigInt/],
    ['cycle', /the result of task result cannot be stored: Converting circular structure/],
    ['nan', /the result of task result cannot be stored: it contains NaN/],
    ['deep', /the result of task result cannot be stored: it is nested/],
    ['huge', /the result of task result cannot be stored: it is 17000002 bytes long/],
  ])('that cannot be stored fails its own job only: %s', async (which, message) => {
    await expect(run('result', which)).rejects.toMatchObject({ code: 'NOT_STORABLE', message })
    expect(pool.free).toBe(2)
  })

  test('of a step that cannot be stored fails too', async () => {
    await expect(run('unstorableStep')).rejects.toMatchObject({
      code: 'NOT_STORABLE',
      message: /result of step "s"/,
    })
  })

  test('is not asked for when the input cannot be sent', async () => {
    await expect(run('pid', { f: () => 1 })).rejects.toThrow(/could not be cloned/)
    expect(pool.free).toBe(2)
    expect(await run('pid')).toEqual(expect.any(Number))
  })
})

describe('what a task throws', () => {
  test('arrives with name, message, stack, cause and properties', async () => {
    const error = (await run('throwing', 'error').catch((thrown: unknown) => thrown)) as Error

    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({
      name: 'RangeError',
      message: 'out of range',
      ending: 'retry',
      at: new Date(0),
    })
    expect(error.cause).toMatchObject({ message: 'deeper' })
    expect(error.stack).toContain('process-tasks.mjs')
    expect(error).not.toHaveProperty('socket')
  })

  test('may be no error at all', async () => {
    await expect(run('throwing', 'text')).rejects.toBe('just text')
    const odd = await run('throwing', 'odd').catch((thrown: unknown) => thrown)
    expect(odd).toEqual({ socket: '[function socket]', toString: '[function toString]' })
    expect(errorText(odd)).toBe('odd object')
  })

  test('may refuse to be looked at, and the process goes on', async () => {
    const both = async () => new Set(await Promise.all([run('pid'), run('pid')]))
    const pids = await both()
    for (const what of ['refusing', 'revoked'])
      await expect(run('throwing', what)).rejects.toThrow('the task threw something that cannot be read')
    await expect(run('throwing', 'fickle')).rejects.toMatchObject({
      message: 'looked at once',
      extra: { looks: 1 },
    })
    expect(await both()).toEqual(pids)
  })
})

describe('a stop', () => {
  test('fires the signal in the process, with the reason, and what the task then returns counts', async () => {
    const attempt = new RecordedAttempt({ input: 'return' })
    const running = run('untilStopped', undefined, attempt)
    await attempt.logged('running')

    attempt.stop('timeout')

    expect(await running).toBe('tidied')
    expect(await attempt.logged('stopped: ')).toBe('timeout: timeout by the test')
    expect(pool.free).toBe(2)
  })

  test('ends a task at its next step with the very reason of the attempt', async () => {
    const attempt = new RecordedAttempt({ input: 'step' })
    const running = run('untilStopped', undefined, attempt)
    await attempt.logged('running')

    attempt.stop()

    await expect(running).rejects.toBe(attempt.signal.reason)
  })

  test.each(['untilStopped', 'block'])(
    'kills the process after the grace when nobody listens: %s',
    async (task) => {
      const attempt = new RecordedAttempt({ input: 'deaf', graceMs: 50 })
      const running = run(task, undefined, attempt)
      await attempt.logged(task === 'block' ? 'pid ' : 'running')

      attempt.stop('cancelled')

      await expect(running).rejects.toBe(attempt.signal.reason)
      await expect.poll(() => pool.free, { timeout: 60_000 }).toBe(2)
    },
  )

  test('before the start uses no process', async () => {
    const attempt = new RecordedAttempt()
    attempt.stop()

    await expect(run('pid', undefined, attempt)).rejects.toBe(attempt.signal.reason)
    expect(pool.free).toBe(2)
  })
})

describe('a crash', () => {
  test.each([
    ['exit', /the process running crash exited with code 0/],
    ['segfault', /the process running crash was killed by SIGSEGV/],
    ['kill', /was killed by SIGKILL; unless somebody did this, the system ran out of memory/],
    ['abort', /was killed by SIGABRT; Node does this when its heap is full/],
    ['uncaught', /the process running crash crashed on an uncaught error: from a timer/],
    ['rejection', /the process running crash crashed on an uncaught error: from a promise/],
    ['disconnect', /the process running crash exited with code 1/],
  ])('fails its own job only, says how, and the process is replaced: %s', async (how, message) => {
    const gate = join(folder, `gate-${how}`)
    const other = new RecordedAttempt({ input: gate })
    const beside = run('gate', undefined, other)
    await other.logged('pid ')

    await expect(run('crash', how)).rejects.toMatchObject({ code: 'ATTEMPT_FAILED', message })

    await expect.poll(() => pool.free, { timeout: 60_000 }).toBe(1)
    expect(existsSync(gate)).toBe(false)
    writeFileSync(gate, '')
    expect(await beside).toEqual(expect.any(Number))
  })

  test('takes what the task has started with it', async () => {
    const attempt = new RecordedAttempt()
    const grandchild = (await run('spawning', undefined, attempt)) as number

    await expect(run('crash', 'kill')).rejects.toThrow('SIGKILL')

    await expectGone(grandchild)
    await expect.poll(() => pool.free, { timeout: 60_000 }).toBe(2)
  })
})

test('takes no more than there are free processes, and says when one is free again', async () => {
  const gate = join(folder, 'gate-full')
  const attempts = [new RecordedAttempt({ input: gate }), new RecordedAttempt({ input: gate })]
  const running = attempts.map((attempt) => run('gate', undefined, attempt))
  expect(pool.free).toBe(0)
  const freed: number[] = []
  const unsubscribe = pool.onFree(() => freed.push(pool.free))

  await expect(run('pid')).rejects.toMatchObject({ code: 'PROCESS_POOL_FULL' })
  for (const attempt of attempts) await attempt.logged('pid ')
  writeFileSync(gate, '')
  await Promise.all(running)

  expect(freed).toEqual([1, 2])
  unsubscribe()
  await run('pid')
  expect(freed).toEqual([1, 2])
})
