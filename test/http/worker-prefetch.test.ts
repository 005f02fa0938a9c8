import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer, type TestServer, useServer } from '../support/http-server.ts'
import { forgetGeneration } from '../support/state/generation.ts'
import { enableWithoutHint } from '../support/state/lanes.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// What a server assigns to workers in other languages, which are played here by hand.

const act = task({ name: 'act', lane: 'narrow', run: (_: unknown) => null })
/** Its jobs must not run twice, so none is assigned. */
const alarm = task({ name: 'alarm', lane: 'narrow', onLost: 'fail', run: (_: unknown) => null })
/** Every object of JavaScript has a property of this name. */
const odd = task({ name: 'odd', lane: 'constructor', run: (_: unknown) => null })
const database = useDatabase()
useCommitChecker(database)
// Nobody sends heartbeats for them.
const options = {
  ...{ tasks: [act, alarm, odd], stale: '10m' },
  lanes: { narrow: { slots: 2, prefetch: 8 }, constructor: { slots: 2, prefetch: 8 } },
}
const server = useServer(database, options)
let key = ''

beforeAll(async () => {
  key = await server.keyOf('worker')
})

interface Job {
  readonly id: string
  readonly attempt: number
}
interface Cycled {
  readonly jobs: Job[]
  readonly assigned?: (Job & { readonly rank: number; readonly again?: boolean })[]
  readonly seen?: string
  readonly yieldTo?: Readonly<Record<string, readonly object[]>>
  readonly recall?: boolean
  readonly lost?: string[]
  readonly refused?: Job[]
}

/** A worker by hand. It never starts an assigned job by itself. */
class Hand {
  readonly id: string
  running: Job[] = []
  waiting: Job[] = []
  seen: string | undefined

  constructor(id: string) {
    this.id = id
  }

  /** What the next cycle says of jobs beyond the slots. */
  prefetch(jobs: number, slots?: number): object {
    return {
      ahead: [{ task: 'act', lane: 'narrow', jobs }],
      waiting: [...this.waiting],
      ...(slots !== undefined && { slots: { narrow: slots } }),
      ...(this.seen !== undefined && { seen: this.seen }),
    }
  }

  body(body: object = {}): object {
    return { running: [...this.running], free: 0, ...body }
  }

  async send(body: object = {}, at: TestServer = server): Promise<Cycled> {
    const answer = await at.call('POST', `/workers/${this.id}/cycle`, { key, body: this.body(body) })
    expect(answer.status, answer.text).toBe(200)
    return answer.json<Cycled>()
  }

  /** Keeps what an answer gives. */
  take(answer: Cycled): Cycled {
    this.running.push(...answer.jobs.map(held))
    this.waiting.push(...(answer.assigned ?? []).map(held))
    this.seen = answer.seen ?? this.seen
    return answer
  }

  /** Starts assigned jobs. */
  start(count: number): void {
    this.running.push(...this.waiting.splice(0, count))
  }

  /** Takes running jobs out, as endings. */
  end(count: number): object[] {
    return this.running.splice(0, count).map((job) => ({ ...job, ending: 'completed' }))
  }

  /** Takes assigned jobs out, as endings. */
  handBack(): object[] {
    return this.waiting.splice(0).map((job) => ({ ...job, ending: 'unstarted' }))
  }
}

const held = ({ id, attempt }: Job): Job => ({ id, attempt })

async function register(tasks: readonly object[] = [{ name: 'act' }]): Promise<Hand> {
  const body = { name: 'by-hand', capacity: 10, cores: 2, tasks }
  const answer = await server.call('POST', '/workers', { key, body })
  const hand = new Hand(answer.json<{ id: string }>().id)
  // It hears that no other worker comes first.
  await server.call('POST', `/workers/${hand.id}/heartbeat`, { key })
  onTestFinished(async () => {
    const { jobs } = await hand.send({ running: [] })
    await hand.send({ running: [], ended: jobs.map((job) => ({ ...held(job), ending: 'completed' })) })
    const closed = await server.call('POST', `/workers/${hand.id}/close`, { key, body: {} })
    expect(closed.status, closed.text).toBe(200)
    for (const { id } of await database.sql<{ id: string }>('select id from sluice.queue'))
      await server.app.cancel(id)
  })
  return hand
}

const submit = async (count: number) =>
  (await server.app.submitMany(act, Array(count).fill(1))).map(({ id }) => id)

