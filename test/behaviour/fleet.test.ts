import { afterEach, describe, expect, test } from 'vitest'
import { FleetKeeper } from '../../src/fleet/fleet-keeper.ts'
import {
  type Provisioner,
  provisionerFailed,
  type Started,
  type StartRequest,
} from '../../src/fleet/provisioner.ts'
import { type Log, type Sluice, type SluiceOptions, sluice, task } from '../../src/index.ts'
import { askForWorkers } from '../../src/store/ask-for-workers.ts'
import { lookAtPool } from '../../src/store/look-at-pool.ts'
import { noteOverflow } from '../../src/store/note-overflow.ts'
import { registerWorker } from '../../src/store/register-worker.ts'
import { retireWorker } from '../../src/store/retire-worker.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** Workers in this process, each an application of its own. */
class InProcess implements Provisioner {
  readonly calls: StartRequest[] = []
  readonly stopped: string[] = []
  readonly workers: Sluice[] = []
  stopFailures = 0
  stopHangs = false
  describeHangs = false
  describes = 0
  complaint = 'too many calls'
  behave: 'start' | 'fail' | 'hang' | 'never come' | 'answer late' = 'start'
  /** What it says it started, whatever it did. */
  says: Started['instances'] | undefined
  readonly answers = new Gate()
  readonly #options: SluiceOptions
  #starting: Promise<unknown> = Promise.resolve()

  constructor(options: SluiceOptions) {
    this.#options = options
  }

  async start(request: StartRequest): Promise<Started> {
    this.calls.push(request)
    if (this.behave === 'hang') return new Promise(() => {})
    const starting = this.#start(request)
    this.#starting = starting.catch(() => {})
    return starting
  }

