import pino from 'pino'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { FleetKeeper } from '../../src/fleet/fleet-keeper.ts'
import type { Provisioner } from '../../src/fleet/provisioner.ts'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'
import {
  complete,
  confirm,
  expectAccessible,
  expectFitsPhone,
  noBrowser,
  offeredScreens,
  signIn,
  useVisits,
} from './support.ts'

let locked = true
const book = task({
  name: 'book',
  retry: { attempts: 1 },
  run: (order: number) => {
    if (locked) throw new Error(`order ${order} is locked`)
    return order
  },
})
const far = task({ name: 'far', requires: { zone: 'moon' }, run: (_: null) => null })

const WATCH = ['Now', 'Jobs', 'Errors', 'Recovery']
const OPERATE = ['Lanes', 'Workers', 'Devices']
const OF_FAILED = ['Retry…', 'Edit and resubmit…', 'Delete…']
const CHANGES = {
  Job: OF_FAILED,
  Jobs: ['Cancel…', 'Retry…', 'Set priority…'],
  Lanes: ['Create lane…', 'Pause…'],
  Workers: ['Drain…', 'Stop…'],
  Errors: ['Retry all…'],
  Schedules: ['Run now…', 'Pause…'],
}
const NOTHING = { Job: [], Jobs: [], Lanes: [], Workers: [], Errors: [], Schedules: [] }

/** What each role finds: its screens, and the buttons on some of them. */
const OFFERS: readonly [role: string, screens: readonly string[], buttons: object][] = [
  ['viewer', [...WATCH, ...OPERATE, 'Schedules'], NOTHING],
  // Of the jobs of others they know nothing.
  ['submitter', ['Jobs', 'Errors', 'Schedules'], { Job: [], Jobs: [] }],
  ['approver', [...WATCH, ...OPERATE, 'Approvals', 'Schedules'], {}],
  ['operator', [...WATCH, ...OPERATE, 'Approvals', 'Schedules'], CHANGES],
  ['platform_admin', [...WATCH, ...OPERATE, 'Approvals', 'Schedules', 'Access', 'Audit'], {}],
]