/** Two run, which are all slots, and six are assigned. */
async function busy(
  jobs = 12,
  tasks?: readonly object[],
): Promise<{ readonly hand: Hand; readonly ids: readonly string[] }> {
  const hand = await register(tasks)
  const ids = await submit(jobs)
  expect(hand.take(await hand.send({ free: 2, prefetch: hand.prefetch(0) })).jobs).toHaveLength(2)
  hand.take(await hand.send({ prefetch: hand.prefetch(6) }))
  expect(hand.waiting.map(({ id }) => id)).toEqual(ids.slice(2, 8))
  return { hand, ids }
}

/** The jobs that it has and has not started, as the database knows. */
async function assigned(hand: Hand): Promise<string[]> {
  const rows = await database.sql<{ id: string }>(
    'select id from sluice.claimed where worker_id = $1 and assigned order by id',
    [hand.id],
  )
  return rows.map(({ id }) => id)
}

async function waiting(): Promise<string[]> {
  const rows = await database.sql<{ id: string }>('select id from sluice.queue where attempt = 0 order by id')
  return rows.map(({ id }) => id)
}

/** Waits until the server has heard all hints that were sent before. */
async function hintsAreHeard(): Promise<void> {
  const last = 'the last hint, which says nothing to anybody'
  const heard = new Set<string>()
  const { listener } = server.app.services
  onTestFinished(listener.subscribe((topic) => void heard.add(topic)))
  await database.sql(`select pg_notify('sluice', $1)`, [last])
  await until(() => heard.has(last), 'the last hint to be heard')
}

const idsOf = (jobs: readonly Job[] = []) => jobs.map(({ id }) => id)

test('a worker that does not ask for it is assigned nothing beyond its slots', async () => {
  const hand = await register()
  await submit(12)
  const answer = hand.take(await hand.send({ free: 5 }))
  expect(answer).toEqual({ jobs: [expect.anything(), expect.anything()] })
  expect(await hand.send({ ended: hand.end(1), free: 1 })).toEqual({ jobs: [expect.anything()] })
  expect(await assigned(hand)).toEqual([])
})

test('assigns at most as many jobs as the worker asks for and the lane allows', async () => {
  const { hand, ids } = await busy()
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
  // The lane allows 8 in all, of which 6 are waiting.
  expect(idsOf(hand.take(await hand.send({ prefetch: hand.prefetch(1000) })).assigned)).toEqual(
    ids.slice(8, 10),
  )
  expect((await hand.send({ prefetch: hand.prefetch(1000) })).assigned).toBeUndefined()
})

test('names the jobs that come first and cannot be assigned, so that the worker leaves slots free for them', async () => {
  const { hand } = await busy(20, [{ name: 'act' }, { name: 'alarm', onLost: 'fail' }])
  const ask = () => hand.prefetch(1000, hand.running.length)
  const later = await server.app.submit(alarm, 1, { priority: -1 })
  const before = hand.take(await hand.send({ prefetch: ask() }))
  expect([before.assigned?.length, before.yieldTo]).toEqual([2, undefined])
  const [first, second] = await server.app.submitMany(alarm, [1, 2], { priority: 1 })
  const ended = hand.end(1)
  hand.start(1)
  const answer = hand.take(await hand.send({ ended, prefetch: ask() }))
  expect(answer).toMatchObject({
    jobs: [],
    yieldTo: {
      narrow: [
        { rank: -1, id: first!.id },
        { rank: -1, id: second!.id },
      ],
    },
  })
  expect(answer.assigned).toBeUndefined()
  // It starts no assigned job in the slots that become free, and they go to the jobs that come first.
  const next = hand.take(await hand.send({ ended: hand.end(1), free: 1, prefetch: ask() }))
  expect(idsOf(next.jobs)).toEqual([first!.id])
  expect(next.yieldTo).toEqual({ narrow: [{ rank: -1, id: second!.id }] })
  const last = hand.take(await hand.send({ ended: hand.end(1), free: 1, prefetch: ask() }))
  expect(idsOf(last.jobs)).toEqual([second!.id])
  expect(last.yieldTo).toBeUndefined()
  expect((await server.app.getJob(later.id)).status).toBe('queued')
})

