import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { pruneAudit } from '../../src/store/prune-access.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, type Request, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const server = useServer(database, {
  budgets: { licences: 2, unused: 1 },
  fleet: { pools: { burst: {} } },
  tasks: [
    task({ name: 'plain', run: async () => null }),
    task({ name: 'spare', run: async () => null }),
    task({ name: 'gated', approval: true, run: async () => null }),
  ],
  workflows: [
    {
      name: 'wide',
      definition: { steps: { fan: { task: 'plain', with_items: [1, 2, 3], concurrency: 1 } } },
    },
  ],
})
let admin = ''

interface Entry {
  readonly id: string
  readonly actor: string
  readonly keyId: string | null
  readonly action: string
  readonly target: string | null
  readonly before: unknown
  readonly after: unknown
  readonly refused: string | null
  readonly requestId: string | null
  readonly reason: string | null
}

async function audit(query: string): Promise<{ entries: Entry[]; next: string | null }> {
  const answer = await server.call('GET', `/audit${query}`, { key: admin })
  expect(answer.status, answer.text).toBe(200)
  return answer.json()
}

beforeAll(async () => {
  admin = await server.keyOf('platform_admin', 'root')
})

/** What is done by each route that changes something: where, and with what. */
const CHANGES: Readonly<Record<string, () => Promise<{ path: string } & Request>>> = {
  'POST /api/v1/session': async () => ({ path: '/session', key: undefined, body: { key: admin } }),
  'DELETE /api/v1/session': async () => {
    const answer = await server.call('POST', '/session', { body: { key: admin } })
    const cookie = answer.headers['set-cookie']![0]!.split(';')[0]!
    const csrf = answer.json<{ csrfToken: string }>().csrfToken
    return { path: '/session', key: undefined, headers: { cookie, 'x-sluice-csrf': csrf } }
  },
  'POST /api/v1/keys': async () => ({ path: '/keys', body: { name: 'x', role: 'viewer' } }),
  'PATCH /api/v1/keys/:id': async () => {
    const body = { name: 'z', role: 'worker' }
    const { id } = (await server.call('POST', '/keys', { key: admin, body })).json<{ id: string }>()
    return { path: `/keys/${id}`, body: { runs: { tasks: ['*'] } } }
  },
  'DELETE /api/v1/keys/:id': async () => {
    const { id } = (
      await server.call('POST', '/keys', { key: admin, body: { name: 'y', role: 'viewer' } })
    ).json<{ id: string }>()
    return { path: `/keys/${id}` }
  },
  'POST /api/v1/roles': async () => ({ path: '/roles', body: { name: 'r1', permissions: ['jobs:read'] } }),
  'PATCH /api/v1/roles/:name': async () => ({ path: '/roles/r1', body: { permissions: ['jobs:submit'] } }),
  'DELETE /api/v1/roles/:name': async () => ({ path: '/roles/r1' }),
  'POST /api/v1/jobs': async () => ({ path: '/jobs', body: { task: 'plain' } }),
  'POST /api/v1/jobs/bulk': async () => ({ path: '/jobs/bulk', body: { jobs: [{ task: 'plain' }] } }),
  'PUT /api/v1/results/:name/:key': async () => ({ path: '/results/plain/some-key', body: { input: 1 } }),
  'DELETE /api/v1/jobs/:id': async () => ({ path: `/jobs/${await newJob('plain')}` }),
  'POST /api/v1/jobs/:id/approve': async () => ({ path: `/jobs/${await newJob('gated')}/approve` }),
  'POST /api/v1/jobs/:id/reject': async () => ({
    path: `/jobs/${await newJob('gated')}/reject`,
    body: { comment: 'no' },
  }),
  'POST /api/v1/jobs/:id/retry': async () => {
    const id = await newJob('plain')
    await server.app.cancel(id)
    return { path: `/jobs/${id}/retry`, body: {} }
  },
  'PATCH /api/v1/jobs/:id/window': async () => {
    server.app.startDuties()
    const id = await newJob('wide')
    const fanOut = await until(async () => {
      const rows = await database.sql<{ id: string }>(
        `select f.id from sluice.jobs f join sluice.composites c on c.job_id = f.id
          where f.parent_id = $1 and f.composite = 'fanout' and f.state = 'running'`,
        [id],
      )
      return rows[0]?.id
    }, `the fan-out of workflow ${id}`)
    return { path: `/jobs/${fanOut}/window`, body: { concurrency: 2 } }
  },
  // A line for each job: here it is one.
  'POST /api/v1/jobs/actions': async () => {
    await newJob('plain', { key: 'one of many' })
    return { path: '/jobs/actions', body: { action: 'cancel', filter: { key: 'one of many' } } }
  },
  'POST /api/v1/admin/workers/lanes': async () => ({
    path: '/admin/workers/lanes',
    body: { name: 'made', slots: 3 },
  }),
  'DELETE /api/v1/admin/workers/lanes/:name': async () => {
    await server.app.createLane('doomed')
    return { path: '/admin/workers/lanes/doomed' }
  },
  'PUT /api/v1/admin/workers/tasks/:name/lane': async () => ({
    path: '/admin/workers/tasks/plain/lane',
    body: { lane: 'system' },
  }),
  'DELETE /api/v1/admin/workers/tasks/:name': async () => ({ path: '/admin/workers/tasks/spare' }),
  'PATCH /api/v1/admin/workers/lanes/:name': async () => ({
    path: '/admin/workers/lanes/interactive',
    body: { slots: 7 },
  }),
  'POST /api/v1/admin/workers/lanes/:name/reset': async () => ({
    path: '/admin/workers/lanes/interactive/reset',
  }),
  'POST /api/v1/admin/budgets': async () => ({
    path: '/admin/budgets',
    body: { name: 'calls', capacity: 9 },
  }),
  'PATCH /api/v1/admin/budgets/:name': async () => ({
    path: '/admin/budgets/licences',
    body: { capacity: 4 },
  }),
  'POST /api/v1/admin/budgets/:name/reset': async () => ({ path: '/admin/budgets/licences/reset' }),
  'DELETE /api/v1/admin/budgets/:name': async () => ({ path: '/admin/budgets/unused' }),
  'PATCH /api/v1/admin/fleet/:name': async () => ({ path: '/admin/fleet/burst', body: { max: 2 } }),
  'POST /api/v1/admin/fleet/:name/reset': async () => ({ path: '/admin/fleet/burst/reset' }),
  'DELETE /api/v1/admin/fleet/:name': async () => ({ path: '/admin/fleet/burst' }),
  'PATCH /api/v1/admin/admission': async () => ({ path: '/admin/admission', body: { maxActive: 500 } }),
  'POST /api/v1/admin/admission/reset': async () => ({ path: '/admin/admission/reset' }),
  'POST /api/v1/admin/workers/:name/drain': async () => ({
    path: `/admin/workers/${await newWorker()}/drain`,
  }),
  'POST /api/v1/admin/workers/:name/undrain': async () => ({
    path: `/admin/workers/${await newWorker()}/undrain`,
  }),
  'POST /api/v1/admin/workers/:name/stop': async () => ({ path: `/admin/workers/${await newWorker()}/stop` }),
  'POST /api/v1/admin/workers/jobs/:id/cancel': async () => ({
    path: `/admin/workers/jobs/${await newJob('plain')}/cancel`,
  }),
  'PATCH /api/v1/admin/workers/jobs/:id/priority': async () => ({
    path: `/admin/workers/jobs/${await newJob('plain')}/priority`,
    body: { priority: 5 },
  }),
  'POST /api/v1/schedules': async () => ({
    path: '/schedules',
    body: { name: 's1', task: 'plain', cron: '0 3 * * *' },
  }),
  'PATCH /api/v1/schedules/:name': async () => ({ path: '/schedules/s1', body: { cron: '0 4 * * *' } }),
  'POST /api/v1/schedules/:name/fire': async () => ({ path: '/schedules/s1/fire' }),
  'DELETE /api/v1/schedules/:name': async () => ({ path: '/schedules/s1' }),
}