/** By screen, a text that is there once all of it is: of one's own view, or where there is nothing for one to see. */
const COMPLETE: Readonly<Record<string, RegExp>> = {
  Job: /^(Why it failed|Job \d+ not found)$/,
  Jobs: /^(book #\d+|No jobs yet)$/,
  Lanes: /^default$/,
  Workers: /^worker-1/,
  Errors: /^(order N is locked|No failures)$/,
  Schedules: /^(nightly|No schedules yet)$/,
}

async function buttonsOn(page: Page, screen: string): Promise<string[]> {
  if (screen !== 'Job') {
    await page.getByRole('link', { name: screen, exact: true }).first().click()
    // The screen before stays until the next has come, and has texts of the same words: the name of a job, say.
    await page.getByRole('main').getByRole('heading', { name: screen, exact: true, level: 1 }).waitFor()
  }
  await complete(page)
  await page.getByRole('main').getByText(COMPLETE[screen]!).filter({ visible: true }).first().waitFor()
  const texts = await page.getByRole('main').getByRole('button').allTextContents()
  return [...new Set(texts)].filter((text) => text !== 'Copy' && text !== 'Clear')
}

/** What has the focus, by its label, and with which outline: whoever goes by keyboard sees where they are. */
async function focused(page: Page): Promise<string> {
  return (await page.evaluate(`(({ labels, ariaLabel, textContent }) =>
    (ariaLabel ?? labels?.[0]?.textContent ?? textContent).trim())(document.activeElement)
    + ' ' + getComputedStyle(document.activeElement).outlineStyle`)) as string
}

/** Two jobs of one workflow that fail alike. */
const ORDERS = {
  name: 'orders',
  definition: { steps: { each: { task: 'book', with_items: [20, 21], with: '${{ item }}' } } },
}

describe.skipIf(noBrowser !== undefined)(`those who manage ${noBrowser ?? 'in Chromium'}`, () => {
  const database = useDatabase()
  const server = useServer(database, {
    tasks: [book, far],
    workflows: [ORDERS],
    fleet: { pools: { burst: { max: 2, cooldown: '0s', labels: { zone: 'moon' } } } },
    grace: '200ms',
  })
  const visit = useVisits()
  const failed: string[] = []

  beforeAll(async () => {
    await server.app.work({ name: 'worker-1', capacity: 4 })
    await server.app.createSchedule('nightly', { task: 'book', cron: '0 3 * * *', input: 1 })
    const jobs = await server.app.submitMany(book, [17, 18, 19])
    await Promise.all(jobs.map((job) => job.result().catch(() => undefined)))
    failed.push(...jobs.map(({ id }) => id))
    const orders = await server.app.submit('orders', {})
    await orders.result().catch(() => undefined)
    failed.push(orders.id)
  })

  test('each role is offered what it allows, and nothing else', { timeout: 240_000 }, async () => {
    // One after the other in one browser: what was loaded for the first is there for all.
    const { page, complaints } = await visit(server.url)
    for (const [role, screens, buttons] of OFFERS) {
      await page.context().clearCookies()
      await signIn(page, await server.keyOf(role), `/jobs/${failed[0]}`)
      expect((await offeredScreens(page)).toSorted(), role).toEqual(screens.toSorted())
      const found: Record<string, string[]> = {}
      for (const screen of Object.keys(buttons)) found[screen] = await buttonsOn(page, screen)
      expect(found, role).toEqual(buttons)
    }
    expect(complaints).toEqual([])
  })

  test('a key is made, shown once and works until it is revoked; so is a role', async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('platform_admin', 'ann'), '/access')
    await page.getByRole('button', { name: 'Create key…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('robot')
    await dialog.getByLabel('Role').selectOption('submitter')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    const key = (await dialog.getByText(/^slk_/).textContent())!
    await dialog.getByRole('button', { name: 'Done' }).click()
    expect((await server.call('GET', '/jobs', { key })).status).toBe(200)
    expect(await page.content()).not.toContain(key)

    await page.getByRole('button', { name: /^Revoke key \d+ of robot$/ }).click()
    await page.getByRole('alertdialog').getByText('This cannot be undone').waitFor()
    await confirm(page, 'Revoke key', 'it has left')
    await page.getByRole('row', { name: /robot/ }).waitFor({ state: 'detached' })
    expect((await server.call('GET', '/jobs', { key })).status).toBe(401)

    await page.getByRole('button', { name: 'Create role…' }).click()
    await dialog.getByLabel('Name').fill('reader')
    await dialog.getByRole('checkbox', { name: 'jobs:read', exact: true }).check()
    await dialog.getByRole('button', { name: 'Create role' }).click()
    await page.getByRole('button', { name: 'Delete role reader' }).click()
    await confirm(page, 'Delete role')
    await page.getByRole('row', { name: /reader/ }).waitFor({ state: 'detached' })

    await page.getByRole('link', { name: 'Audit' }).first().click()
    const entry = page.getByRole('row', { name: /key\.revoke/ })
    await entry.getByText('it has left').waitFor()
    expect(complaints).toEqual([])
  })

  test('the key of a worker is made with what it may run, which is changed afterwards', async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('platform_admin', 'ann'), '/access')
    await page.getByRole('button', { name: 'Create key…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('gpu-box')
    await dialog.getByLabel('Role').selectOption('worker')
    await dialog.getByLabel('Tasks its workers may run').fill('mail.*, bill')
    await dialog.getByLabel('Lanes its workers may take jobs from').fill('*')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    const key = (await dialog.getByText(/^slk_/).textContent())!
    await dialog.getByRole('button', { name: 'Done' }).click()
    const register = (name: string) =>
      server
        .call('POST', '/workers', { key, body: { name: 'w', capacity: 1, cores: 1, tasks: [{ name }] } })
        .then(({ status }) => status)
    expect([await register('bill'), await register('other')]).toEqual([201, 403])

    await page
      .getByRole('row', { name: /gpu-box/ })
      .getByText('runs mail.*, bill')
      .waitFor()
    await page.getByRole('button', { name: /^Edit what key \d+ of gpu-box runs$/ }).click()
    await dialog.getByLabel('Tasks its workers may run').fill('other')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page
      .getByRole('row', { name: /gpu-box/ })
      .getByText('runs other')
      .waitFor()
    expect([await register('bill'), await register('other')]).toEqual([403, 201])
    expect(complaints).toEqual([])
  })

  test('shows the decisions of a pool with their reasons and outcomes', async () => {
    const refusing: Provisioner = {
      start: () =>
        Promise.resolve({ instances: [], failures: [{ member: 1, message: 'the cloud <b>refuses</b>' }] }),
      describe: () => Promise.resolve([]),
      stop: () => Promise.resolve(),
      close: () => Promise.resolve(),
    }
    const keeper = new FleetKeeper({
      db: server.app.services.db,
      log: pino({ level: 'silent' }),
      name: 'test',
      provisioners: new Map([['burst', refusing]]),
      momentMs: 0,
    })
    const { id } = await server.app.submit(far, null)
    await until(async () => {
      if ((await server.app.fleet()).decisions[0]?.outcome === 'failed') return true
      await keeper.tend()
      return false
    }, 'the decision')
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('viewer'), '/workers')
    const pool = page.getByRole('table', { name: 'Pools' }).getByRole('row', { name: /burst/ })
    await pool.getByText('0 of 0 to 2').waitFor()
    await pool.getByText('1 request, 0 workers started, 1 failed').waitFor()
    const decision = page.getByRole('table', { name: 'Decisions' }).getByRole('row', { name: /start 1/ })
    await decision.getByText(/^1 job waited up to .*: no worker .*far/).waitFor()
    await decision.getByText('✕ Failed: the cloud <b>refuses</b>').waitFor()
    await decision.click()
    await page.getByRole('heading', { name: 'Start 1 worker of burst' }).waitFor()
    await page.getByText('Worker 1 was not started').waitFor()
    await page.getByText('No worker has started yet').waitFor()
    await expectAccessible(page, 'a decision of a pool')
    await expectFitsPhone(page, 'a decision of a pool')
    await keeper.stop()
    await server.app.cancel(id)
    expect(complaints).toEqual([])
  })

  test('by keyboard: the way past the navigation, questions that keep the focus and give it back', async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('operator'), '/workers')
    await page.goto('/workers')
    const button = page.getByRole('button', { name: 'Drain worker-1' })
    await button.waitFor()
    await page.keyboard.press('Tab')
    expect(await focused(page)).toBe('Skip to content solid')
    await page.keyboard.press('Enter')
    await page.locator('main:focus').waitFor()

    await button.focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('alertdialog')
    await dialog.waitFor()
    const seen = new Set<string>()
    for (let n = 0; n < 6; n++) {
      await page.keyboard.press('Tab')
      seen.add(await focused(page))
    }
    expect(seen).toEqual(new Set(['Reason (optional) solid', 'Back solid', 'Drain worker solid']))
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toBe('Drain worker-1 solid')
    expect(complaints).toEqual([])
  })

  test('all that failed alike are retried at once, after the page has said how many', async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('operator', 'olga'), '/errors')
    locked = false
    await page.getByRole('button', { name: 'Retry all 5 failures of this group' }).click()
    const dialog = page.getByRole('alertdialog')
    await dialog.getByText('order N is locked').waitFor()
    await dialog
      .getByText('5 failures found. 5 jobs run again. A workflow reruns all its failed steps at once:')
      .waitFor()
    await dialog.getByText('orders: 2 jobs in 1 run').waitFor()
    await dialog.getByRole('button', { name: 'Retry (5)' }).waitFor()
    await confirm(page, 'Retry', 'unlocked by the bank')
    await page.getByText('5 jobs run again', { exact: true }).waitFor()
    await page.getByText('No failures').first().waitFor()
    const results = await Promise.all(failed.map((id) => server.app.job(id).result()))
    expect(results).toEqual([17, 18, 19, { each: [20, 21] }])
    const reasons = await database.sql<{ reason: string }>(
      `select distinct reason from sluice.audit where actor = 'olga' and reason is not null`,
    )
    expect(reasons).toEqual([{ reason: 'unlocked by the bank' }])
    expect(complaints).toEqual([])
  })

  test('a schedule is run at once, paused and resumed', async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('operator'), '/schedules?name=nightly')
    await page.getByRole('button', { name: 'Pause nightly' }).first().click()
    await confirm(page, 'Pause schedule')
    await page.getByText('Paused: these runs are skipped.').waitFor()
    await page.getByRole('button', { name: 'Resume nightly' }).first().click()
    await confirm(page, 'Resume schedule')
    await page.getByText('Paused: these runs are skipped.').waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Run now: nightly' }).first().click()
    await confirm(page, 'Submit job')
    await page.waitForURL(/\/jobs\/\d+$/)
    await page.locator('.job-headline').getByText('Completed', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })
})