test('assigns nothing of a task that needs a process of the pool of the worker, whatever it asks for', async () => {
  const hand = await register([{ name: 'act', pooled: true }])
  await submit(12)
  // Both the general and the steady cycle are asked.
  hand.take(await hand.send({ free: 2, freeProcesses: 2, prefetch: hand.prefetch(6) }))
  for (let cycle = 0; cycle < 3; cycle++) {
    const next = { ended: hand.end(1), free: 1, freeProcesses: 1, prefetch: hand.prefetch(6) }
    hand.take(await hand.send(next))
    expect([hand.running.length, hand.waiting]).toEqual([2, []])
  }
  expect(await assigned(hand)).toEqual([])
})

test('records the start of an assigned job together with the ending that made room for it', async () => {
  const { hand, ids } = await busy()
  const ended = hand.end(1)
  hand.start(1)
  const answer = await hand.send({ ended, prefetch: hand.prefetch(0) })
  expect(answer.refused ?? answer.lost).toBeUndefined()
  expect(await assigned(hand)).toEqual(ids.slice(3, 8))
  expect((await server.app.getJob(ids[2]!)).status).toBe('running')
  expect((await server.app.getJob(ids[3]!)).status).toBe('queued')
})

test('records no start with a request that leaves endings for the next one', async () => {
  const { hand, ids } = await busy()
  const left = [...hand.running]
  const ended = hand.end(2)
  hand.start(2)
  const partial = { ...hand.prefetch(0, 2), partial: true }
  const answer = await hand.send({ running: [...hand.running, ...left], prefetch: partial })
  expect(answer.refused ?? answer.lost).toBeUndefined()
  // The commit checker sees that no more than two run.
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
  await hand.send({ ended, prefetch: hand.prefetch(0, 2) })
  expect(await assigned(hand)).toEqual(ids.slice(4, 8))
})

test('a request that comes late does not record the start of a later attempt', async () => {
  const { hand, ids } = await busy(3)
  const late = hand.body({ prefetch: hand.prefetch(0, 2) })
  await database.sql('update sluice.queue set rank = 5')
  const [failed] = hand.running.splice(0, 1)
  const ended = [...hand.handBack(), { ...failed!, ending: 'retry', error: 'once more', delayMs: 0 }]
  await hand.send({ ended, prefetch: hand.prefetch(0, 2) })
  await until(async () => {
    hand.take(await hand.send({ prefetch: hand.prefetch(8) }))
    return hand.waiting.some(({ id, attempt }) => id === ids[0] && attempt === 2)
  }, 'the second attempt to be assigned')
  await server.call('POST', `/workers/${hand.id}/cycle`, { key, body: late })
  expect(await assigned(hand)).toContain(ids[0])
})

test('keeps the slots in which the worker starts assigned jobs', async () => {
  const { hand } = await busy()
  const other = await register()
  await hand.send({ ended: hand.end(2), prefetch: hand.prefetch(0, 2) })
  expect((await other.send({ free: 2 })).jobs).toEqual([])
  hand.start(2)
  await hand.send({ prefetch: hand.prefetch(0) })
  expect((await other.send({ free: 2 })).jobs).toEqual([])
})

test('believes no worker that says it uses more slots than it holds jobs', async () => {
  const { hand } = await busy()
  await hand.send({ ended: [...hand.end(2), ...hand.handBack()], prefetch: hand.prefetch(0, 20_000) })
  expect(hand.take(await hand.send({ free: 2, prefetch: hand.prefetch(0, 20_000) })).jobs).toHaveLength(2)
})

test('reckons the start of an assigned job from how long it has run', async () => {
  const { hand, ids } = await busy()
  const ended = hand.end(1)
  hand.start(1)
  await hand.send({ ended, prefetch: hand.prefetch(0) })
  const [{ at: sentAt }] = (await database.sql<{ at: Date }>('select clock_timestamp() as at')) as [
    { at: Date },
  ]
  await hand.send({
    running: hand.running.slice(0, 1),
    ended: [{ ...hand.running[1]!, ending: 'completed', ranMs: 0 }],
    prefetch: hand.prefetch(0),
  })
  hand.running.splice(1)
  const [row] = await database.sql<{ late: boolean }>(
    'select o.started_at >= $2 as late from sluice.outcomes o where o.id = $1',
    [ids[2], sentAt],
  )
  expect(row).toEqual({ late: true })
})

