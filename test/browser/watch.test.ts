import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { offerSignIn } from '../../src/engine/access/sessions.ts'
import { task } from '../../src/index.ts'
import { keepSnapshot } from '../../src/store/read-snapshot.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'
import { expectAccessible, expectFitsPhone, noBrowser, signIn, useVisits } from './support.ts'

const gates = { first: new Gate(), second: new Gate() }
const hold = task({ name: 'hold', lane: 'narrow', run: (name: keyof typeof gates) => gates[name].pass() })
const fails = task({
  name: 'fails',
  lane: 'wide',
  retry: { attempts: 1 },
  run: (name: string): void => {
    throw new Error(`no such customer: ${name}`)
  },
})

class CardError extends Error {
  readonly status = 402
}
const pays = task({
  name: 'pays',
  lane: 'wide',
  retry: { attempts: 2, delay: '1ms' },
  // Through a frame of the runtime, which is not the task's own.
  run: (): void =>
    ['declined'].forEach((why) => {
      throw new CardError(why, { cause: new TypeError('no such card') })
    }),
})

const serving = new Gate()
const chat = task({
  name: 'chat',
  model: 'llama',
  uses: { vram: '16GB' },
  lane: 'wide',
  run: () => serving.pass(),
})
const draw = task({ name: 'draw', model: 'flux', uses: { vram: '12GB' }, lane: 'wide', run: () => null })

const rows = (page: Page) => page.getByRole('table', { name: 'Jobs' }).locator('tbody tr')

