import { describe, expect, test } from 'vitest'
import { setPool } from '../../src/engine/operate/pool-control.ts'
import { task } from '../../src/index.ts'
import { registerWorker } from '../../src/store/register-worker.ts'
import { retireWorker } from '../../src/store/retire-worker.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const commits = useCommitChecker(database)
const apps = useApps(database)

/** Short, so that a worker asks often whether it may leave. */
const HEARTBEAT = { heartbeat: '200ms', stale: '2s' } as const

interface Ended {
  readonly name: string
  readonly why: string | null
}

function ended(pool: string): Promise<Ended[]> {
  return database.sql<Ended & Record<string, unknown>>(
    `select name, ended_why as why from sluice.workers where pool = $1 and ended_at is not null order by id`,
    [pool],
  )
}

describe('workers without work leave their pool', () => {
  test('with the reason kept, and as many stay as the pool wants', async () => {
    const quick = task({ name: 'quick', run: (n: number) => n })
    const options = { ...HEARTBEAT, tasks: [quick], fleet: { pools: { quiet: { min: 1, idle: '400ms' } } } }
    const asked: string[] = []
    for (const name of ['q1', 'q2', 'q3']) {
      const app = await apps.open(options)
      await app.work({ inPool: 'quiet', name, onStopAsked: () => asked.push(name) })
    }
    const submitter = await apps.open(options)
    expect(await (await submitter.submit(quick, 1)).result()).toBe(1)
    await until(async () => (await ended('quiet')).length === 2, 'two of three to leave')
    const left = await ended('quiet')
    expect(left.map(({ why }) => /^idle for [\d.]+ s in pool quiet$/.test(why ?? ''))).toEqual([true, true])
    expect(asked.toSorted()).toEqual(left.map(({ name }) => name).toSorted())
    // The one that stays still works.
    expect(await (await submitter.submit(quick, 2)).result()).toBe(2)
    expect((await submitter.listWorkers()).map(({ pool }) => pool)).toEqual(['quiet'])
  })

  test('one that has lived long enough takes nothing new, ends what it runs, and leaves', async () => {
    const waiting = new Gate()
    const held = task({ name: 'held', run: () => waiting.pass() })
    const options = {
      ...HEARTBEAT,
      tasks: [held],
      fleet: { pools: { old: { idle: 'none' as const, lifetime: '3s' } } },
    }
    const app = await apps.open(options)
    await app.work({ inPool: 'old', name: 'elder', capacity: 2 })
    const job = await app.submit(held, undefined)
    await waiting.arrived()
    await until(async () => (await app.listWorkers())[0]?.draining, 'it to take nothing new')
    const later = await app.submit(held, undefined)
    expect((await app.getJob(later.id)).status).toBe('queued')
    expect(await ended('old')).toEqual([])
    waiting.open()
    await job.result()
    await until(async () => (await ended('old')).length === 1, 'it to leave')
    expect(await ended('old')).toEqual([{ name: 'elder', why: 'lived for 3 s, the lifetime in pool old' }])
    expect(await app.listAttempts(job.id)).toHaveLength(1)
    expect((await app.getJob(later.id)).status).toBe('queued')
    await app.cancel(later.id)
  })

  test('however many ask at once, the pool keeps its minimum', async () => {
    const app = await apps.open({ fleet: { pools: { raced: { min: 3, max: 20, idle: '1ms' } } } })
    const { db } = app.services
    const ids: string[] = []
    for (let n = 0; n < 12; n++)
      ids.push(
        await registerWorker(db, {
          ...{ name: `r${n}`, host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: [], labels: {} },
          pool: 'raced',
        }),
      )
    const whys = await Promise.all(ids.map((id) => retireWorker(db, id, 1000)))
    expect(whys.filter((why) => why !== undefined)).toHaveLength(9)
    // Who is silent does not count as there, and a smaller minimum lets go of more.
    const stay = ids.filter((_, n) => whys[n] === undefined)
    await setPool(app.services.calls, 'raced', { min: 2 }, 'test')
    await database.sql(`update sluice.workers set seen_at = seen_at - interval '1 minute' where id = $1`, [
      stay[0],
    ])
    expect(await Promise.all(stay.slice(1).map((id) => retireWorker(db, id, 1000)))).toEqual([
      undefined,
      undefined,
    ])
    const { fleet } = await commits.catchUp()
    expect(fleet.seen.left).toBeGreaterThanOrEqual(9)
    await database.sql(`update sluice.workers set ended_at = clock_timestamp() where pool = 'raced'`)
  })
})