test('a job that goes back unstarted keeps the number of its attempt, one that was to start at once does not', async () => {
  const { hand, ids } = await busy()
  const lie = hand.running.splice(0, 1).map((job) => ({ ...job, ending: 'unstarted' }))
  await hand.send({ ended: [...hand.handBack(), ...lie], prefetch: hand.prefetch(0) })
  expect(await waiting()).toEqual(ids.slice(2))
  const [row] = await database.sql('select attempt from sluice.queue where id = $1', [ids[0]])
  expect(row).toEqual({ attempt: 1 })
})

test('a worker whose jobs a crash forgot keeps those that run, and may report endings later', async () => {
  const hand = await register()
  const ids = await submit(12)
  // By now they are in line as before their claims.
  hand.waiting = ids.slice(0, 8).map((id) => ({ id, attempt: 1 }))
  await forgetGeneration(database.sql)
  const over = hand.waiting.splice(0, 4)
  hand.start(2)

  const [later, ...sooner] = over.map((job) => ({ ...job, ending: 'completed' }))
  const running = [{ ...over[0]!, ended: true }, ...hand.running]
  const ended = [...sooner, ...hand.handBack()]
  const answer = hand.take(
    await hand.send({ running, ended, prefetch: { ...hand.prefetch(0), partial: true } }),
  )
  expect(answer.lost).toBeUndefined()
  expect(idsOf(answer.refused)).toEqual(ids.slice(6, 8))
  expect(await assigned(hand)).toEqual(ids.slice(0, 1))

  expect((await hand.send({ ended: [later], prefetch: hand.prefetch(0, 2) })).refused).toBeUndefined()
  expect(
    await database.sql('select id, attempt from sluice.outcomes where id = any ($1) order by id', [ids]),
  ).toEqual(ids.slice(0, 4).map((id) => ({ id, attempt: 1 })))
  expect(await database.sql('select id, attempt from sluice.running order by id')).toEqual(
    ids.slice(4, 6).map((id) => ({ id, attempt: 1 })),
  )
})

test('gives assigned jobs again when the answer that assigned them was lost', async () => {
  const hand = await register()
  const ids = await submit(12)
  hand.take(await hand.send({ free: 2, prefetch: hand.prefetch(0) }))
  expect((await hand.send({ prefetch: hand.prefetch(6) })).assigned).toHaveLength(6)
  const again = hand.take(await hand.send({ prefetch: hand.prefetch(6) }))
  expect([again.jobs, idsOf(again.assigned).sort()]).toEqual([[], ids.slice(2, 8).sort()])
  // So that the worker starts none of them: nobody knows how late they are.
  expect(again.assigned!.map((job) => job.again)).toEqual(Array(6).fill(true))
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
})

test('a request that comes late takes no assigned job back and releases no slot', async () => {
  const hand = await register()
  const ids = await submit(12)
  hand.take(await hand.send({ free: 2, prefetch: hand.prefetch(0) }))
  const late = hand.body({ prefetch: hand.prefetch(0, 0) })
  hand.take(await hand.send({ prefetch: hand.prefetch(6) }))
  const ended = hand.end(2)
  await hand.send({ ended, prefetch: hand.prefetch(0, 2) })
  const other = await register()
  for (const resync of [false, true]) {
    // Who is refused slots makes others give back idle ones at once.
    expect((await other.send({ free: 2 })).jobs).toEqual([])
    await server.call('POST', `/workers/${hand.id}/cycle`, { key, body: { ...late, resync } })
    expect(await assigned(hand)).toEqual(ids.slice(2, 8))
    const [row] = await database.sql('select slots from sluice.holdings where worker_id = $1', [hand.id])
    expect(row).toEqual({ slots: 2 })
  }
})

test('an ending as unstarted that is sent twice does not take back the job that was assigned again', async () => {
  const { hand, ids } = await busy(8)
  const body = hand.body({ ended: hand.handBack(), prefetch: hand.prefetch(0) })
  const send = () => server.call('POST', `/workers/${hand.id}/cycle`, { key, body })
  await send()
  expect(await waiting()).toEqual(ids.slice(2))
  await until(async () => {
    hand.take(await hand.send({ prefetch: hand.prefetch(8) }))
    return hand.waiting.some(({ id }) => id === ids[2])
  }, 'a job to be assigned again')
  const before = await assigned(hand)
  expect((await send()).json<Cycled>().refused).toHaveLength(6)
  expect(await assigned(hand)).toEqual(before)
})

