import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SluiceError } from '../../src/errors.ts'
import { AssignedCells } from '../../src/model/assigned-cells.ts'
import type { SourceBeat } from '../../src/worker/job-source.ts'
import { HAND_BACK_MS } from '../../src/worker/prefetched.ts'
import { task } from '../../src/worker/task.ts'
import type { Worker } from '../../src/worker/worker.ts'
import {
  AnsweredSource,
  assigned,
  assignment,
  QUIET_BEAT,
  settle,
  startLoop,
} from '../support/controlled-source.ts'
import { Gate } from '../support/gate.ts'
import { SeededRandom } from '../support/seeded-random.ts'

// What becomes of jobs that are assigned to a worker beyond its slots. Time stands still unless a test lets it pass. So whatever goes back goes back at
// once, and not because it has waited for too long.

const SLOTS = 2
/** They wait for a slot. */
const WAITING = ['3', '4', '5', '6']

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** The event loop is blocked for so long: time goes on, and no timer fires. */
function block(ms: number): void {
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
}

interface Busy {
  readonly source: AnsweredSource
  readonly worker: Worker
  /** Jobs in the order in which they started. */
  readonly started: readonly string[]
  /** Ends the jobs that run, and lets those that start from now on end at once. */
  release(): Promise<void>
}

/** A worker whose two slots are taken by jobs 1 and 2. Four others are assigned and wait. */
async function busy(source = new AnsweredSource()): Promise<Busy> {
  const started: string[] = []
  const held = new Gate()
  let isReleased = false
  const execute = ({ job }: { readonly job: { readonly id: string } }) => {
    started.push(job.id)
    return isReleased ? null : held.pass(job.id)
  }
  const worker = await startLoop(source, execute, { capacity: SLOTS })
  const first = await source.next()
  first.answer({
    assignments: [assignment('1'), assignment('2'), ...WAITING.map((id) => assigned(id))],
  })
  await held.arrived(SLOTS)
  await settle()
  expect(source.sent).toBeUndefined()
  expect(started).toEqual(['1', '2'])
  const release = async () => {
    isReleased = true
    held.open()
    await settle()
  }
  return { source, worker, started, release }
}

/** Ends the test: all jobs end, and the worker stops. */
async function finish({ source, worker, release }: Busy): Promise<void> {
  await release()
  source.answerAll()
  await worker.stop()
}

const unstarted = (ids: readonly string[]) => ids.map((id) => `${id}: unstarted`)
const beat = (more: Partial<SourceBeat>): SourceBeat => ({ ...QUIET_BEAT, ...more })

test('assigned jobs start in the slots that others leave', async () => {
  const life = await busy()
  await life.release()
  const cycle = await life.source.next()
  expect(life.started).toEqual(['1', '2', ...WAITING])
  cycle.answer({})
  await finish(life)
})

