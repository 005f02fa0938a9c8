import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type SluiceOptions, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readAudit } from '../support/state/audit.ts'

// Lanes that a submission names although its task's own lane is meant to hold it.
const report = task({ name: 'report', lane: 'narrow', run: async () => null })
const payout = task({ name: 'payout', lane: 'narrow', laneFixed: true, run: async () => null })
const OPTIONS: SluiceOptions = { tasks: [report, payout], lanes: { narrow: { slots: 1 } } }
const database = useDatabase()
const server = useServer(database, OPTIONS)
const keys = { ann: '', olga: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.olga = await server.keyOf('operator', 'olga')
})
beforeEach(() => server.app.setLane('narrow', { enabled: true }))

let schedules = 0
/** Each way on which the name of a lane comes in. */
const WAYS = {
  'POST /jobs': (of: string, lane?: string) => ({ path: '/jobs', body: { task: of, lane } }),
  'POST /jobs by name': (of: string, lane?: string) => ({ path: '/jobs', body: { name: of, lane } }),
  'POST /jobs/bulk': (of: string, lane?: string) => ({
    path: '/jobs/bulk',
    body: { jobs: [{ task: 'report' }, { task: of, lane }] },
  }),
  'POST /schedules': (of: string, lane?: string) => ({
    path: '/schedules',
    body: { name: `s-${++schedules}`, task: of, cron: '0 0 1 1 *', lane },
  }),
}

describe.each(Object.entries(WAYS))('%s', (way, of) => {
  const call = async (key: string, task: string, lane?: string) => {
    const { path, body } = of(task, lane)
    const answer = await server.call('POST', path, { key, body })
    return [answer.status, answer.status < 300 ? {} : answer.json()]
  }

  test('names no other lane for a task that fixes its own, with any role', async () => {
    for (const key of Object.values(keys)) {
      expect(await call(key, 'payout', 'default')).toMatchObject([
        409,
        {
          code: 'LANE_FIXED',
          name: 'payout',
          ...(way === 'POST /jobs/bulk' && { index: 1 }),
          detail: expect.stringContaining('task "payout" fixes its lane'),
        },
      ])
      expect((await call(key, 'payout', 'narrow'))[0]).toBeLessThan(300)
      expect((await call(key, 'payout'))[0]).toBeLessThan(300)
      expect((await call(key, 'report', 'default'))[0]).toBeLessThan(300)
    }
  })

  test('names no other lane while the own one is paused, without workers:manage', async () => {
    await server.app.setLane('narrow', { enabled: false })
    expect(await call(keys.ann, 'report', 'default')).toMatchObject([
      409,
      { code: 'LANE_PAUSED', detail: expect.stringContaining('lane "narrow" of task "report" is paused') },
    ])
    expect((await call(keys.ann, 'report', 'narrow'))[0]).toBeLessThan(300)
    expect((await call(keys.ann, 'report'))[0]).toBeLessThan(300)
    expect((await call(keys.olga, 'report', 'default'))[0]).toBeLessThan(300)
  })
})

test('a schedule cannot be given another lane afterwards', async () => {
  const body = { name: 'late', task: 'report', cron: '0 0 1 1 *' }
  expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
  await server.app.setLane('narrow', { enabled: false })
  const change = async (key: string, body: object) => {
    const answer = await server.call('PATCH', '/schedules/late', { key, body })
    return [answer.status, answer.json().code]
  }
  expect(await change(keys.ann, { lane: 'default' })).toEqual([409, 'LANE_PAUSED'])
  expect(await change(keys.ann, { cron: '0 0 2 1 *' })).toEqual([200, undefined])
  expect(await change(keys.olga, { lane: 'default' })).toEqual([200, undefined])
})

test('a schedule that names another lane is not fired by hand while the own one is paused, without workers:manage', async () => {
  const named = { name: 'beside', task: 'report', cron: '0 0 1 1 *', lane: 'default' }
  const plain = { name: 'inside', task: 'report', cron: '0 0 1 1 *' }
  for (const body of [named, plain])
    expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
  const fire = async (key: string, name: string) => {
    const answer = await server.call('POST', `/schedules/${name}/fire`, { key })
    return [answer.status, answer.json().code]
  }
  expect(await fire(keys.ann, 'beside')).toEqual([202, undefined])
  await server.app.setLane('narrow', { enabled: false })
  expect(await fire(keys.ann, 'beside')).toEqual([409, 'LANE_PAUSED'])
  expect(await fire(keys.ann, 'inside')).toEqual([202, undefined])
  expect(await fire(keys.olga, 'beside')).toEqual([202, undefined])
})

test('a job that named another lane does not run again while the own one is paused, without workers:manage', async () => {
  const body = { task: 'report', lane: 'default' }
  const { id } = (await server.call('POST', '/jobs', { key: keys.ann, body })).json<{ id: string }>()
  await server.call('DELETE', `/jobs/${id}`, { key: keys.ann })
  await server.app.setLane('narrow', { enabled: false })
  const refused = await server.call('POST', `/jobs/${id}/retry`, { key: keys.ann, body: {} })
  expect([refused.status, refused.json()]).toMatchObject([409, { code: 'LANE_PAUSED' }])
  expect((await server.call('POST', `/jobs/${id}/retry`, { key: keys.olga, body: {} })).status).toBe(202)
})

test('the audit has what was refused', async () => {
  const target = 'POST /api/v1/jobs'
  expect(await readAudit(database.sql, target, 'job.submit')).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ actor: 'ann', refused: 'LANE_FIXED' }),
      expect.objectContaining({ actor: 'ann', refused: 'LANE_PAUSED' }),
    ]),
  )
})

test('a fixed lane holds for library and SQL too, until somebody says laneFixed: false', async () => {
  const submit = (lane: string) => server.app.submit('payout', null, { lane })
  await expect(submit('default')).rejects.toMatchObject({ code: 'LANE_FIXED', details: { name: 'payout' } })
  await expect(database.sql(`select sluice.submit('payout', lane => 'default')`)).rejects.toThrow(
    'task "payout" fixes its lane, "narrow"',
  )
  const publish = async (more: object) => {
    const again = task({ name: 'payout', lane: 'narrow', run: async () => null, ...more })
    const app = await sluice({ ...OPTIONS, database: database.url, tasks: [again] })
    await app.close()
  }
  await publish({})
  await expect(submit('default')).rejects.toMatchObject({ code: 'LANE_FIXED' })
  // Where an operator moves it, it is fixed there.
  await server.app.moveTask('payout', 'system')
  await expect(submit('narrow')).rejects.toMatchObject({ code: 'LANE_FIXED' })
  await submit('system')
  await server.app.moveTask('payout', null)
  await publish({ laneFixed: false })
  await submit('default')
})
