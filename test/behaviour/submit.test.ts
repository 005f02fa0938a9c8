import { hostname, userInfo } from 'node:os'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { task, workflow } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)

test('a job is stored with what was asked for', async () => {
  const resize = task({ name: 'stored', priority: 3, run: (_: { url: string }) => null })
  const app = await apps.open({ tasks: [resize], actor: 'ada' })

  const plain = await app.submit(resize, { url: 'a' })
  expect(await app.getJob(plain.id)).toMatchObject({
    task: 'stored',
    lane: 'default',
    status: 'queued',
    state: 'ready',
    priority: 3,
    key: null,
    tags: [],
    input: { url: 'a' },
    attempt: 0,
    failures: 0,
    losses: 0,
    deadlineAt: null,
    startedAt: null,
    finishedAt: null,
    submittedBy: 'ada',
    cancelling: false,
  })

  const options = { key: 'k', priority: -7, lane: 'system', deadline: '1m', tags: ['x', 'ü y'] }
  const full = await app.submit(resize, { url: 'b' }, options)
  const job = await app.getJob(full.id)
  expect(job).toMatchObject({ key: 'k', priority: -7, lane: 'system', tags: ['x', 'ü y'] })
  expect(job.deadlineAt!.getTime() - job.submittedAt.getTime()).toBe(60_000)
})

test('a job belongs to whom its submission names, else to whom the program names, else to its user and host', async () => {
  const owned = task({ name: 'owned', run: (_: number) => null })
  const chain = workflow({ name: 'owned-chain', steps: (flow) => flow.step('only', owned, 1).result })
  const nameless = await apps.open({ tasks: [owned], workflows: [chain] })
  const named = await apps.open({ tasks: [owned], actor: 'ada' })
  const waiting = { runAt: '1h' } as const
  const user = `${userInfo().username}@${hostname()}`
  const ownerOf = async ({ id }: { id: string }) => (await nameless.getJob(id)).submittedBy

  expect(await ownerOf(await nameless.submit(owned, 1))).toBe(user)
  expect(await ownerOf(await nameless.submit(chain, null, waiting))).toBe(user)
  expect(await ownerOf(await nameless.submit(chain, null, { ...waiting, submittedBy: 'eve' }))).toBe('eve')
  expect(await ownerOf(await named.submit(owned, 1))).toBe('ada')
  expect(await ownerOf(await named.submit(owned, 1, { submittedBy: 'eve' }))).toBe('eve')
  const many = await named.submitMany(owned, [1, 2], { each: (n) => (n === 1 ? { submittedBy: 'eve' } : {}) })
  expect(await Promise.all(many.map(ownerOf))).toEqual(['eve', 'ada'])
  await expect(named.submit(owned, 1, { submittedBy: '' })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('submittedBy'),
  })
})

test('submissions of many tasks that go out together each get their own job', async () => {
  const names = ['m-d', 'm-b', 'm-e', 'm-a', 'm-c']
  const tasks = names.map((name) => task({ name, run: (_: { n: number }) => null }))
  const app = await apps.open({ tasks })

  const handles = await Promise.all(
    Array.from({ length: 2000 }, (_, n) => app.submit(tasks[n % tasks.length]!, { n })),
  )

  const jobs = await app.listJobs({ ids: handles.map((handle) => handle.id) })
  const byId = new Map(jobs.map((job) => [job.id, job]))
  for (const [n, handle] of handles.entries()) {
    expect(byId.get(handle.id)).toMatchObject({ task: names[n % names.length], input: { n } })
  }
})

test('a refused submission does not spoil those that go out with it', async () => {
  const ok = task({ name: 'ok', run: (_: number) => null })
  const app = await apps.open({ tasks: [ok] })

  const outcomes = await Promise.allSettled(
    Array.from({ length: 60 }, (_, n) =>
      n % 3 === 0
        ? app.submit('no-such-task', n)
        : n % 3 === 1
          ? app.submit(ok, n, { lane: 'nowhere' })
          : app.submit(ok, n),
    ),
  )

  for (const [n, outcome] of outcomes.entries()) {
    if (n % 3 === 2) expect(outcome.status).toBe('fulfilled')
    else {
      expect(outcome).toMatchObject({
        reason: n % 3 === 0 ? { code: 'TASK_NOT_FOUND' } : { code: 'LANE_NOT_FOUND' },
      })
    }
  }
  const stored = await app.listJobs({ task: 'ok', limit: 100 })
  expect(stored.map((job) => job.input).sort()).toEqual(
    Array.from({ length: 20 }, (_, i) => 3 * i + 2).sort(),
  )
})

