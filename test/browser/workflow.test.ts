import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Flow, fail, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'
import {
  confirm,
  expectAccessible,
  expectFitsPhone,
  jumpsOf,
  noBrowser,
  signIn,
  useVisits,
} from './support.ts'

const gate = new Gate()
const held = task({ name: 'held', run: async (n: number) => gate.pass(String(n)) })
const check = task({
  name: 'check',
  retry: { attempts: 1 },
  run: ({ encoding }: { encoding: string }) => {
    if (encoding !== 'utf-8') throw fail(`cannot decode <b>${encoding}</b>`)
    return { decoded: true }
  },
})
const shut = { door: true }
const knock = task({
  name: 'knock',
  retry: { attempts: 1 },
  run: (n: number) => {
    if (shut.door) throw fail('the door is shut')
    return n
  },
})
const flaky = workflow({
  name: 'flaky',
  steps: (flow: Flow<{ doors: number[] }>) => {
    flow.each('doors', flow.input.doors, knock, (n) => n)
  },
})
const tell = task({ name: 'tell', run: ({ text }: { text: string }) => text })
const wide = workflow({
  name: 'wide',
  steps: (flow: Flow<{ items: number[] }>) => {
    const fan = flow.each('fan', flow.input.items, held, (n) => n, { concurrency: 2 })
    flow.step('after', held, 1000, { needs: [fan] })
  },
})
const later = new Gate()
const hold = task({ name: 'hold', run: async (_: null) => later.pass() })
/** A part of it fails while another still runs; and it has a workflow inside. */
const half = workflow({
  name: 'half',
  steps: (flow: Flow<{ doors: number[] }>) => {
    flow.step('knocking', flaky, { doors: flow.input.doors })
    flow.step('holding', hold, null)
  },
})
const decode = workflow({
  name: 'decode',
  steps: (flow: Flow<{ encodings: string[] }>) => {
    const begun = flow.step('begin', tell, { text: 'begun' })
    const inner = flow.eachGroup(
      'files',
      flow.input.encodings,
      (group, encoding) => {
        const read = group.step('read', tell, { text: encoding })
        group.step('check', check, { encoding: read.result })
      },
      { needs: [begun] },
    )
    flow.step('report', tell, { text: 'all read' }, { needs: [inner] })
  },
})

