import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { model, task } from '../../src/index.ts'
import { type ArrivalDescription, generate } from '../../src/policy/sim/generate.ts'
import { type Measures, measure } from '../../src/policy/sim/measure.ts'
import { POLICIES, type PolicyName } from '../../src/policy/sim/policies/by-name.ts'
import { type Span, simulate } from '../../src/policy/sim/simulate.ts'
import type { SimJob, Workload } from '../../src/policy/sim/workload.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { FakeGpus } from '../support/fake-gpus.ts'
import { until } from '../support/until.ts'

// The workloads that the simulator plays a thousand times, once each on the whole of it: a database, a worker, readings of
// nvidia-smi, models that take memory of a GPU that exists in a folder. Six models of 20 GB on one GPU of 24 GB; loads of 0.6 s
// and jobs of 0.2 s, a twentieth of what the simulator's figures are for, and so is the maximum wait.
//
// A machine that has other things to do takes longer for all of it. So the simulator is given the times that loads, jobs and what is
// between them took here: what is compared is what was decided, and not how fast.

const database = useDatabase()
const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each()
})
const apps = useApps(database)

const GB = 1024 ** 3
const GPU = 'GPU-one'
const RULES = { quantum: 9, maxWaitMs: 9000 }
const LOAD_MS = 600
const RUN_MS = 200
/** From the decision to unload to the reading that shows it, before it is known what it takes here. */
const UNLOAD_MS = 100

function workload(weights: readonly number[], arrivals: ArrivalDescription): Workload {
  const common = { memory: 20 * GB, devices: 1, perJob: 0, parallel: 1, pinned: false, priority: 0 }
  return generate(
    {
      devices: [{ key: GPU, memory: 24 * GB, worker: 'w' }],
      models: weights.map((weight, n) => ({
        ...common,
        name: `m${n}`,
        loadMs: LOAD_MS,
        runMs: RUN_MS,
        weight,
      })),
      arrivals,
      losses: [],
      rules: RULES,
      unloadMs: UNLOAD_MS,
      capacity: 1000,
      error: 0,
    },
    1,
  )
}

const simulated = (work: Workload, policy: PolicyName) =>
  measure(work, simulate(work, POLICIES[policy].make(RULES)))

interface Played {
  readonly found: Measures
  /** The same workload, with the times it took here. */
  readonly paced: Workload
}

/** Plays a workload on the real thing, and measures it as the simulator's courses are. */
async function played(work: Workload): Promise<Played> {
  const gpus = new FakeGpus([{ uuid: GPU, totalMiB: 24 * 1024 }])
  undo.push(() => gpus.delete())
  undo.push(gpus.install())
  const loads: Span[] = []
  const jobs: SimJob[] = work.arrivals.map(({ model: of, ...arrival }, index) => ({
    ...arrival,
    ...{ index, model: work.models[of]!, placed: false, returned: false, startedAt: null, endedAt: null },
  }))
  let begun = 0
  let overcommits = 0
  const now = () => performance.now() - begun
  const tasks = work.models.map(({ name, memory, loadMs }) => {
    const weights = model({
      name,
      load: async () => {
        const from = now()
        const free = gpus.take(GPU, memory)
        if (gpus.used(GPU) > 24 * GB) overcommits++
        await delay(loadMs)
        loads.push({ copy: `${name} ${loads.length}`, model: name, device: GPU, from, to: now() })
        return free
      },
      unload: (free) => free(),
    })
    return task({
      name,
      model: weights,
      uses: { vram: '20GB' },
      run: async (index: number) => {
        const job = jobs[index]!
        job.startedAt = now()
        await delay(job.runMs)
        job.endedAt = now()
      },
    })
  })
  const app = await apps.open({
    tasks,
    budgets: { vram: { devices: 'auto', quantum: RULES.quantum, maxWait: RULES.maxWaitMs } },
    models: Object.fromEntries(work.models.map(({ name, loadMs }) => [name, { load: loadMs }])),
    lanes: { default: { perWorker: null, poll: 200 } },
  })
  const isBurst = jobs.at(-1)!.at === jobs[0]!.at
  if (!isBurst) await app.work({ capacity: 0 })
  begun = performance.now()
  for (const job of jobs) {
    await delay(Math.max(0, job.at - now()))
    await app.submit(job.model.name, job.index)
  }
  if (isBurst) {
    begun = performance.now()
    await app.work({ capacity: 0 })
  }
  await until(() => jobs.every(({ endedAt }) => endedAt !== null), 'all jobs to end', 180_000)
  await app.close()
  const paced = pacedAs(work, jobs, loads)
  const none = { runs: [], stays: [], outOfMemory: 0, livelock: false, stuck: 0 }
  return { paced, found: measure(paced, { ...none, jobs, loads, overcommits }) }
}