test('a bulk submission stores its jobs in the order given, more than one round trip of them', async () => {
  const bulk = task({ name: 'bulk', run: (_: number) => null })
  const app = await apps.open({ tasks: [bulk] })
  const inputs = Array.from({ length: 5000 }, (_, n) => n)

  const handles = await app.submitMany(bulk, inputs, { priority: 4, tags: ['all'] })

  const jobs = await app.listJobs({ tag: 'all', limit: 5000 })
  expect(jobs.reverse().map((job) => [job.id, job.input, job.priority])).toEqual(
    handles.map((handle, n) => [handle.id, n, 4]),
  )
  expect(await app.submitMany(bulk, [])).toEqual([])
})

test('a bulk submission that fails in a later round trip tells how many were stored', async () => {
  const bulk = task({ name: 'bulk-fails', input: z.number().max(5999), run: () => null })
  const app = await apps.open({ tasks: [bulk] })
  const inputs = Array.from({ length: 10_000 }, (_, n) => n)

  await expect(app.submitMany(bulk, inputs)).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    details: { stored: 4000 },
  })
  const [{ count }] = (await database.sql<{ count: number }>(
    `select count(*)::integer as count from sluice.jobs where task = 'bulk-fails'`,
  )) as [{ count: number }]
  expect(count).toBe(4000)
})

test('inputs of many megabytes may be submitted together', async () => {
  const heavy = task({ name: 'heavy', run: (_: string) => null })
  const app = await apps.open({ tasks: [heavy] })
  const inputs = Array.from({ length: 6 }, (_, n) => String.fromCharCode(97 + n).repeat(4_000_000))

  const merged = await Promise.all(inputs.map((input) => app.submit(heavy, input)))
  const bulk = await app.submitMany(heavy, inputs)

  const rows = await database.sql<{ id: string; length: number; first: string }>(
    `select id, length(input #>> '{}') as length, left(input #>> '{}', 1) as first from sluice.jobs where task = 'heavy' order by id`,
  )
  const stored = new Map(rows.map((row) => [row.id, row]))
  for (const handles of [merged, bulk]) {
    for (const [n, handle] of handles.entries()) {
      expect(stored.get(handle.id)).toMatchObject({ length: 4_000_000, first: inputs[n]![0] })
    }
  }
  await database.sql(`delete from sluice.jobs where task = 'heavy'`)
})

test('an input that the schema refuses is not stored', async () => {
  const input = z.object({ url: z.url(), size: z.number().int().min(1) })
  const strict = task({ name: 'strict', input, run: ({ url }) => url })
  const app = await apps.open({ tasks: [strict] })

  await expect(app.submit(strict, { url: 'nowhere', size: 0 })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(/task strict is not valid: url: .+; size: /),
  })
  // A caller that only knows the name is held to it as well.
  await expect(app.submit('strict', { url: 'https://example.com' })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
  })
  expect(await app.listJobs({ task: 'strict' })).toEqual([])
})

test('any Standard Schema will do, also one that takes its time', async () => {
  const input = {
    '~standard': {
      version: 1,
      vendor: 'by hand',
      validate: async (value: unknown) => {
        await new Promise((resolve) => setImmediate(resolve))
        return typeof value === 'number'
          ? { value: value * 2 }
          : { issues: [{ message: 'no number', path: ['a', { key: 0 }] }, { message: 'at all' }] }
      },
    },
  } as const
  const doubled = task({ name: 'doubled', input, run: (n) => n })
  const app = await apps.open({ tasks: [doubled] })
  await app.work()

  // The task gets what the schema gives; what is stored is what was submitted.
  const job = await app.submit('doubled', 21)
  expect(await job.result()).toBe(42)
  expect((await app.getJob(job.id)).input).toBe(21)
  await expect(app.submit('doubled', 'x')).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: 'the input of task doubled is not valid: a.0: no number; at all',
  })
})

