import { afterEach, describe, expect, test } from 'vitest'
import { readErrorGroups } from '../../src/engine/views/error-groups.ts'
import { readPage } from '../../src/engine/views/job-list.ts'
import { readNow, readSeries } from '../../src/engine/views/now.ts'
import { fail, type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { ended, findTreeFaults, nodesOf, stepOf } from '../support/workflows.ts'

const database = useDatabase()
const apps = useApps(database)

/** What the tasks of a test have done, and how they are to do it. */
interface Play {
  readonly ran: string[]
  readonly broken: Set<string>
  /** Running at once, and the most there ever were. */
  now: number
  most: number
  gate: Gate | undefined
  hold?: (name: string) => Promise<void>
}

afterEach(async () => {
  expect(await findTreeFaults(database.sql)).toEqual([])
})

const FAN = {
  steps: {
    list: { task: 'work', with: { name: 'list', value: '${{ input.items }}' } },
    each: {
      task: 'work',
      needs: ['list'],
      with_items: '${{ steps.list.result }}',
      concurrency: 5,
      with: { name: '${{ item }}' },
    },
    merge: {
      task: 'work',
      needs: ['each'],
      with: { name: 'merge', value: '${{ size(steps.each.results) }}' },
    },
  },
}
const INNER = { steps: { deep: { task: 'work', with: { name: '${{ input.name }}' } } } }
const MIDDLE = {
  steps: {
    first: { task: 'work', with: { name: 'first' } },
    inner: { workflow: 'inner', needs: ['first'], with: { name: '${{ input.name }}' } },
  },
}
const NESTED = {
  steps: {
    before: { task: 'work', with: { name: 'before' } },
    middle: { workflow: 'middle', needs: ['before'], with: { name: 'deep' } },
    beside: { task: 'work', needs: ['before'], with: { name: 'beside' } },
    after: {
      task: 'work',
      needs: ['middle'],
      with: { name: 'after', value: '${{ steps.middle.result.inner.deep }}' },
    },
  },
}
const GROUPED = {
  steps: {
    block: {
      steps: {
        risky: { task: 'work', with: { name: 'risky' } },
        calm: { task: 'work', with: { name: 'calm' } },
        mend: { task: 'work', needs: ['risky'], on: 'failure', with: { name: 'mend' } },
        next: { task: 'work', needs: ['risky'], with: { name: 'next' } },
      },
    },
    done: { task: 'work', needs: ['block'], with: { name: 'done' } },
  },
}
const FAN_OF_FLOWS = {
  steps: {
    all: {
      workflow: 'middle',
      with_items: '${{ input.items }}',
      concurrency: 2,
      with: { name: '${{ item }}' },
    },
  },
}
const ROBUST = {
  steps: {
    risky: { task: 'work', with: { name: 'risky' } },
    mend: { task: 'work', needs: ['risky'], on: 'always', with: { name: 'mend' } },
    last: { task: 'work', needs: ['mend'], with: { name: 'last', value: '${{ input.value }}' } },
  },
}
const UNRENDERED = {
  steps: {
    one: { task: 'work', with: { name: 'one' } },
    two: { task: 'work', needs: ['one'], with: { name: '${{ steps.one.result.missing }}' } },
  },
}

async function play(broken: readonly string[] = []): Promise<{ app: Sluice; play: Play }> {
  const state: Play = { ran: [], broken: new Set(broken), now: 0, most: 0, gate: undefined }
  const work = task({
    name: 'work',
    retry: { attempts: 1 },
    run: async ({ name, value }: { name: string; value?: unknown }) => {
      state.ran.push(name)
      state.most = Math.max(state.most, ++state.now)
      try {
        await state.gate?.pass(name)
        await state.hold?.(name)
        if (state.broken.has(name)) throw fail(`${name} is broken`)
        return value ?? name
      } finally {
        state.now--
      }
    },
  })
  const definitions = {
    fan: FAN,
    inner: INNER,
    middle: MIDDLE,
    nested: NESTED,
    grouped: GROUPED,
    flows: FAN_OF_FLOWS,
    robust: ROBUST,
    unrendered: UNRENDERED,
  }
  const workflows = Object.entries(definitions).map(([name, definition]) => ({ name, definition }))
  const app = await apps.open({ tasks: [work], workflows, lanes: { default: { perWorker: null } } })
  await app.work({ capacity: 20 })
  return { app, play: state }
}

const items = (count: number) => Array.from({ length: count }, (_, n) => `item-${n}`)

describe('retry of what failed', () => {
  test('two failed items of fifty run again within the window, and only they', async () => {
    const { app, play: it } = await play(['item-7', 'item-31'])
    const job = await app.submit('fan', { items: items(50) })
    expect(await ended(app, job.id)).toBe('failed')
    const before = await app.tree(job.id)
    expect(stepOf(before, 'merge')).toMatchObject({ status: 'skipped' })
    it.ran.length = 0
    it.most = 0
    it.broken.clear()

    expect(await app.retry(job.id, { failed: true })).toEqual({
      root: job.id,
      name: 'fan',
      jobs: 2,
      superseded: 1,
      refused: [],
    })
    expect(await job.result()).toMatchObject({ merge: 50 })
    expect(it.ran.toSorted()).toEqual(['item-31', 'item-7', 'merge'])
    const after = await app.tree(job.id)
    expect(stepOf(after, 'each')).toMatchObject({
      id: stepOf(before, 'each').id,
      attempts: 2,
      counts: { total: 50, completed: 50, failed: 0 },
    })
    expect(stepOf(after, 'merge')).toMatchObject({ earlierIds: [stepOf(before, 'merge').id] })
    const [failed] = stepOf(before, 'each').children
    const attempts = await app.listAttempts(failed!.id)
    expect(attempts.map(({ ending, error }) => [ending, error])).toEqual([
      ['rerun', 'failed: item-7 is broken'],
      ['completed', null],
    ])
    expect((await app.listAttempts(job.id)).map(({ ending }) => ending)).toEqual(['rerun', 'completed'])
  })

  test('a window is kept also when everything in it failed', async () => {
    const { app, play: it } = await play(items(30))
    const job = await app.submit('fan', { items: items(30) })
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.most = 0
    await app.retry(job.id, { failed: true })
    await job.result()
    expect(it.most).toBe(5)
    expect(it.ran.filter((name) => name.startsWith('item'))).toHaveLength(60)
  })

  test('a failure three workflows down runs again with all above it, and what completed beside it does not', async () => {
    const { app, play: it } = await play(['deep'])
    const job = await app.submit('nested', {})
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.ran.length = 0
    const { jobs } = await app.retry(job.id, { failed: true })
    expect(jobs).toBe(1)
    expect(await job.result()).toMatchObject({ after: 'deep' })
    expect(it.ran).toEqual(['deep', 'after'])
  })

  test('from a leaf of the tree, everything above it runs again too', async () => {
    const { app, play: it } = await play(['deep'])
    const job = await app.submit('nested', {})
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    const leaf = stepOf(await app.tree(job.id), 'deep')
    expect(await app.retry(leaf.id)).toMatchObject({ root: job.id, jobs: 1, superseded: 1 })
    expect(await job.result()).toMatchObject({ after: 'deep' })
  })

  test('windows of workflows are kept, and the failures in those that wait for a place wait with them', async () => {
    const { app, play: it } = await play(items(6))
    const job = await app.submit('flows', { items: items(6) })
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.ran.length = 0
    it.most = 0
    it.gate = new Gate()
    await app.retry(job.id, { failed: true })
    await it.gate.arrived(2)
    const tree = await app.tree(job.id)
    expect(stepOf(tree, 'all').children.map(({ status }) => status)).toEqual([
      ...['running', 'running'],
      ...['queued', 'queued', 'queued', 'queued'],
    ])
    it.gate.open()
    await job.result()
    expect(it.most).toBe(2)
    expect(it.ran).toHaveLength(6)
  })

  test('a cancel reaches what waits below a workflow that has no place yet', async () => {
    const { app, play: it } = await play(items(6))
    const job = await app.submit('flows', { items: items(6) })
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.gate = new Gate()
    await app.retry(job.id, { failed: true })
    await it.gate.arrived(2)
    await app.cancel(job.id)
    it.gate.open()
    expect(await ended(app, job.id)).toBe('cancelled')
    const active = () =>
      database.sql(`select id from sluice.jobs where root_id = $1 and state < 'completed'`, [job.id])
    await until(async () => (await active()).length === 0, 'all below to end')
    await app.retry(job.id, { failed: true })
    await job.result()
  })

  test('a group whose handler failed, too: the failure runs again, and its handler is decided again', async () => {
    const { app, play: it } = await play(['risky', 'mend'])
    const job = await app.submit('grouped', {})
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.ran.length = 0
    await app.retry(job.id, { failed: true })
    await job.result()
    expect(it.ran).toEqual(['risky', 'next', 'done'])
    expect(stepOf(await app.tree(job.id), 'mend')).toMatchObject({
      status: 'skipped',
      error: 'no failure in risky',
    })
  })

  test('a failure that was handled stays as it is', async () => {
    const { app, play: it } = await play(['risky', 'last'])
    const job = await app.submit('robust', {})
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.ran.length = 0
    await app.retry(job.id, { failed: true })
    await job.result()
    expect(it.ran).toEqual(['last'])
    expect(stepOf(await app.tree(job.id), 'risky').status).toBe('failed')
  })

  test('a workflow that was cancelled goes on where it was, with the items it had not made yet', async () => {
    const { app, play: it } = await play()
    it.gate = new Gate()
    const job = await app.submit('fan', { items: items(20) })
    await until(() => it.gate!.arrivals.length === 1, 'the first step to run')
    const first = it.gate
    it.gate = new Gate()
    first.open()
    await it.gate.arrived(5)
    await app.cancel(job.id)
    it.gate.open()
    expect(await ended(app, job.id)).toBe('cancelled')
    it.ran.length = 0
    await app.retry(job.id, { failed: true })
    expect(await job.result()).toMatchObject({ merge: 20 })
    expect(it.ran).not.toContain('list')
  })

  test('decides a step that could not be rendered again', async () => {
    const { app, play: it } = await play()
    const job = await app.submit('unrendered', {})
    expect(await ended(app, job.id)).toBe('failed')
    expect(await app.retry(job.id, { failed: true })).toMatchObject({ root: job.id, jobs: 0, superseded: 1 })
    expect(await ended(app, job.id)).toBe('failed')
    expect(it.ran).toEqual(['one'])
  })

  test('of several retries at once one succeeds, and every job runs once more', async () => {
    const { app, play: it } = await play(['item-1', 'item-2'])
    const job = await app.submit('fan', { items: items(8) })
    expect(await ended(app, job.id)).toBe('failed')
    it.broken.clear()
    it.ran.length = 0
    it.gate = new Gate()
    const answers = await Promise.allSettled([1, 2, 3, 4].map(() => app.retry(job.id, { failed: true })))
    it.gate.open()
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const answer of answers)
      if (answer.status === 'rejected') expect(answer.reason).toMatchObject({ code: 'ILLEGAL_TRANSITION' })
    await job.result()
    expect(it.ran.toSorted()).toEqual(['item-1', 'item-2', 'merge'])
  })

  test('is refused while something of the tree is active, for what did not fail, and when another job has the key', async () => {
    const { app, play: it } = await play(['deep'])
    const job = await app.submit('nested', {}, { key: 'k' })
    expect(await ended(app, job.id)).toBe('failed')
    const other = await app.submit('nested', {}, { key: 'k' })
    await expect(app.retry(job.id, { failed: true })).rejects.toMatchObject({
      code: expect.stringMatching(/KEY_CONFLICT|ILLEGAL/),
    })
    expect(await ended(app, other.id)).toBe('failed')
    it.broken.clear()
    it.gate = new Gate()
    await app.retry(job.id, { failed: true })
    await it.gate.arrived(1)
    await expect(app.retry(job.id, { failed: true })).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
    await expect(app.retry(other.id, { failed: true })).rejects.toMatchObject({ code: 'KEY_CONFLICT' })
    it.gate.open()
    await job.result()
    await expect(app.retry(job.id, { failed: true })).rejects.toThrow(/is completed/)
    await expect(app.retry(job.id)).rejects.toThrow(/is a workflow: use failed/)
    await expect(app.retry('31337', { failed: true })).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  })
})