test.for([
  ['lanes or slots have changed', ({ source }) => source.events!.recall()],
  ['the worker is drained', ({ source }) => source.events!.beat(beat({ draining: true }))],
  ['the worker is stopped', ({ worker }) => void worker.stop()],
  ['the worker is told to stop', ({ source }) => source.events!.beat(beat({ stopping: true }))],
  ['the worker breaks down', ({ worker }) => worker.breakDown(new Error('no memory'))],
] as [string, (life: Busy) => void][])('hands back what has not started as soon as %s', async ([, event]) => {
  const life = await busy()
  event(life)
  const { ended } = await life.source.next()
  expect(ended).toEqual(unstarted(WAITING))
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test.for([
  ['lanes or slots have changed', ({ source }) => source.events!.recall()],
  ['the worker is drained', ({ source }) => source.events!.beat(beat({ draining: true }))],
  ['the worker breaks down', ({ worker }) => worker.breakDown(new Error('no memory'))],
] as [string, (life: Busy) => void][])(
  'hands back what the cycle under way brings after %s',
  async ([, event]) => {
    const life = await busy()
    life.source.events!.wake(false)
    const underWay = await life.source.next()
    event(life)
    await life.release()
    underWay.answer({ assignments: [assigned('7'), assigned('8')] })
    const next = await life.source.next()
    expect(next.ended).toEqual([
      ...unstarted(WAITING),
      '1: completed',
      '2: completed',
      ...unstarted(['7', '8']),
    ])
    next.answer({})
    await settle()
    expect(life.started).toEqual(['1', '2'])
    await finish(life)
  },
)

test('a draining worker still returns the jobs assigned to it', async () => {
  const life = await busy()
  life.source.events!.beat(beat({ draining: true }))
  const cycle = await life.source.next()
  cycle.answer({ assignments: [assigned('7')] })
  const next = await life.source.next()
  expect(next.ended).toEqual(unstarted(['7']))
  await finish(life)
})

test('assigns again with the next cycle after a recall', async () => {
  const life = await busy()
  life.source.events!.recall()
  const cycle = await life.source.next()
  cycle.answer({ assignments: [assigned('7')] })
  await settle()
  await life.release()
  expect(life.started).toEqual(['1', '2', '7'])
  await finish(life)
})

test('a cancelled job goes back at once, and the others go on waiting', async () => {
  const life = await busy()
  life.source.events!.beat(beat({ cancels: ['4'] }))
  const cycle = await life.source.next()
  expect(cycle.ended).toEqual(unstarted(['4']))
  cycle.answer({})
  await life.release()
  expect(life.started).toEqual(['1', '2', '3', '5', '6'])
  await finish(life)
})

test('starts none of the jobs that an answer names as lost', async () => {
  const life = await busy()
  life.source.events!.wake(false)
  const cycle = await life.source.next()
  expect(cycle.running.map(({ id }) => id).sort()).toEqual(['1', '2', ...WAITING])
  cycle.answer({ lost: WAITING.slice(1) })
  await settle()
  await life.release()
  expect(life.started).toEqual(['1', '2', '3'])
  await finish(life)
})

test.for([
  ['that run', async () => {}],
  ['that have ended meanwhile', ({ release }) => release()],
] as [string, (life: Busy) => Promise<void>][])(
  'starts nothing in the slots of lost jobs %s: others have these slots',
  async ([, event]) => {
    const life = await busy()
    life.source.events!.wake(false)
    const cycle = await life.source.next()
    await event(life)
    const started = [...life.started]
    cycle.answer({ lost: ['1', '2', ...WAITING], assignments: [assigned('7'), assigned('8')] })
    await settle()
    await life.release()
    expect(life.started).toEqual(started)
    await vi.advanceTimersByTimeAsync(HAND_BACK_MS)
    const next = await life.source.next()
    expect(next.slots).toBe(0)
    await finish(life)
  },
)

test('starts assigned jobs in the slots that an answer gives after it has named lost jobs', async () => {
  const life = await busy()
  life.source.events!.wake(false)
  const cycle = await life.source.next()
  cycle.answer({ lost: ['1', '2', ...WAITING], assignments: [assignment('7'), assigned('8'), assigned('9')] })
  await settle()
  expect(life.started).toEqual(['1', '2', '7'])
  await life.release()
  expect(life.started).toEqual(['1', '2', '7', '8', '9'])
  await finish(life)
})

test('starts no assigned job after it was declared dead, even if a cycle is under way', async () => {
  const life = await busy()
  life.source.events!.wake(false)
  const underWay = await life.source.next()
  life.source.events!.beat(null)
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  // So many that half of them would start at once.
  underWay.answer({ assignments: ['7', '8', '9', '10', '11', '12'].map((id) => assigned(id)) })
  const next = await life.source.next()
  expect(life.started).toEqual(['1', '2'])
  expect(next.request.resync).toBe(true)
  expect(next.ended).toEqual(['1: completed', '2: completed'])
  expect(next.running).toEqual([])
  next.fail(new SluiceError('WORKER_NOT_FOUND', 'declared dead'))
  const anew = await life.source.next()
  expect(life.source.startedOver).toBe(1)
  expect(anew.running).toEqual([])
  await settle()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test('starts no assigned job after a cycle has found the worker dead', async () => {
  const life = await busy()
  const registration = new Gate()
  life.source.startOver = () => registration.pass()
  life.source.events!.wake(false)
  const cycle = await life.source.next()
  cycle.fail(new SluiceError('WORKER_NOT_FOUND', 'declared dead'))
  await registration.arrived()
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  registration.open()
  const anew = await life.source.next()
  expect(anew.running).toEqual([])
  await settle()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test.for([
  ['it holds no lease on their lane', { lanes: [] }],
  ['it has to say what it runs', { resync: true }],
] as const)('starts no assigned job once a heartbeat says that %s', async ([, news]) => {
  const life = await busy()
  life.source.events!.wake(false)
  const underWay = await life.source.next()
  life.source.events!.beat(beat(news))
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  underWay.answer({})
  const next = await life.source.next()
  expect(next.request.resync).toBe(true)
  await finish(life)
})

test('starts no assigned job after no heartbeat got through, and asks what it still holds', async () => {
  const life = await busy()
  life.source.events!.silent(28_000, 0)
  life.source.events!.beat(QUIET_BEAT)
  const cycle = await life.source.next()
  expect(cycle.request.resync).toBe(true)
  expect(cycle.ended).toEqual([])
  expect(cycle.running.map(({ id }) => id).sort()).toEqual(['1', '2'])
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test('starts no assigned job after an answer was lost', async () => {
  const life = await busy()
  life.source.events!.wake(false)
  const lost = await life.source.next()
  lost.fail(new Error('the connection is lost'))
  await settle()
  life.source.events!.wake(false)
  const next = await life.source.next()
  expect(next.running.map(({ id }) => id).sort()).toEqual(['1', '2'])
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test('starts no assigned job that the heartbeat thread has taken back, and asks what it still holds', async () => {
  const life = await busy()
  life.source.events!.wake(false)
  const cycle = await life.source.next()
  new AssignedCells(life.source.assignedCells.buffer).recall()
  cycle.answer({ assignments: [assigned('7')] })
  const next = await life.source.next()
  expect(next.request.resync).toBe(true)
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

class WatchedCells extends AssignedCells {
  /** Called once, after the loop has read how often jobs were taken back. */
  afterRead: (() => void) | undefined

  override get recalls(): number {
    const recalls = super.recalls
    const call = this.afterRead
    this.afterRead = undefined
    call?.()
    return recalls
  }
}

test('sees what the heartbeat thread takes back while a cycle is put together', async () => {
  const cells = new WatchedCells()
  const life = await busy(new AnsweredSource(cells))
  cells.afterRead = () => void new AssignedCells(cells.buffer).recall()
  life.source.events!.wake(false)
  const cycle = await life.source.next()
  expect(cells.recalls).toBe(1)
  // The thread takes back what this cycle claims, too.
  cycle.answer({ assignments: [assigned('7')] })
  const next = await life.source.next()
  expect(next.request.resync).toBe(true)
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test('hands back a job that an answer gives again: nobody knows for how long it has been assigned', async () => {
  const life = await busy()
  life.source.events!.wake(false)
  const cycle = await life.source.next()
  cycle.answer({ assignments: [assigned('7', { prefetched: { rank: 0, again: true } })] })
  const next = await life.source.next()
  expect(next.ended).toEqual(unstarted(['7']))
  await life.release()
  expect(life.started).not.toContain('7')
  await finish(life)
})

test.for([
  ['have waited for 100 ms', () => vi.advanceTimersByTimeAsync(HAND_BACK_MS)],
  ['are recalled', ({ source }) => source.events!.recall()],
  ['are in doubt', ({ source }) => source.events!.beat(beat({ resync: true }))],
  ['are cancelled', ({ source }) => source.events!.beat(beat({ cancels: WAITING }))],
] as [string, (life: Busy) => unknown][])(
  'asks what it still holds, once, when the heartbeat thread has taken back assigned jobs that %s',
  async ([, event]) => {
    const life = await busy()
    new AssignedCells(life.source.assignedCells.buffer).recall()
    await event(life)
    const cycle = await life.source.next()
    await settle()
    expect(life.source.sent, 'a second cycle at the same time').toBeUndefined()
    expect(cycle.request.resync).toBe(true)
    expect(cycle.ended).toEqual([])
    expect(cycle.running.map(({ id }) => id)).toEqual(['1', '2'])
    cycle.answer({})
    await life.release()
    expect(life.started).toEqual(['1', '2'])
    await finish(life)
  },
)

test('hands back what long jobs in all slots have held up for 100 ms, and measures the task again', async () => {
  const life = await busy()
  const { source } = life
  await vi.advanceTimersByTimeAsync(HAND_BACK_MS - 1)
  expect(source.sent).toBeUndefined()
  await vi.advanceTimersByTimeAsync(1)
  const cycle = await source.next()
  expect(cycle.ended).toEqual(unstarted(WAITING))
  await life.release()
  expect(life.started).toEqual(['1', '2'])
  await finish(life)
})

test.for([
  ['start', HAND_BACK_MS, WAITING, []],
  ['go back', HAND_BACK_MS + 50, [], WAITING],
] as const)(
  'assigned jobs %s when the loop has been blocked for %i ms as a slot becomes free',
  async ([, ms, starts, returns]) => {
    const life = await busy()
    block(ms)
    await life.release()
    const cycle = await life.source.next()
    expect(life.started).toEqual(['1', '2', ...starts])
    // The timer, which is overdue, fires only now.
    await vi.advanceTimersByTimeAsync(HAND_BACK_MS)
    cycle.answer({ assignments: [assignment('7')] })
    const next = await life.source.next()
    expect(life.started).toEqual(['1', '2', ...starts, '7'])
    const back = [...cycle.ended, ...next.ended].filter((each) => each.endsWith('unstarted'))
    expect(back).toEqual(unstarted(returns))
    await finish(life)
  },
)

test.for([
  ['start when their answer took 500 ms', 500, ['1', '7', '8'], []],
  ['go back unstarted when their answer took longer than 500 ms', 501, ['1'], ['7', '8']],
] as const)('assigned jobs %s', async ([, ms, starts, returns]) => {
  const source = new AnsweredSource()
  const started: string[] = []
  const execute = async ({ job }: { readonly job: { readonly id: string } }) => {
    started.push(job.id)
  }
  const worker = await startLoop(source, execute, { capacity: 1 })
  const late = await source.next()
  await vi.advanceTimersByTimeAsync(ms)
  late.answer({ assignments: [assignment('1'), assigned('7'), assigned('8')] })
  const { ended } = await source.next()
  expect(ended.filter((each) => each.endsWith('unstarted'))).toEqual(unstarted(returns))
  source.answerAll()
  await settle()
  expect(started).toEqual(starts)
  await worker.stop()
})

test('a task whose jobs have waited for 100 ms is measured again before more of them are assigned', async () => {
  const source = new AnsweredSource()
  const held = new Gate()
  const tasks = ['spin', 'other']
  const execute = ({ job }: { readonly job: { readonly id: string } }) =>
    job.id.startsWith('long') ? held.pass() : null
  const worker = await startLoop(source, execute, { capacity: SLOTS, tasks })
  const ahead = (cycle: Awaited<ReturnType<typeof source.next>>) =>
    tasks.map((name) => cycle.request.prefetch!.ahead(name, 'default', 1000))
  const short = ['1', '2', '3'].flatMap((id) => tasks.map((name) => assignment(name + id, { task: name })))
  ;(await source.next()).answer({ assignments: short })
  const measured = await source.next()
  expect(Math.min(...ahead(measured))).toBeGreaterThan(0)
  const long = ['long 1', 'long 2'].map((id) => assignment(id, { task: 'other' }))
  measured.answer({ assignments: [...long, assigned('99')] })
  await held.arrived(SLOTS)
  await settle()
  await vi.advanceTimersByTimeAsync(HAND_BACK_MS)
  const after = await source.next()
  expect(after.ended).toEqual(['99: unstarted'])
  const [spin, other] = ahead(after)
  expect(spin).toBe(0)
  expect(other).toBeGreaterThan(0)
  held.open()
  source.answerAll()
  await worker.stop()
})

test('asks for jobs ahead of slots for an inline task, and for none of a process pool, a program or a task that fails when it is lost', async () => {
  const source = new AnsweredSource()
  const run = () => null
  const tasks = [
    task({ name: 'inline', run }),
    task({ name: 'pooled', execution: 'process', module: import.meta.url, run }),
    { ...task({ name: 'program', run }), execution: 'exec' as const },
    task({ name: 'once', onLost: 'fail', run }),
  ]
  // Each job takes a millisecond. All tasks are measured, and any of them would be fast enough.
  const execute = () => vi.advanceTimersByTimeAsync(1)
  const worker = await startLoop(source, execute, { capacity: tasks.length, tasks })
  for (const round of ['1', '2', '3']) {
    const jobs = tasks.map(({ name }) => assignment(name + round, { task: name }))
    ;(await source.next()).answer({ assignments: jobs })
  }
  const measured = await source.next()
  const ahead = tasks.map(({ name }) => [name, measured.request.prefetch!.ahead(name, 'default', 1000) > 0])
  expect(Object.fromEntries(ahead)).toEqual({ inline: true, pooled: false, program: false, once: false })
  source.answerAll()
  await worker.stop()
})

test('two tasks of a lane are together assigned no more than the lane allows', async () => {
  const source = new AnsweredSource()
  const tasks = ['spin', 'other']
  const held = new Gate()
  const execute = ({ job }: { readonly job: { readonly id: string } }) =>
    job.id.startsWith('long') ? held.pass() : null
  const worker = await startLoop(source, execute, { capacity: SLOTS, tasks })
  const short = ['1', '2', '3'].flatMap((id) => tasks.map((name) => assignment(name + id, { task: name })))
  ;(await source.next()).answer({ assignments: short })
  const measured = await source.next()
  const ahead = (name: string, most: number) => measured.request.prefetch!.ahead(name, 'default', most)
  expect([ahead('spin', 10), ahead('other', 10)]).toEqual([10, 10])
  const waiting = ['3', '4', '5', '6'].map((id) => assigned(id, { task: 'spin' }))
  measured.answer({ assignments: [assignment('long 1'), assignment('long 2'), ...waiting] })
  await held.arrived(SLOTS)
  await settle()
  expect([ahead('spin', 10), ahead('other', 10)]).toEqual([6, 6])
  expect([ahead('spin', 4), ahead('other', 4), ahead('other', 3)]).toEqual([0, 0, 0])
  held.open()
  source.answerAll()
  await worker.stop()
})

/** A worker with one slot, whose jobs end soon. Job 1 takes the slot, and four others are assigned. */
async function quick() {
  const source = new AnsweredSource()
  const started: string[] = []
  const execute = async ({ job }: { readonly job: { readonly id: string } }) => {
    started.push(job.id)
  }
  const worker = await startLoop(source, execute, { capacity: 1 })
  const first = await source.next()
  // An answer never comes before the loop has turned.
  await settle()
  first.answer({ assignments: [assignment('1'), ...WAITING.map((id) => assigned(id))] })
  return { source, worker, started }
}

test('with little to report, half of the assigned jobs start before the next cycle and half while it is under way', async () => {
  const { source, worker, started } = await quick()
  const cycle = await source.next()
  expect(cycle.ended).toEqual(['1: completed', '3: completed', '4: completed'])
  await settle()
  expect(started).toEqual(['1', ...WAITING])
  source.answerAll()
  await worker.stop()
})

test('with enough to report, the next cycle is sent before an assigned job starts', async () => {
  const { source, worker, started } = await quick()
  const second = await source.next()
  await settle()
  started.length = 0
  second.answer({ assignments: ['7', '8', '9', '10'].map((id) => assigned(id)) })
  const third = await source.next()
  expect(third.ended).toEqual(['5: completed', '6: completed'])
  await settle()
  expect(started).toEqual(['7', '8', '9', '10'])
  source.answerAll()
  await worker.stop()
})

test('endings are gathered for 5 ms, but only while assigned jobs take the slots that they leave', async () => {
  const source = new AnsweredSource()
  const ends = new Map<string, () => void>()
  const execute = ({ job }: { readonly job: { readonly id: string } }) =>
    new Promise<void>((resolve) => ends.set(job.id, resolve))
  const worker = await startLoop(source, execute, { capacity: SLOTS })
  const end = async (id: string) => {
    ends.get(id)!()
    await settle()
  }
  const first = await source.next()
  first.answer({
    assignments: [assignment('1'), assignment('2'), ...WAITING.map((id) => assigned(id))],
  })
  await settle()

  await end('1')
  expect([...ends.keys()]).toEqual(['1', '2', '3'])
  expect(source.sent).toBeUndefined()
  vi.advanceTimersByTime(5)
  const second = await source.next()
  expect(second.ended).toEqual(['1: completed'])
  second.answer({})
  await settle()

  await end('2')
  await end('3')
  expect(source.sent).toBeUndefined()
  // Two of three jobs have started. The last one is left until the next cycle is on its way, so this slot is idle.
  await end('4')
  const third = await source.next()
  expect(third.ended).toEqual(['2: completed', '3: completed', '4: completed'])
  source.answerAll()
  await settle()
  await end('5')
  await end('6')
  await worker.stop()
})

test('a slot that waits for assigned jobs counts as used and is not asked for again', async () => {
  const { source, worker } = await quick()
  const cycle = await source.next()
  // No job runs. Jobs 5 and 6 wait for the slot.
  expect(cycle.running.map(({ id }) => id)).toEqual(['5', '6'])
  expect(cycle.request.free).toBe(0)
  expect(cycle.slots).toBe(1)
  source.answerAll()
  await worker.stop()
})

test.each(Array.from({ length: 20 }, (_, seed) => seed))(
  'whatever ends and is assigned, never more run than the slots that the database counts (seed %i)',
  async (seed) => {
    const random = new SeededRandom(seed)
    const source = new AnsweredSource()
    const limit = random.whole(1, 5)
    const ends = new Map<string, () => void>()
    let most = 0
    const starts: string[] = []
    const execute = ({ job }: { readonly job: { readonly id: string } }) => {
      starts.push(job.id)
      most = Math.max(most, ends.size + 1)
      if (random.chance(0.5)) return null
      return new Promise((resolve) => {
        ends.set(job.id, () => {
          ends.delete(job.id)
          resolve(null)
        })
      })
    }
    // Its own capacity is no bound: only what the database gives is.
    const worker = await startLoop(source, execute, { capacity: 0 })
    let jobs = 0
    for (let round = 0; round < 100; round++) {
      source.events!.wake(false)
      const cycle = await source.next()
      for (const end of [...ends.values()]) if (random.chance(0.4)) end()
      if (random.chance(0.5)) await settle()
      // As the database does it: what the worker says it uses is used until the next cycle.
      const given = random.whole(0, Math.min(cycle.request.free, limit - cycle.slots))
      const ahead = random.whole(0, 6)
      cycle.answer({
        assignments: [
          ...Array.from({ length: given }, () => assignment(String(++jobs))),
          ...Array.from({ length: ahead }, () => assigned(String(++jobs))),
        ],
      })
      if (random.chance(0.1)) source.events!.recall()
      for (const end of [...ends.values()]) if (random.chance(0.4)) end()
      if (random.chance(0.5)) await settle()
      expect(most).toBeLessThanOrEqual(limit)
      expect(ends.size).toBeLessThanOrEqual(limit)
    }
    expect(new Set(starts).size).toBe(starts.length)
    expect(starts.length).toBeGreaterThan(50)
    source.answerAll()
    for (const end of [...ends.values()]) end()
    await settle()
    for (const end of [...ends.values()]) end()
    await worker.stop()
  },
)