describe.skipIf(noBrowser !== undefined)(`looking around ${noBrowser ?? 'in Chromium'}`, () => {
  const database = useDatabase()
  const server = useServer(database, {
    tasks: [hold, fails, pays, chat, draw],
    lanes: { narrow: { slots: 1 }, wide: { slots: 8 } },
    budgets: { vram: { big: '24GB', small: '8GB', safety: '1GB' } },
    grace: '200ms',
  })
  const visit = useVisits()

  beforeAll(async () => {
    await server.keyOf('platform_admin', 'ann')
    await server.app.work({ name: 'worker-1', capacity: 8 })
  })
  afterAll(() => {
    for (const gate of [...Object.values(gates), serving]) gate.open()
  })

  test('the address of sluice up signs in once, and its token does not stay in it', {
    timeout: 240_000,
  }, async () => {
    const token = await transactWithRetries(server.app.services.db, (tx) =>
      offerSignIn(tx, authorOfDatabase('test')),
    )
    const { page, complaints } = await visit(server.url)
    await page.goto(`/#token=${token}`)
    await page.getByRole('heading', { name: 'Now' }).waitFor()
    expect(page.url()).toBe(`${server.url}/`)
    const second = await visit(server.url)
    await second.page.goto(`/#token=${token}`)
    await second.page.getByText('A sign-in link works once').waitFor()
    // Pasted into the page that is open, a new one loads nothing: only what is behind the # changes.
    const another = await transactWithRetries(server.app.services.db, (tx) =>
      offerSignIn(tx, authorOfDatabase('test')),
    )
    await second.page.evaluate(`location.hash = '#token=${another}'`)
    await second.page.getByRole('heading', { name: 'Now' }).waitFor()
    expect(second.page.url()).toBe(`${server.url}/`)
    expect([...complaints, ...second.complaints]).toEqual([])
  })

  test('why a job waits is three clicks away from the first page, and the answer changes as it does', {
    timeout: 240_000,
  }, async () => {
    const first = await server.app.submit(hold, 'first')
    await gates.first.arrived()
    const second = await server.app.submit(hold, 'second')
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('viewer'))
    const lane = page.getByRole('table', { name: 'Lanes' }).locator('tr', { hasText: 'narrow' })
    await lane.getByRole('link', { name: '1', exact: true }).last().click()
    await rows(page)
      .getByRole('link', { name: `#${second.id}` })
      .click()
    await page
      .getByText(/lane narrow is full: 1 of 1 slots/i)
      .first()
      .waitFor()
    expect(await page.getByRole('link', { name: `hold #${first.id}` }).count()).toBe(1)
    gates.first.open()
    await gates.second.arrived()
    const head = page.locator('.job-headline')
    await head.getByText('Running', { exact: true }).waitFor()
    gates.second.open()
    await head.getByText('Completed', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })

  test('a failed job shows what each attempt threw: class, own frames, causes and properties', {
    timeout: 240_000,
  }, async () => {
    const { id } = await server.app.submit(pays, undefined)
    await until(async () => (await server.app.getJob(id)).finishedAt !== null, 'the job to fail')
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('viewer'))
    await page.goto(`/jobs/${id}`)
    const last = page.locator('.thrown details[open]')
    await last.getByText('Attempt 2 threw CardError').waitFor()
    expect(await last.locator('.thrown-stack li[data-own="true"]').first().textContent()).toMatch(
      /watch\.test\.ts:\d+:\d+/,
    )
    expect(await last.locator('.thrown-stack li[data-own="false"]').count()).toBeGreaterThan(0)
    await last.getByText('TypeError: no such card').waitFor()
    await last.getByText('"status": 402').waitFor()
    const first = page.locator('.thrown details', { hasText: 'Attempt 1 threw CardError' })
    expect(await first.locator('.thrown-error').first().isVisible()).toBe(false)
    await first.locator('summary').click()
    await first.locator('.thrown-error').first().waitFor()
    await expectAccessible(page, 'a failed job with what it threw')
    await expectFitsPhone(page, 'a failed job with what it threw')
    expect(complaints).toEqual([])
  })

  test("the number of scheduled jobs links to them, shown in the user's time zone", {
    timeout: 240_000,
  }, async () => {
    const runAt = new Date(Date.now() + 26 * 3_600_000)
    const [first] = await server.app.submitMany(fails, ['later', 'later still'], { runAt })
    const { page, complaints } = await visit(server.url, { timezoneId: 'Asia/Tokyo' })
    await signIn(page, await server.keyOf('viewer'))
    await server.app.setAdmission({ maxActive: 50, maxPerOwner: 40 })
    await page.getByText('2 of 100,000 scheduled').waitFor()
    // Who has the most jobs, where one owner may have so many only.
    await page.getByText(/ has \d+ of 40 jobs, /).waitFor()
    await page.getByRole('link', { name: /^Scheduled\s*2$/ }).click()
    await expect.poll(() => rows(page).count()).toBe(2)
    await page.getByRole('link', { name: /^Scheduled\s*2$/ }).waitFor()
    // A viewer changes nothing: there is nothing to choose rows for. The key j leads into the list from anywhere.
    expect(await page.getByRole('table', { name: 'Jobs' }).getByRole('checkbox').count()).toBe(0)
    await page.keyboard.press('j')
    await page.locator('tr[data-at="0"]:focus').waitFor()
    await page.keyboard.press('j')
    await page.locator('tr[data-at="1"]:focus').waitFor()
    const due = rows(page)
      .filter({ hasText: `#${first!.id}` })
      .locator('time')
      .first()
    expect(await due.textContent()).toMatch(/^in 1 d [12] h$/)
    expect(await due.getAttribute('title')).toContain(runAt.toISOString())
    // The exact moment is that of Tokyo, nine hours ahead.
    expect(await due.getAttribute('title')).toContain('GMT+9')

    await page.getByRole('link', { name: /^Queued/ }).click()
    await page.getByText('No queued jobs').waitFor()
    await server.app.cancelMany({ task: 'fails', status: ['queued'] })
    await server.app.resetAdmission()
    expect(complaints).toEqual([])
  })

  test('devices tell what lies on them now and lay there before, and why a job waits for one', {
    timeout: 240_000,
  }, async () => {
    const served = await server.app.submit(chat, undefined)
    await serving.arrived()
    const waiting = await server.app.submit(draw, undefined)
    await until(
      async () =>
        (await database.sql(`select 1 from sluice.residents where loaded_at is not null`)).length > 0,
      'the model to be loaded',
    )
    await keepSnapshot(server.app.services.db, 0)
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('viewer'), '/gpu')
    const big = page.getByRole('article', { name: 'Device big' })
    await big.getByText('16GB of 24GB in use').waitFor()
    await big.locator('.copies').getByText('llama').waitFor()
    await big.getByText(/● Loaded for .*, 1 running, worker-1/).waitFor()
    await big.getByText(/^flux comes next on .*: llama will make room$/).waitFor()
    const small = page.getByRole('article', { name: 'Device small' })
    expect(await small.locator('.copies').count()).toBe(0)

    const before = page.getByRole('region', { name: 'Models on big' }).getByRole('listitem')
    expect(await before.allTextContents()).toEqual([expect.stringMatching(/^llama.*loaded from .*1$/)])
    const models = page.getByRole('table', { name: 'Models' })
    const cells = async (model: string) =>
      (
        await models
          .getByRole('row', { name: new RegExp(`^${model}`) })
          .getByRole('cell')
          .allTextContents()
      ).slice(0, 6)
    expect(await cells('llama')).toEqual(['llama', '0', '0', '1', '1', '–'])
    await expect.poll(async () => (await cells('flux')).slice(0, 2)).toEqual(['flux', '1'])
    const queue = page
      .getByRole('table', { name: 'Jobs waiting for budgets' })
      .getByRole('row', { name: /draw/ })
    await queue.getByText(/llama/).waitFor()
    await expectAccessible(page, 'devices with models')
    await expectFitsPhone(page, 'devices with models')

    await page.goto(`/jobs/${waiting.id}`)
    await page.getByRole('heading', { name: 'Why is this job waiting?' }).waitFor()
    await expectAccessible(page, 'a job that waits for a device')
    await expectFitsPhone(page, 'a job that waits for a device')
    serving.open()
    await served.result()
    await page.locator('.job-headline').getByText('Completed', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })

  test('a filter is in the address, and all that match are retried after the page has said how many', {
    timeout: 240_000,
  }, async () => {
    const jobs = await server.app.submitMany(fails, ['<b>a</b>', '<b>b</b>', 'c'])
    await Promise.all(jobs.map((job) => job.result().catch(() => undefined)))
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('operator', 'olga'), '/jobs?tab=failed&error=customer')
    await expect.poll(() => rows(page).count()).toBe(3)
    await page.getByRole('searchbox').fill('<b>')
    await page.getByRole('searchbox').press('Enter')
    await expect.poll(() => rows(page).count()).toBe(2)
    expect(new URL(page.url()).searchParams.get('error')).toBe('<b>')

    await page.getByRole('button', { name: 'Retry…' }).click()
    const dialog = page.getByRole('alertdialog')
    await dialog.getByText('Retry 2 jobs').waitFor()
    await dialog.getByLabel('Reason').fill('the customers are back')
    await dialog.getByRole('button', { name: 'Retry (2)' }).click()
    await page.getByText('2 jobs retried').waitFor()
    await expect.poll(async () => (await server.app.listAttempts(jobs[0]!.id)).length).toBe(2)

    await rows(page).first().focus()
    await page.keyboard.press('x')
    await page.getByText('1 selected').waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Why it failed' }).waitFor()
    expect(complaints).toEqual([])
  })
})
