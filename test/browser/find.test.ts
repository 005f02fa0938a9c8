import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'
import {
  complete,
  confirm,
  expectAccessible,
  expectFitsPhone,
  noBrowser,
  signIn,
  useVisits,
} from './support.ts'

const gate = new Gate()
const hold = task({ name: 'hold', lane: 'narrow', run: (name: string) => gate.pass(name) })
const mails = task({
  name: 'mails',
  lane: 'wide',
  retry: { attempts: 1 },
  run: (to: string): void => {
    throw new Error(`mailbox of ${to} is full`)
  },
})
const deploy = task({ name: 'deploy', approval: true, lane: 'wide', run: (_: object) => null })
const list = task({ name: 'list', lane: 'wide', run: (_: object) => null })
const chain = {
  name: 'chain',
  definition: {
    steps: {
      first: { task: 'list', with: { items: '${{ input.items }}' } },
      second: { task: 'list', needs: ['first'], with: {} },
    },
  },
}

/** Two hundred numbers, as an input may have them. */
const NUMBERS = Array.from({ length: 200 }, (_, n) => n)

/** A list is told of changes once a second at most. */
const SOON = { timeout: 30_000 }

const jobRows = (page: Page) => page.getByRole('table', { name: 'Jobs' }).locator('tbody tr')
const idsOf = (page: Page) =>
  jobRows(page).evaluateAll((rows) => rows.map((row) => /#(\d+)/.exec(row.textContent ?? '')?.[1] ?? ''))

describe.skipIf(noBrowser !== undefined)(`finding things ${noBrowser ?? 'in Chromium'}`, () => {
  const database = useDatabase()
  const server = useServer(database, {
    tasks: [hold, mails, deploy, list],
    workflows: [chain],
    lanes: { narrow: { slots: 1 }, wide: { slots: 8 } },
    grace: '200ms',
  })
  const visit = useVisits()
  let operator = ''

  beforeAll(async () => {
    operator = await server.keyOf('operator', 'olga')
    await server.app.work({ name: 'worker-1', capacity: 8 })
  })
  afterAll(() => gate.open())

  async function openSearch(page: Page, text: string) {
    await page.keyboard.press('/')
    const field = page.getByRole('combobox', { name: 'Search' })
    await field.waitFor()
    await field.fill(text)
    return page.getByRole('listbox', { name: 'Results' })
  }

  test('the key / finds jobs from any screen by ID, key, tag, task and error, and Enter opens them', {
    timeout: 240_000,
  }, async () => {
    const keyed = await server.app.submit(mails, 'ann', { key: 'order-4711', tags: ['newsletter'] })
    await until(async () => (await server.app.getJob(keyed.id)).finishedAt !== null, 'the job to fail')
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/lanes')
    await complete(page)

    for (const [text, group] of [
      [`#${keyed.id}`, 'Job'],
      ['order-4711', 'Key'],
      ['newsletter', 'Tag'],
      ['mailbox of ann', 'Error'],
    ] as const) {
      const results = await openSearch(page, text)
      await results
        .getByRole('group', { name: group })
        .getByRole('option', { name: `mails #${keyed.id}` })
        .waitFor()
      await page.keyboard.press('Escape')
      await results.waitFor({ state: 'detached' })
    }

    const tasks = await openSearch(page, 'mails')
    await tasks
      .getByRole('group', { name: 'Tasks' })
      .getByRole('option', { name: /^mails/ })
      .waitFor()
    await page.getByRole('combobox', { name: 'Search' }).fill(keyed.id)
    await tasks.getByRole('option', { name: `mails #${keyed.id}` }).waitFor()
    await expectAccessible(page, 'the search')
    await expectFitsPhone(page, 'the search')
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/jobs/${keyed.id}`)

    const nothing = await openSearch(page, 'no such thing anywhere')
    await page.getByText('Nothing found').waitFor()
    expect(await nothing.getByRole('option').count()).toBe(0)
    await page.keyboard.press('Escape')
    expect(complaints).toEqual([])
  })

  test('the search selects the first result after an arrow key in an empty list, and shows why it failed', {
    timeout: 240_000,
  }, async () => {
    const keyed = await server.app.submit(mails, 'eve', { key: 'order-4712' })
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/lanes')
    await complete(page)
    const answers = new Gate()
    await page.route(/\/api\/v1\/jobs\?/, async (route) => {
      await answers.pass('jobs')
      await route.continue()
    })
    const results = await openSearch(page, 'order-4712')
    await answers.arrived(1)
    await page.keyboard.press('ArrowDown')
    answers.open()
    await results.getByRole('option', { name: `mails #${keyed.id}`, selected: true }).waitFor()

    await page.route(/\/api\/v1\/jobs\?/, (route) =>
      route.fulfill({ status: 500, json: { code: 'INTERNAL', detail: 'the disk is full' } }),
    )
    await page.getByRole('combobox', { name: 'Search' }).fill('order-4713')
    await page.getByText('The search for jobs failed. The disk is full').waitFor()
    expect(complaints).toEqual([])
  })

  test('the search requests no jobs without the permission to read them', {
    timeout: 240_000,
  }, async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('worker'))
    await complete(page)
    const requests: string[] = []
    page.on('request', (request) => {
      if (request.url().includes('/api/v1/jobs')) requests.push(request.url())
    })
    await openSearch(page, '4711')
    await page.getByText('Searching jobs…').waitFor()
    await page.getByText('Nothing found').waitFor()
    await complete(page)
    expect(requests).toEqual([])
    expect(complaints).toEqual([])
  })

  test('a command pauses a lane after it has been confirmed; a viewer is offered no commands that change something', {
    timeout: 240_000,
  }, async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/jobs')
    await complete(page)
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Search' }).fill('pause lane wide')
    await page.getByRole('option', { name: 'Pause lane wide…' }).waitFor()
    await page.keyboard.press('Enter')
    await confirm(page, 'Pause lane', 'a look at it')
    await until(
      async () => (await server.app.listLanes()).find(({ name }) => name === 'wide')?.enabled === false,
      'the lane to be paused',
    )
    await server.app.setLane('wide', { enabled: true })

    const viewer = await visit(server.url)
    await signIn(viewer.page, await server.keyOf('viewer'))
    await complete(viewer.page)
    const results = await openSearch(viewer.page, 'lane wide')
    await results.getByRole('option', { name: 'Lane wide', exact: true }).waitFor()
    expect(await results.getByRole('option', { name: /Pause|Create/ }).count()).toBe(0)
    expect([...complaints, ...viewer.complaints]).toEqual([])
  })

  test('the key ? shows the keys and what states mean; in a field it is a letter', {
    timeout: 240_000,
  }, async () => {
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/jobs')
    await complete(page)
    await page.getByRole('searchbox').fill('why')
    await page.getByRole('searchbox').press('?')
    expect(await page.getByRole('dialog').count()).toBe(0)
    await page.getByRole('heading', { name: 'Jobs' }).click()
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Help' })
    await help.getByText('Search jobs by ID, key, tag, task or error').waitFor()
    await help.getByText('waits for another attempt').waitFor()
    await expectAccessible(page, 'the help')
    await expectFitsPhone(page, 'the help')
    await page.keyboard.press('Escape')
    await help.waitFor({ state: 'detached' })
    expect(complaints).toEqual([])
  })

  test('queued jobs show their priority and what blocks them, and can be listed in the order in which they start', {
    timeout: 240_000,
  }, async () => {
    await server.app.submit(hold, 'first')
    await gate.arrived(1)
    const low = await server.app.submit(hold, 'low', { priority: -5 })
    const plain = await server.app.submit(hold, 'plain')
    const high = await server.app.submit(hold, 'high', { priority: 10 })
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/jobs?tab=queued')
    await expect.poll(() => idsOf(page), SOON).toEqual([high.id, plain.id, low.id])
    await page.getByText('Next to start first').click()
    await expect.poll(() => idsOf(page), SOON).toEqual([high.id, plain.id, low.id])
    await server.app.reprioritise(low.id, 20)
    await expect.poll(() => idsOf(page), SOON).toEqual([low.id, high.id, plain.id])
    await jobRows(page).first().getByText('1 of 1 slots busy').waitFor()
    await jobRows(page).first().getByRole('cell', { name: '20', exact: true }).waitFor()
    expect(new URL(page.url()).searchParams.get('order')).toBe('line')
    // The number of a lane leads to its line.
    await page.goto('/lanes')
    await page
      .getByRole('row', { name: /narrow/ })
      .getByRole('link', { name: '3', exact: true })
      .click()
    await expect.poll(() => idsOf(page), SOON).toEqual([low.id, high.id, plain.id])
    // All matching jobs cannot be acted on while steps are listed: the page says what to do instead.
    await page.getByText('Select jobs to act on them').waitFor()
    await server.app.cancelMany({ task: 'hold' })
    expect(complaints).toEqual([])
  })

  test('a list of approvals shows what each job would do, and the question repeats it', {
    timeout: 240_000,
  }, async () => {
    const asked = await server.app.submit(
      deploy,
      { version: '1.43.0', to: 'production' },
      { key: 'release-1.43' },
    )
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('approver', 'anna'), '/approvals')
    const row = page.getByRole('row', { name: new RegExp(`#${asked.id}`) })
    for (const text of ['deploy', '"version": "1.43.0"', 'release-1.43'])
      await row.getByText(text).first().waitFor()
    await row.getByRole('button', { name: `Approve job ${asked.id}` }).click()
    await page.getByRole('alertdialog').getByText('"to": "production"').waitFor()
    await confirm(page, 'Approve job')
    await asked.result()
    expect(complaints).toEqual([])
  })

  test('a workflow that is opened by its ID shows its graph first, and a list of 200 numbers in its input is one line', {
    timeout: 240_000,
  }, async () => {
    const { id } = await server.app.submit('chain', { items: NUMBERS })
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, `/jobs/${id}`)
    await page.getByRole('button', { name: /first.*list/ }).waitFor()
    const titles = await page.getByRole('main').getByRole('heading', { level: 2 }).allTextContents()
    expect(titles[0]).toBe('Steps')
    const input = page.getByRole('region', { name: 'Input as text' })
    expect(await input.textContent()).toBe('{\n  "items": [0, 1, 2, 3, 4, 5, 6, 7, … 200 numbers]\n}')
    await page.getByRole('button', { name: 'Unfold lists' }).click()
    expect(JSON.parse((await input.textContent())!)).toEqual({ items: NUMBERS })
    await expectAccessible(page, 'the job of a workflow')
    await expectFitsPhone(page, 'the job of a workflow')
    await page.getByRole('button', { name: /first.*list/ }).click()
    await page.waitForURL(`**/workflows/${id}?step=first`)
    expect(complaints).toEqual([])
  })

  test('what is empty or missing fits a phone of 320 px, with the button that copies its command', {
    timeout: 240_000,
  }, async () => {
    const { page, complaints } = await visit(server.url, { viewport: { width: 320, height: 640 } })
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.goto('/schedules')
    await page.getByLabel('API key').fill(operator)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Schedules' }).waitFor()
    for (const [path, shows] of [
      ['/schedules', 'No schedules yet'],
      ['/jobs/999999999', 'Job 999999999 not found'],
      ['/gpu', 'No budgets declared'],
    ] as const) {
      await page.goto(path)
      await page.getByText(shows).waitFor()
      await complete(page)
      expect(await page.evaluate('document.documentElement.scrollWidth'), path).toBe(320)
      const { x, width } = (await page.getByRole('button', { name: 'Copy' }).boundingBox())!
      expect(x + width, `the right edge of Copy on ${path}`).toBeLessThanOrEqual(320)
    }
    expect(complaints).toEqual([])
  })
})
