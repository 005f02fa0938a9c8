import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('lines are kept in their order, with level, time and attempt, and can be read page by page', async () => {
  const talks = task({
    name: 'talks',
    retry: { delay: 0 },
    run: (_: unknown, { log, attempt }) => {
      log.debug('start of', attempt)
      for (let n = 0; n < 500; n++) log.info(`line ${n}`)
      log.warn('almost %s', 'done')
      if (attempt === 1) throw new Error('once more')
      log.error({ code: 7 })
    },
  })
  const app = await apps.open({ tasks: [talks] })
  await app.work()
  const job = await app.submit(talks, null)
  await job.result()

  const numbered = Array.from({ length: 500 }, (_, n) => `line ${n}`)
  const lines = await app.readLogs(job.id, '0', 5000)
  expect(lines.map((line) => line.line)).toEqual([
    ...['start of 1', ...numbered, 'almost done'],
    ...['start of 2', ...numbered, 'almost done', '{ code: 7 }'],
  ])
  expect(lines.map((line) => line.level).filter((level) => level !== 'info')).toEqual([
    'debug',
    'warn',
    'debug',
    'warn',
    'error',
  ])
  expect(new Set(lines.map((line) => line.attempt))).toEqual(new Set([1, 2]))
  expect(lines[0]!.at).toBeInstanceOf(Date)

  const pages: string[] = []
  for (let after = '0'; ; ) {
    const page = await app.readLogs(job.id, after, 300)
    if (page.length === 0) break
    pages.push(...page.map((line) => line.line))
    after = page.at(-1)!.id
  }
  expect(pages).toEqual(lines.map((line) => line.line))
})

test('lines and progress can be read while the job runs, and all of them once it has ended', async () => {
  const gate = new Gate()
  const long = task({
    name: 'long',
    run: async (_: unknown, { log, progress }) => {
      log.info('began')
      progress(0.25, 'a quarter')
      await gate.pass()
      log.info('last words')
      progress(1)
    },
  })
  const app = await apps.open({ tasks: [long] })
  await app.work()
  const job = await app.submit(long, null)
  await gate.arrived()

  await until(async () => (await app.readLogs(job.id)).length === 1, 'the first line')
  await until(async () => (await app.getJob(job.id)).message === 'a quarter', 'the progress')
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running', progress: 0.25 })
  gate.open()
  await job.result()
  expect((await app.readLogs(job.id)).map((line) => line.line)).toEqual(['began', 'last words'])
  expect(await app.getJob(job.id)).toMatchObject({ status: 'completed', progress: 1 })
})

test('only the last of a burst of progress is stored', async () => {
  const burst = task({
    name: 'burst',
    run: (_: unknown, { progress }) => {
      for (let n = 0; n <= 1000; n++) progress(n / 1000, `step ${n}`)
    },
  })
  const app = await apps.open({ tasks: [burst] })
  await app.work()
  const job = await app.submit(burst, null)
  await job.result()

  expect(await app.getJob(job.id)).toMatchObject({ progress: 1, message: 'step 1000' })
})

test('the lines of an attempt are bounded in number, length and all together; a last line says so', async () => {
  const full = 'the log of this attempt is full; dropping further lines'
  const floods = task({
    name: 'floods',
    retry: { attempts: 2, delay: 0 },
    run: ({ lines, length }: { lines: number; length: number }, { log, attempt }) => {
      for (let n = 0; n < lines; n++) log.info('x'.repeat(length))
      if (attempt === 1) throw new Error('again')
    },
  })
  const app = await apps.open({ tasks: [floods], lanes: { flood: { slots: 3, tasks: ['floods'] } } })
  await app.work({ capacity: 3 })
  const [many, long, heavy] = await Promise.all([
    app.submit(floods, { lines: 12_000, length: 3 }),
    app.submit(floods, { lines: 2, length: 100_000 }),
    app.submit(floods, { lines: 1000, length: 8000 }),
  ])
  await Promise.all([many.result(), long.result(), heavy.result()])
  const stored = async (id: string) =>
    database.sql<{ attempt: number; lines: number; longest: number; characters: number; last: string }>(
      `select attempt, count(*)::integer as lines, max(length(line)) as longest, sum(length(line))::integer as characters,
              (array_agg(line order by id desc))[1] as last
         from sluice.logs where job_id = $1 group by attempt order by attempt`,
      [id],
    )

  for (const attempt of await stored(many.id)) expect(attempt).toMatchObject({ lines: 10_001, last: full })
  for (const attempt of await stored(long.id)) {
    expect(attempt.lines).toBe(2)
    expect(attempt.longest).toBe(8192 + '… (100000 characters)'.length)
  }
  for (const attempt of await stored(heavy.id)) {
    expect(attempt.last).toBe(full)
    expect(attempt.characters).toBeLessThanOrEqual(4 * 1024 * 1024 + full.length)
  }
  expect(await stored(many.id)).toHaveLength(2)
})

test('a job that never stops talking does not keep another from ending', async () => {
  let over = false
  const chatty = task({
    name: 'chatty',
    run: async (_: unknown, { log, progress }) => {
      for (let n = 0; !over; n++) {
        log.info(`and ${n}`)
        progress(0.5, `${n}`)
        if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve))
      }
    },
  })
  const brief = task({
    name: 'brief',
    run: (n: number, { log }) => {
      log.info('hello')
      return n
    },
  })
  const app = await apps.open({
    tasks: [chatty, brief],
    lanes: { talk: { slots: 5, tasks: ['chatty', 'brief'] } },
  })
  await app.work({ capacity: 5 })
  const loud = await app.submitMany(chatty, [1, 2])

  try {
    for (let n = 0; n < 5; n++) {
      const job = await app.submit(brief, n)
      expect(await job.result()).toBe(n)
      expect((await app.readLogs(job.id)).map((line) => line.line)).toEqual(['hello'])
    }
  } finally {
    over = true
  }
  await Promise.all(loud.map((job) => job.result()))
})

test('a line written after the job was deleted does no harm', async () => {
  const gate = new Gate()
  const late = task({
    name: 'late',
    run: (_: unknown, { log }) => {
      void gate.pass().then(() => log.info('too late'))
    },
  })
  const app = await apps.open({ tasks: [late] })
  await app.work()
  const job = await app.submit(late, null)
  await job.result()
  await app.remove(job.id)
  gate.open()

  await app.submit(late, null).then((next) => next.result())
  await app.stopWorking()
  expect(apps.logged.filter((line) => line.level === 'error')).toEqual([])
})
