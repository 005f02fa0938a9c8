import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { plantWithdrawal } from '../support/state/workers.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'
import {
  confirm,
  expectAccessible,
  expectFitsPhone,
  jumpsOf,
  noBrowser,
  offeredScreens,
  signIn,
  useVisits,
} from './support.ts'

const MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><b>bold</b>'

const gate = new Gate()
const render = task({
  name: 'render',
  lane: 'batch',
  uses: { licences: 1 },
  run: async (input: { frames: number }, ctx) => {
    ctx.log.info(`rendering ${input.frames} frames`)
    ctx.progress(0.4, 'frame 2 of 5')
    await gate.pass(String(input.frames))
    return input.frames
  },
})
const release = task({ name: 'release', approval: true, run: (version: string) => version })
const stubborn = task({
  name: 'stubborn',
  lane: 'batch',
  run: (_: null, { signal }) =>
    new Promise<never>((_resolve, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
    ),
})
const quick = task({ name: 'quick', lane: 'batch', run: (n: number) => n })
const nasty = task({
  name: 'nasty',
  retry: { attempts: 1 },
  run: (input: unknown, ctx) => {
    ctx.log.warn(`log ${MARKUP}`)
    throw new Error(`could not read ${JSON.stringify(input)} ${MARKUP}`)
  },
})
const tasks = [render, release, stubborn, quick, nasty]

describe.skipIf(noBrowser !== undefined)(`the dashboard ${noBrowser ?? 'in Chromium'}`, () => {
  const database = useDatabase()
  const server = useServer(database, {
    tasks,
    workflows: [{ name: 'chain', definition: { steps: { first: { task: 'quick', with: 1 } } } }],
    lanes: { batch: { slots: 4 } },
    budgets: { licences: 3 },
    grace: '200ms',
  })
  const visit = useVisits()
  let operator = ''

  beforeAll(async () => {
    operator = await server.keyOf('operator', 'olga')
    await server.app.work({ name: 'worker-1', capacity: 6 })
  })
  afterAll(() => gate.open())

  test('a wrong key is refused in words; each role begins with the first screen that is for it', async () => {
    const { page, complaints } = await visit(server.url)
    await page.goto('/jobs')
    await page.getByLabel('API key').fill('slk_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').waitFor()

    await signIn(page, await server.keyOf('viewer'), '/access')
    await page.getByText('Your role does not allow this screen').waitFor()

    const submitter = await visit(server.url)
    await signIn(submitter.page, await server.keyOf('submitter'))
    // The first screen is not for them: they begin with the first that is.
    await submitter.page.waitForURL('**/jobs')
    expect(await offeredScreens(submitter.page)).toEqual(['Jobs', 'Errors', 'Schedules'])
    expect([...complaints, ...submitter.complaints]).toEqual([])
  })

  test('resubmits a job, shows its progress and log live, cancels it with a reason for the audit log, and deletes it', async () => {
    const { page, complaints } = await visit(server.url)
    const { id } = await server.app.submit(render, { frames: 5 })
    await gate.arrived(1)
    await signIn(page, operator, `/jobs/${id}`)
    await page.getByText('40 %').waitFor()
    await page.getByText('frame 2 of 5').waitFor()
    await page.getByText('rendering 5 frames').waitFor()
    await page.getByText('Started, attempt 1').waitFor()

    await page.getByRole('button', { name: 'Edit and resubmit' }).click()
    await page.getByRole('dialog').getByLabel('Input').fill('{ "frames": 7 }')
    await page.getByRole('button', { name: 'Submit job', exact: true }).click()
    await page.waitForURL((url) => !url.pathname.endsWith(`/${id}`))
    await page.getByText('rendering 7 frames').waitFor()
    const edited = new URL(page.url()).pathname.split('/').at(-1)!
    expect(await server.app.getJob(edited)).toMatchObject({ lane: 'batch', laneChosen: false })
    const facts = page.getByRole('main')
    await facts.getByText('Resubmission of').waitFor()
    await facts.getByRole('link', { name: `#${id}` }).click()
    await facts.getByText('Resubmitted as').waitFor()
    await facts.getByRole('link', { name: `#${edited}` }).waitFor()

    const waiting = await server.app.submit(stubborn, null)
    await page.goto(`/jobs/${waiting.id}`)
    await page.locator('.job-headline').getByText('Running', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Cancel…' }).click()
    await confirm(page, 'Cancel job', 'no longer needed')
    // In the head of the job: what tells in passing that it was cancelled has the same word.
    await page.locator('.job-headline').getByText('Cancelled', { exact: true }).waitFor()
    const [entry] = await database.sql<{ reason: string }>(
      `select reason from sluice.audit where action = 'job.cancel'`,
    )
    expect(entry?.reason).toBe('no longer needed')
    await page.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('alertdialog').getByText('deleted permanently').waitFor()
    await confirm(page, 'Delete job', 'tidied up')
    await page.waitForURL('**/jobs')
    await page.getByText(`Deleted stubborn #${waiting.id}`).waitFor()
    await expect(server.app.getJob(waiting.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    await page.goto(`/jobs/${waiting.id}`)
    await page.getByRole('heading', { name: `Job ${waiting.id} not found` }).waitFor()
    expect(complaints).toEqual([])
  })

  test('a resubmitted job names a lane only if the old one did; an input that would lose digits is refused', async () => {
    const { id } = await server.app.submit(quick, 1, { lane: 'default' })
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, `/jobs/${id}`)
    await page.getByRole('button', { name: 'Edit and resubmit' }).click()
    const dialog = page.getByRole('dialog')
    const submit = page.getByRole('button', { name: 'Submit job', exact: true })
    await dialog.getByLabel('Input').fill('9007199254740993')
    await dialog.getByText('has more digits than JSON numbers keep').waitFor()
    expect(await submit.isDisabled()).toBe(true)

    await dialog.getByLabel('Input').fill('2')
    await submit.click()
    await page.waitForURL((url) => !url.pathname.endsWith(`/${id}`))
    const edited = new URL(page.url()).pathname.split('/').at(-1)!
    expect(await server.app.getJob(edited)).toMatchObject({ lane: 'default', laneChosen: true, input: 2 })
    expect(complaints).toEqual([])
  })

  test('somebody else looks at the input of a job and approves it, here or on its own page; another is rejected', async () => {
    const [good, bad, alone] = await server.app.submitMany(release, ['1.4.0', '1.5.0-broken', '1.6.0'])
    const { page, complaints } = await visit(server.url)
    await signIn(page, await server.keyOf('approver', 'anna'), `/approvals?job=${good!.id}`)
    await page.getByLabel('Input').getByText('1.4.0').waitFor()
    await page
      .getByRole('button', { name: `Approve job ${good!.id}` })
      .first()
      .click()
    await confirm(page, 'Approve')
    expect(await good!.result()).toBe('1.4.0')
    await page.getByRole('button', { name: `Reject job ${bad!.id}` }).click()
    const dialog = page.getByRole('alertdialog')
    expect(await dialog.getByRole('button', { name: 'Reject' }).isDisabled()).toBe(true)
    await confirm(page, 'Reject', 'broken build')
    await page.getByRole('row', { name: new RegExp(`#${bad!.id}\\b`) }).waitFor({ state: 'detached' })
    expect((await server.app.getJob(bad!.id)).status).toBe('cancelled')

    await page.goto(`/jobs/${alone!.id}`)
    const head = page.locator('.job-headline')
    await head.getByText('Needs approval', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Approve…' }).click()
    await confirm(page, 'Approve', 'read and found good')
    await head.getByText('Completed', { exact: true }).waitFor()
    await page.getByText('by anna').first().waitFor()
    expect(await page.getByRole('button', { name: /Approve|Reject/ }).count()).toBe(0)
    await page.goto('/approvals')
    await page.getByText('No jobs need approval', { exact: true }).first().waitFor()
    expect(complaints).toEqual([])
  })

  test('a lane is paused and resumed, the job says so; its settings are changed, and go back to those of the file', {
    timeout: 240_000,
  }, async () => {
    const lane = async (name: string) => (await server.app.listLanes()).find((each) => each.name === name)
    const before = await lane('batch')
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/lanes')
    const row = page.getByRole('row', { name: /batch/ }).first()
    await row.getByLabel(/^Slots of lane batch/).fill('5')
    await row.getByLabel(/^Slots of lane batch/).press('Enter')
    await page.getByRole('alertdialog').getByText('Change the slots of lane batch').waitFor()
    await confirm(page, 'Set to 5', 'more room')
    await page.getByText('Lane batch now has 5 slots').waitFor()
    await row.getByRole('button', { name: /Pause/ }).click()
    await confirm(page, 'Pause')
    await page
      .getByRole('button', { name: /Resume/ })
      .first()
      .waitFor()
    const job = await server.app.submit(quick, 1, { lane: 'batch' })
    await page.goto(`/jobs/${job.id}`)
    await page
      .getByText(/Lane batch is paused/)
      .first()
      .waitFor()
    expect((await server.app.getJob(job.id)).status).toBe('queued')
    // Now says so too, and leads to the lane.
    await page.goto('/')
    const finding = page.getByRole('link', { name: 'Lane batch is paused while 1 job waits' })
    await finding.waitFor()
    expect(await page.getByText('Nothing needs attention').count()).toBe(0)
    await finding.click()
    await page.getByRole('heading', { name: 'Lane batch' }).waitFor()
    await page.goto(`/jobs/${job.id}`)
    await page.getByRole('button', { name: 'Priority…' }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Priority').fill('7')
    await form.getByLabel('Reason').fill('a customer waits')
    await form.getByRole('button', { name: 'Set priority' }).click()
    await page.getByText(`Set the priority of quick #${job.id} to 7`).waitFor()

    const tree = await server.app.submit('chain', null)
    const step = await until(() => findStep(database.sql, tree.id, 'first'), 'its first step')
    await page.goto(`/jobs/${tree.id}`)
    await page.getByRole('button', { name: 'Priority…' }).click()
    await form.getByText(/applies to all steps that have not started/).waitFor()
    await form.getByLabel('Priority').fill('6')
    await form.getByRole('button', { name: 'Set priority' }).click()
    await page.getByText(`Set the priority of chain #${tree.id} to 6`).waitFor()
    expect((await server.app.getJob(step)).priority).toBe(6)

    await page.goto('/lanes?lane=batch')
    // Who changed it is below, with the reason.
    await page.getByText('more room').waitFor()
    await page
      .getByRole('button', { name: /Resume/ })
      .first()
      .click()
    await confirm(page, 'Resume')
    expect(await job.result()).toBe(1)

    const fact = (name: string) =>
      page.getByRole('main').locator('.facts > div', { hasText: name }).locator('dd')
    await page.getByRole('button', { name: 'Edit settings…' }).click()
    await page.getByLabel('Poll interval').fill('soon')
    await page.getByText('Enter a duration, such as 2s').waitFor()
    const change = page.getByRole('button', { name: 'Save…', exact: true })
    expect(await change.isDisabled()).toBe(true)
    await page.getByLabel('Poll interval').fill('3s')
    await page.getByLabel('Placement').selectOption('spread')
    await page.getByLabel('Prefetch').fill('1001')
    await page.getByText('Enter a whole number from 0 to 1000, or off').waitFor()
    await page.getByLabel('Prefetch').fill('off')
    await change.click()
    await page.getByRole('alertdialog').getByText('Settings to change: poll, placement, prefetch').waitFor()
    await confirm(page, 'Save settings', 'the night is quiet')
    await fact('Poll interval').getByText('3 s').waitFor()
    await fact('Placement').getByText('least busy').waitFor()
    await fact('Prefetch').getByText('off').waitFor()
    await page.getByText('the night is quiet').waitFor()
    expect(await lane('batch')).toMatchObject({ slots: 5, pollMs: 3000, placement: 'spread', prefetch: 0 })

    await page.getByRole('button', { name: 'Reset…' }).click()
    await confirm(page, 'Reset')
    await fact('Set by operators').getByText('nothing').waitFor()
    expect(await lane('batch')).toMatchObject({
      slots: 4,
      pollMs: before?.pollMs,
      placement: 'fill',
      prefetch: 1000,
    })
    expect(await page.getByRole('button', { name: 'Reset…' }).count()).toBe(0)
    expect(complaints).toEqual([])
  })

  test('a lane is created, a task moved there with its waiting job and back; a lane is deleted and brought back', {
    timeout: 60_000,
  }, async () => {
    const laneOf = async (job: { id: string }) => (await server.app.getJob(job.id)).lane
    await server.app.setLane('batch', { enabled: false })
    const job = await server.app.submit(quick, 2)
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/lanes')
    const form = page.getByRole('dialog')

    await page.getByRole('button', { name: 'Create lane…' }).click()
    const create = form.getByRole('button', { name: 'Create lane' })
    expect(await create.isDisabled()).toBe(true)
    await form.getByLabel('Name').fill('batch')
    await create.click()
    await form.getByText(/lane batch already exists/i).waitFor()
    await form.getByLabel('Name').fill('night')
    await form.getByLabel('Slots').fill('2')
    await form.getByLabel('Reason').fill('nights are free')
    await create.click()
    await page.getByRole('heading', { name: 'Lane night' }).waitFor()
    await page.getByText('created, slots 2').waitFor()
    await page.getByText('nights are free').waitFor()
    expect(await server.app.listLanes()).toContainEqual(
      expect.objectContaining({ name: 'night', slots: 2, declared: false }),
    )

    await page.goto('/lanes?lane=batch')
    await page.getByRole('button', { name: 'Move quick…' }).click()
    await form.getByLabel('From batch to').selectOption('night')
    await form.getByRole('button', { name: 'Move task' }).click()
    await page.getByText('Moved quick to lane night').waitFor()
    // The lane it came from is paused, the new one is not: the waiting job has followed.
    expect(await job.result()).toBe(2)
    expect(await laneOf(job)).toBe('night')
    await page.goto('/lanes?lane=night')
    await page.getByText('from batch').waitFor()
    await expectAccessible(page, 'a lane with its tasks')
    await expectFitsPhone(page, 'a lane with its tasks')
    await page.getByRole('button', { name: 'Move back quick…' }).click()
    await confirm(page, 'Move task back')
    await page.getByText('No tasks. Submissions can still name this lane.').waitFor()
    const second = await server.app.submit(quick, 3)
    expect(await laneOf(second)).toBe('batch')

    await page.goto('/lanes?lane=batch')
    await page.getByRole('button', { name: 'Delete…' }).click()
    const remove = form.getByRole('button', { name: 'Delete lane' })
    await remove.click()
    await form.getByText(/lane batch is in use/i).waitFor()
    await form.getByLabel(/^Move tasks and waiting jobs/).selectOption('night')
    await remove.click()
    await page.getByText('Lane batch not found').waitFor()
    expect(await second.result()).toBe(3)
    const gone = page.getByRole('table', { name: 'Deleted lanes' }).getByRole('row', { name: /^batch/ })
    await gone.getByText('night').waitFor()
    await gone.getByRole('button', { name: /Restore/ }).click()
    await confirm(page, 'Restore lane')
    await page.getByRole('heading', { name: 'Lane batch' }).waitFor()
    expect((await server.app.listLanes()).find(({ name }) => name === 'batch')).toMatchObject({
      enabled: true,
      slots: 4,
      tasks: expect.arrayContaining(['quick']),
    })
    await page.goto('/lanes?lane=night')
    await page.getByRole('button', { name: 'Delete…' }).click()
    await remove.click()
    await page.getByText('Lane night not found').waitFor()
    expect(complaints).toEqual([])
  })

  test('a worker is drained and undrained, and says which task it cannot start; another is stopped', {
    timeout: 60_000,
  }, async () => {
    const other = await sluice({ database: database.url, log: pino({ level: 'silent' }), tasks })
    onTestFinished(() => other.close())
    await other.work({ name: 'worker-2', capacity: 2 })
    const { page, complaints } = await visit(server.url)
    await signIn(page, operator, '/workers')
    await page.getByRole('button', { name: 'Drain worker-1' }).click()
    await confirm(page, 'Drain')
    await page.getByText('Draining', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Undrain worker-1' }).click()
    await confirm(page, 'Undrain')
    await page.getByRole('button', { name: 'Drain worker-1' }).waitFor()

    await plantWithdrawal(database.sql, 'worker-1', 'quick', 'there is no program quick')
    await page.goto('/')
    await page
      .getByRole('link', {
        name: 'Task quick cannot be started by worker worker-1: there is no program quick',
      })
      .click()
    await page.getByRole('table', { name: 'Workers' }).getByText('worker-1').first().click()
    await page.getByText(/^quick: there is no program quick; next attempt in /).waitFor()

    await page.goto('/workers')
    const row = page.getByRole('table', { name: 'Workers' }).getByRole('row', { name: /worker-2/ })
    await row.getByRole('button', { name: 'Stop worker-2' }).click()
    await page.getByRole('alertdialog').getByText('No jobs are running on it').waitFor()
    await confirm(page, 'Stop', 'its machine goes away')
    await row.waitFor({ state: 'detached' })
    expect((await server.app.listWorkers()).map(({ name }) => name)).toEqual(['worker-1'])
    expect(complaints).toEqual([])
  })

  test('names, inputs, errors and logs full of markup are text, and axe finds nothing serious on any screen, and all fit a phone', {
    timeout: 120_000,
  }, async () => {
    const { id } = await server.app.submit(nasty, { [MARKUP]: MARKUP }, { key: MARKUP, tags: ['<i>tag</i>'] })
    await server.app
      .job(id)
      .result()
      .catch(() => {})
    const asked = await server.app.submit(release, 'version 2')
    const named = await server.keyOf('platform_admin', MARKUP)
    await server.app.createSchedule('nightly', { task: 'nasty', cron: '0 3 * * 1-5', input: MARKUP })
    const { page, complaints } = await visit(server.url)
    await signIn(page, named)
    const screens: readonly [path: string, shows: string][] = [
      ['/', 'batch'],
      ['/lanes', 'batch'],
      ['/jobs', 'nasty'],
      ['/jobs?tab=retrying', "sluice submit TASK --input '{}'"],
      [`/jobs/${id}`, '<b>bold</b>'],
      ['/errors', '<b>bold</b>'],
      ['/workers', 'worker-1'],
      ['/gpu', '2 of 3 in use'],
      [`/approvals?job=${asked.id}`, 'version 2'],
      [`/jobs/${asked.id}`, 'Why is this job waiting?'],
      ['/schedules?name=nightly', 'At 03:00, Monday through Friday'],
      ['/recovery', 'Late write rejected'],
      ['/access', '<b>bold</b>'],
      ['/audit', 'session.open'],
    ]
    for (const [path, shows] of screens) {
      await page.goto(path)
      // Not in the head: the name of who signed in is full of markup too.
      await page.getByRole('main').getByText(shows).filter({ visible: true }).first().waitFor()
      expect(await jumpsOf(page), `what jumps on ${path}`).toBeLessThan(0.1)
      await expectAccessible(page, path)
      await expectFitsPhone(page, path)
      expect(await page.evaluate('window.hacked'), path).toBeUndefined()
    }
    expect(complaints).toEqual([])
  })
})

describe.skipIf(noBrowser !== undefined)('a server that is restarted', () => {
  const database = useDatabase()
  const visit = useVisits()
  let app: Sluice | undefined
  afterAll(() => app?.close())

  test('leaves a page that says it is stale, and goes on when the server is back', async () => {
    const log = pino({ level: 'silent' })
    app = await sluice({ database: database.url, log, tasks: [release] })
    const start = (port: number) => startServer({ app: app!, log, host: '127.0.0.1', port, graceMs: 500 })
    let running = await start(0)
    const { url } = running
    const { createKey } = await import('../../src/engine/access/keys.ts')
    const { authorOfDatabase } = await import('../../src/engine/access/author.ts')
    const { transactWithRetries } = await import('../../src/db/with-retries.ts')
    const { key } = await transactWithRetries(app.services.db, (tx) =>
      createKey(tx, { name: 'olga of the night shift', role: 'operator' }, authorOfDatabase('test')),
    )
    const { page } = await visit(url)
    await signIn(page, key, '/jobs')
    await page.getByText('Live', { exact: true }).waitFor()
    await running.stop()
    await page.getByText(/^Stale, reconnecting/).waitFor()
    await page.getByText(/^for \d+ s$/).waitFor()
    await expectFitsPhone(page, 'a stale page')
    const { id } = await app.submit(release, 'while it was away')
    running = await start(Number(new URL(url).port))
    await page.getByText('Live', { exact: true }).waitFor({ timeout: 60_000 })
    await page.getByRole('link', { name: `#${id}` }).waitFor()
    await running.stop()
  })
})
