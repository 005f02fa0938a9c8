import type { SimPolicy } from '../simulate.ts'
import type { Move, SimCopy, Stage } from '../stage.ts'
import type { SimDevice, SimJob, SimModel } from '../workload.ts'

/*
 * What other systems do, as far as it matters for loads and waits. They imitate a rule, they are not those programs.
 * Each returns its moves one at a time: the simulation asks again.
 */

/** Strictly in the order of arrival. The next job waits until the first can start; idle models go, longest unused first. */
export function fifoPolicy(): SimPolicy {
  return {
    decide(stage) {
      const first = stage.queues.heads()[0]
      return first === undefined ? [] : serve(stage, first, oldestUse)
    },
  }
}

/** The oldest job has its model loaded, whoever else wants the room; jobs whose model is loaded run meanwhile. */
export function lruPolicy(): SimPolicy {
  return {
    decide(stage) {
      const [first, ...others] = stage.queues.heads()
      if (first === undefined) return []
      const moves = serve(stage, first, oldestUse)
      return moves.length > 0 ? moves : startFirst(stage, others)
    },
  }
}

/**
 * One queue and one load at a time. A job whose model is loaded when it comes passes the queue. The first in the queue
 * drives out what is idle, in the order of names, onto the device with the most room.
 */
export function ollamaPolicy(): SimPolicy {
  const passing = new Set<SimJob>()
  const queue: SimJob[] = []
  return {
    arrived(stage, job) {
      if (stage.liveCopies(job.model).length > 0) passing.add(job)
      else queue.push(job)
    },
    decide(stage) {
      for (const job of passing) {
        if (job.placed) passing.delete(job)
        else if (stage.liveCopies(job.model).length === 0) {
          // Its model went while it waited.
          passing.delete(job)
          queue.push(job)
        } else {
          const moves = startOn(stage, job)
          if (moves.length > 0) return moves
        }
      }
      while (queue[0]?.placed === true) queue.shift()
      const first = queue[0]
      const loading = [...stage.copies.values()].some(({ loadedAt }) => loadedAt === null)
      return first === undefined || loading ? [] : serve(stage, first, byName, mostRoom)
    },
  }
}

/** A loaded model serves all that comes for it; it goes only when nothing runs on it and nothing waits for it. */
export function llamaSwapPolicy(): SimPolicy {
  return {
    decide(stage) {
      const heads = stage.queues.heads()
      const moves = startFirst(stage, heads)
      if (moves.length > 0) return moves
      for (const head of heads) {
        if (stage.liveCopies(head.model).length > 0) continue
        const swap = load(stage, head, [head], (copies) =>
          oldestUse(copies.filter(({ model }) => stage.queues.depth(model) === 0)),
        )
        if (swap.length > 0) return swap
      }
      return []
    },
  }
}

/**
 * A guard without a quantum: what has waited too long is loaded at once, whatever is idle goes. Loads and jobs are
 * separate steps, so a model can go before it has served anything.
 */
export function naiveGuardPolicy(maxWaitMs: number): SimPolicy {
  return {
    decide(stage) {
      const heads = stage.queues.heads()
      const cold = heads.filter(({ model }) => stage.liveCopies(model).length === 0)
      const due = cold.find(({ at }) => stage.now - at >= maxWaitMs)
      // What was just loaded and has not begun is idle too: that is the flaw.
      if (due !== undefined) return load(stage, due, [], oldestUse)
      const moves = startFirst(stage, heads)
      if (moves.length > 0) return moves
      if (cold[0] === undefined) return []
      return load(stage, cold[0], [], (copies) =>
        oldestUse(copies.filter(({ model }) => stage.queues.depth(model) === 0)),
      )
    },
  }
}

type Victims = (idle: SimCopy[]) => SimCopy[]
type Preference = (one: Roomy, other: Roomy) => number
interface Roomy {
  readonly device: SimDevice
  readonly room: number
}

const oldestUse: Victims = (idle) => idle.sort((one, other) => one.lastUsed - other.lastUsed)
const byName: Victims = (idle) => idle.sort((one, other) => (one.model.name < other.model.name ? -1 : 1))
const leastRoom: Preference = (one, other) => one.room - other.room
const mostRoom: Preference = (one, other) => other.room - one.room

function startFirst(stage: Stage, heads: readonly SimJob[]): Move[] {
  for (const head of heads) {
    const moves = startOn(stage, head)
    if (moves.length > 0) return moves
  }
  return []
}

function startOn(stage: Stage, job: SimJob): Move[] {
  const { perJob } = job.model
  const copy = stage.liveCopies(job.model).find((copy) => {
    if (stage.slots(copy) < 1) return false
    return stage
      .devices()
      .filter(({ key }) => copy.devices.includes(key))
      .every((device) => stage.room(device) >= perJob)
  })
  return copy === undefined ? [] : [{ kind: 'start', copy, jobs: [job] }]
}

function serve(stage: Stage, job: SimJob, victims: Victims, preference = leastRoom): Move[] {
  if (stage.liveCopies(job.model).length > 0) return startOn(stage, job)
  return load(stage, job, [job], victims, preference)
}

/** Loads the model if there is room, or else unloads one copy on the devices that need the fewest to go. */
function load(
  stage: Stage,
  { model }: SimJob,
  jobs: readonly SimJob[],
  victims: Victims,
  preference = leastRoom,
): Move[] {
  const need = stage.memoryOf(model) + model.perJob
  const roomy = stage
    .devices()
    .filter(({ memory }) => memory >= need)
    .map((device) => ({ device, room: stage.room(device) }))
  const fitting = roomy.filter(({ room }) => room >= need).sort(preference)
  if (fitting.length >= model.devices) {
    const devices = fitting.slice(0, model.devices).map(({ device }) => device.key)
    return [{ kind: 'load', model, devices, jobs }]
  }
  return clearOne(stage, roomy, need, model, victims)
}

function clearOne(
  stage: Stage,
  roomy: readonly Roomy[],
  need: number,
  model: SimModel,
  victims: Victims,
): Move[] {
  const options = roomy.flatMap(({ device, room }) => {
    let missing = need - room
    if (missing <= 0) return []
    const there = [...stage.copies.values()].filter(({ devices }) => devices.includes(device.key))
    for (const copy of there) if (copy.unloading) missing -= copy.charged
    if (missing <= 0) return []
    const idle = there.filter((copy) => isIdle(copy) && !copy.model.pinned)
    const chosen: SimCopy[] = []
    for (const copy of victims(idle)) {
      if (missing <= 0) break
      chosen.push(copy)
      missing -= copy.charged
    }
    return missing <= 0 ? [chosen] : []
  })
  const leaving = [...stage.copies.values()].some(({ unloading }) => unloading)
  if (leaving && model.devices === 1) return []
  options.sort((one, other) => one.length - other.length)
  return (options[0] ?? []).map((copy) => ({ kind: 'unload', copy }))
}

function isIdle({ jobs, loadedAt, unloading }: SimCopy): boolean {
  return jobs.size === 0 && loadedAt !== null && !unloading
}