test('an input stored by a program without the schema is checked when it runs, and fails the job for good', async () => {
  const strict = task({ name: 'late', input: z.object({ n: z.number() }), run: ({ n }) => n })
  const app = await apps.open({ tasks: [strict] })
  const stranger = await apps.open({})
  const job = await stranger.submit('late', { n: 'seven' })
  await app.work()

  await expect(job.result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    message: expect.stringMatching(/n: /),
  })
  expect(await app.getJob(job.id)).toMatchObject({ attempt: 1, status: 'failed' })
})

test.each([
  ['an empty key', { key: '' }, 'key: "" must be a text of 1 to 500 characters'],
  ['a key too long', { key: 'k'.repeat(501) }, 'must be a text of 1 to 500 characters'],
  ['a key that is no text', { key: 7 as never }, 'key: 7 must be a text'],
  ['a priority that is no whole number', { priority: 1.5 }, 'priority: 1.5 must be a whole number'],
  ['a priority out of range', { priority: 1_000_001 }, 'from -1000000 to 1000000'],
  ['a priority that is not a number', { priority: Number.NaN }, 'priority: NaN must be a whole number'],
  ['a lane that is no text', { lane: '' }, 'lane: "" must be a text'],
  ['a time that is none', { runAt: new Date('never') }, 'runAt: a Date without a time must be a time'],
  ['a delay that is none', { runAt: 'soon' }, 'runAt: "soon" must be a time'],
  ['a negative delay', { runAt: -1 }, 'runAt: -1 must be a time'],
  ['a delay beyond all time', { runAt: '99999999999d' }, 'runAt: '],
  ['a deadline of nothing', { deadline: 0 }, 'deadline: 0 must be '],
  ['a deadline beyond all time', { deadline: '99999999999d' }, 'deadline: "99999999999d" must be '],
  ['a deadline that is none', { deadline: '1 fortnight' }, 'deadline: "1 fortnight" is not a duration'],
  ['tags that are no list', { tags: 'a' as never }, 'tags: "a" must be a list of at most 50 texts'],
  [
    'too many tags',
    { tags: Array.from({ length: 51 }, String) },
    'tags: a list must be a list of at most 50 texts',
  ],
  ['a tag that is empty', { tags: ['a', ''] }, 'tags[1]: "" must be a text of 1 to 100 characters'],
])('%s is refused, and nothing is stored', async (_, options, message) => {
  const picky = task({ name: 'picky', run: (_: number) => null })
  const app = await apps.open({ tasks: [picky] })

  await expect(app.submit(picky, 1, options)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(message),
  })
  await expect(app.submitMany(picky, [1, 2], options)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  expect(await app.listJobs({ task: 'picky' })).toEqual([])
})

test('a task or lane that nobody knows is refused by its name', async () => {
  const known = task({ name: 'known', run: (_: number) => null })
  const app = await apps.open({ tasks: [known] })

  await expect(app.submit('nobody', 1)).rejects.toMatchObject({
    code: 'TASK_NOT_FOUND',
    message: expect.stringContaining("'nobody'"),
    details: { name: 'nobody' },
  })
  await expect(app.submit(known, 1, { lane: 'side' })).rejects.toMatchObject({
    code: 'LANE_NOT_FOUND',
    message: expect.stringMatching(
      /^lane "side" does not exist; existing lanes: (.+, )?default, interactive, /,
    ),
    details: { name: 'side' },
  })
})

test('a program that has closed submits nothing', async () => {
  const known = task({ name: 'closing', run: (_: number) => null })
  const app = await apps.open({ tasks: [known] })
  await Promise.all([app.close(), app.close()])

  await expect(app.submit(known, 1)).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(app.submitMany(known, [1])).rejects.toMatchObject({ code: 'CLOSED' })
})
