import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { model, task } from '../../src/index.ts'
import { DEFAULT_RULES } from '../../src/policy/plan-input.ts'
import { type ArrivalDescription, generate } from '../../src/policy/sim/generate.ts'
import { type Measures, measure } from '../../src/policy/sim/measure.ts'
import { POLICIES, type PolicyName } from '../../src/policy/sim/policies/by-name.ts'
import { type Span, simulate } from '../../src/policy/sim/simulate.ts'
import type { SimJob, Workload } from '../../src/policy/sim/workload.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { FakeGpus } from '../support/fake-gpus.ts'
import { until } from '../support/until.ts'

// The workloads that the simulator plays a thousand times, twelve of each on the whole of it, at once: a database, a worker, readings
// of nvidia-smi, models that take memory of GPUs that exist in a folder. Each has a GPU of 24 GB and six models of 20 GB for itself,
// in a budget of its own; loads take 0.8 s and jobs a third of that, a fifteenth of what the simulator's figures are for, and so is the maximum wait.
//
// What a busy machine takes for all that lies between jobs is taken off the jobs and loads that follow: so a GPU is as busy as it is
// meant to be. And the simulator is given the times at which jobs came here, and those that loads, jobs and what is between them
// took: what is compared is what was decided, and not how fast.
//
// Of one workload the longest wait and the number of loads hang on a few milliseconds, in the simulator too: with 400 jobs 41 of 100
// meet both goals for hot and rare models. The sums over these twelve meet them in all of 40 simulations with other times: loads up
// to 15 % longer, jobs 2 % shorter to 3 % longer, unloads from 50 to 300 ms.

const database = useDatabase()
const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each()
})
const apps = useApps(database)

const GB = 1024 ** 3
const DRAWS = 12
const RULES = { ...DEFAULT_RULES, maxWaitMs: 12_000 }
const LOAD_MS = 800
const RUN_MS = LOAD_MS / 3
/** From the last job of a model to the load of the next. */
const UNLOAD_MS = 100

const uuidOf = (draw: number) => `GPU-${draw}`

