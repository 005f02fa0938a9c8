import pg from 'pg'
import { Database } from '../../src/db/database.ts'
import type { Duty } from '../../src/duties/duty.ts'
import { DUTIES, DutyRunner } from '../../src/duties/runner.ts'
import { diagnose } from '../../src/engine/diagnosis/diagnosis.ts'
import { isChosenBy } from '../../src/engine/operate/job-control.ts'
import { checkLaneChoice } from '../../src/engine/operate/lane-choice.ts'
import { childrenOf, stripOf } from '../../src/engine/views/fan-out-view.ts'
import { readPage } from '../../src/engine/views/job-list.ts'
import {
  hasCode,
  type Log,
  type Sluice,
  SluiceError,
  sluice,
  type TaskContext,
  task,
} from '../../src/index.ts'
import { handBack } from '../../src/store/hand-back.ts'
import { liveAccess } from './access-life.ts'
import { liveAdmission } from './admission-life.ts'
import { budgetTasks, LIFE_BUDGETS, liveBudgets } from './budget-life.ts'
import type { Sql } from './database.ts'
import { LIFE_POOLS, liveFleet } from './fleet-life.ts'
import { liveLists } from './list-life.ts'
import { once, repeated, settled } from './persistent-caller.ts'
import { liveRemotely } from './remote-worker-life.ts'
import { askToLeave, liveServer } from './server-life.ts'
import { countStep, followsClock, hasDealtWithTicks, plantMissedTicks } from './state/clock.ts'
import { patiently } from './until.ts'

const STALE = '2s'

const CHAIN = {
  steps: {
    first: { task: 'plain', with: { n: '${{ input.n }}' } },
    fan: {
      task: 'plain',
      needs: ['first'],
      with_items: '${{ range(5) }}',
      concurrency: 2,
      with: { n: '${{ item }}' },
      strategy: { atLeast: 5, of: 'leaves' },
    },
    group: {
      needs: ['fan'],
      steps: { last: { task: 'plain', with: { n: '${{ steps.fan.results[2].n }}' } } },
    },
  },
  output: {
    first: '${{ steps.first.result.n }}',
    fan: '${{ steps.fan.results.map(each, each.n) }}',
    last: '${{ steps.group.result.last.n }}',
  },
}
const WINDOW = { steps: { wait: { task: 'held', with_items: [1, 2, 3], concurrency: 1 } } }

/** That a duty fails is recorded, which may fail too. */
const FAILING: Duty = {
  name: 'failing',
  everyMs: 500,
  run: () => Promise.reject(new Error('this duty always fails')),
}

/**
 * Everything that can happen to jobs, again and again, on an address where any
 * statement may fail. Whatever a caller would repeat is repeated; what must hold
 * nevertheless is collected in `violations`.
 */
export class JobLife {
  readonly violations: string[] = []
  /** Jobs that were brought into their state by hand, as no program would. */
  readonly planted = new Set<string>()
  readonly #url: string
  readonly #sql: Sql
  readonly #db: Database
  readonly #duties: DutyRunner
  readonly #log: Log
  readonly #executed = new Set<string>()
  readonly #running = new Map<string, AbortSignal>()
  readonly #hurry: NodeJS.Timeout
  #round = 0

