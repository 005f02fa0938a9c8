import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { checkOwners } from '../../src/engine/diagnosis/owners.ts'
import { readNow } from '../../src/engine/views/now.ts'
import { task } from '../../src/index.ts'
import { maintainLedger } from '../../src/store/maintain-ledger.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { LEDGER_MS, readOwnerBounds, untilLedgerComplete } from '../support/state/admission.ts'

const LIMIT = 3
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo] })
let operator = ''
let names = 0

beforeAll(async () => {
  operator = await server.keyOf('operator', 'olga')
})

const admission = (body: object) =>
  server.call('PATCH', '/admin/admission', { key: operator, body }).then((answer) => answer.json())

beforeEach(async () => {
  // Nothing else is limited, also not what the first start of a server limits.
  const limits = { maxActive: null, maxScheduled: null, maxPerOwner: LIMIT }
  expect(await admission(limits)).toMatchObject(limits)
})

/** Somebody new, with a key of a submitter. */
async function somebody() {
  const name = `owner-${++names}`
  const key = await server.keyOf('submitter', name)
  const submit = (body: object = {}) =>
    server.call('POST', '/jobs', { key, body: { task: 'echo', input: null, ...body } })
  const bulk = (count: number, body: object = {}) => {
    const jobs = Array.from({ length: count }, () => ({ task: 'echo', ...body }))
    return server.call('POST', '/jobs/bulk', { key, body: { jobs } })
  }
  return { name, key, submit, bulk }
}

describe('an owner who has as many jobs as one may have', () => {
  test('is refused one more, with the limit and when to come back, and nobody else is', async () => {
    const [ann, bob] = [await somebody(), await somebody()]
    for (let n = 0; n < LIMIT; n++) expect((await ann.submit()).status).toBe(202)
    for (let n = 0; n < 2; n++) {
      const refused = await ann.submit()
      expect([refused.status, refused.json()]).toMatchObject([
        429,
        {
          code: 'ADMISSION_REJECTED',
          owner: ann.name,
          maxPerOwner: LIMIT,
          owned: LIMIT,
          detail: expect.stringContaining(
            `${ann.name} has ${LIMIT} of at most ${LIMIT} jobs that have not ended`,
          ),
        },
      ])
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
      // At once: what is remembered of the refusal is remembered of Ann.
      expect((await bob.submit()).status).toBe(202)
    }
  })

  test('is not let in by sending many at once, in bulk, or for later', async () => {
    const [ann, bob, carol] = [await somebody(), await somebody(), await somebody()]
    const many = await Promise.all(Array.from({ length: 5 * LIMIT }, () => ann.submit()))
    expect(many.filter(({ status }) => status === 202)).toHaveLength(LIMIT)
    expect(many.filter(({ status }) => status === 429)).toHaveLength(4 * LIMIT)

    expect((await bob.bulk(LIMIT + 1)).status).toBe(429)
    expect((await bob.bulk(LIMIT)).status).toBe(202)

    const runAt = new Date(Date.now() + 3_600_000).toISOString()
    expect((await carol.bulk(LIMIT, { runAt })).status).toBe(202)
    expect((await carol.submit({ runAt })).status).toBe(429)
    expect((await carol.submit()).status).toBe(429)
  })

  test('is let in again when a job has ended, and may attach to a job at any time', async () => {
    const ann = await somebody()
    const first = (await ann.submit({ key: `first of ${ann.name}` })).json<{ id: string }>()
    expect((await ann.bulk(LIMIT - 1)).status).toBe(202)
    expect((await ann.submit()).status).toBe(429)
    const again = await ann.submit({ key: `first of ${ann.name}` })
    expect([again.status, again.json()]).toEqual([200, { id: first.id, attached: true }])
    expect((await server.call('DELETE', `/jobs/${first.id}`, { key: ann.key })).status).toBe(200)
    // The server may remember the refusal for a moment.
    await expect.poll(async () => (await ann.submit()).status, { timeout: 60_000 }).toBe(202)
    expect((await ann.submit()).status).toBe(429)
  })

  test('is refused to run an ended job again', async () => {
    const ann = await somebody()
    const { id } = (await ann.submit()).json<{ id: string }>()
    expect((await server.call('DELETE', `/jobs/${id}`, { key: ann.key })).status).toBe(200)
    const retry = () => server.call('POST', `/jobs/${id}/retry`, { key: ann.key })
    expect((await ann.bulk(LIMIT)).status).toBe(202)
    const refused = await retry()
    expect([refused.status, refused.json()]).toMatchObject([
      429,
      { code: 'ADMISSION_REJECTED', owner: ann.name, maxPerOwner: LIMIT, owned: LIMIT },
    ])
    const { status } = (await server.call('GET', `/jobs/${id}`, { key: ann.key })).json()
    expect(status).toBe('cancelled')
    await admission({ maxPerOwner: LIMIT + 1 })
    await expect.poll(async () => (await retry()).status, { timeout: 60_000 }).toBe(202)
  })

  test('gets no job by a schedule either', async () => {
    const ann = await somebody()
    expect((await ann.bulk(LIMIT)).status).toBe(202)
    const body = { name: `of-${ann.name}`, task: 'echo', cron: '0 3 * * *' }
    expect((await server.call('POST', '/schedules', { key: ann.key, body })).status).toBe(201)
    expect((await server.call('POST', `/schedules/${body.name}/fire`, { key: ann.key })).status).toBe(429)
  })

  test('is refused though the jobs are older than the limit', async () => {
    expect(await admission({ maxPerOwner: null })).toMatchObject({ maxPerOwner: null, owners: null })
    const ann = await somebody()
    expect((await ann.bulk(LIMIT + 2)).status).toBe(202)
    await admission({ maxPerOwner: LIMIT })
    const refused = await ann.submit()
    expect([refused.status, refused.json()]).toMatchObject([429, { owned: LIMIT + 2 }])
  })
})