test('a worker that asks no more gets none of what it was assigned, and all of it goes back', async () => {
  const { hand, ids } = await busy()
  hand.waiting = []
  expect((await hand.send()).jobs).toEqual([])
  expect(await assigned(hand)).toEqual([])
  expect(await waiting()).toEqual(ids.slice(2))
})

test('a cycle after the lane has changed asks for assigned jobs back', async () => {
  const { hand } = await busy()
  await server.app.setLane('narrow', { poll: 900 })
  onTestFinished(() => server.app.resetLane('narrow').then(() => undefined))
  await until(
    async () => (await hand.send({ prefetch: hand.prefetch(0) })).recall === true,
    'assigned jobs to be recalled',
  )
})

test('asks for assigned jobs back when the lane changes, and does nothing else', async () => {
  const { hand, ids } = await busy()
  const asked = hand.send({ waitMs: 30_000, prefetch: hand.prefetch(0) })
  await server.app.setLane('narrow', { enabled: false })
  onTestFinished(() => server.app.resetLane('narrow').then(() => undefined))
  const answers = [await asked]
  const ended = hand.end(1)
  await until(async () => {
    answers.push(await hand.send({ ended, prefetch: hand.prefetch(0) }))
    return answers.some(({ recall }) => recall === true)
  }, 'it to be recalled')
  const told = answers.find(({ recall }) => recall === true)
  expect(told).toEqual({ jobs: [], recall: true })
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
  await hand.send({ ended: [...ended, ...hand.handBack()], prefetch: hand.prefetch(6) })
  expect(await assigned(hand)).toEqual([])
})

test('a server that misses the hint asks for assigned jobs back after the next heartbeat of their worker', async () => {
  const { hand } = await busy()
  await hintsAreHeard()
  await enableWithoutHint(database.sql, 'narrow', false)
  onTestFinished(() => server.app.resetLane('narrow').then(() => undefined))
  const ask = async () => (await hand.send({ prefetch: hand.prefetch(0) })).recall === true
  // The hints that were heard recall once.
  await ask()
  expect(await ask()).toBe(false)
  await server.call('POST', `/workers/${hand.id}/heartbeat`, { key })
  expect(await ask()).toBe(true)
})

test('a server that does not know the worker asks for assigned jobs back first', async () => {
  const { hand, ids } = await busy()
  const second = await startTestServer(database.url, options)
  onTestFinished(() => second.stop())
  const ended = hand.end(1)
  expect(await hand.send({ ended, prefetch: hand.prefetch(0) }, second)).toEqual({ jobs: [], recall: true })
  expect((await server.app.getJob(ids[0]!)).status).toBe('running')
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
  const all = [...ended, ...hand.handBack()]
  const answer = hand.take(await hand.send({ ended: all, prefetch: hand.prefetch(0) }, second))
  expect(answer.refused ?? answer.lost).toBeUndefined()
  expect(await waiting()).toEqual(ids.slice(2))
})

async function handBack(hand: Hand, jobs: readonly Job[], seen = hand.seen): Promise<void> {
  const body = { jobs: idsOf(jobs), seen }
  const answer = await server.call('POST', `/workers/${hand.id}/hand-back`, { key, body })
  expect([answer.status, answer.json()]).toEqual([200, { done: true }])
}

test('a worker whose main loop is blocked hands back what it names, and what it has not read', async () => {
  const { hand, ids } = await busy()
  expect((await hand.send({ prefetch: hand.prefetch(1) })).assigned).toMatchObject([{ id: ids[8] }])
  await handBack(hand, hand.waiting.slice(0, 4))
  expect(await assigned(hand)).toEqual(ids.slice(6, 8))
  expect(await waiting()).toEqual([...ids.slice(2, 6), ...ids.slice(8)])
})

test('what is handed back late, after a resync, changes nothing', async () => {
  const { hand, ids } = await busy()
  const { waiting: before, seen } = hand
  hand.waiting = []
  hand.take(await hand.send({ resync: true, prefetch: hand.prefetch(0) }))
  expect(idsOf(hand.waiting).sort()).toEqual(ids.slice(2, 8).sort())
  await handBack(hand, before, seen)
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
})

test('only the key of a worker hands back its jobs', async () => {
  const { hand, ids } = await busy()
  const other = await server.keyOf('worker', 'other')
  const body = { jobs: ids.slice(2, 8), seen: hand.seen }
  const answer = await server.call('POST', `/workers/${hand.id}/hand-back`, { key: other, body })
  expect([answer.status, answer.json().code]).toEqual([403, 'FORBIDDEN'])
  expect(await assigned(hand)).toEqual(ids.slice(2, 8))
})