  /** @param sql Straight to the server, past every fault. */
  constructor(url: string, sql: Sql) {
    this.#url = url
    this.#sql = sql
    const nothing = () => {}
    this.#log = {
      debug: nothing,
      info: nothing,
      warn: nothing,
      error: (_, message) => this.#judgeLog(message),
    }
    this.#db = new Database({ url, maxConnections: 2, applicationName: 'life' })
    const often = DUTIES.map((duty) => ({ ...duty, everyMs: 30 }))
    const duties = [...often, FAILING]
    this.#duties = new DutyRunner(this.#db, this.#log, 'life', { duties, tickMs: 40 })
    this.#duties.start()
    this.#hurry = setInterval(() => void this.#dueNow(), 100)
  }

  /** A program from its start to its end, with all that it may do in between. */
  async round(): Promise<void> {
    this.#round++
    const app = await this.#open()
    try {
      await repeated('work', () => app.work({ capacity: 4, name: `life-${this.#round}` }))
      await Promise.all([
        this.#plain(app),
        this.#many(app),
        this.#inTransaction(app),
        this.#approval(app),
        this.#cancels(app),
        this.#again(app),
        this.#deadline(app),
        this.#orphan(),
        this.#operators(app),
        this.#readers(app),
        this.#workflow(app),
        this.#window(app),
        this.#treeAgain(app),
        this.#access(),
        this.#remote(app),
        this.#admission(app),
        this.#schedules(app),
        this.#budgets(app),
        this.#fleet(app),
        liveServer(app),
        this.#lists(app),
      ])
      await askToLeave(app, `life-${this.#round}`)
    } finally {
      await app.close()
    }
  }

  /** Faults are over. Waits until all has ended, with a worker that is alive and then without. */
  async rest(): Promise<void> {
    const app = await this.#open()
    await app.work({ capacity: 4 })
    await this.#none('jobs that have not ended', `from sluice.jobs where state < 'completed'`)
    await this.#none('slots held while nothing runs', 'from sluice.holdings where slots > 0')
    await app.close()
    await this.#none('holdings of workers that have left', 'from sluice.holdings')
    await this.#none(
      'models that count against a budget though their worker has left',
      'from sluice.residents r join sluice.workers w on w.id = r.worker_id where w.ended_at is null',
    )
    await this.#none('workers that nobody has ended', 'from sluice.workers where ended_at is null')
  }

  /** Stops what goes on behind the rounds. */
  async end(): Promise<void> {
    clearInterval(this.#hurry)
    await this.#duties.stop()
    await this.#db.close()
  }

  /** Whoever does a duty puts it off by its own measure, a minute for some: nobody has to wait for that here. */
  async #dueNow(): Promise<void> {
    await this.#sql(
      `update sluice.duties set due_at = clock_timestamp() where name in (
         select name from sluice.duties where due_at > clock_timestamp() + interval '100 ms' for update skip locked)`,
    ).catch(() => {})
  }

  async #none(what: string, from: string): Promise<void> {
    try {
      await patiently(async () => (await this.#sql(`select 1 ${from} limit 1`)).length === 0, what)
    } catch {
      const [row] = await this.#sql<{ rows: unknown }>(
        `select jsonb_agg(to_jsonb(x)) as rows from (select * ${from} limit 5) x`,
      )
      this.violations.push(`${what}: ${JSON.stringify(row?.rows)}`)
    }
  }

  #judgeLog(message: string): void {
    if (message.startsWith('DRIFT')) this.violations.push(message)
  }

  #open(): Promise<Sluice> {
    const retry = { attempts: 1000, backoff: 'fixed', delay: '1ms' } as const
    const common = { lane: 'life', retry, losses: 1000 } as const
    const tasks = [
      task({
        ...common,
        name: 'plain',
        run: (input: { n: number }, ctx) => this.#run(ctx, () => traces(input.n, ctx)),
      }),
      task({
        ...common,
        name: 'gated',
        approval: true,
        run: (_: null, ctx) => this.#run(ctx, () => 'approved'),
      }),
      task({ ...common, name: 'held', run: (_: null, ctx) => this.#run(ctx, () => stopped(ctx.signal)) }),
      task({
        ...common,
        name: 'orphan',
        lane: 'orphans',
        run: (_: null, ctx) => this.#run(ctx, () => 'found'),
      }),
      task({
        ...common,
        name: 'nowhere',
        lane: 'closed',
        run: () => this.violations.push('a closed lane ran'),
      }),
      ...budgetTasks({ ...common, lane: 'drawing' }, (ctx, code) => this.#run(ctx, code)),
    ]
    const lanes = {
      life: { slots: 3, poll: '50ms', stale: STALE },
      orphans: { slots: null, poll: '50ms', stale: STALE },
      closed: { enabled: false, stale: STALE },
      drawing: { slots: null, perWorker: null, poll: '50ms', stale: STALE },
      default: { stale: STALE },
      interactive: { stale: STALE },
      maintenance: { stale: STALE },
      system: { stale: STALE },
    } as const
    return repeated('sluice()', () =>
      sluice({
        database: this.#url,
        log: this.#log,
        tasks,
        workflows: [
          { name: 'chain', definition: CHAIN },
          { name: 'window', definition: WINDOW },
        ],
        lanes,
        budgets: LIFE_BUDGETS,
        fleet: { pools: LIFE_POOLS },
        models: { life: { load: '10ms' } },
        heartbeat: '300ms',
        grace: '1s',
        shutdownGrace: '5s',
      }),
    )
  }

  /** Runs one attempt and sees to it that no attempt runs twice, and none beside another that was not told to stop. */
  async #run<T>(ctx: TaskContext, code: () => T | Promise<T>): Promise<T> {
    const name = `attempt ${ctx.attempt} of job ${ctx.job.id}`
    if (this.#executed.has(name)) this.violations.push(`${name} ran twice`)
    this.#executed.add(name)
    const other = this.#running.get(ctx.job.id)
    if (other !== undefined && !other.aborted) this.violations.push(`${name} began while another one ran`)
    this.#running.set(ctx.job.id, ctx.signal)
    try {
      return await code()
    } finally {
      if (this.#running.get(ctx.job.id) === ctx.signal) this.#running.delete(ctx.job.id)
    }
  }

  async #plain(app: Sluice): Promise<void> {
    const job = await repeated('submit', () => app.submit('plain', { n: this.#round }))
    const keyed = await repeated('submit with a key', () =>
      app.submit('plain', { n: this.#round }, { key: `key-${this.#round}` }),
    )
    const urgent = await repeated('submit with a priority', () =>
      app.submit('plain', { n: this.#round }, { priority: 1 }),
    )
    for (const { id, result } of await Promise.all([job, keyed, urgent].map(settled))) {
      const { n, step } = result as { n: number; step: string }
      const [stored] = await this.#sql<{ step: string; checkpoint: number }>(
        `select s.result #>> '{}' as step, (o.checkpoint ->> 'n')::integer as checkpoint
           from sluice.steps s join sluice.notes o using (job_id) where s.job_id = $1 and s.name = 'once'`,
        [id],
      )
      if (n !== this.#round || stored?.step !== step || stored.checkpoint !== n) {
        this.violations.push(`job ${id} gave ${JSON.stringify(result)}, stored is ${JSON.stringify(stored)}`)
      }
    }
  }

  async #many(app: Sluice): Promise<void> {
    const inputs = [1, 2, 3].map((n) => ({ n }))
    const jobs = await repeated('submitMany', () => app.submitMany('plain', inputs))
    const results = await Promise.all(jobs.map(settled))
    const numbers = results.map(({ result }) => (result as { n: number }).n)
    if (numbers.join() !== '1,2,3') this.violations.push(`submitMany gave results ${numbers.join()}`)
  }

  /** Stored with the caller's commit, or not at all. */
  async #inTransaction(app: Sluice): Promise<void> {
    const job = await repeated('submit in a transaction', async () => {
      const client = new pg.Client(this.#url)
      client.on('error', () => {})
      await client.connect()
      try {
        await client.query('begin')
        const stored = await app.submit('plain', { n: 0 }, { transaction: client })
        await client.query('commit')
        return stored
      } catch (cause) {
        // What the caller's own client throws is the caller's to judge.
        throw new SluiceError('DATABASE_UNAVAILABLE', String(cause), { cause })
      } finally {
        await client.end().catch(() => {})
      }
    })
    await settled(job)
  }

  async #approval(app: Sluice): Promise<void> {
    const [yes, no] = await Promise.all(
      ['yes', 'no'].map((key) =>
        repeated('submit', () => app.submit('gated', null, { key: `${key}-${this.#round}` })),
      ),
    )
    await repeated('isChosenBy', () => isChosenBy(app.services.calls, yes!.id, 'somebody'))
    await once('approve', () => app.approve(yes!.id))
    await once('reject', () => app.reject(no!.id, 'not today'))
    this.#expect('approved', (await settled(yes!)).result)
    this.#expect('rejected: not today', (await settled(no!)).error)
  }

  async #cancels(app: Sluice): Promise<void> {
    const later = await repeated('submit for later', () =>
      app.submit('plain', { n: 0 }, { key: `later-${this.#round}`, runAt: '1h' }),
    )
    await repeated('reprioritise', () => app.reprioritise(later.id, 7))
    await once('cancel of a waiting job', () => app.cancel(later.id))
    this.#expect('cancelled: on request', (await settled(later)).error)

    const held = await repeated('submit', () => app.submit('held', null, { key: `held-${this.#round}` }))
    await patiently(() => this.#running.has(held.id), `job ${held.id} to run`)
    await once('cancel of a running job', () => app.cancel(held.id))
    this.#expect('cancelled', (await settled(held)).error?.slice(0, 9))
  }

  async #again(app: Sluice): Promise<void> {
    const job = await repeated('submit', () => app.submit('plain', { n: 5 }))
    await settled(job)
    await once('rerun', () => app.rerun(job.id))
    await settled(job)
    await patiently(async () => (await this.#stateOf(job.id)) === 'completed', `job ${job.id} to end again`)
    await repeated('listAttempts', () => app.listAttempts(job.id))
    await once('remove', () => app.remove(job.id))
    this.#expect(undefined, await this.#stateOf(job.id))

    const old = await repeated('submit', () => app.submit('plain', { n: 6 }))
    await settled(old)
    this.planted.add(old.id)
    await this.#sql(`update sluice.jobs set finished_at = now() - interval '8 days' where id = $1`, [old.id])
    // The duty walks along the ids until it meets a job that was submitted too recently.
    await this.#sql(
      `update sluice.job_data d set submitted_at = now() - interval '8 days'
        where d.id <= $1 and d.submitted_at > now() - interval '8 days' and exists (select 1 from sluice.outcomes o where o.id = d.id)`,
      [old.id],
    )
    await patiently(async () => (await this.#stateOf(old.id)) === undefined, `job ${old.id} to be pruned`)
  }

  async #deadline(app: Sluice): Promise<void> {
    const job = await repeated('submit', () =>
      app.submit('nowhere', null, { key: `nowhere-${this.#round}`, deadline: '300ms' }),
    )
    await repeated('why', () => app.why(job.id))
    this.#expect('capacity:', (await settled(job)).error?.slice(0, 9))
  }

  /** A job that runs under a worker which died an hour ago. */
  async #orphan(): Promise<void> {
    const [row] = await this.#sql<{ id: string }>(
      `with worker as materialized (
         insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, seen_at)
         values ('ghost', 'nowhere', 1, '0', 1, 1, '{orphan}', now() - interval '1 hour') returning id
       ), holding as (
         insert into sluice.holdings (worker_id, lane, slots) select id, 'orphans', 1 from worker
       )
       insert into sluice.jobs (task, class_id, state, worker_id, attempt, started_at)
       select 'orphan', t.class_id, 'running', w.id, 1, now() from sluice.tasks t, worker w where t.name = 'orphan'
       returning id`,
    )
    this.planted.add(row!.id)
    // Each connection a duty loses begins the time anew in which workers may report, and there is a fault for each statement.
    await patiently(
      async () => (await this.#stateOf(row!.id)) === 'completed',
      `orphan ${row!.id} to be found`,
    )
  }

  async #operators(app: Sluice): Promise<void> {
    await repeated('setLane', () => app.setLane('life', { slots: 2, ageing: '1m' }))
    await this.#drain(app, true)
    await this.#drain(app, false)
    await repeated('setLane', () => app.setLane('life', { slots: 3, ageing: null }))
    await repeated('resetLane', () => app.resetLane('life'))
    await repeated('createLane', () => unless('LANE_EXISTS', app.createLane('spare', { slots: 1 })))
    await repeated('moveTask', () => app.moveTask('held', 'spare'))
    await repeated('laneOverrides', () => app.laneOverrides())
    await repeated('deleteLane', () => unless('LANE_NOT_FOUND', app.deleteLane('spare', { moveTo: 'life' })))
    await repeated('moveTask', () => app.moveTask('held', null))
    await repeated('checkLaneChoice', () => checkLaneChoice(app.services.calls, 'held', 'life', true))
    await repeated('deleteTask', () => unless('TASK_NOT_FOUND', app.deleteTask('never-known')))
  }

  /** A worker that a fault kept silent for too long is declared dead and comes back a moment later. */
  async #drain(app: Sluice, draining: boolean): Promise<void> {
    const tell = () => repeated('drain', () => app.drainWorker(`life-${this.#round}`, draining))
    await patiently(
      () =>
        tell().catch((error) => {
          if (!hasCode(error.cause, 'WORKER_NOT_FOUND')) throw error
        }),
      `worker life-${this.#round} to be there`,
    )
  }

  async #readers(app: Sluice): Promise<void> {
    // As the thread of a blocked loop sends it, whatever becomes of it. What it does to a worker that has jobs is for
    // test/crash/hand-back-faults.test.ts.
    await handBack(this.#db, '0', ['0'], 0n, 1).catch(() => {})
    const job = await repeated('submit', () => app.submit('plain', { n: 1 }))
    await settled(job)
    await repeated('readLogs', () => app.readLogs(job.id))
    await repeated('listJobs', () => app.listJobs({ task: 'plain', limit: 5 }))
    await repeated('listWorkers', () => app.listWorkers())
    await repeated('listTasks', () => app.listTasks())
    await repeated('sampleQueues', () => app.sampleQueues())
    const schema = async () => ({ applied: 1, compatibleSince: 1, available: 1 })
    for await (const _ of diagnose({ db: this.#db, schema, settings: undefined, now: Date.now() }));
  }

  async #lists(app: Sluice): Promise<void> {
    this.violations.push(...(await liveLists(app, this.#sql, this.#round)))
  }

  /** A schedule that fires every second, and is then changed, fired by hand and removed. */
  async #schedules(app: Sluice): Promise<void> {
    const name = `every-second-${this.#round}`
    const options = { task: 'plain', cron: '* * * * * *', input: { n: 1 }, tags: [name] }
    await repeated('createSchedule', async () => {
      try {
        await app.createSchedule(name, options)
      } catch (error) {
        // After a lost answer: it was stored.
        if (!hasCode(error, 'SCHEDULE_EXISTS')) throw error
      }
    })
    await patiently(async () => {
      const firings = await repeated('listFirings', () => app.listFirings(name))
      return firings.some(({ jobId }) => jobId !== null)
    }, `schedule ${name} to fire`)
    await plantMissedTicks(this.#sql, name)
    await patiently(() => hasDealtWithTicks(this.#sql, name), `schedule ${name} to deal with missed ticks`)
    await countStep(this.#sql)
    await patiently(() => followsClock(this.#sql, name), `schedule ${name} to follow the clock`)
    await repeated('setSchedule', () => app.setSchedule(name, { enabled: false, priority: 3 }))
    await repeated('fireSchedule', () => app.fireSchedule(name))
    // In one look: whatever is stored of a firing is stored with its job.
    const [row] = await this.#sql<{ jobs: number; firings: number }>(
      `select (select count(*) from sluice.jobs where tags @> array[$1])::integer as jobs,
              (select count(distinct job_id) from sluice.firings where schedule = $1)::integer as firings`,
      [name],
    )
    this.#expect(row!.jobs, row!.firings)
    await this.#sql(`update sluice.firings set fired_at = now() - interval '8 days' where schedule = $1`, [
      name,
    ])
    await repeated('removeSchedule', async () => {
      try {
        await app.removeSchedule(name)
      } catch (error) {
        if (!hasCode(error, 'SCHEDULE_NOT_FOUND')) throw error
      }
    })
  }

  /** Every kind of step, each of which fails once. */
  async #workflow(app: Sluice): Promise<void> {
    const job = await repeated('submit of a workflow', () =>
      app.submit('chain', { n: this.#round }, { key: `chain-${this.#round}` }),
    )
    const { result, error } = await settled(job)
    this.#expect(
      JSON.stringify({ fan: [0, 1, 2, 3, 4], last: 2, first: this.#round }),
      JSON.stringify(result),
    )
    this.#expect(undefined, error)
  }

  /** A fan-out that is made wider, paused, looked at and cancelled. */
  async #window(app: Sluice): Promise<void> {
    const job = await repeated('submit of a workflow', () =>
      app.submit('window', null, { key: `window-${this.#round}` }),
    )
    const fanOut = await patiently(() => this.#busyFanOut(job.id), `a child of workflow ${job.id} to run`)
    await repeated('resizeWindow', () => app.resizeWindow(fanOut, 2))
    await repeated('why', () => app.why(fanOut))
    await repeated('readPage', () => readPage(app.services.calls, { status: ['running'] }, undefined, 10))
    const children = await repeated('listJobs', () => app.listJobs({ parent: fanOut }))
    const waiting = children.find(({ state }) => state === 'waiting')
    if (waiting !== undefined) await repeated('why', () => app.why(waiting.id))
    await repeated('watchTree', () => app.watchTree(job.id).look())
    await repeated('resizeWindow', () => app.resizeWindow(fanOut, 0))
    await once('cancel of a workflow', () => app.cancel(job.id))
    this.#expect('cancelled: on request', (await settled(job)).error)
    await repeated('watchTree', () => app.watchTree(job.id).look())
  }

  /** A workflow that is looked at when it has ended, and run again from its first step with another input. */
  async #treeAgain(app: Sluice): Promise<void> {
    const job = await repeated('submit of a workflow', () =>
      app.submit('chain', { n: 7 }, { key: `again-${this.#round}` }),
    )
    await settled(job)
    const tree = await repeated('tree', () => app.tree(job.id))
    const item = tree.children[1]!.children[2]!
    await repeated('stripOf', () => stripOf(app.services.calls, tree.children[1]!.id, 2))
    await repeated('childrenOf', () => childrenOf(app.services.calls, tree.children[1]!.id, { limit: 2 }))
    await repeated('trace', () => app.trace(item.id))
    await repeated('dry retry', () => app.retry(job.id, { from: 'fan', dryRun: true }))
    await once('retry', () => app.retry(job.id, { from: 'first', input: { n: 8 } }))
    await patiently(
      async () => (await this.#stateOf(job.id)) === 'completed',
      `workflow ${job.id} to end again`,
    )
    const again = await repeated('tree', () => app.tree(job.id))
    this.#expect(true, again.children[1]!.earlierIds.includes(tree.children[1]!.id))
  }

  /** A worker behind a server. */
  async #remote(app: Sluice): Promise<void> {
    this.violations.push(...(await liveRemotely(app, this.#db, this.#round)))
  }

  /** Keys, roles, sessions and the audit. */
  async #access(): Promise<void> {
    this.violations.push(...(await liveAccess(this.#db, this.#round)))
  }

  /** Jobs that draw from budgets. */
  async #budgets(app: Sluice): Promise<void> {
    this.violations.push(...(await liveBudgets(app, this.#sql, this.#round)))
  }

  async #fleet(app: Sluice): Promise<void> {
    this.violations.push(...(await liveFleet(app)))
  }

  /** What may enter, results that are made once, requests that are repeated. */
  async #admission(app: Sluice): Promise<void> {
    this.violations.push(...(await liveAdmission(app, this.#sql, this.#round)))
  }

  /** The fan-out of a workflow, once a child of it runs. */
  async #busyFanOut(workflow: string): Promise<string | undefined> {
    const rows = await this.#sql<{ id: string }>(
      `select f.id from sluice.jobs f join sluice.jobs j on j.parent_id = f.id
        where f.parent_id = $1 and j.state = 'running' limit 1`,
      [workflow],
    )
    return rows[0]?.id
  }

  async #stateOf(id: string): Promise<string | undefined> {
    return (await this.#sql<{ state: string }>('select state from sluice.jobs where id = $1', [id]))[0]?.state
  }

  #expect(expected: unknown, found: unknown): void {
    if (found !== expected)
      this.violations.push(`expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`)
  }
}

/** A task that leaves every kind of trace and fails the first time, once its step is stored. */
async function traces(n: number, ctx: TaskContext): Promise<{ n: number; step: string }> {
  ctx.log.info('attempt', ctx.attempt)
  ctx.progress(0.5, 'half')
  const before = await ctx.checkpoint.get<{ n: number }>()
  if (before !== undefined && before.n !== n) throw new Error(`the checkpoint is ${JSON.stringify(before)}`)
  await ctx.checkpoint.set({ n })
  const step = await ctx.step('once', () => `${ctx.job.id}/${ctx.attempt}/${Math.random()}`)
  if (ctx.attempt === 1) throw new Error('the first attempt fails')
  return { n, step }
}

function stopped(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}

/** An answer that was lost may have been a success: what comes next says so. */
async function unless(code: Parameters<typeof hasCode>[1], change: Promise<unknown>): Promise<void> {
  await change.catch((error: unknown) => {
    if (!hasCode(error, code)) throw error
  })
}
