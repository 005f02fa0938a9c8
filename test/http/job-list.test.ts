import { beforeAll, describe, expect, test } from 'vitest'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const plain = task({ name: 'plain', lane: 'wide', run: async (_: unknown) => null })
const breaks = task({
  name: 'breaks',
  retry: { attempts: 1 },
  run: async (why: string) => {
    throw new Error(why)
  },
})
const careful = task({ name: 'careful', approval: true, lane: 'wide', run: (_: unknown) => null })
const flaky = task({
  name: 'flaky',
  lane: 'slow',
  retry: { attempts: 2, delay: '1h' },
  run: async (_: unknown) => {
    throw new Error('not yet')
  },
})
const pair = workflow({
  name: 'pair',
  steps: (flow: Flow<unknown>) => {
    flow.step('one', plain, {})
    flow.step('two', plain, {})
  },
})
const database = useDatabase()
const server = useServer(database, {
  tasks: [plain, breaks, flaky, careful],
  workflows: [pair],
  lanes: { wide: { slots: 50 }, slow: { slots: 1 } },
  actor: 'the-app',
})
const keys = { viewer: '', ann: '', bob: '' }

interface Listed {
  readonly jobs: { readonly id: string; readonly status: string; readonly task: string }[]
  readonly next: string | null
}

async function list(query: string, key = keys.viewer): Promise<Listed> {
  const answer = await server.call('GET', `/jobs${query}`, { key })
  expect(answer.text).not.toContain('"code"')
  return answer.json<Listed>()
}

const lineCursor = (rank: number) => Buffer.from(`3.${rank}.1`).toString('base64url')

/** All pages, and how many there were. */
async function all(query: string, limit: number, key = keys.viewer): Promise<string[]> {
  const ids: string[] = []
  for (let next: string | null | undefined; next !== null; ) {
    const page: Listed = await list(
      `?limit=${limit}${query}${next === undefined ? '' : `&cursor=${next}`}`,
      key,
    )
    ids.push(...page.jobs.map(({ id }) => id))
    next = page.next
  }
  return ids
}

const known: Record<string, string> = {}

beforeAll(async () => {
  keys.viewer = await server.keyOf('viewer')
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  const submit = async (key: string, body: object) =>
    (await server.call('POST', '/jobs', { key, body })).json<{ id: string }>().id
  known.ann = await submit(keys.ann, { task: 'plain', tags: ['red', 'blue'], key: 'k1' })
  known.bob = await submit(keys.bob, { task: 'plain', tags: ['red'] })
  known.broken = await submit(keys.bob, { task: 'breaks', input: 'The Disk is full' })
  known.tree = await submit(keys.ann, { workflow: 'pair' })
  await server.app.work()
  for (const id of Object.values(known))
    await server.app
      .job(id)
      .result()
      .catch(() => {})
  const carl = await server.keyOf('submitter', 'carl')
  known.again = await submit(carl, { task: 'flaky' })
  await until(async () => (await server.app.getJob(known.again!)).failures === 1, 'the first attempt to fail')
  known.later = await submit(keys.ann, { task: 'plain', runAt: '2h', key: 'k1' })
  await server.app.stopWorking()
  known.ready = await submit(carl, { task: 'flaky' })
})