const MANY = 1001
const TOO_MANY = 4001
test.for([
  ['more than 1000 jobs ahead', 'ahead', { ahead: [{ task: 'act', lane: 'narrow', jobs: MANY }] }],
  ['fewer than no jobs ahead', 'ahead', { ahead: [{ task: 'act', lane: 'narrow', jobs: -1 }] }],
  ['half a job ahead', 'ahead', { ahead: [{ task: 'act', lane: 'narrow', jobs: 1.5 }] }],
  ['jobs ahead of no lane', 'ahead', { ahead: [{ task: 'act', jobs: 1 }] }],
  ['too many classes', 'ahead', { ahead: Array(MANY).fill({ task: 'act', lane: 'narrow', jobs: 1 }) }],
  ['an id that is none', 'waiting', { waiting: [{ id: 'x', attempt: 1 }] }],
  ['an attempt that is none', 'waiting', { waiting: [{ id: '1', attempt: 0 }] }],
  ['more than 4000 waiting jobs', 'waiting', { waiting: Array(TOO_MANY).fill({ id: '1', attempt: 1 }) }],
  ['fewer than no slots', 'slots', { slots: { narrow: -1 } }],
  ['a number of slots as a text', 'slots', { slots: { narrow: '2' } }],
  ['a text that no answer had', 'seen', { seen: 'yesterday' }],
  ['a field that does not exist', 'more', { more: true }],
] as const)('rejects a cycle whose prefetch has %s', async ([, field, prefetch]) => {
  const hand = await register()
  const path = `/workers/${hand.id}/cycle`
  const answer = await server.call('POST', path, { key, body: hand.body({ prefetch }) })
  expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
  expect(answer.json().detail).toContain(field)
})

test.for([
  ['an id that is none', { jobs: ['x'], seen: '1.1' }],
  ['more than 4000 jobs', { jobs: Array(TOO_MANY).fill('1'), seen: '1.1' }],
  ['a text that no answer had', { jobs: ['1'], seen: 'yesterday' }],
  ['no such text', { jobs: ['1'] }],
] as const)('rejects jobs that are handed back with %s', async ([, body]) => {
  const hand = await register()
  const answer = await server.call('POST', `/workers/${hand.id}/hand-back`, { key, body })
  expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
})

test('a job that the worker was not assigned is lost if it says that it waits, and refused if it hands it back', async () => {
  const { hand } = await busy()
  const [foreign] = await submit(1)
  const job = { id: foreign!, attempt: 1 }
  hand.waiting.push(job)
  expect((await hand.send({ prefetch: hand.prefetch(0) })).lost).toEqual([foreign])
  hand.waiting.pop()
  const ended = [{ ...job, ending: 'unstarted' }]
  expect((await hand.send({ ended, prefetch: hand.prefetch(0) })).refused).toMatchObject([job])
})

test('the description of the protocol has its fields', async () => {
  const { paths } = (await server.at('GET', '/openapi.json')).json<{
    paths: Record<string, { post: { requestBody: { content: Record<string, { schema: object }> } } }>
  }>()
  const schemaOf = (path: string) => JSON.stringify(paths[path]!.post)
  expect(schemaOf('/api/v1/workers/{id}/cycle')).toMatch(/"prefetch".*"ahead".*"waiting".*"slots".*"seen"/)
  expect(schemaOf('/api/v1/workers/{id}/cycle')).toMatch(/"assigned".*"rank".*"seen".*"recall"/)
  expect(schemaOf('/api/v1/workers/{id}/hand-back')).toMatch(/"jobs".*"seen"/)
})

test('a worker prefetches in a lane that is called "constructor"', async () => {
  const hand = await register([{ name: 'act' }, { name: 'odd' }])
  await server.app.submitMany(odd, Array(8).fill(1))
  // Nothing is said of the slots of either lane.
  hand.take(await hand.send({ free: 2, prefetch: { slots: {} } }))
  expect(hand.running).toHaveLength(2)
  const ahead = [{ task: 'odd', lane: 'constructor', jobs: 3 }]
  hand.take(await hand.send({ prefetch: { ahead, seen: hand.seen } }))
  expect(hand.waiting).toHaveLength(3)
  await hand.send({ ended: [...hand.end(2), ...hand.handBack()], prefetch: { seen: hand.seen } })
})
