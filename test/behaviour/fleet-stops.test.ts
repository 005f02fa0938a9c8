import { describe, expect, test } from 'vitest'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { decisions, useInProcessPool } from '../support/in-process-pool.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const { work, held, openPool } = useInProcessPool(database, apps)

describe('workers that were asked for and did not come', () => {
  test('those that do not come in time are stopped, and the request has failed', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 2, cooldown: '1h' })
    await app.submitMany(work, [null, null])
    provisioner.behave = 'never come'
    const one = keeper()
    await one.tend()
    await until(async () => (await decisions(app))[0]!.started === 2, 'the answer')
    await one.tend()
    expect((await decisions(app))[0]!.endedAt).toBeNull()

    await database.sql("update sluice.fleet_decisions set arrive_by = now() - interval '1 second'")
    provisioner.stopFailures = 1
    await until(async () => {
      await one.tend()
      return provisioner.stopped.length === 2
    }, 'both to be stopped, though not at the first try')
    expect((await decisions(app))[0]).toMatchObject({ outcome: 'expired', endedWhy: 'none arrived in time' })
  })

  test('another process stops the workers of a request whose process died, but not those that have arrived', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 2 })
    await app.submitMany(work, [null, null])
    provisioner.behave = 'never come'
    provisioner.stopHangs = true
    const dead = keeper({ callMs: 600_000 })
    await dead.tend()
    await until(async () => (await decisions(app))[0]!.started === 2, 'the answer')
    const [request] = provisioner.calls
    await provisioner.come(request!, 1)
    await database.sql("update sluice.fleet_decisions set arrive_by = now() - interval '1 second'")
    await dead.tend()
    const tries = async () =>
      (
        await database.sql<{ tries: number }>('select max(stop_tries) as tries from sluice.fleet_decisions')
      )[0]!.tries
    await until(async () => (await tries()) === 1, 'the first to set out')

    provisioner.stopHangs = false
    const other = keeper()
    await other.tend()
    expect(await tries(), 'its time has not run out').toBe(1)
    await database.sql(
      `update sluice.fleet_decisions set stop_at = now() - interval '1 second' where stop_at is not null`,
    )
    await other.tend()
    await until(() => provisioner.stopped.length > 0, 'the second to stop it')
    expect(provisioner.stopped).toEqual(['i-2'])
    await until(
      async () =>
        (await database.sql('select 1 from sluice.fleet_decisions where stop_at is not null')).length === 0,
      'that to be known',
    )
    await expect(provisioner.come(request!, 2)).rejects.toMatchObject({
      code: 'SURPLUS_WORKER',
      message: expect.stringContaining('has come too late'),
    })
  })

  const overdue = () =>
    database.sql(
      `update sluice.fleet_decisions set arrive_by = now() - interval '1 second' where ended_at is null`,
    )
  const nothingLeft = async () =>
    (await database.sql('select 1 from sluice.fleet_decisions where stop_at is not null')).length === 0

  test('does not stop running workers with ambiguous ids: a repeated id, or that of another request', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 3 })
    await app.submitMany(work, [null, null])
    provisioner.behave = 'never come'
    const one = keeper()
    await one.tend()
    await until(async () => (await decisions(app))[0]!.started === 2, 'the answer')
    const [request] = provisioner.calls
    await provisioner.come(request!, 1)
    await held().arrived(1)
    await overdue()
    await one.tend()
    await until(() => provisioner.stopped.length === 1, 'the other to be stopped')
    expect(provisioner.stopped).toEqual(['i-2'])
    await until(nothingLeft, 'that to be noted')

    // Machines with fixed names: it names the one that works.
    provisioner.says = [{ member: 1, id: 'i-1' }]
    await one.tend()
    await until(() => provisioner.calls.length === 2, 'the second request')
    await until(async () => (await decisions(app))[0]!.started === 1, 'its answer')
    await overdue()
    await one.tend()
    expect((await decisions(app))[0]).toMatchObject({ outcome: 'expired' })
    await until(nothingLeft, 'nothing to be left to stop')

    // Refused, and nobody knows which of the members has come.
    await database.sql(`update sluice.fleet_decisions set ended_at = ended_at - interval '1 hour'`)
    await app.submit(work, null)
    provisioner.says = [
      { member: 1, id: 'i-1' },
      { member: 2, id: 'i-1' },
    ]
    await one.tend()
    await until(async () => (await decisions(app))[0]!.outcome === 'failed', 'the refusal')
    expect((await decisions(app))[0]!.endedWhy).toContain('two members have the id i-1')
    await until(nothingLeft, 'nothing to be left to stop')
    expect(provisioner.stopped, 'the one who works was never stopped').toEqual(['i-2'])
  })

  test('stops nothing while the provisioner may be starting it again', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1 })
    await app.submit(work, null)
    provisioner.behave = 'never come'
    provisioner.stopFailures = 1
    const one = keeper()
    await one.tend()
    await until(async () => (await decisions(app))[0]!.started === 1, 'the answer')
    await overdue()
    await one.tend()
    await until(() => provisioner.stopFailures === 0, 'a stop that fails')
    await database.sql(`update sluice.fleet_decisions set ended_at = ended_at - interval '1 hour'`)
    provisioner.behave = 'answer late'
    await until(async () => {
      await one.tend()
      return provisioner.calls.length === 2
    }, 'the second request')
    await provisioner.answers.arrived()
    await database.sql(
      `update sluice.fleet_decisions set stop_at = now() - interval '1 second' where stop_at is not null`,
    )
    await one.tend()
    expect(await nothingLeft(), 'its time has come').toBe(false)
    provisioner.answers.open()
    await until(async () => {
      await one.tend()
      return nothingLeft()
    }, 'it to be the one that was asked for')
    expect(provisioner.stopped).toEqual([])
  })

  test('an answer that names a member twice, or one that nobody asked for, is refused; what it named is stopped, and cannot come any more', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1 })
    await app.submit(work, null)
    provisioner.behave = 'never come'
    provisioner.says = [
      { member: 1, id: 'a' },
      { member: 1, id: 'b' },
    ]
    const one = keeper()
    await one.tend()
    await until(() => provisioner.stopped.length === 2, 'both to be stopped')
    expect([...provisioner.stopped].sort()).toEqual(['a', 'b'])
    expect((await decisions(app))[0]).toMatchObject({
      outcome: 'failed',
      endedWhy: expect.stringContaining('member 1 is named twice'),
    })
    await expect(provisioner.come(provisioner.calls[0]!, 1)).rejects.toMatchObject({ code: 'SURPLUS_WORKER' })

    await database.sql(`update sluice.fleet_decisions set ended_at = ended_at - interval '1 hour'`)
    provisioner.says = [{ member: 77, id: 'c' }]
    await one.tend()
    await until(() => provisioner.stopped.includes('c'), 'the other to be stopped')
    expect((await decisions(app))[0]!.endedWhy).toContain('member must be one of 1')
  })

  test('rejects a worker that was not requested, or whose request has failed', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 3, cooldown: '1h' })
    await app.submitMany(work, [null, null])
    provisioner.behave = 'hang'
    const one = keeper({ callMs: 600_000 })
    await one.tend()
    await until(() => provisioner.calls.length === 1, 'the call')
    const [request] = provisioner.calls
    await expect(provisioner.come(request!, 77)).rejects.toMatchObject({
      code: 'SURPLUS_WORKER',
      message: `worker ${request!.token}.77 of pool burst was not asked for: the request is for 2 of pool burst`,
    })
    await expect(provisioner.come({ ...request!, token: `${request!.token}.1` }, 1)).rejects.toMatchObject({
      code: 'SURPLUS_WORKER',
    })
    await overdue()
    await one.tend()
    expect((await decisions(app))[0]).toMatchObject({ outcome: 'failed' })
    await expect(provisioner.come(request!, 1)).rejects.toMatchObject({
      code: 'SURPLUS_WORKER',
      message: expect.stringContaining('has come too late'),
    })
  })

  test('a provisioner that hangs when it is asked what became of workers keeps nobody from stopping them', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1 })
    await app.submit(work, null)
    provisioner.behave = 'never come'
    provisioner.describeHangs = true
    const one = keeper({ callMs: 600_000 })
    await one.tend()
    await until(async () => (await decisions(app))[0]!.started === 1, 'the answer')
    await database.sql("update sluice.fleet_decisions set looked_at = now() - interval '1 minute'")
    await one.tend()
    await until(() => provisioner.describes === 1, 'the question')
    await database.sql("update sluice.fleet_decisions set arrive_by = now() - interval '1 second'")
    await one.tend()
    await until(() => provisioner.stopped.length === 1, 'it to be stopped')
    await one.stop()
  })

  test('of a request that was given up before its call is answered, no other is made meanwhile, and what it started is stopped', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 1 })
    await app.submit(work, null)
    provisioner.behave = 'answer late'
    const one = keeper({ callMs: 600_000 })
    await one.tend()
    await provisioner.answers.arrived()
    await database.sql("update sluice.fleet_decisions set arrive_by = now() - interval '1 second'")
    await one.tend()
    expect((await decisions(app))[0]).toMatchObject({ outcome: 'failed', endedWhy: 'no response in time' })
    await database.sql(`update sluice.fleet_decisions set ended_at = ended_at - interval '1 hour'`)
    await one.tend()
    expect(await decisions(app)).toHaveLength(1)

    provisioner.answers.open()
    await until(() => provisioner.stopped.length === 1, 'what came of it to be stopped')
    await until(async () => {
      await one.tend()
      return provisioner.calls.length === 2
    }, 'another request')
  })
})