describe.skipIf(noBrowser !== undefined)(`workflows in a browser${noBrowser ?? ''}`, () => {
  const database = useDatabase()
  const server = useServer(database, {
    tasks: [held, hold, check, tell, knock],
    workflows: [wide, decode, flaky, half],
    lanes: { default: { perWorker: null } },
  })
  const visit = useVisits()
  let key = ''

  beforeAll(async () => {
    key = await server.keyOf('operator')
    await server.app.work({ capacity: 20 })
  })
  afterAll(() => {
    gate.open()
    later.open()
  })

  async function ended(id: string, status: string): Promise<void> {
    await until(async () => (await server.app.getJob(id)).status === status, `job ${id} to be ${status}`)
  }

  test('a window is pulled wider with the arrow keys and by pointer, and more children are in flight', {
    timeout: 240_000,
  }, async () => {
    const { id } = await server.app.submit(wide, { items: Array.from({ length: 40 }, (_, n) => n) })
    const fan = await until(() => findStep(database.sql, id, 'fan'), 'the fan-out')
    await gate.arrived(2)
    const { page, complaints } = await visit(server.url)
    await signIn(page, key, `/workflows/${id}`)
    const says = (text: string) => page.locator('.window-words', { hasText: text }).waitFor()
    await says('2 in flight, window of 2')
    await page.getByRole('button', { name: /^Running\s*fan.*held/ }).waitFor()
    expect(await jumpsOf(page), 'what jumps while a workflow is opened').toBeLessThan(0.1)
    await expectAccessible(page, 'a workflow that runs')
    await expectFitsPhone(page, 'a workflow that runs')

    const handle = page.getByRole('slider', { name: 'Window' })
    await handle.focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await gate.arrived(5)
    await says('5 in flight, window of 5')

    const { x, y, width, height } = (await handle.boundingBox())!
    const track = (await page.locator('.window-track').boundingBox())!
    await page.mouse.move(x + width / 2, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(track.x + track.width - 1, y + height / 2, { steps: 5 })
    await page.mouse.up()
    await gate.arrived(10)
    await says('10 in flight, window of 10')
    expect((await server.app.tree(fan, { depth: 0 })).counts).toMatchObject({ window: 10, inFlight: 10 })

    await page.getByRole('button', { name: 'Pause' }).click()
    await says('Paused: 10 children in flight')
    await page.getByRole('button', { name: 'Resume with 10' }).click()
    await says('10 in flight, window of 10')

    // A lane counts steps too: the list behind its number has them.
    await page.getByRole('link', { name: 'Now' }).click()
    const lane = page.getByRole('table', { name: 'Lanes' }).getByRole('row', { name: /^default/ })
    await lane.getByRole('link', { name: /^10 \// }).click()
    const steps = page.getByRole('table', { name: 'Jobs' }).locator('tbody tr')
    await expect.poll(() => steps.count()).toBe(10)
    expect(await page.getByRole('checkbox', { name: 'Include workflow steps' }).isChecked()).toBe(true)
    // And of the whole it says how far it is.
    await page.getByRole('link', { name: 'Jobs', exact: true }).first().click()
    await page.getByRole('link', { name: '0 of 40 in fan, 0 of 2 steps' }).click()
    await page.getByText('Tree', { exact: true }).click()
    await page.getByRole('treeitem', { name: /after.*not reached/ }).waitFor()
    await page.getByText('Waterfall', { exact: true }).click()
    const falls = page.getByRole('list', { name: 'Jobs over time' })
    await falls.getByRole('listitem').filter({ hasText: 'not reached' }).getByText('after').waitFor()
    await page.getByText('Graph', { exact: true }).click()

    await page.getByRole('link', { name: 'Show all children' }).click()
    await page.getByRole('navigation', { name: 'Path in the workflow' }).getByText('wide').waitFor()
    await page.getByRole('table', { name: 'Children of the fan-out' }).getByText('[39]').waitFor()
    await expectAccessible(page, 'a fan-out')
    await expectFitsPhone(page, 'a fan-out')
    gate.open()
    await ended(id, 'completed')
    await page.locator('.headline').getByText('Completed').waitFor()
    expect(complaints).toEqual([])
  })

  test('a workflow that failed is retried from the page of its job, which goes on telling what happens', async () => {
    const { id } = await server.app.submit(flaky, { doors: [1] })
    await ended(id, 'failed')
    const { page, complaints } = await visit(server.url)
    await signIn(page, key, '/jobs?error=the+door+is+shut')
    // The error is inside the workflow, and found there.
    await page.getByRole('link', { name: 'include the steps of workflows' }).click()
    const found = page.getByRole('table', { name: 'Jobs' }).getByRole('link', { name: /^knock/ })
    await found.waitFor()
    await page.goto(`/jobs/${id}`)
    await page.locator('.job-headline').getByText('Failed', { exact: true }).waitFor()
    shut.door = false
    await page.getByRole('button', { name: 'Retry…' }).click()
    await confirm(page, 'Retry')
    await page.getByText('1 job runs again').waitFor()
    await page.locator('.job-headline').getByText('Completed', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })

  test('a workflow inside another is opened; what failed there can run again once the whole has ended', {
    timeout: 240_000,
  }, async () => {
    shut.door = true
    const { id } = await server.app.submit(half, { doors: [1] })
    const knocked = await until(async () => {
      const [row] = await database.sql<{ id: string }>(
        `select id::text from sluice.jobs where root_id = $1 and task = 'knock' and state = 'failed'`,
        [id],
      )
      return row?.id
    }, 'the knock to fail')
    await later.arrived()
    const { page, complaints } = await visit(server.url)
    await signIn(page, key, `/workflows/${id}`)
    await page.getByRole('button', { name: /knocking.*flaky/ }).click()
    await page.getByRole('link', { name: 'Show steps' }).click()
    const crumbs = page.getByRole('navigation', { name: 'Path in the workflow' })
    await crumbs.getByRole('link', { name: 'half' }).waitFor()
    await page.getByRole('heading', { name: /^knocking #\d+$/ }).waitFor()
    expect(await page.getByRole('button', { name: /^Retry/ }).count()).toBe(0)
    await page.getByRole('button', { name: /doors/ }).waitFor()

    await page.goto(`/jobs/${knocked}`)
    await page.getByText('You can retry this step once the whole workflow has ended.').waitFor()
    const retry = page.getByRole('button', { name: 'Retry…' })
    expect(await retry.count()).toBe(0)
    later.open()
    await ended(id, 'failed')
    shut.door = false
    await retry.click()
    await confirm(page, 'Retry')
    await page.locator('.job-headline').getByText('Completed', { exact: true }).waitFor()
    expect(complaints).toEqual([])
  })

  test('a failure is followed back to where its input differs, and runs again from there with another', {
    timeout: 240_000,
  }, async () => {
    const good = (await server.app.submit(decode, { encodings: ['utf-8', 'utf-8', 'utf-8'] })).id
    await ended(good, 'completed')
    const { id } = await server.app.submit(decode, { encodings: ['utf-8', 'latin-9', 'utf-8'] })
    await ended(id, 'failed')
    const { page, complaints } = await visit(server.url)
    await signIn(page, key, `/workflows/${id}`)
    await page.getByRole('link', { name: 'Trace failure' }).click()

    const levels = page.getByRole('tablist', { name: 'From the failure back to the root' })
    await levels.getByRole('tab', { name: /check.*input differs/ }).waitFor()
    await page.getByText('cannot decode <b>latin-9</b>').first().waitFor()
    await page.getByRole('cell', { name: '"latin-9"' }).first().waitFor()
    await page.getByRole('cell', { name: '"utf-8"' }).first().waitFor()
    await expectAccessible(page, 'a failure followed back')
    await expectFitsPhone(page, 'a failure followed back')
    await levels.getByRole('tab', { selected: true }).press('ArrowDown')
    await page.getByText('Failed because of check').waitFor()
    await page.getByRole('button', { name: 'One level up' }).click()
    await page.getByText('Of 3 children 2 completed, 1 failed').waitFor()

    await levels.getByRole('tab', { name: /check/ }).click()
    // With any other job: of what completed there is an output to compare too.
    const other = (await findStep(database.sql, good, 'read'))!
    await page.getByLabel('Compare with job').fill('abc')
    await page.getByText('Enter a job ID').waitFor()
    await page.getByLabel('Compare with job').fill(`#${other}`)
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    await page.getByText(`tell #${other}, completed: the inputs differ.`).waitFor()
    const inputs = page.getByRole('table', { name: 'Differences between inputs' })
    expect(await inputs.getByRole('row').allTextContents()).toEqual([
      'PathThis jobOther job',
      'encoding"latin-9"missing',
      'textmissing"utf-8"',
    ])
    const outputs = page.getByRole('table', { name: 'Differences between results' })
    await outputs.getByRole('cell', { name: '"utf-8"' }).waitFor()
    const old = new URL(page.url()).searchParams.get('level') ?? (await server.app.trace(id)).failure
    await page.getByRole('button', { name: 'Rerun from here' }).click()
    await page.getByRole('textbox', { name: /^Input/ }).fill('{ "encoding": "utf-8" }')
    await page.getByRole('button', { name: 'Rerun with this input' }).click()
    await page.waitForURL(`**/workflows/${id}`)
    await ended(id, 'completed')
    await page.locator('.headline').getByText('Completed').waitFor()
    await page.goto(`/jobs/${old}`)
    await page.getByText('A rerun of the workflow has replaced this job').waitFor()
    expect(await page.getByRole('button', { name: 'Retry…' }).count()).toBe(0)
    await page
      .getByRole('link', { name: /^#\d+$/ })
      .first()
      .click()
    await page.locator('.job-headline').getByText('Completed', { exact: true }).waitFor()
    await page.goto(`/workflows/${id}`)
    await page.getByText('Waterfall', { exact: true }).click()
    await page.getByRole('list', { name: 'Jobs over time' }).getByRole('link', { name: 'report' }).waitFor()
    await expectAccessible(page, 'a workflow over time')
    await expectFitsPhone(page, 'a workflow over time')
    await page.getByText('Tree', { exact: true }).click()
    await page.getByRole('treeitem', { name: /files/ }).waitFor()
    await expectAccessible(page, 'a workflow as a tree')
    await expectFitsPhone(page, 'a workflow as a tree')
    expect(complaints).toEqual([])
  })
})
