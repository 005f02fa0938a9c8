import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readAudit } from '../support/state/audit.ts'

const LIMIT = 5
const report = task({ name: 'report', run: (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, {
  tasks: [report],
  schedulesPerOwner: LIMIT,
  schedules: { ofTheProgram: { task: 'report', cron: '0 3 * * *' } },
})
const keys = { ann: '', bob: '', olga: '', eve: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  keys.eve = await server.keyOf('submitter', 'eve')
  keys.olga = await server.keyOf('operator', 'olga')
})

const create = (key: string, name: string, cron = '0 3 * * *') =>
  server.call('POST', '/schedules', { key, body: { name, task: 'report', cron } })

describe('how often a schedule may fire', () => {
  test.each(['* * * * * *', '*/30 * * * * *', '0,30 15 4 * * *', '0*,1* * * * * *'])(
    'a submitter cannot create one with %s, an operator can',
    async (cron) => {
      const refused = await create(keys.ann, 'often', cron)
      expect([refused.status, refused.json()]).toMatchObject([
        403,
        {
          code: 'FORBIDDEN',
          argument: 'cron',
          least: '1m',
          needs: ['workers:manage'],
          detail: expect.stringContaining('the ticks of a schedule must be at least 1m apart'),
        },
      ])
      expect((await server.call('GET', '/schedules/often', { key: keys.olga })).status).toBe(404)
      expect((await create(keys.olga, 'often', cron)).status).toBe(201)
      expect((await server.call('DELETE', '/schedules/often', { key: keys.olga })).status).toBe(204)
    },
  )

  test('the refusal is in the audit', async () => {
    await create(keys.ann, 'audited', '* * * * * *')
    expect(await readAudit(database.sql, 'schedule audited', 'schedule.create')).toMatchObject([
      { actor: 'ann', refused: 'FORBIDDEN' },
    ])
  })

  test('a submitter creates one of every minute, and cannot change it to fire more often', async () => {
    expect((await create(keys.ann, 'minutely', '* * * * *')).status).toBe(201)
    const change = (key: string, body: object) =>
      server.call('PATCH', '/schedules/minutely', { key, body }).then(({ status }) => status)
    expect(await change(keys.ann, { cron: '* * * * * *' })).toBe(403)
    expect(await change(keys.olga, { cron: '*/20 * * * * *' })).toBe(200)
    // What an operator has allowed stays, whatever else its owner changes.
    expect(await change(keys.ann, { catchUp: 0 })).toBe(200)
    const { cron } = (await server.call('GET', '/schedules/minutely', { key: keys.ann })).json()
    expect(cron).toBe('*/20 * * * * *')
    expect((await server.call('DELETE', '/schedules/minutely', { key: keys.ann })).status).toBe(204)
  })
})

describe('how many schedules one owner may have', () => {
  test('creating more is refused, also many at once, and others may still create theirs', async () => {
    const answers = await Promise.all(
      Array.from({ length: 4 * LIMIT }, (_, n) => create(keys.bob, `bobs-${n}`)),
    )
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([...Array(LIMIT).fill(201), ...Array(3 * LIMIT).fill(409)])
    expect(answers.find(({ status }) => status === 409)!.json()).toMatchObject({
      code: 'TOO_MANY_SCHEDULES',
      owner: 'bob',
      limit: LIMIT,
      detail: expect.stringContaining('Delete one, or raise schedulesPerOwner'),
    })
    expect((await create(keys.ann, 'anns')).status).toBe(201)

    const { schedules } = (await server.call('GET', '/schedules', { key: keys.bob })).json<{
      schedules: { name: string }[]
    }>()
    expect(schedules).toHaveLength(LIMIT)
    const path = `/schedules/${schedules[0]!.name}`
    expect((await server.call('DELETE', path, { key: keys.bob })).status).toBe(204)
    expect((await create(keys.bob, 'again')).status).toBe(201)
  })

  test('those of files and programs do not count', async () => {
    const { owner } = await server.app.getSchedule('ofTheProgram')
    for (let n = 0; n < LIMIT; n++)
      await server.app.createSchedule(`extra-${n}`, { task: 'report', cron: '0 3 * * *' })
    expect((await server.app.getSchedule('extra-0')).owner).toBe(owner)
    await expect(
      server.app.createSchedule('extra', { task: 'report', cron: '0 3 * * *' }),
    ).rejects.toMatchObject({ code: 'TOO_MANY_SCHEDULES' })
  })
})

// To look for its first tick took 400 years of calendar: 0.7 s of the server's time here, twice, in which it answered nobody.
test('a time that never comes is refused without keeping the server busy', async () => {
  const weekdays = Array.from({ length: 31 }, (_, day) => `${day + 1}W`).join(',')
  for (const cron of ['0 0 30 2 *', `* * * ${weekdays} * +SAT#1,SUN#1`]) {
    const spent: number[] = []
    for (let n = 0; n < 5; n++) {
      const started = performance.now()
      const answer = await create(keys.eve, 'never', cron)
      spent.push(performance.now() - started)
      expect([answer.status, answer.json()]).toMatchObject([
        400,
        { code: 'INVALID_ARGUMENT', detail: expect.stringContaining('never occurs') },
      ])
    }
    expect(Math.min(...spent), `ms for ${cron}`).toBeLessThan(500)
  }
})