  async #start(request: StartRequest): Promise<Started> {
    if (this.behave === 'fail') throw provisionerFailed('throttled', this.complaint)
    if (this.behave === 'answer late') await this.answers.pass()
    const instances = request.members.map((member) => ({ member, id: `i-${member}` }))
    if (this.behave === 'start') for (const { member } of instances) await this.come(request, member)
    return { instances: this.says ?? instances, failures: [] }
  }

  async come({ token, pool, capacity }: StartRequest, member: number): Promise<void> {
    const app = await sluice({ database: database.url, log: silent, ...this.#options })
    this.workers.push(app)
    await app.work({ capacity, inPool: pool, request: `${token}.${member}`, name: `${pool}-${member}` })
  }

  async describe(ids: readonly string[]) {
    this.describes++
    if (this.describeHangs) return new Promise<never>(() => {})
    return ids.map((id) => ({ id, state: 'starting' as const }))
  }

  async stop(ids: readonly string[]): Promise<void> {
    if (this.stopHangs) return new Promise<never>(() => {})
    if (this.stopFailures-- > 0) throw provisionerFailed('throttled', 'too many calls')
    this.stopped.push(...ids)
  }

  async close(): Promise<void> {
    await this.#starting
    await Promise.all(this.workers.splice(0).map((app) => app.close()))
  }
}

let held = new Gate()
const work = task({ name: 'work', run: (_: null) => held.pass() })
const OPTIONS: SluiceOptions = { tasks: [work], heartbeat: '300ms', stale: '2s' }
const keepers: FleetKeeper[] = []

afterEach(async () => {
  held.open()
  await Promise.all(keepers.splice(0).map((keeper) => keeper.stop()))
  await database.sql(
    `update sluice.jobs set state = 'cancelled', error = 'over', finished_at = now() where state < 'running'`,
  )
  await database.sql('delete from sluice.pools')
})

async function openPool(pool: object, options: SluiceOptions = OPTIONS) {
  held = new Gate()
  const fleet = { pools: { burst: { cooldown: '0s', ...pool } } }
  const app = await apps.open({ ...options, fleet })
  const provisioner = new InProcess(options)
  const keeper = (more: object = {}) => {
    const made = new FleetKeeper({
      db: app.room.db,
      log: silent,
      name: 'test',
      provisioners: new Map([['burst', provisioner]]),
      momentMs: 0,
      ...more,
    })
    keepers.push(made)
    return made
  }
  return { app, provisioner, keeper }
}

const decisions = (app: Sluice) => app.fleet().then((view) => view.decisions)
const live = () =>
  database
    .sql<{ count: number }>('select count(*)::integer from sluice.workers where ended_at is null')
    .then((rows) => rows[0]!.count)

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
    const drawn = task({ name: 'drawn', uses: { ink: 1 }, run: (_: null) => held.pass() })
    const { app, provisioner, keeper } = await openPool(
      { max: 3 },
      { ...OPTIONS, tasks: [work, drawn], budgets: { ink: 1 } },
    )
    await app.work({ capacity: 1 })
    await app.submitMany(drawn, [null, null])
    await held.arrived(1)
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
    expect((await decisions(app))[0]!.endedWhy).toBe('no answer within 0.2 s')

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
    expect((await decisions(app))[0]).toMatchObject({ outcome: 'expired', endedWhy: 'none came in time' })
  })

  test('those that whoever ended the request did not live to stop are stopped by another, and cannot come any more; who came is left alone', async () => {
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

  test('what cannot be told apart is not stopped while somebody runs on it: an id twice, or that of a worker of another request', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 3 })
    await app.submitMany(work, [null, null])
    provisioner.behave = 'never come'
    const one = keeper()
    await one.tend()
    await until(async () => (await decisions(app))[0]!.started === 2, 'the answer')
    const [request] = provisioner.calls
    await provisioner.come(request!, 1)
    await held.arrived(1)
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

  test('nothing is stopped while the provisioner may be starting it anew', async () => {
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

  test('who comes as a member that nobody asked for, or for a request that has failed, is turned away', async () => {
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
    expect((await decisions(app))[0]).toMatchObject({ outcome: 'failed', endedWhy: 'no answer in time' })
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

  test('a worker too many is turned away when it registers: the maximum holds whatever provisioners do', async () => {
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
    const seen = (await lookAtPool(gone.room.db, 'former', 0))!
    const asked = { pool: 'former', token: 'former', count: 3, reason: 'test', by: 'test', callMs: 0 }
    await askForWorkers(gone.room.db, { ...asked, seen: seen.newest, overflow: seen.overflow })
    await noteOverflow(gone.room.db, 'former', seen.overflow)
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
    const seen = (await lookAtPool(other.room.db, 'other', 0))!
    const asked = { pool: 'other', token: 'other', count: 3, reason: 'test', by: 'test', callMs: 0 }
    await askForWorkers(other.room.db, { ...asked, seen: seen.newest, overflow: seen.overflow })
    const expected = async () => (await lookAtPool(app.room.db, 'burst', 0))!.expected
    const since = (interval: string, started: number | null) =>
      database.sql(
        `update sluice.fleet_decisions set decided_at = clock_timestamp() - $1::interval, started = $2 where pool = 'other'`,
        [interval, started],
      )
    expect(await expected(), 'it was asked a moment ago').toBe(1_000_000)
    await since('6 seconds', 3)
    expect(await expected(), 'it has answered').toBe(1_000_000)

    const runs = { host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, labels: {}, pool: 'other' }
    const id = await registerWorker(app.room.db, { ...runs, name: 'o', tasks: ['something else'] })
    expect(await expected(), 'its workers run something else').toBe(0)
    await database.sql('delete from sluice.workers where id = $1', [id])
    expect(await expected()).toBe(1_000_000)

    await since('6 seconds', null)
    const one = keeper()
    await one.tend()
    expect(provisioner.calls, 'it is silent').toHaveLength(1)
  })

  test('a worker that leaves for lack of work is told to stay, unless an operator drained it meanwhile', async () => {
    const { app, provisioner, keeper } = await openPool({ max: 2, idle: '1h' })
    // Rows alone: a worker that was let go would be gone before it could be told to stay.
    const idler = { host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: ['work'], labels: {} }
    for (const name of ['first', 'second']) {
      const id = await registerWorker(app.room.db, { ...idler, name, pool: 'burst' })
      expect(await retireWorker(app.room.db, id, 7_200_000)).toMatch(/^idle for/)
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
