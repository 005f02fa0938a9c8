import { describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { askForWorkers } from '../../src/store/ask-for-workers.ts'
import { readPoolSnapshot } from '../../src/store/read-pool-snapshot.ts'
import { recordOverflow } from '../../src/store/record-overflow.ts'
import { registerWorker } from '../../src/store/register-worker.ts'
import { retireWorker } from '../../src/store/retire-worker.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { decisions, useInProcessPool } from '../support/in-process-pool.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const { work, OPTIONS, held, openPool, live } = useInProcessPool(database, apps)

describe('overflow', () => {
  test('starts as many workers as it needs within the maximum, by one request, however many decide', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 3 })
    await app.submitMany(
      work,
      Array.from({ length: 15 }, () => null),
    )
    const several = [keeper(), keeper(), keeper()]

    await Promise.all(several.map((each) => each.tend()))
    await until(async () => (await live()) === 3, 'three workers')
    await Promise.all(several.map((each) => each.tend()))

    expect(provisioner.calls).toHaveLength(1)
    const [decision] = await decisions(app)
    expect(decision).toMatchObject({
      action: 'start',
      count: 3,
      outcome: 'arrived',
      reason: expect.stringMatching(/^15 jobs waited up to .* s: no worker runs task work$/),
    })
    expect(decision!.workers.map(({ name }) => name).sort()).toEqual(['burst-1', 'burst-2', 'burst-3'])
    expect((await app.fleet()).pools[0]).toMatchObject({ requests: 1, arrived: 3, failed: 0, overflows: 1 })

    for (const each of several) await each.tend()
    expect(provisioner.calls, 'the pool is full: nothing more is asked').toHaveLength(1)
    expect(provisioner.stopped, 'all came before the call was answered').toEqual([])
  })

  test('asks nobody while some worker can take what waits', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 3 })
    await app.work({ capacity: 2 })
    await app.submitMany(work, [null, null])
    await until(async () => (await app.listJobs({ status: ['running'] })).length === 2, 'both to run')
    const one = keeper()
    await one.tend()
    expect(await decisions(app)).toEqual([])

    await app.submit(work, null)
    await until(async () => {
      await one.tend()
      return provisioner.calls.length > 0
    }, 'a worker to be asked for')
    expect(provisioner.calls[0]!.members).toEqual([1])
    expect((await decisions(app))[0]!.reason).toContain('every worker that runs task work is at capacity')
  })

  test('starts nobody for jobs that draw from budgets while somebody runs their task: it might find nothing left', async () => {
    const drawn = task({ name: 'drawn', uses: { ink: 1 }, run: (_: null) => held().pass() })
    const { app, provisioner, keeper } = await openPool(
      { max: 3 },
      { ...OPTIONS, tasks: [work, drawn], budgets: { ink: 1 } },
    )
    await app.work({ capacity: 1 })
    await app.submitMany(drawn, [null, null])
    await held().arrived(1)
    const one = keeper()
    await one.tend()
    expect(provisioner.calls).toEqual([])

    await app.submit(work, null)
    await until(async () => {
      await one.tend()
      return provisioner.calls.length > 0
    }, 'a worker to be asked for')
    expect((await decisions(app))[0]!.reason).toMatch(
      /^1 job waited .*: every worker that runs task work is at capacity$/,
    )
  })

  test('asks for no more than the lane lets run, and for nothing its workers could not run', async () => {
    const far = task({ name: 'far', requires: { zone: 'b' }, run: (_: null) => null })
    const { app, provisioner, keeper } = await openPool(
      { max: 9 },
      { ...OPTIONS, tasks: [work, far], lanes: { narrow: { slots: 2, tasks: ['work'] } } },
    )
    await app.submitMany(far, [null, null, null])
    const one = keeper()
    await one.tend()
    expect(await decisions(app)).toEqual([])
    await app.submitMany(
      work,
      Array.from({ length: 9 }, () => null),
    )
    await one.tend()
    await until(() => provisioner.calls.length > 0, 'a call')
    expect(provisioner.calls[0]!.members).toEqual([1, 2])
  })

  test('a provisioner that fails or hangs delays nobody and is left alone for longer each time', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1, cooldown: '1h' })
    const job = await app.submit(work, null)
    const one = keeper({ callMs: 200 })
    provisioner.behave = 'hang'

    await one.tend()
    await until(async () => (await decisions(app))[0]!.outcome === 'failed', 'the time limit')
    await one.tend()
    expect(provisioner.calls, 'it backs off').toHaveLength(1)
    expect((await decisions(app))[0]!.endedWhy).toBe('no response within 0.2 s')

    await app.setPool('burst', { cooldown: '0s' })
    await database.sql(`update sluice.fleet_decisions set ended_at = ended_at - interval '1 hour'`)
    provisioner.behave = 'fail'
    provisioner.complaint = 'too many\0calls'
    await one.tend()
    await until(async () => (await decisions(app))[0]!.endedWhy === 'too many\u2400calls', 'the failure')
    expect((await app.fleet()).pools[0]).toMatchObject({ requests: 2, failed: 2, arrived: 0 })
    await database.sql(`update sluice.fleet_decisions set ended_at = ended_at - interval '1 hour'`)
    provisioner.complaint = 'x'.repeat(1_048_576)
    await one.tend()
    await until(
      async () => (await decisions(app))[0]!.endedWhy?.startsWith('xxx') === true,
      'a long complaint',
    )
    expect((await decisions(app))[0]!.endedWhy!.length).toBeLessThan(2100)
    expect((await app.getJob(job.id)).status).toBe('queued')
  })

  test('a call that nobody lived to finish is made again by another, with the same token', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1 })
    await app.submit(work, null)
    provisioner.behave = 'hang'
    const dead = keeper({ callMs: 600_000 })
    await dead.tend()
    await until(() => provisioner.calls.length === 1, 'the first call')
    const other = keeper()
    await other.tend()
    expect(provisioner.calls, 'its time has not run out').toHaveLength(1)

    await database.sql("update sluice.fleet_decisions set taken_until = now() - interval '1 second'")
    provisioner.behave = 'start'
    await other.tend()
    await until(async () => (await live()) === 1, 'the worker')
    expect(provisioner.calls.map(({ token }) => token)).toEqual(Array(2).fill(provisioner.calls[0]!.token))
  })

  test('rejects a surplus worker at registration: the maximum holds whatever provisioners do', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 2 })
    await app.submitMany(work, [null, null])
    await keeper().tend()
    await until(async () => (await live()) === 2, 'both workers')
    const [request] = provisioner.calls
    await expect(provisioner.come(request!, 2)).rejects.toMatchObject({ code: 'SURPLUS_WORKER' })
    await expect(provisioner.come({ ...request!, token: 'another' }, 1)).rejects.toMatchObject({
      code: 'SURPLUS_WORKER',
      message: 'pool burst has 2 workers and may have 2',
    })
  })

  test('keeps the minimum of a pool without any job', async () => {
    const { app, keeper } = await openPool({ min: 2, max: 3 })
    await keeper().tend()
    await until(async () => (await live()) === 2, 'two workers')
    expect((await decisions(app))[0]!.reason).toBe('0 workers of at least 2')
  })

  test('a pool that no config names any more keeps no other from starting workers, and its request ends', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1, arrival: '1ms' })
    await app.submit(work, null)
    // Its servers asked for workers and were then started without it.
    const gone = await apps.open({ ...OPTIONS, fleet: { pools: { former: { max: 3, capacity: 0 } } } })
    const seen = (await readPoolSnapshot(gone.services.db, 'former', 0))!
    const asked = { pool: 'former', token: 'former', count: 3, reason: 'test', by: 'test', callMs: 0 }
    await askForWorkers(gone.services.db, { ...asked, seen: seen.newest, overflow: seen.overflow })
    await recordOverflow(gone.services.db, 'former', seen.overflow)
    const overdueBy = (interval: string) =>
      database.sql(
        `with late as (update sluice.fleet_samples set at = clock_timestamp() - $1::interval where pool = 'former')
         update sluice.fleet_decisions set arrive_by = clock_timestamp() - $1::interval where pool = 'former'`,
        [interval],
      )

    const one = keeper()
    await one.tend()
    expect(provisioner.calls, 'its workers may still come, and would take everything').toEqual([])
    await overdueBy('1 second')
    await one.tend()
    expect(provisioner.calls).toHaveLength(1)
    const former = async () => (await decisions(app)).find(({ pool }) => pool === 'former')
    expect(await former()).toMatchObject({ outcome: null })
    await overdueBy('1 hour')
    await one.tend()
    expect(await former()).toMatchObject({
      outcome: 'expired',
      endedWhy: 'no server looks after pool former any more',
    })
    const pool = (await app.fleet()).pools.find(({ name }) => name === 'former')
    expect(pool).toMatchObject({ overflow: 0, since: null })
  })

  test('a pool waits for the workers of another only while its provisioner may still answer, and only for tasks that they run', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1 })
    await app.submit(work, null)
    const other = await apps.open({ ...OPTIONS, fleet: { pools: { other: { max: 3, capacity: 0 } } } })
    const seen = (await readPoolSnapshot(other.services.db, 'other', 0))!
    const asked = { pool: 'other', token: 'other', count: 3, reason: 'test', by: 'test', callMs: 0 }
    await askForWorkers(other.services.db, { ...asked, seen: seen.newest, overflow: seen.overflow })
    const expected = async () => (await readPoolSnapshot(app.services.db, 'burst', 0))!.expected
    const since = (interval: string, started: number | null) =>
      database.sql(
        `update sluice.fleet_decisions set decided_at = clock_timestamp() - $1::interval, started = $2 where pool = 'other'`,
        [interval, started],
      )
    expect(await expected(), 'it was asked a moment ago').toBe(1_000_000)
    await since('6 seconds', 3)
    expect(await expected(), 'it has answered').toBe(1_000_000)

    const runs = { host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, labels: {}, pool: 'other' }
    const id = await registerWorker(app.services.db, { ...runs, name: 'o', tasks: ['something else'] })
    expect(await expected(), 'its workers run something else').toBe(0)
    await database.sql('delete from sluice.workers where id = $1', [id])
    expect(await expected()).toBe(1_000_000)

    await since('6 seconds', null)
    const one = keeper()
    await one.tend()
    expect(provisioner.calls, 'it is silent').toHaveLength(1)
  })

  test('keeps a worker that is shutting down because it was idle, unless an operator drained it', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 2, idle: '1h' })
    // Rows alone: a worker that was let go would be gone before it could be told to stay.
    const idler = { host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: ['work'], labels: {} }
    for (const name of ['first', 'second']) {
      const id = await registerWorker(app.services.db, { ...idler, name, pool: 'burst' })
      expect(await retireWorker(app.services.db, id, 7_200_000)).toMatch(/^idle for/)
    }
    await app.drainWorker('first')
    await app.submitMany(work, [null, null])

    await keeper().tend()
    const [decision] = await decisions(app)
    expect(decision).toMatchObject({ action: 'bring-back', count: 1 })
    expect(provisioner.calls).toEqual([])
    const still = (await app.listWorkers()).filter(({ draining }) => draining)
    expect(still.map(({ name }) => name)).toEqual(['first'])
    await database.sql('update sluice.workers set ended_at = clock_timestamp()')
  })
})
