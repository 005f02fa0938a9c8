import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { AssignedCells } from '../../src/model/assigned-cells.ts'
import type { Assignment, CycleAnswer, JobAttempt } from '../../src/model/assignment.ts'
import type { Attempt } from '../../src/worker/attempt.ts'
import { DeviceWatch } from '../../src/worker/devices/device-watch.ts'
import type { JobSource, SourceBeat, SourceEvents, SourceRequest } from '../../src/worker/job-source.ts'
import { ModelKeeper } from '../../src/worker/models/model-keeper.ts'
import { type AnyTask, task } from '../../src/worker/task.ts'
import { Workdirs } from '../../src/worker/workdir.ts'
import { Worker } from '../../src/worker/worker.ts'

/** A beat that says that nothing has changed. */
export const QUIET_BEAT: SourceBeat = {
  ...{ lanes: ['default'], cancels: [], draining: false, stopping: false, shares: null, resync: false },
}
const NOTHING: CycleAnswer = { assignments: [], lost: [], refused: [], again: false }

/** A source that a test controls to the microtask: it gives the jobs in `waiting`. Its poll is so long that it never comes within a test. */
export class ControlledSource implements JobSource {
  readonly pollMs = 600_000
  readonly lookAgainMs = Number.POSITIVE_INFINITY
  readonly isBehind = false
  readonly heartbeatMs = 5000
  readonly staleByLane = new Map([['default', 30_000]])
  readonly silentMs: number = 0
  readonly assignedCells: AssignedCells
  readonly waiting: Assignment[] = []
  readonly reported: string[] = []
  readonly frees: number[] = []
  away = false
  events: SourceEvents | undefined

  constructor(assignedCells = new AssignedCells()) {
    this.assignedCells = assignedCells
  }

  async open(events: SourceEvents): Promise<void> {
    this.events = events
    events.beat(QUIET_BEAT)
  }

  async startOver(): Promise<void> {}

  renew(): void {}

  async cycle({ ended, free }: SourceRequest): Promise<CycleAnswer> {
    this.frees.push(free)
    if (this.away) throw new Error('the other side is away')
    for (const each of ended) this.reported.push(each.id)
    return { ...NOTHING, assignments: this.waiting.splice(0, free) }
  }

  servicesFor(): never {
    throw new Error('not used')
  }

  async reportDevices(): Promise<[]> {
    return []
  }

  async shareProcesses(): Promise<number> {
    return 0
  }

  broken(): void {}

  withdrawTask(): void {}

  restoreTask(): void {}

  flush(): undefined {
    return undefined
  }

  async close(): Promise<void> {}
}

/** A cycle that a worker has sent, with what it said then. */
export interface SentCycle {
  readonly request: SourceRequest
  /** The endings that it reports, as `id: kind`. */
  readonly ended: readonly string[]
  readonly running: readonly JobAttempt[]
  /** How many slots of the lane `default` the worker uses until the answer comes. */
  readonly slots: number
  answer(answer: Partial<CycleAnswer>): void
  fail(error: Error): void
}

/** A source that assigns jobs ahead. The test answers each of its cycles. */
export class AnsweredSource extends ControlledSource {
  startedOver = 0
  readonly #sent: SentCycle[] = []
  #underWay: SentCycle | undefined
  #answersAll = false
  #isOutOfStep = false

  override async startOver(): Promise<void> {
    this.startedOver++
  }

  /** As the database and the session of a worker do: a cycle after one that failed, or that asks for it, recalls what has not started. */
  override cycle(request: SourceRequest): Promise<CycleAnswer> {
    if (this.#answersAll) return Promise.resolve(NOTHING)
    this.assignedCells.sent(0, 1)
    if (request.resync || this.#isOutOfStep) request.prefetch!.recall()
    this.#isOutOfStep = false
    return new Promise<CycleAnswer>((resolve, reject) => {
      this.#underWay = {
        request,
        ended: request.ended.map(({ id, ending }) => `${id}: ${ending.kind}`),
        running: request.running(),
        slots: request.prefetch!.slots('default'),
        answer: (answer) => resolve({ ...NOTHING, ...answer }),
        fail: (error) => {
          this.#isOutOfStep = true
          reject(error)
        },
      }
      this.#sent.push(this.#underWay)
    }).finally(() => this.assignedCells.answered(0, 1))
  }

  /** A cycle that the test has not seen yet. */
  get sent(): SentCycle | undefined {
    return this.#sent[0]
  }

  /** Waits for a cycle, without letting time pass. */
  async next(): Promise<SentCycle> {
    for (let turns = 0; this.#sent.length === 0; turns++) {
      if (turns === 1000) throw new Error('the worker sends no cycle')
      await turn()
    }
    return this.#sent.shift()!
  }

  /** The test is over: what is sent is answered, and brings nothing. */
  answerAll(): void {
    this.#answersAll = true
    this.#underWay?.answer({})
  }
}

/** Lets everything happen that needs no time to pass. */
export async function settle(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn()
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

export function assignment(id: string, more: Partial<Assignment> = {}): Assignment {
  return {
    ...{ id, attempt: 1, task: 'spin', lane: 'default', failures: 0, priority: 0, key: null, tags: [] },
    ...{ submittedAt: '2030-01-01T00:00:00Z', input: null },
    ...more,
  }
}

/** One that waits for a slot. */
export function assigned(id: string, more: Partial<Assignment> = {}): Assignment {
  return assignment(id, { prefetched: { rank: 0 }, ...more })
}

/** Starts a worker that runs jobs of these tasks, inline unless it is given the task itself, and each by `execute`. Its folder goes when the test has ended. */
export async function startLoop(
  source: ControlledSource,
  execute: (attempt: Attempt) => unknown,
  {
    capacity = 10,
    tasks = ['spin'],
  }: { readonly capacity?: number; readonly tasks?: readonly (string | AnyTask)[] } = {},
): Promise<Worker> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-loop-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const log = { info() {}, warn() {}, error() {} }
  const all = tasks.map((each) => (typeof each === 'string' ? task({ name: each, run: () => null }) : each))
  const devices = new DeviceWatch({ source, host: 'here', log })
  const worker = new Worker({
    source,
    devices,
    models: new ModelKeeper({ models: new Map(), devices, log, onNews() {} }),
    tasks: new Map(all.map((each) => [each.name, each])),
    executors: new Map(all.map(({ name }) => [name, execute])),
    name: 'loop',
    pool: undefined,
    share: undefined,
    workdirs: await Workdirs.open(root),
    capacity,
    cycleMax: 5,
    graceMs: 100,
    shutdownGraceMs: 1000,
    log,
  })
  await worker.start()
  return worker
}