describe('in a transaction of the caller', () => {
  async function transaction(isolation: string, owner: string) {
    const client = new pg.Client(database.url)
    await client.connect()
    onTestFinished(() => client.end())
    await client.query(`begin isolation level ${isolation}`)
    const submit = () => client.query(`select sluice.submit('echo', submitted_by => $1)`, [owner])
    const commit = () =>
      client.query('commit').then(
        () => 'stored',
        (error) => error.code as string,
      )
    return { submit, commit }
  }

  test('the limit holds at COMMIT, and is not exceeded by two of them', async () => {
    const { name } = await somebody()
    const [first, second] = [
      await transaction('read committed', name),
      await transaction('read committed', name),
    ]
    for (let n = 0; n < 2; n++) await first.submit()
    for (let n = 0; n < 2; n++) await second.submit()
    expect([await first.commit(), await second.commit()]).toEqual(['stored', 'SL007'])
  })

  test('one with a fixed snapshot is asked to run again when others were admitted meanwhile', async () => {
    const [ann, bob] = [await somebody(), await somebody()]
    const fixed = await transaction('repeatable read', ann.name)
    await fixed.submit()
    expect((await bob.submit()).status).toBe(202)
    expect(await fixed.commit()).toBe('40001')
  })
})

test('doctor recommends the limit where several owners submit', async () => {
  for (const owner of [await somebody(), await somebody()]) expect((await owner.submit()).status).toBe(202)
  const examine = () => checkOwners({ db: server.app.services.calls })
  expect(await examine()).toEqual([expect.objectContaining({ check: 'owners', level: 'ok' })])
  await admission({ maxPerOwner: null })
  expect(await examine()).toEqual([
    expect.objectContaining({
      level: 'note',
      found: expect.stringMatching(/^\d+ submit jobs, and any of them may use the whole ceiling$/),
      advice: expect.stringContaining('sluice admission --max-per-owner'),
    }),
  ])
})

test('shows the limit and who has the most jobs, in the admission, the metrics and what needs attention', async () => {
  const ann = await somebody()
  await admission({ maxPerOwner: 20 })
  expect((await ann.bulk(20)).status).toBe(202)
  const seen = await server.call('GET', '/admin/admission', { key: operator })
  expect(seen.json()).toMatchObject({ maxPerOwner: 20, owners: { [ann.name]: 20 } })
  const metrics = await server.at('GET', '/metrics', { key: operator })
  expect(metrics.text).toMatch(/^sluice_admission_max_per_owner 20$/m)
  expect(metrics.text).toMatch(/^sluice_admission_busiest_owner 20$/m)
  const { admission: now, findings } = await readNow(server.app.services.calls)
  expect(now).toMatchObject({ maxPerOwner: 20, owners: { [ann.name]: 20 } })
  expect(findings).toContainEqual(
    expect.objectContaining({ rule: 'owner_limit_reached', subject: `owner ${ann.name}` }),
  )
})

test(
  'shows who is at the limit though others had as many once, and looks at those no more',
  async () => {
    await admission({ maxPerOwner: 20 })
    await untilLedgerComplete(database.sql)
    const idle = await Promise.all(Array.from({ length: 7 }, somebody))
    const ann = await somebody()
    expect((await ann.bulk(20)).status).toBe(202)
    for (const each of idle) {
      const { jobs } = (await each.bulk(20)).json<{ jobs: { id: string }[] }>()
      for (const { id } of jobs)
        expect((await server.call('DELETE', `/jobs/${id}`, { key: each.key })).status).toBe(200)
    }
    const { admission: now, findings } = await readNow(server.app.services.calls)
    expect(now.owners).toMatchObject({ [ann.name]: 20 })
    expect(findings).toContainEqual(
      expect.objectContaining({ rule: 'owner_limit_reached', subject: `owner ${ann.name}` }),
    )
    await maintainLedger(server.app.services.calls)
    const bounds = await readOwnerBounds(database.sql)
    expect(bounds.get(ann.name)).toBe(20)
    for (const { name } of idle) expect(bounds.get(name)).toBeUndefined()
    // Who has no list gets a new one, and is held to the limit.
    expect((await idle[0]!.bulk(20)).status).toBe(202)
    expect((await idle[0]!.submit()).status).toBe(429)
  },
  LEDGER_MS + 60_000,
)
