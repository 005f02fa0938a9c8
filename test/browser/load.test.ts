import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { taskWords, watchMainThreads } from '../../bench/dashboard/main-thread.mjs'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'
import { noBrowser, openBrowser, signIn, useVisits } from './support.ts'

/** As people notice: beyond it the page hangs. Of CPU time: what the machine gives to others meanwhile is not the page's. */
const TASK_MS = 100
const MERGE_MS = 250
/** Changes on the page that are waited for. */
const CHANGES = 4
/** Of 10,000 that are kept of an attempt. */
const LINES = 1000

let write: (lines: number) => void = () => {}
/** Writes as many lines as it is told to, at once; ends with none. */
const noisy = task({
  name: 'noisy',
  run: async (_: null, ctx) => {
    for (let lines = LINES; lines > 0; ) {
      for (let n = 0; n < lines; n += 1) ctx.log.info(`line ${n} of a job that has much to tell`)
      lines = await new Promise<number>((resolve) => {
        write = resolve
      })
    }
  },
})
const quick = task({ name: 'quick', run: () => null })

/** Notes when an element gets others as children, or another text, by the page's clock. Clocks in rows of a list are neither. */
async function watchChanges(page: Page, selector: string): Promise<() => Promise<number[]>> {
  await page.evaluate(`{
    globalThis.changes = []
    globalThis.watch?.disconnect()
    globalThis.watch = new MutationObserver(() => globalThis.changes.push(performance.now()))
    const element = document.querySelector(${JSON.stringify(selector)})
    globalThis.watch.observe(element, { childList: true })
    for (const child of element.childNodes) if (child instanceof Text) globalThis.watch.observe(child, { characterData: true })
  }`)
  return async () => (await page.evaluate('globalThis.changes')) as number[]
}

/** What the page does until a part of it has changed often enough, while `more` goes on. */
async function underLoad(page: Page, selector: string, more: (changes: number) => Promise<void>) {
  const changes = await watchChanges(page, selector)
  const stop = await watchMainThreads(await openBrowser(), [{ name: 'page', page }])
  const seen = await until(async () => {
    const times = await changes()
    if (times.length > CHANGES) return times
    await more(times.length)
    return undefined
  }, `${CHANGES} changes of ${selector}`)
  const tasks = (await stop()).get('page')!
  return { gaps: seen.slice(1).map((at, n) => at - seen[n]!), tasks }
}

function expectSmooth({ gaps, tasks }: Awaited<ReturnType<typeof underLoad>>): void {
  // A timer may fire a millisecond early.
  expect(Math.min(...gaps), 'from one change to the next').toBeGreaterThan(MERGE_MS - 5)
  expect(tasks.filter(({ cpuMs }) => cpuMs >= TASK_MS).map(taskWords), 'tasks that are too long').toEqual([])
}

describe.skipIf(noBrowser !== undefined)(`a page under load ${noBrowser ?? 'in Chromium'}`, () => {
  const database = useDatabase()
  const server = useServer(database, { tasks: [noisy, quick], grace: '200ms' })
  const visit = useVisits()
  let key = ''

  const endJobs = async (count: number) => {
    await database.sql(
      `insert into sluice.jobs (task, class_id, state, attempt, submitted_at, started_at, finished_at, tags)
       select t.name, t.class_id, 'completed', 1, clock_timestamp(), clock_timestamp(), clock_timestamp(), array['shop', 'night']
         from sluice.tasks t, generate_series(1, $1::integer) where t.name = 'quick'`,
      [count],
    )
  }

  beforeAll(async () => {
    key = await server.keyOf('platform_admin', 'ann')
    await server.app.work({ name: 'worker-1', capacity: 2 })
  })
  afterAll(() => write(0))

  test('a list of jobs of which thousands end a second is drawn at most four times a second, as far as it is in sight', {
    timeout: 240_000,
  }, async () => {
    await endJobs(1000)
    const { page, complaints } = await visit(server.url)
    await signIn(page, key, '/jobs')
    const rows = page.getByRole('table', { name: 'Jobs' }).locator('tbody tr[data-at]')
    await rows.first().waitFor()
    const before = await rows.first().textContent()
    const seen = await underLoad(page, 'table[aria-label="Jobs"] tbody', () => endJobs(500))
    expectSmooth(seen)
    expect(await rows.first().textContent()).not.toBe(before)
    // Of a hundred.
    expect(await rows.count()).toBeLessThan(50)
    expect(complaints).toEqual([])
  })

  test('a log of thousands of lines a second grows at most four times a second', {
    timeout: 240_000,
  }, async () => {
    const { id } = await server.app.submit(noisy, null)
    const { page, complaints } = await visit(server.url)
    await signIn(page, key, `/jobs/${id}`)
    await page.locator('.log-foot').waitFor()
    let told = -1
    const seen = await underLoad(page, '.log-foot > span', async (changes) => {
      if (changes > told) write(LINES)
      told = changes
    })
    write(0)
    expectSmooth(seen)
    await page.locator('.job-headline').getByText('Completed', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })
})
