import { expect, test } from 'vitest'
import { Stop } from '../../src/worker/attempt.ts'
import { createContext } from '../../src/worker/context.ts'
import { RecordedAttempt } from '../support/recorded-attempt.ts'

test('tells a task which job and attempt it is', () => {
  const attempt = new RecordedAttempt({ number: 2 })
  const context = createContext(attempt)

  expect(context.attempt).toBe(2)
  expect(context.job).toBe(attempt.job)
  expect(context.signal).toBe(attempt.signal)
})

test('runs a step once and gives its committed result to later attempts', async () => {
  const first = new RecordedAttempt()
  let runs = 0
  const fetch = async () => {
    runs += 1
    return { rows: 3 }
  }

  expect(await createContext(first).step('fetch', fetch)).toEqual({ rows: 3 })
  const second = new RecordedAttempt({ number: 2, steps: first.steps })
  expect(await createContext(second).step('fetch', fetch)).toEqual({ rows: 3 })
  expect(runs).toBe(1)
})

test('reuses a step whose result is null', async () => {
  const attempt = new RecordedAttempt({ steps: new Map([['notify', null]]) })

  const result = await createContext(attempt).step('notify', () => expect.unreachable())

  expect(result).toBeNull()
})

test('returns what was committed first when two attempts ran the same step', async () => {
  const attempt = new RecordedAttempt()

  const result = await createContext(attempt).step('pick', async () => {
    attempt.steps.set('pick', 'theirs')
    return 'mine'
  })

  expect(result).toBe('theirs')
})

test('commits nothing for a step that fails', async () => {
  const attempt = new RecordedAttempt()
  const context = createContext(attempt)

  await expect(context.step('fetch', () => Promise.reject(new Error('refused')))).rejects.toThrow('refused')
  expect(attempt.steps.size).toBe(0)
  expect(await context.step('fetch', () => 'ok')).toBe('ok')
})

test('keeps a checkpoint', async () => {
  const context = createContext(new RecordedAttempt())

  expect(await context.checkpoint.get()).toBeUndefined()
  await context.checkpoint.set({ at: 7 })
  expect(await context.checkpoint.get()).toEqual({ at: 7 })
})

test('stops at the next step, progress or checkpoint once the signal has fired', async () => {
  const attempt = new RecordedAttempt()
  const { step, progress, checkpoint, log, signal } = createContext(attempt)
  attempt.stop('timeout')

  expect(signal.reason).toBeInstanceOf(Stop)
  await expect(step('fetch', () => 1)).rejects.toBe(signal.reason)
  expect(() => progress(0.5)).toThrow(signal.reason)
  await expect(checkpoint.get()).rejects.toBe(signal.reason)
  await expect(checkpoint.set(1)).rejects.toBe(signal.reason)
  log.info('tidying up')
  expect(attempt.messages).toEqual(['tidying up'])
})

test('still commits a step that was done when the stop came, and then stops', async () => {
  const attempt = new RecordedAttempt()

  const stepping = createContext(attempt).step('upload', () => {
    attempt.stop('shutdown')
    return 'uploaded'
  })

  await expect(stepping).rejects.toMatchObject({ name: 'Stop', reason: 'shutdown' })
  expect(attempt.steps.get('upload')).toBe('uploaded')
})

test('keeps progress between 0 and 1 and rejects anything that is not a number', () => {
  const attempt = new RecordedAttempt()
  const { progress } = createContext(attempt)

  progress(0.4, 'almost')
  progress(1.0000001)
  progress(-3)
  expect(attempt.progressed).toEqual([
    [0.4, 'almost'],
    [1, undefined],
    [0, undefined],
  ])
  expect(() => progress(Number.NaN)).toThrow('use a number from 0 to 1')
})

test('refuses a step without a name or a function', async () => {
  const { step } = createContext(new RecordedAttempt())

  await expect(step('', () => 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await expect(step('a', 1 as unknown as () => number)).rejects.toThrow('step "a": the second argument')
})

test('puts log lines together as console.log does', () => {
  const attempt = new RecordedAttempt()
  const { log } = createContext(attempt)

  log.debug('plain')
  log.info('%d rows', 3)
  log.warn('from', { a: 1 })
  log.error(new TypeError('bad').message)
  expect(attempt.lines).toEqual([
    { level: 'debug', message: 'plain' },
    { level: 'info', message: '3 rows' },
    { level: 'warn', message: 'from { a: 1 }' },
    { level: 'error', message: 'bad' },
  ])
})

test('makes a workdir only for a task that reads it', () => {
  const made: string[] = []
  const workdir = () => {
    made.push('folder')
    return '/made'
  }

  const context = createContext(new RecordedAttempt({ workdir }))
  expect(made).toEqual([])
  expect(context.workdir).toBe('/made')
  expect(made).toEqual(['folder'])
})

test('a step or checkpoint nobody waits for cannot end the process when it fails', async () => {
  const unhandled: unknown[] = []
  const listen = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', listen)
  try {
    const ctx = createContext(new RecordedAttempt())
    void ctx.step('', () => 1)
    void ctx.step('throws', () => Promise.reject(new Error('no')))
    await expect(ctx.step('', () => 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    // Unhandled rejections are reported once the microtasks of a turn are done.
    await new Promise((resolve) => setImmediate(resolve))
    expect(unhandled).toEqual([])
  } finally {
    process.off('unhandledRejection', listen)
  }
})
