import { type Plan, plan } from '../../plan.ts'
import type { PlanInput, Rules } from '../../plan-input.ts'
import type { SimPolicy } from '../simulate.ts'
import type { Move, SimCopy, Stage } from '../stage.ts'
import { MEMORY } from '../workload.ts'

/**
 * The real policy: every worker asks it in turn, as in production.
 *
 * @param ageingMs Raises a waiting job's priority by 1 every interval, as a lane with `ageing` does.
 */
export function sluicePolicy(rules: Rules, ageingMs = Number.POSITIVE_INFINITY): SimPolicy {
  let lookAgainMs = Number.POSITIVE_INFINITY
  return {
    decide(stage) {
      lookAgainMs = Number.POSITIVE_INFINITY
      for (const worker of new Set(stage.devices().map((device) => device.worker))) {
        const decided = plan(planInputOf(stage, worker, rules, ageingMs))
        const moves = movesOf(stage, worker, decided)
        lookAgainMs = Math.min(lookAgainMs, decided.lookAgainMs)
        if (moves.length > 0) return moves
      }
      return []
    },
    lookAgainMs: () => lookAgainMs,
  }
}

/** Breaks ties of jobs that came at the same time, by a nanosecond each. */
const TIE_MS = 1e-6

export function planInputOf(
  stage: Stage,
  worker: string,
  rules: Rules,
  ageingMs = Number.POSITIVE_INFINITY,
): PlanInput {
  const { workload, queues, known, now } = stage
  let running = 0
  for (const copy of stage.copies.values()) if (copy.worker === worker) running += copy.jobs.size
  return {
    now,
    free: Math.max(0, workload.capacity - running),
    devices: stage
      .devices()
      .filter((device) => device.worker === worker)
      .map((device) => ({
        key: device.key,
        budget: MEMORY,
        capacity: device.memory,
        room: Math.max(0, stage.room(device)),
      })),
    shared: new Map(),
    residents: [...stage.copies.values()].map((copy) => residentOf(copy, worker)),
    queues: workload.models.flatMap((model, classId) => {
      const head = queues.head(model)
      if (head === undefined) return []
      const view = {
        classId,
        task: model.name,
        model: model.name,
        depth: queues.depth(model),
        head: {
          priority: head.priority + Math.floor((now - head.at) / ageingMs),
          waitingSince: head.at + head.index * TIE_MS,
          uses: null,
        },
        parallel: model.parallel,
        uses: [{ budget: MEMORY, devices: model.devices, each: stage.memoryOf(model) }],
        perJob: model.perJob > 0 ? [{ budget: MEMORY, devices: model.devices, each: model.perJob }] : [],
        most: Number.MAX_SAFE_INTEGER,
      }
      return [view]
    }),
    models: known,
    rules: new Map([[MEMORY, rules]]),
  }
}

function residentOf(copy: SimCopy, worker: string): PlanInput['residents'][number] {
  return {
    id: copy.id,
    model: copy.model.name,
    shares: copy.devices.map((device) => ({ budget: MEMORY, device, amount: copy.charged })),
    mine: copy.worker === worker,
    loadedAt: copy.loadedAt,
    unloading: copy.unloading,
    running: copy.jobs.size,
    idleSince: copy.idleSince,
    pinned: copy.model.pinned,
  }
}

function movesOf(stage: Stage, worker: string, decided: Plan): Move[] {
  const moves: Move[] = []
  const taken = new Map<number, number>()
  for (const { resident } of decided.unloads)
    moves.push({ kind: 'unload', copy: stage.copies.get(resident)! })
  for (const { classId, count, deviceUses, newResident } of decided.starts) {
    const model = stage.workload.models[classId]!
    const before = taken.get(classId) ?? 0
    taken.set(classId, before + count)
    const jobs = stage.queues.first(model, before + count).slice(before)
    const devices = deviceUses.map(({ device }) => device)
    if (newResident) moves.push({ kind: 'load', model, devices, jobs })
    else {
      const copy = stage
        .liveCopies(model)
        .find((copy) => copy.worker === worker && copy.devices.every((device) => devices.includes(device)))!
      moves.push({ kind: 'start', copy, jobs })
    }
  }
  return moves
}