describe('every filter finds what it names, and nothing else', () => {
  const cases: [string, string[]][] = [
    ['', ['ready', 'later', 'again', 'tree', 'broken', 'bob', 'ann']],
    ['status=queued', ['ready', 'later', 'again']],
    ['waits=turn', ['ready']],
    ['waits=time', ['later']],
    ['waits=retry', ['again']],
    ['waits=retry&status=running', []],
    ['waits=turn&children=true&lane=slow', ['ready']],
    ['status=failed', ['broken']],
    ['status=completed,failed', ['tree', 'broken', 'bob', 'ann']],
    ['status=running', []],
    ['task=plain', ['later', 'bob', 'ann']],
    ['task=pair', ['tree']],
    ['task=plain&status=completed', ['bob', 'ann']],
    ['lane=wide', ['later', 'bob', 'ann']],
    ['lane=default', ['broken']],
    ['lane=system', []],
    ['key=k1', ['later', 'ann']],
    ['key=k1&status=completed', ['ann']],
    ['key=k1&task=breaks', []],
    ['tag=red', ['bob', 'ann']],
    ['tag=blue', ['ann']],
    ['submittedBy=ann', ['later', 'tree', 'ann']],
    ['submittedBy=nobody', []],
    ['error=disk%20IS', ['broken']],
    ['error=nothing', []],
    [
      'submittedFrom=2000-01-01T00:00:00Z&submittedTo=2100-01-01T00:00:00Z',
      ['ready', 'later', 'again', 'tree', 'broken', 'bob', 'ann'],
    ],
    ['submittedTo=2000-01-01T00:00:00Z', []],
    ['submittedFrom=2100-01-01T00:00:00Z', []],
    ['finishedFrom=2000-01-01T00:00:00Z', ['tree', 'broken', 'bob', 'ann']],
    ['finishedTo=2000-01-01T00:00:00Z', []],
  ]
  test.each(cases)('%s', async (query, names) => {
    const { jobs, next } = await list(`?${query}`)
    expect(jobs.map(({ id }) => id)).toEqual(names.map((name) => known[name]))
    expect(next).toBeNull()
    expect(await all(`&${query}`, 1)).toEqual(names.map((name) => known[name]))
  })
})

test('lists show no inputs, results or children, and others see nothing of them', async () => {
  const { jobs } = await list('?status=completed')
  expect(jobs[0]).toMatchObject({ kind: 'workflow', lane: null, submittedBy: 'ann' })
  for (const job of jobs) expect(Object.keys(job)).not.toContain('input')
  expect((await list('', keys.bob)).jobs.map(({ id }) => id)).toEqual([known.broken, known.bob])
  expect((await list('?submittedBy=ann', keys.bob)).jobs).toEqual([])
  expect((await list('?submittedBy=bob&task=plain', keys.bob)).jobs.map(({ id }) => id)).toEqual([known.bob])
})

test('what is no filter, cursor or limit is refused by name', async () => {
  const cases: [string, string][] = [
    ['?statuss=failed', 'statuss'],
    ['?status=fine', 'status'],
    ['?waits=long', 'waits'],
    ['?limit=0', 'limit'],
    ['?limit=201', 'limit'],
    ['?cursor=garbage', 'cursor'],
    ['?submittedFrom=yesterday', 'submittedFrom'],
    ['?tag=%00', 'tag'],
    ['?order=line', 'order'],
    ['?order=oldest&waits=turn', 'order'],
    ['?order=line&waits=turn&before=9', 'before'],
    ['?order=line&waits=turn&finishedTo=2031-01-01T00:00:00Z', 'order'],
    ['?order=line&waits=turn&cursor=garbage', 'cursor'],
    [`?order=line&waits=turn&cursor=${lineCursor(2 ** 31)}`, 'cursor'],
    [`?order=line&waits=turn&cursor=${lineCursor(-(2 ** 31) - 1)}`, 'cursor'],
  ]
  for (const [query, argument] of cases) {
    const answer = await server.call('GET', `/jobs${query}`, { key: keys.viewer })
    expect([query, answer.status, answer.json()]).toMatchObject([
      query,
      400,
      { code: 'INVALID_ARGUMENT', argument },
    ])
  }
})

test('pages neither repeat nor leave out what was there, while others submit and jobs end', async () => {
  const before = await server.app.submitMany(plain, Array.from({ length: 300 }), { tags: ['paged'] })
  await server.app.work({ capacity: 4 })
  let submitting = true
  const busy = (async () => {
    while (submitting) await server.app.submitMany(plain, [1, 2, 3], { tags: ['paged'] })
  })()
  try {
    for (const query of [
      '&tag=paged',
      '&task=plain&tag=paged',
      '&submittedBy=the-app&tag=paged',
      '&lane=wide&tag=paged',
    ]) {
      const ids = await all(query, 37)
      expect(new Set(ids).size, query).toBe(ids.length)
      expect(ids, query).toEqual([...ids].sort((a, b) => Number(b) - Number(a)))
      expect(ids, query).toEqual(expect.arrayContaining(before.map(({ id }) => id)))
    }
  } finally {
    submitting = false
    await busy
    await server.app.stopWorking()
  }
})