/** One of them for each seed from 1 on. */
function workloads(weights: readonly number[], arrivals: ArrivalDescription): readonly Workload[] {
  const common = { memory: 20 * GB, devices: 1, perJob: 0, parallel: 1, pinned: false, priority: 0 }
  return Array.from({ length: DRAWS }, (_, draw) =>
    generate(
      {
        devices: [{ key: uuidOf(draw), memory: 24 * GB, worker: 'w' }],
        models: weights.map((weight, n) => ({
          ...common,
          name: `d${draw}m${n}`,
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
      draw + 1,
    ),
  )
}

/** What counts of several courses: sums, and means of what is a ratio or a share of one. */
interface Figures {
  readonly loads: number
  readonly stretch: number
  readonly waitP95: number
  readonly waitMax: number
  readonly overcommits: number
  readonly unserved: number
}

function figuresOf(courses: readonly Measures[]): Figures {
  const sum = (of: keyof Measures) => courses.reduce((total, each) => total + each[of], 0)
  return {
    loads: sum('loads'),
    stretch: sum('stretch') / courses.length,
    waitP95: sum('waitP95') / courses.length,
    waitMax: sum('waitMax') / courses.length,
    overcommits: sum('overcommits'),
    unserved: sum('unserved'),
  }
}

const simulated = (works: readonly Workload[], policy: PolicyName) =>
  figuresOf(works.map((work) => measure(work, simulate(work, POLICIES[policy].make(RULES)))))

/** For the tables of docs/internals/budget-policy.md. */
function show(title: string, rows: Readonly<Record<string, Figures>>): void {
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
  for (const [name, { loads, stretch, waitP95, waitMax }] of Object.entries(rows))
    console.info(
      `${title}, ${name}: ${loads} loads, makespan / bound ${stretch.toFixed(3)}, p95 ${seconds(waitP95)}, max ${seconds(waitMax)}`,
    )
}

interface Played {
  readonly found: Figures
  /** The same workloads, with the times at which jobs came here and the times all took. */
  readonly paced: readonly Workload[]
}

/** One workload while it is played. */
interface Play {
  readonly work: Workload
  readonly jobs: (Omit<SimJob, 'at'> & { at: number })[]
  readonly loads: Span[]
  overcommits: number
  /** When its GPU was last done with a job or a load. */
  readyAt: number
  /** What was lost between jobs and has not been taken off one yet. */
  owedMs: number
}

function playOf(work: Workload): Play {
  const jobs = work.arrivals.map(({ model: of, ...arrival }, index) => ({
    ...arrival,
    ...{ index, model: work.models[of]!, placed: false, returned: false, startedAt: null, endedAt: null },
  }))
  return { work, jobs, loads: [], overcommits: 0, readyAt: 0, owedMs: 0 }
}

/** Keeps the GPU for so long, less what was lost while this one waited for it already, but for `meantMs`. */
async function keepBusy(play: Play, ms: number, came: number, meantMs: number, now: () => number) {
  const from = now()
  play.owedMs += from - Math.max(play.readyAt, came) - meantMs
  const paid = Math.max(0, Math.min(play.owedMs, ms))
  play.owedMs -= paid
  await delay(ms - paid)
  play.readyAt = now()
  // A timer may be late too.
  play.owedMs += play.readyAt - from - (ms - paid)
}

/** The tasks of a workload, whose models lie on its own GPU. */
function tasksOf(play: Play, draw: number, gpus: FakeGpus, now: () => number) {
  const uuid = uuidOf(draw)
  return play.work.models.map(({ name, memory, loadMs }) => {
    const weights = model({
      name,
      load: async () => {
        const from = now()
        const free = gpus.take(uuid, memory)
        if (gpus.used(uuid) > 24 * GB) play.overcommits++
        const next = play.jobs.find((job) => job.model.name === name && job.startedAt === null)
        await keepBusy(play, loadMs, next!.at, play.loads.length === 0 ? 0 : UNLOAD_MS, now)
        play.loads.push({ copy: `${name} ${play.loads.length}`, model: name, device: uuid, from, to: now() })
        return free
      },
      unload: (free) => free(),
    })
    return task({
      name,
      model: weights,
      uses: { [`vram${draw}`]: '20GB' },
      run: async (index: number) => {
        const job = play.jobs[index]!
        job.startedAt = now()
        await keepBusy(play, job.runMs, job.at, 0, now)
        job.endedAt = now()
      },
    })
  })
}

/** Plays workloads on the real thing, and measures them as the simulator's courses are. */
async function played(works: readonly Workload[]): Promise<Played> {
  const gpus = new FakeGpus(works.map((_, draw) => ({ uuid: uuidOf(draw), totalMiB: 24 * 1024 })))
  undo.push(() => gpus.delete())
  undo.push(gpus.install())
  const plays = works.map(playOf)
  let begun = performance.now()
  const now = () => performance.now() - begun
  const rules = { quantum: RULES.quantum, maxWait: RULES.maxWaitMs }
  // A declared device named as a GPU of the machine is measured as that one.
  const budgets = works.map((_, draw) => [`vram${draw}`, { devices: { [`gpu${draw}`]: '24GB' }, ...rules }])
  const models = works.flatMap((work) => work.models.map(({ name, loadMs }) => [name, { load: loadMs }]))
  const app = await apps.open({
    tasks: plays.flatMap((play, draw) => tasksOf(play, draw, gpus, now)),
    budgets: Object.fromEntries(budgets),
    models: Object.fromEntries(models),
    lanes: { default: { perWorker: null, poll: 200 } },
  })
  const isBurst = works[0]!.arrivals.at(-1)!.at === works[0]!.arrivals[0]!.at
  if (!isBurst) await app.work({ capacity: 0 })
  begun = performance.now()
  await Promise.all(
    plays.map(async ({ jobs }) => {
      for (const job of jobs) {
        await delay(Math.max(0, job.at - now()))
        if (!isBurst) job.at = now()
        await app.submit(job.model.name, job.index)
      }
    }),
  )
  if (isBurst) {
    begun = performance.now()
    await app.work({ capacity: 0 })
  }
  const ended = () => plays.every(({ jobs }) => jobs.every(({ endedAt }) => endedAt !== null))
  await until(ended, 'all jobs to end', 180_000)
  await app.close()
  const paced = plays.map(pacedAs)
  const none = { runs: [], stays: [], outOfMemory: 0, livelock: false, stuck: 0 }
  const courses = plays.map(({ jobs, loads, overcommits }, draw) =>
    measure(paced[draw]!, { ...none, jobs, loads, overcommits }),
  )
  return { paced, found: figuresOf(courses) }
}

/**
 * One GPU, one model, one job at a time: whatever lies between two of them once the next one has come is what it takes. What was
 * lost before jobs and what was taken off them are both means over all: a mean over those that had waited would count more than was.
 */
function pacedAs({ work, jobs, loads }: Play): Workload {
  const inOrder = [...jobs].sort((one, other) => one.startedAt! - other.startedAt!)
  const gaps: number[] = []
  const unloads: number[] = []
  const firsts: number[] = []
  inOrder.forEach((job, index) => {
    const ended = inOrder[index - 1]?.endedAt ?? 0
    const load = loads.find(({ from }) => from >= ended && from <= job.startedAt!)
    if (load !== undefined) firsts.push(job.startedAt! - load.to)
    const readyAt = Math.max(ended, job.at)
    if (load === undefined) gaps.push(job.startedAt! - readyAt)
    else if (index > 0) unloads.push(Math.max(0, load.from - readyAt))
  })
  const loadMs = mean(loads.map(({ from, to }) => to - from)) + mean(firsts)
  const over = jobs.map((job) => job.endedAt! - job.startedAt! - job.runMs)
  const more = mean(over) + (mean(gaps) * gaps.length) / jobs.length
  return {
    ...work,
    unloadMs: mean(unloads),
    models: work.models.map((each) => {
      const times = { loadMs, runMs: each.runMs + more }
      return { ...each, ...times, believed: { ...each.believed, ...times } }
    }),
    arrivals: work.arrivals.map((each, index) => ({
      ...each,
      at: jobs[index]!.at,
      runMs: Math.max(0, each.runMs + more),
    })),
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / Math.max(1, values.length)
}

const zipf = Array.from({ length: 6 }, (_, index) => 1 / (index + 1) ** 0.8)

test('a burst: at most twice as many loads as there are models, and at most a tenth over the lower bound', async () => {
  const { found, paced } = await played(workloads(zipf, { kind: 'burst', tasks: 80 }))
  show('burst', { found, simulated: simulated(paced, 'sluice') })
  expect(found).toMatchObject({ overcommits: 0, unserved: 0 })
  expect(found.loads).toBeLessThanOrEqual(2 * 6 * DRAWS)
  expect(found.stretch).toBeLessThanOrEqual(1.1)
})

test('a steady mix: a quarter of the loads of strict order, and 95 of 100 wait as they would without a guard', async () => {
  const { found, paced } = await played(workloads(zipf, { kind: 'steady', tasks: 200, load: 0.7 }))
  const [fifo, collating] = [simulated(paced, 'fifo'), simulated(paced, 'llama-swap')]
  show('steady', { found, simulated: simulated(paced, 'sluice'), fifo, collating })
  expect(found).toMatchObject({ overcommits: 0, unserved: 0 })
  expect(found.loads).toBeLessThanOrEqual(fifo.loads / 4)
  expect(found.waitP95).toBeLessThanOrEqual(1.1 * collating.waitP95)
})

test('one model with nearly all jobs: half of the longest wait without a guard, for half as many loads more', async () => {
  const { found, paced } = await played(
    workloads([95, 1, 1, 1, 1, 1], { kind: 'steady', tasks: 400, load: 0.9 }),
  )
  const collating = simulated(paced, 'llama-swap')
  show('hot and rare', { found, simulated: simulated(paced, 'sluice'), collating })
  expect(found).toMatchObject({ overcommits: 0, unserved: 0 })
  expect(found.waitMax).toBeLessThanOrEqual(0.5 * collating.waitMax)
  expect(found.loads).toBeLessThanOrEqual(1.5 * collating.loads)
})
