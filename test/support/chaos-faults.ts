import { isCycle, type RequestProxy } from './request-proxy.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { TcpProxy } from './tcp-proxy.ts'
import type { WorkerProcess } from './worker-process.ts'

/** What faults are done to. */
export interface Victims {
  readonly random: SeededRandom
  readonly connections: TcpProxy
  readonly requests: RequestProxy
  /** Those that are up and not standing still. */
  workers(): readonly WorkerProcess[]
  /** After a burst of short jobs: stops a worker that jobs are assigned to beyond its slots, if there is one. */
  stopAssignedWorker(): Promise<WorkerProcess | undefined>
  /** Runs `act` after so many milliseconds, unless the run ends before. */
  later(ms: number, act: () => void): void
  readonly staleMs: number
}

export interface Fault {
  readonly name: string
  /** How often it is chosen, relative to the others. */
  readonly weight: number
  apply(victims: Victims): void | Promise<void>
}

/** The statements a worker cannot do without; the cycle is the one that matters most. */
const STATEMENTS = [
  'run_cycle',
  'run_cycle',
  'run_steady_cycle',
  'run_steady_cycle',
  'resync_worker',
  'register_worker',
  'beat',
  'insert_jobs',
  'insert_job',
]

const answerLost: Fault = {
  name: 'answer lost after the commit',
  weight: 6,
  async apply(victims) {
    const { random, requests } = victims
    const statement = random.pick(STATEMENTS)
    const held = await requests.hold((request) => request.statement === statement)
    await held.deliver()
    held.cut()
    held.close()
  },
}

const deliveredLate: Fault = {
  name: 'request delivered after its sender gave up',
  weight: 6,
  async apply(victims) {
    const { random, requests } = victims
    const statement = random.pick(STATEMENTS)
    const held = await requests.hold((request) => request.statement === statement)
    held.cut()
    victims.later(random.whole(0, 700), () => void held.deliver().then(() => held.close()))
  },
}

const carriedOutTwice: Fault = {
  name: 'cycle carried out twice',
  weight: 3,
  async apply(victims) {
    const { random, requests } = victims
    const held = await requests.hold((request) => isCycle(request) && request.repeatable)
    await held.deliver()
    held.cut()
    victims.later(random.whole(0, 300), () => void held.deliver().then(() => held.close()))
  },
}

const neverDelivered: Fault = {
  name: 'request lost',
  weight: 3,
  async apply(victims) {
    const { random, requests } = victims
    const statement = random.pick(STATEMENTS)
    const held = await requests.hold((request) => request.statement === statement)
    held.close()
  },
}

const delayed: Fault = {
  name: 'request delayed',
  weight: 6,
  async apply(victims) {
    const { random, requests } = victims
    const held = await requests.hold(isCycle)
    victims.later(random.whole(5, 400), () => held.pass())
  },
}

const connectionCut: Fault = {
  name: 'connection cut',
  weight: 4,
  apply(victims) {
    const { random, connections } = victims
    random.pick(connections.connections())?.cut()
  },
}

const connectionSlow: Fault = {
  name: 'connection slow',
  weight: 3,
  apply(victims) {
    const { random, connections } = victims
    const connection = random.pick(connections.connections())
    connection?.delay(random.whole(5, 150))
    victims.later(random.whole(100, 1000), () => connection?.delay(0))
  },
}

const killed: Fault = {
  name: 'worker killed',
  weight: 3,
  apply(victims) {
    const { random } = victims
    random.pick(victims.workers())?.process.kill('SIGKILL')
  },
}

const stopped: Fault = {
  name: 'worker stopped for a while',
  weight: 2,
  apply(victims) {
    const { random, staleMs } = victims
    const worker = random.pick(victims.workers())
    worker?.process.kill('SIGSTOP')
    victims.later(random.whole(50, 3 * staleMs), () => worker?.process.kill('SIGCONT'))
  },
}

/** Some of what it was assigned has started, and some has not. */
const strickenWithAssigned: Fault = {
  name: 'worker with assigned jobs killed or stopped',
  weight: 3,
  async apply(victims) {
    const { random, staleMs } = victims
    const isKilled = random.chance(0.5)
    const worker = await victims.stopAssignedWorker()
    if (isKilled) worker?.process.kill('SIGKILL')
    else victims.later(random.whole(50, 3 * staleMs), () => worker?.process.kill('SIGCONT'))
  },
}

/** Half-open connections are found by time-outs of up to 30 s, so they are for runs that are much longer. */
const blackHole: Fault = {
  name: 'connection into a black hole',
  weight: 1,
  apply(victims) {
    const { random, connections } = victims
    random
      .pick(connections.connections())
      ?.blackhole(random.pick(['requests', 'answers', undefined] as const))
  },
}

export const QUICK_FAULTS: readonly Fault[] = [
  answerLost,
  deliveredLate,
  carriedOutTwice,
  neverDelivered,
  delayed,
  connectionCut,
  connectionSlow,
  killed,
  stopped,
  strickenWithAssigned,
]

export const ALL_FAULTS: readonly Fault[] = [...QUICK_FAULTS, blackHole]

export function chooseFault(faults: readonly Fault[], random: SeededRandom): Fault {
  let place = random.next() * faults.reduce((sum, fault) => sum + fault.weight, 0)
  for (const fault of faults) {
    place -= fault.weight
    if (place < 0) return fault
  }
  return faults.at(-1)!
}