test('a page that finds too little looks at a bounded number of jobs, and says where to go on', async () => {
  await database.sql(
    `insert into sluice.jobs (task, class_id, state, finished_at, tags)
     select 'plain', t.class_id, 'completed', now(), case when n in (1, 25000) then array['needle'] end
       from generate_series(1, 25000) n join sluice.tasks t on t.name = 'plain'`,
  )
  const first = await list('?tag=needle')
  expect(first.jobs).toHaveLength(1)
  expect(first.next).not.toBeNull()
  expect(await all('&tag=needle', 200)).toHaveLength(2)
  expect(await all('&tag=needle&task=plain', 200)).toHaveLength(2)
  expect(await server.app.listJobs({ tag: 'needle' })).toHaveLength(2)
})

test('an old job that waits is found behind all that has ended since', async () => {
  const { jobs, next } = await list('?status=queued&submittedBy=ann')
  expect([jobs.map(({ id }) => id), next]).toEqual([[known.later], null])
})

test('queued jobs are listed in the order in which they start, page by page, with what each waits for', async () => {
  // Nobody works, so all of them stay queued.
  const submit = (task: typeof plain, options: object) =>
    server.app.submit(task, null, { tags: ['line'], ...options }).then(({ id }) => id)
  const [low, first, second, high, slow] = [
    await submit(plain, { priority: -3 }),
    await submit(plain, {}),
    await submit(plain, {}),
    await submit(plain, { priority: 7 }),
    await submit(plain, { lane: 'slow', priority: 9 }),
  ]
  await server.app.submit(plain, null)
  const inWide = [high, first, second, low]
  for (const limit of [1, 2, 3, 50])
    for (const query of ['&lane=wide&tag=line', '&lane=wide&task=plain&tag=line&children=true'])
      expect(await all(`&waits=turn&order=line${query}`, limit), `${limit} ${query}`).toEqual(inWide)
  expect(await all('&waits=turn&order=line&tag=line&task=plain', 2)).toEqual([slow, ...inWide])
  expect(await all('&waits=turn&order=line&tag=line&status=failed,running', 2)).toEqual([])
  expect(await all('&waits=turn&order=line&tag=line&lane=wide&status=failed,queued', 2)).toEqual(inWide)
  for (const rank of [2 ** 31 - 1, -(2 ** 31)])
    await list(`?waits=turn&order=line&tag=line&cursor=${lineCursor(rank)}`)
  // Without other conditions no more is looked at than the page needs, and the line goes on all the same.
  const everything = await all('&waits=turn&order=line&lane=wide&children=true', 2)
  expect(everything.filter((id) => inWide.includes(id))).toEqual(inWide)
  expect(new Set(everything).size).toBe(everything.length)
  expect(everything.length).toBeGreaterThan(inWide.length)
  const other = (await list('?limit=1')).next
  const answer = await server.call('GET', `/jobs?waits=turn&order=line&cursor=${other}`, { key: keys.viewer })
  expect([answer.status, answer.json()]).toMatchObject([400, { argument: 'cursor' }])
  // Others see nothing of them.
  expect((await list('?waits=turn&order=line&tag=line', keys.bob)).jobs).toEqual([])

  const [job] = await until(async () => {
    const { jobs } = await list('?waits=turn&order=line&tag=line&lane=wide&limit=1')
    return 'blockedBy' in (jobs[0] ?? {}) ? jobs : undefined
  }, 'the queues to be sampled')
  expect(job).toMatchObject({ id: high, priority: 7, blockedBy: 'no live worker runs plain' })
  await server.app.cancelMany({ tag: 'line' })
})

test('a list shows the beginning of the input of a job that waits for approval, and of no other', async () => {
  const input = { version: '1.43.0', notes: 'n'.repeat(400) }
  const asked = await server.app.submit(careful, input)
  const large = await server.app.submit(careful, { notes: Array.from({ length: 30_000 }, (_, n) => `${n}`) })
  const { jobs } = await list('?status=awaiting_approval')
  expect(jobs.map(({ id }) => id)).toEqual([large.id, asked.id])
  const [first, second] = jobs as unknown as { inputPreview?: string }[]
  expect(first).not.toHaveProperty('inputPreview')
  expect(second!.inputPreview).toMatch(/^\{"notes": "n+$|^\{"version": "1\.43\.0", "notes": "n+$/)
  expect(second!.inputPreview).toHaveLength(300)
  for (const job of (await list('?status=queued')).jobs) expect(job).not.toHaveProperty('inputPreview')
  await server.app.cancelMany({ task: 'careful' })
})
