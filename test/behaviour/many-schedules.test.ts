import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { Database, type Queryable } from '../../src/db/database.ts'
import { declareSchedules } from '../../src/engine/schedules/declare-schedules.ts'
import { fireDue } from '../../src/engine/schedules/fire-schedules.ts'
import { type Sluice, task } from '../../src/index.ts'
import { findDueSchedules } from '../../src/store/find-due-schedules.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { ALL_JOB_TABLES } from '../support/state/jobs.ts'
import { countFirings, misdirectSchedule, moveTicks, plantSchedules } from '../support/state/schedules.ts'

const QUIET = { debug() {}, info() {}, warn() {}, error() {} }
const DUE = new Date('2030-05-06T07:08:00Z')

const database = useDatabase()
const apps = useApps(database)
const report = task({ name: 'report', run: (input: unknown) => input })
let app: Sluice

beforeEach(async () => {
  await database.sql(`truncate sluice.schedules, sluice.firings, ${ALL_JOB_TABLES} cascade`)
  app = await apps.open({ tasks: [report] })
})

/** Does something with a connection of its own, and counts the statements that took. */
async function counted<T>(work: (db: Queryable) => Promise<T>): Promise<{ statements: number; answer: T }> {
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'counts' })
  onTestFinished(() => db.close())
  let statements = 0
  const counting: Queryable = {
    run: (statement, values) => {
      statements++
      return db.run(statement, values)
    },
  }
  return { answer: await work(counting), statements }
}

async function fire(now = DUE): Promise<{ statements: number; fired: number; skipped: number }> {
  const { answer, statements } = await counted((db) => fireDue(db, QUIET, { now }))
  return { ...answer, statements }
}

test('500 schedules due at the same time are fired in batches', async () => {
  await plantSchedules(database.sql, 500, { task: 'report' })
  await moveTicks(database.sql, DUE)
  const { statements, ...counts } = await fire()
  expect(counts).toEqual({ fired: 500, skipped: 0 })
  expect(statements, 'statements for 500 schedules').toBeLessThanOrEqual(10)
  expect(await countFirings(database.sql)).toEqual({ job: 500 })
  // Each has moved on: nothing is fired twice.
  expect(await fire()).toMatchObject({ fired: 0, skipped: 0 })
})

test('1,200 schedules of a file are declared in batches, and once more only where something has changed', async () => {
  const declared = (cron: string) =>
    Object.fromEntries(
      Array.from({ length: 1200 }, (_, n) => [`s${n}`, { task: 'report', cron, input: { n } }]),
    )
  const declare = (cron: string) => counted((db) => declareSchedules(db, declared(cron), 'file', QUIET))
  expect((await declare('0 4 * * *')).statements, 'statements for 1,200 schedules').toBeLessThanOrEqual(12)
  expect(await app.getSchedule('s1199')).toMatchObject({
    task: 'report',
    cron: '0 4 * * *',
    input: { n: 1199 },
    nextAt: expect.any(Date),
  })
  expect((await declare('0 4 * * *')).statements, 'statements when nothing is new').toBeLessThanOrEqual(5)

  // What an operator has set stays; the rest follows the file.
  await app.setSchedule('s7', { cron: '0 5 * * *' })
  expect((await declare('0 6 * * *')).statements, 'statements for 1,200 changes').toBeLessThanOrEqual(12)
  const crons = await Promise.all(['s6', 's7', 's8'].map(async (name) => (await app.getSchedule(name)).cron))
  expect(crons).toEqual(['0 6 * * *', '0 5 * * *', '0 6 * * *'])
  expect((await app.getSchedule('s8')).nextAt?.getUTCHours()).toBe(6)
})