/** Nothing to be done with a schedule that no file declares; its own tests have one. */
const ELSEWHERE = new Set(['POST /api/v1/schedules/:name/reset'])

async function newJob(name: string, options: { key?: string } = {}): Promise<string> {
  const { submitter } = server.app.services
  return (await submitter.submit(await server.app.services.toSubmission(name, null, options, 'somebody'))).id
}

async function newWorker(): Promise<string> {
  await database.sql(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks) values ('w-1', 'h', 1, '0', 1, 1, '{}')`,
  )
  return 'w-1'
}

/** Who signs in says with what, not why. */
const WITHOUT_REASON: ReadonlySet<string> = new Set(['POST /api/v1/session'])

test('every route that changes something leaves a line, with who, what, why and the id of the request', async () => {
  const unsafe = server.http.routeTable
    .flatMap(({ method, url }) => [method].flat().map((each) => `${each} ${url}`))
    .filter((name) => !/^(?:GET|HEAD|OPTIONS) /.test(name))
    // The workers' own protocol has what it does in the rows of jobs and attempts.
    .filter((name) => !name.startsWith('POST /api/v1/workers') && !ELSEWHERE.has(name))
  expect(Object.keys(CHANGES)).toEqual(expect.arrayContaining(unsafe))

  const found: Record<string, unknown> = {}
  for (const [name, prepare] of Object.entries(CHANGES)) {
    const { path, ...request } = await prepare()
    const headers = { ...request.headers, 'x-sluice-reason': encodeURIComponent('it grew: 7 €') }
    const answer: Answer = await server.call(name.split(' ')[0]!, path, { key: admin, ...request, headers })
    const { entries } = await audit(`?requestId=${answer.headers['x-request-id']}`)
    const good = entries.filter(
      ({ actor, keyId, action, target, refused, reason }) =>
        actor === 'root' &&
        keyId !== null &&
        /^[a-z]+\.[a-z-]+$/.test(action) &&
        target !== null &&
        reason === (WITHOUT_REASON.has(name) ? null : 'it grew: 7 €') &&
        refused === null,
    )
    found[name] =
      answer.status < 300 && entries.length === 1 && good.length === 1
        ? 'written down'
        : [answer.text, entries]
  }
  expect(found).toEqual(Object.fromEntries(Object.keys(CHANGES).map((name) => [name, 'written down'])))
})

test('a reason that is none, or too long, is refused before anything is changed', async () => {
  const reasons = ['%zz', 'x'.repeat(501)]
  for (const reason of reasons) {
    const answer = await server.call('PATCH', '/admin/workers/lanes/system', {
      key: admin,
      body: { slots: 5 },
      headers: { 'x-sluice-reason': reason },
    })
    expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
  }
})

test('a change says what was so before and is so after', async () => {
  const answer = await server.call('PATCH', '/admin/workers/lanes/system', { key: admin, body: { slots: 9 } })
  const { entries } = await audit(`?requestId=${answer.headers['x-request-id']}`)
  expect(entries[0]).toMatchObject({
    action: 'lane.change',
    target: 'lane system',
    before: { slots: 1 },
    after: { slots: 9 },
  })
})

test('what fails leaves neither a change nor a line that says it was done', async () => {
  await database.admin(
    `create function pg_temp_fail() returns trigger language plpgsql as $$ begin raise 'no'; end $$`,
  )
  await database.admin(
    'create trigger fail before insert on sluice.audit for each row execute function pg_temp_fail()',
  )
  try {
    const answer = await server.call('PATCH', '/admin/workers/lanes/maintenance', {
      key: admin,
      body: { slots: 42 },
    })
    expect(answer.status).toBe(500)
    expect(answer.text).not.toMatch(/trigger|raise|pg_temp_fail/)
  } finally {
    await database.admin('drop trigger fail on sluice.audit')
    await database.admin('drop function pg_temp_fail()')
  }
  const lane = await server.call('GET', '/admin/workers/lanes/maintenance', { key: admin })
  expect(lane.json().slots).toBe(1)
})

describe('refused attempts leave a line with the code:', () => {
  test('a permission that the role does not have', async () => {
    const viewer = await server.keyOf('viewer', 'curious')
    for (const [method, path] of [
      ['PATCH', '/admin/workers/lanes/system'],
      ['GET', '/audit'],
      ['POST', '/keys'],
    ] as const)
      expect(
        (await server.call(method, path, { key: viewer, ...(method !== 'GET' && { body: {} }) })).status,
      ).toBe(403)
    const { entries } = await audit('?actor=curious&refused=true')
    expect(entries.map(({ target, refused }) => [target, refused])).toEqual([
      ['POST /api/v1/keys', 'FORBIDDEN'],
      ['GET /api/v1/audit', 'FORBIDDEN'],
      ['PATCH /api/v1/admin/workers/lanes/system', 'FORBIDDEN'],
    ])
  })

  test('a state that does not allow it', async () => {
    const id = await newJob('plain')
    const answer = await server.call('POST', `/jobs/${id}/approve`, { key: admin })
    expect(answer.status).toBe(409)
    const { entries } = await audit(`?requestId=${answer.headers['x-request-id']}`)
    expect(entries).toMatchObject([
      { action: 'job.approve', target: `job ${id}`, refused: 'ILLEGAL_TRANSITION' },
    ])
  })

  test('somebody else’s job', async () => {
    const id = await newJob('plain')
    await server.call('POST', '/roles', {
      key: admin,
      body: { name: 'reader', permissions: ['jobs:read:all', 'jobs:cancel'] },
    })
    const reader = await server.keyOf('reader', 'reader')
    expect((await server.call('DELETE', `/jobs/${id}`, { key: reader })).status).toBe(403)
    expect((await audit('?actor=reader')).entries).toMatchObject([
      { target: `job ${id}`, refused: 'FORBIDDEN' },
    ])
  })

  test('a submission whose key or Idempotency-Key is taken by another', async () => {
    const key = await server.keyOf('submitter', 'twice')
    await newJob('plain', { key: 'taken' })
    const once = { 'idempotency-key': 'used' }
    const plain = { task: 'plain' }
    await server.call('POST', '/jobs', { key, headers: once, body: plain })
    const conflicts: [string, string, Request, string, string][] = [
      [
        'POST',
        '/jobs',
        { body: { ...plain, key: 'taken', input: 2 } },
        'task plain, key taken',
        'KEY_CONFLICT',
      ],
      ['POST', '/jobs/bulk', { body: { jobs: [{ ...plain, key: 'taken', input: 2 }] } }, '', 'KEY_CONFLICT'],
      ['PUT', '/results/plain/taken', { body: { input: 2 } }, '', 'KEY_CONFLICT'],
      [
        'POST',
        '/jobs',
        { headers: once, body: { ...plain, input: 2 } },
        'task plain',
        'IDEMPOTENCY_CONFLICT',
      ],
    ]
    for (const [method, path, request, target, refused] of conflicts) {
      const answer = await server.call(method, path, { key, ...request })
      expect([answer.status, answer.json().code]).toEqual([409, refused])
      const { entries } = await audit(`?requestId=${answer.headers['x-request-id']}`)
      const expected = target === '' ? `${method} /api/v1${path}` : target
      expect(entries).toMatchObject([{ actor: 'twice', action: 'job.submit', target: expected, refused }])
    }
  })

  test('a hundred of one key a minute, and no more', async () => {
    const worker = await server.keyOf('worker', 'stubborn')
    for (let times = 0; times < 110; times++)
      expect((await server.call('GET', '/keys', { key: worker })).status).toBe(403)
    expect((await audit('?actor=stubborn&limit=1000')).entries).toHaveLength(100)
  })
})

describe('reading', () => {
  test('goes back in pages, and by every filter', async () => {
    const all = (await audit('?limit=1000')).entries
    const paged: Entry[] = []
    let next: string | null = null
    do {
      const page = await audit(`?limit=7${next === null ? '' : `&before=${next}`}`)
      paged.push(...page.entries)
      next = page.next
    } while (next !== null)
    expect(paged.map(({ id }) => id)).toEqual(all.map(({ id }) => id))

    const filters: [string, (entry: Entry) => boolean][] = [
      ['actor=root', ({ actor }) => actor === 'root'],
      ['action=key.create', ({ action }) => action === 'key.create'],
      ['action=key.', ({ action }) => action.startsWith('key.')],
      ['action=key', () => false],
      ['target=lane%20system', ({ target }) => target === 'lane system'],
      ['refused=true', ({ refused }) => refused !== null],
      ['refused=false&action=job.', ({ refused, action }) => refused === null && action.startsWith('job.')],
      ['keyId=1', ({ keyId }) => keyId === '1'],
      ['since=2020-01-01T00:00:00Z', () => true],
      ['until=2020-01-01T00:00:00Z', () => false],
    ]
    for (const [query, fits] of filters) {
      const { entries } = await audit(`?limit=1000&${query}`)
      expect([query, entries.map(({ id }) => id)]).toEqual([query, all.filter(fits).map(({ id }) => id)])
    }
  })

  test.each([
    'limit=0',
    'limit=1001',
    'before=0',
    'before=x',
    'since=yesterday',
    'keyId=x',
    'sort=id',
    'refused=maybe',
  ])('with %s is refused with 400', async (query) => {
    expect((await server.call('GET', `/audit?${query}`, { key: admin })).status).toBe(400)
  })

  test('looks at a bounded part, however little fits the filter', async () => {
    await database.sql(
      `insert into sluice.audit (actor, action) select 'crowd', 'job.submit' from generate_series(1, 45000)`,
    )
    const found: string[] = []
    let pages = 0
    let next: string | null = null
    do {
      const page = await audit(`?action=role.create${next === null ? '' : `&before=${next}`}`)
      found.push(...page.entries.map(({ action }) => action))
      next = page.next
      pages++
    } while (next !== null)
    expect(pages).toBe(3)
    expect(new Set(found)).toEqual(new Set(['role.create']))
  })
})

test('lines older than the retention of the audit are deleted, from the oldest on', async () => {
  const [count] = await database.sql<{ rows: number }>('select count(*)::integer as rows from sluice.audit')
  await database.sql(
    `update sluice.audit set at = now() - interval '366 days' where id in (select id from sluice.audit order by id limit 25)`,
  )
  const { db } = server.app.services
  expect(await pruneAudit(db, 20)).toBe(20)
  expect(await pruneAudit(db, 20)).toBe(5)
  expect(await pruneAudit(db, 20)).toBe(0)
  const [left] = await database.sql<{ rows: number }>('select count(*)::integer as rows from sluice.audit')
  expect(left!.rows).toBe(count!.rows - 25)
})