describe('retry of several jobs of one workflow', () => {
  /** The failed items of a fan-out, by name. */
  async function failedItems(app: Sluice, id: string): Promise<Map<string, string>> {
    const failed = nodesOf(await app.tree(id), ({ status }) => status === 'failed')
    const jobs = await app.listJobs({ ids: failed.map((node) => node.id!) })
    return new Map(
      jobs.filter(({ kind }) => kind === null).map((job) => [(job.input as { name: string }).name, job.id]),
    )
  }

  test('runs the jobs that were named together, and no other failure', async () => {
    const { app, play: it } = await play(['item-1', 'item-2', 'item-3'])
    const job = await app.submit('fan', { items: items(6) })
    expect(await ended(app, job.id)).toBe('failed')
    const failed = await failedItems(app, job.id)
    it.ran.length = 0
    it.broken.clear()
    const only = [failed.get('item-1')!, failed.get('item-3')!]
    expect(await app.retry(job.id, { failed: true, only, dryRun: true })).toEqual({
      root: job.id,
      name: 'fan',
      jobs: 2,
      superseded: 1,
      refused: [],
    })
    expect((await app.getJob(job.id)).status).toBe('failed')
    expect(await app.retry(job.id, { failed: true, only })).toMatchObject({ jobs: 2, superseded: 1 })
    expect(await ended(app, job.id)).toBe('failed')
    expect(it.ran.toSorted()).toEqual(['item-1', 'item-3'])

    await app.retry(job.id, { failed: true })
    expect(await job.result()).toMatchObject({ merge: 6 })
  })

  test('decides a named job again, and does not run it twice, if it follows from another one', async () => {
    const { app, play: it } = await play(['risky', 'mend'])
    const job = await app.submit('robust', { value: 1 })
    expect(await ended(app, job.id)).toBe('failed')
    const failed = await failedItems(app, job.id)
    expect([...failed.keys()].toSorted()).toEqual(['mend', 'risky'])
    it.ran.length = 0
    it.broken.clear()
    const retried = await app.retry(job.id, { failed: true, only: [...failed.values()] })
    expect(retried).toMatchObject({ jobs: 1, superseded: 2 })
    await job.result()
    expect(it.ran).toEqual(['risky', 'mend', 'last'])
  })

  test('says which of them cannot run again', async () => {
    const { app, play: it } = await play(['item-1'])
    const job = await app.submit('fan', { items: items(3) })
    expect(await ended(app, job.id)).toBe('failed')
    const failed = (await failedItems(app, job.id)).get('item-1')!
    const completed = stepOf(await app.tree(job.id), 'list').id!
    it.broken.clear()
    expect(await app.retry(job.id, { failed: true, only: [completed, failed] })).toMatchObject({
      jobs: 1,
      refused: [{ id: completed, code: 'ILLEGAL_TRANSITION', detail: expect.stringMatching(/is completed/) }],
    })
    expect(await job.result()).toMatchObject({ merge: 3 })
  })

  test('names at most a hundred of them in the audit, with their number', async () => {
    const { app } = await play(items(101))
    const job = await app.submit('fan', { items: items(101) })
    expect(await ended(app, job.id)).toBe('failed')
    const parent = stepOf(await app.tree(job.id), 'each').id!
    const only = (await app.listJobs({ parent, limit: 200 })).map(({ id }) => id)
    await app.retry(job.id, { failed: true, only })
    const { entries } = await app.access.readAudit({ action: 'job.retry', target: `job ${job.id}` })
    expect(entries).toMatchObject([{ after: { jobs: 101, named: 101, only: only.slice(0, 100) } }])
    expect(await ended(app, job.id)).toBe('failed')
  })

  test('a dry run is rejected at the ceiling, as the retry itself is', async () => {
    const { app, play: it } = await play(['item-1'])
    const job = await app.submit('fan', { items: items(2) })
    expect(await ended(app, job.id)).toBe('failed')
    it.gate = new Gate()
    const holder = await app.submit('fan', { items: items(1) })
    await it.gate.arrived(1)
    await app.setAdmission({ maxActive: 1 })
    for (const dryRun of [true, false])
      await expect(app.retry(job.id, { failed: true, dryRun })).rejects.toMatchObject({
        code: 'ADMISSION_REJECTED',
      })
    await app.setAdmission({ maxActive: null })
    it.gate.open()
    await holder.result()
  })

  test('refuses jobs of another tree, and jobs that have not failed', async () => {
    const { app } = await play(['item-1'])
    const job = await app.submit('fan', { items: items(3) })
    const other = await app.submit('fan', { items: items(1) })
    expect([await ended(app, job.id), await ended(app, other.id)]).toEqual(['failed', 'completed'])
    const completed = stepOf(await app.tree(other.id), 'merge').id!
    await expect(app.retry(job.id, { failed: true, only: [completed] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(`a job below job ${job.id}`),
    })
    await expect(app.retry(other.id, { failed: true, only: [completed] })).rejects.toMatchObject({
      code: 'ILLEGAL_TRANSITION',
    })
    await expect(app.retry(job.id, { only: [completed] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  test('by filter reruns each workflow once, and leaves out those that somebody cancelled', async () => {
    const { app, play: it } = await play(['item-1', 'item-2', 'deep'])
    const submittedFrom = new Date()
    const fan = await app.submit('fan', { items: items(5) })
    const nested = await app.submit('nested', {})
    for (const { id } of [fan, nested]) expect(await ended(app, id)).toBe('failed')
    it.gate = new Gate()
    const cancelled = await app.submit('fan', { items: items(2) })
    await it.gate.arrived()
    await app.cancel(cancelled.id)
    it.gate.open()
    expect(await ended(app, cancelled.id)).toBe('cancelled')
    it.gate = undefined
    it.ran.length = 0
    it.broken.clear()

    const reruns = {
      jobs: 3,
      workflows: [
        { name: 'fan', runs: 1, jobs: 2 },
        { name: 'nested', runs: 1, jobs: 1 },
      ],
      leftOut: 0,
    }
    // Nobody asked for cancelled ones, so this one is not even matched.
    const filter = { task: 'work', children: true, submittedFrom }
    expect(await app.retryMany(filter, { dryRun: true })).toEqual({
      matched: 3,
      changed: 0,
      refused: [],
      reruns,
    })
    expect(await app.retryMany(filter)).toEqual({ matched: 3, changed: 3, refused: [], reruns })
    await Promise.all([fan.result(), nested.result()])
    expect(it.ran.toSorted()).toEqual(['after', 'deep', 'item-1', 'item-2', 'merge'])
    expect((await app.getJob(cancelled.id)).status).toBe('cancelled')

    expect(await app.retryMany({ task: 'fan', status: ['cancelled'], submittedFrom })).toMatchObject({
      changed: 1,
    })
    await cancelled.result()
  })

  test('by filter leaves out a failure of a workflow that was cancelled later', async () => {
    const { app, play: it } = await play(['item-0'])
    const submittedFrom = new Date()
    const held = new Gate()
    it.hold = (name) => (name === 'item-1' ? held.pass() : Promise.resolve())
    const job = await app.submit('fan', { items: items(2) })
    await held.arrived()
    const filter = { task: 'work', children: true, status: ['failed' as const], submittedFrom }
    const found = () => app.listJobs(filter)
    await until(async () => (await found()).some(({ rootId }) => rootId === job.id), 'the first item to fail')
    await app.cancel(job.id)
    held.open()
    expect(await ended(app, job.id)).toBe('cancelled')
    expect(await app.retryMany(filter)).toEqual({
      matched: 1,
      changed: 0,
      refused: [],
      reruns: { jobs: 0, workflows: [], leftOut: 1 },
    })
  })
})

describe('retry from a step', () => {
  test('the step and what follows from it run again, with the input that was given', async () => {
    const { app, play: it } = await play()
    const job = await app.submit('nested', {})
    await job.result()
    const before = await app.tree(job.id)
    it.ran.length = 0
    expect(await app.retry(job.id, { from: 'middle', input: { name: 'other' } })).toMatchObject({
      superseded: 2,
    })
    expect(await job.result()).toMatchObject({ after: 'other', beside: 'beside' })
    expect(it.ran).toEqual(['first', 'other', 'after'])
    const after = await app.tree(job.id)
    expect(stepOf(after, 'middle').earlierIds).toEqual([stepOf(before, 'middle').id])
    // The old ones can still be looked at, and run no more.
    const old = await app.tree(stepOf(before, 'middle').id)
    expect(nodesOf(old).map(({ status }) => status)).toEqual([
      'completed',
      'completed',
      'completed',
      'completed',
    ])
    await expect(app.retry(old.id, { from: 'first' })).rejects.toThrow(/it is history/)
  })

  test('what failed below a step that has run again is history: no list of failures has it any more', async () => {
    const { app, play: it } = await play(['odd'])
    const { db } = app.services
    const counted = async () => {
      const { failures } = await readSeries(db, 60)
      return [
        (await readNow(db)).failedLastHour,
        failures.reduce((sum, { failed }) => sum + failed!, 0),
        (await readErrorGroups(db, { limit: 100 })).groups.reduce((sum, group) => sum + group.count, 0),
      ]
    }
    const found = async () =>
      (await readPage(db, { error: 'ODD is broken', children: true }, undefined, 50)).jobs
    const [before] = await counted()
    const job = await app.submit('fan', { items: ['even', 'odd'] })
    expect(await ended(app, job.id)).toBe('failed')
    const [old] = await found()
    expect(old).toMatchObject({ index: 1, status: 'failed', superseded: false })
    // What failed only because of it, the fan-out and the workflow, is not counted.
    expect(await counted()).toEqual([before! + 1, before! + 1, before! + 1])

    it.broken.clear()
    await app.retry(job.id, { from: 'each' })
    await job.result()
    expect(await app.getJob(old!.id)).toMatchObject({ status: 'failed', superseded: true })
    expect(await found()).toEqual([])
    expect(await counted()).toEqual([before, before, before])
  })

  test('a step deep in the tree runs again, and what follows from it at every level above', async () => {
    const { app, play: it } = await play()
    const job = await app.submit('nested', {})
    await job.result()
    it.ran.length = 0
    const middle = stepOf(await app.tree(job.id), 'middle')
    await app.retry(middle.id, { from: 'inner' })
    await job.result()
    expect(it.ran).toEqual(['deep', 'after'])
  })

  test('a step that had failed can be given an input that works', async () => {
    const { app } = await play()
    const job = await app.submit('unrendered', {})
    expect(await ended(app, job.id)).toBe('failed')
    await app.retry(job.id, { from: 'two', input: { name: 'by hand' } })
    expect(await job.result()).toEqual({ one: 'one', two: 'by hand' })
  })

  test('says what is wrong with a step, or with an input for it', async () => {
    const { app } = await play(['first'])
    const fan = await app.submit('fan', { items: items(2) })
    await fan.result()
    const tree = await app.tree(fan.id)
    const refused = (id: string, options: object) => expect(app.retry(id, options)).rejects
    await refused(fan.id, { from: 'marge' }).toThrow(/did you mean merge\?/)
    await refused(fan.id, { from: 'each', input: [] }).toThrow(/it is a fan-out/)
    await refused(stepOf(tree, 'each').id, { from: 'x' }).toThrow(/has no steps: it is a fan-out/)
    await refused(stepOf(tree, 'list').id, { from: 'x' }).toThrow(/has no steps: it runs a task/)
    await refused(fan.id, { failed: true, input: 1 }).toThrow(/name the step with from/)
    await refused(fan.id, { failed: true, from: 'each' }).toThrow(/cannot be combined/)
    const grouped = await app.submit('grouped', {})
    await grouped.result()
    await refused(grouped.id, { from: 'block', input: {} }).toThrow(/it is a group/)
    const nested = await app.submit('nested', {})
    expect(await ended(app, nested.id)).toBe('failed')
    await refused(nested.id, { from: 'after' }).toThrow(/middle before it failed/)
    const block = stepOf(await app.tree(grouped.id), 'block')
    await refused(block.id, { from: 'mend' }).toThrow(/nothing before it failed/)
  })
})

test('a job outside any tree is retried as it always was', async () => {
  const { app, play: it } = await play(['alone'])
  const job = await app.submit('work', { name: 'alone' })
  expect(await ended(app, job.id)).toBe('failed')
  it.broken.clear()
  expect(await app.retry(job.id, { failed: true })).toMatchObject({ root: job.id, jobs: 1, superseded: 0 })
  expect(await job.result()).toBe('alone')
  await expect(app.retry(job.id, { failed: true })).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
  await expect(app.retry(job.id, { from: 'x' })).rejects.toThrow(/has no steps/)
  await app.retry(job.id)
  await until(async () => it.ran.length === 3, 'it to run again')
  expect(await ended(app, job.id)).toBe('completed')
})