test('two programs that declare the same schedules at once agree on them', async () => {
  const names = Array.from({ length: 300 }, (_, n) => `s${n}`)
  const declare = (cron: string, order: readonly string[]) => {
    const schedules = Object.fromEntries(order.map((name) => [name, { task: 'report', cron }]))
    return counted((db) => declareSchedules(db, schedules, cron, QUIET))
  }
  for (const minute of [1, 2, 3]) {
    const crons = [`${minute} 4 * * *`, `${minute} 5 * * *`]
    await Promise.all([declare(crons[0]!, names), declare(crons[1]!, names.toReversed())])
    for (const { cron } of await app.listSchedules()) expect(crons).toContain(cron)
  }
})

test('owners take turns, each with the oldest tick first, however many schedules one of them has', async () => {
  await plantSchedules(database.sql, 300, { task: 'report', owner: 'ann', prefix: 'ann' })
  await plantSchedules(database.sql, 3, { task: 'report', owner: 'bob', prefix: 'bob' })
  const minutesAgo = (minutes: number) => new Date(DUE.getTime() - minutes * 60_000)
  const names = (prefix: string, first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, n) => `${prefix}${first + n}`)
  // Nearly all of Ann's are older than those of Bob. One of each is so old that it may be one that cannot be fired.
  await moveTicks(database.sql, minutesAgo(30), ['ann1', 'bob3'])
  await moveTicks(database.sql, new Date(DUE.getTime() - 2000), names('ann', 2, 300))
  await moveTicks(database.sql, new Date(DUE.getTime() - 1000), ['bob1'])
  await moveTicks(database.sql, DUE, ['bob2'])
  const order = await counted((db) => findDueSchedules(db, 1000, DUE))
  const due = order.answer.map(({ name }) => name)
  expect(due.slice(0, 4)).toEqual(['ann10', 'bob1', 'ann100', 'bob2'])
  // Such a one comes last of its owner, and after ten of others.
  expect(due.indexOf('bob3')).toBe(11)
  expect(due.indexOf('ann1')).toBe(302)
})

test('a run that has used up its time leaves the rest to the next one', async () => {
  await plantSchedules(database.sql, 250, { task: 'report' })
  await moveTicks(database.sql, DUE)
  const run = (budgetMs: number) => counted((db) => fireDue(db, QUIET, { now: DUE, budgetMs }))
  const { fired, more } = (await run(0)).answer
  // So the next run comes at once, not with the next tick of the duty.
  expect(more).toBe(true)
  expect(fired).toBeGreaterThan(0)
  expect(fired).toBeLessThan(250)
  expect((await run(Number.POSITIVE_INFINITY)).answer.fired).toBe(250 - fired)
})

test('a schedule whose job is refused leaves the rest of its batch alone', async () => {
  await plantSchedules(database.sql, 30, { task: 'report' })
  await misdirectSchedule(database.sql, 's7')
  await moveTicks(database.sql, DUE)
  expect(await fire()).toMatchObject({ fired: 29, skipped: 1 })
  expect(await countFirings(database.sql)).toEqual({ job: 29, refused: 1 })
})

test('in a batch only the schedules whose last job still runs skip their tick', async () => {
  await plantSchedules(database.sql, 20, { task: 'report', overlap: 'skip' })
  await moveTicks(database.sql, DUE)
  expect(await fire()).toMatchObject({ fired: 20, skipped: 0 })

  // The tick after it, with the jobs of the first one still waiting for a worker.
  const later = new Date(DUE.getTime() + 60_000)
  expect(await fire(later)).toMatchObject({ fired: 0, skipped: 20 })
  await app.cancelMany({ task: 'report' })
  expect(await fire(new Date(later.getTime() + 60_000))).toMatchObject({ fired: 20, skipped: 0 })
})

test('a ceiling in the middle of a batch lets in as many as it has room for', async () => {
  await app.setAdmission({ maxActive: 12 })
  await plantSchedules(database.sql, 30, { task: 'report' })
  await moveTicks(database.sql, DUE)
  expect(await fire()).toMatchObject({ fired: 12, skipped: 18 })
  expect(await countFirings(database.sql)).toEqual({ ceiling: 18, job: 12 })
  await app.resetAdmission()
})