/** One GPU, one model, one job at a time: whatever lies between two of them while the next one waits already is what it takes. */
function pacedAs(work: Workload, jobs: readonly SimJob[], loads: readonly Span[]): Workload {
  const inOrder = [...jobs].sort((one, other) => one.startedAt! - other.startedAt!)
  const gaps: number[] = []
  const unloads: number[] = []
  const firsts: number[] = []
  inOrder.forEach((job, index) => {
    const ended = inOrder[index - 1]?.endedAt ?? 0
    const load = loads.find(({ from }) => from >= ended && from <= job.startedAt!)
    if (load !== undefined) firsts.push(job.startedAt! - load.to)
    if (index === 0 || job.at > ended) return
    if (load === undefined) gaps.push(job.startedAt! - ended)
    else unloads.push(load.from - ended)
  })
  const loadMs = mean(loads.map(({ from, to }) => to - from)) + mean(firsts)
  const more = mean(jobs.map((job) => job.endedAt! - job.startedAt! - job.runMs)) + mean(gaps)
  return {
    ...work,
    unloadMs: mean(unloads),
    models: work.models.map((each) => {
      const times = { loadMs, runMs: each.runMs + more }
      return { ...each, ...times, believed: { ...each.believed, ...times } }
    }),
    arrivals: work.arrivals.map((each) => ({ ...each, runMs: each.runMs + more })),
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / Math.max(1, values.length)
}

const zipf = Array.from({ length: 6 }, (_, index) => 1 / (index + 1) ** 0.8)

test('a burst: at most twice as many loads as there are models, and at most a tenth over the lower bound', async () => {
  const { found } = await played(workload(zipf, { kind: 'burst', tasks: 150 }))
  expect(found).toMatchObject({ overcommits: 0, unserved: 0 })
  expect(found.loads).toBeLessThanOrEqual(2 * 6)
  expect(found.stretch).toBeLessThanOrEqual(1.1)
})

test('a steady mix: a quarter of the loads of strict order, and 95 of 100 wait as they would without a guard', async () => {
  const work = workload(zipf, { kind: 'steady', tasks: 160, load: 0.7 })
  const { found, paced } = await played(work)
  expect(found).toMatchObject({ overcommits: 0, unserved: 0 })
  expect(found.loads).toBeLessThanOrEqual(simulated(paced, 'fifo').loads / 4)
  expect(found.waitP95).toBeLessThanOrEqual(1.1 * simulated(paced, 'llama-swap').waitP95)
})

// Of one short workload the longest wait hangs on a few milliseconds, also in the simulator: this one misses the goal at times. How many
// loads it costs is measured over a thousand longer workloads: here it is as many as the simulator has, or nearly.
test('one model with nearly all jobs: the longest wait is half of what it would be without a guard', async () => {
  const work = workload([95, 1, 1, 1, 1, 1], { kind: 'steady', tasks: 220, load: 0.9 })
  const { found, paced } = await played(work)
  expect(found).toMatchObject({ overcommits: 0, unserved: 0 })
  expect(found.waitMax).toBeLessThanOrEqual(0.5 * simulated(paced, 'llama-swap').waitMax)
  expect(found.loads).toBeLessThanOrEqual(1.25 * simulated(paced, 'sluice').loads)
})
