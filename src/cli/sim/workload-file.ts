import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { readYaml } from '../../config/read-yaml.ts'
import { type Checked, list, name, object, record, Spot, value } from '../../config/shape.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import { quantity } from '../../model/amount.ts'
import {
  choice,
  count,
  duration,
  flag,
  invalidConfig,
  type Locate,
  number,
  type Problem,
} from '../../model/setting-value.ts'
import { DEFAULT_RULES } from '../../policy/plan-input.ts'
import type { ArrivalDescription, Description, ModelDescription } from '../../policy/sim/generate.ts'
import type { Loss, SimDevice } from '../../policy/sim/workload.ts'

const time = duration({ min: 0, max: 3650 * 86_400_000 })
const MAX_TASKS = 1_000_000

const MODEL = {
  memory: value(quantity),
  load: value(time),
  run: value(time),
  devices: value(count({ min: 1, max: 64 })),
  perJob: value(quantity),
  parallel: value(count({ min: 1 })),
  pinned: value(flag),
  weight: value(number({ min: 0, max: 1e9 })),
  priority: value(count({ min: -1000, max: 1000 })),
  copies: value(count({ min: 1, max: 1000 })),
  zipf: value(number({ min: 0, max: 10 })),
}

const DEVICE = { memory: value(quantity), worker: name, copies: value(count({ min: 1, max: 1000 })) }

const ARRIVALS = {
  kind: value(choice('burst', 'steady', 'diurnal', 'alternating')),
  tasks: value(count({ min: 1, max: MAX_TASKS })),
  load: value(number({ min: 0.001, max: 1000 })),
  period: value(duration({ min: 1000, max: 366 * 86_400_000 })),
}

const FILE = object({
  name: { keys: [], check: (found: unknown) => (typeof found === 'string' ? found : String(found)) },
  devices: record(object(DEVICE)),
  models: record(object(MODEL)),
  arrivals: object(ARRIVALS),
  jobs: list(
    object({
      at: value(time),
      model: name,
      run: value(time),
      priority: value(count({ min: -1000, max: 1000 })),
    }),
    { expected: 'a list of { at, model, run }', min: 1 },
  ),
  losses: list(object({ device: name, at: value(time), back: value(time) }), {
    expected: 'a list of { device, at, back }',
  }),
  quantum: value(number({ min: 0, max: 10_000 })),
  maxWait: value(time),
  unload: value(time),
  capacity: value(count({ min: 1 })),
  error: value(number({ min: 0, max: 0.9 })),
})

type File = Checked<typeof FILE>

export interface WorkloadFile {
  readonly title: string
  readonly description: Description
  /** Two seeds would give the same: all jobs are written down and nothing is guessed. */
  readonly fixed: boolean
}

/**
 * Reads what `sluice sim` is asked to play.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when the file cannot be read, `INVALID_CONFIG` with all that is wrong in it.
 */
export async function readWorkloadFile(folder: string, path: string): Promise<WorkloadFile> {
  let source: string
  try {
    source = await readFile(resolve(folder, path), 'utf8')
  } catch (error) {
    throw new SluiceError('INVALID_ARGUMENT', `cannot read the workload: ${messageOf(error)}`)
  }
  const { found, locate } = parse(source, path)
  const problems: Problem[] = []
  const top = new Spot(locate, problems)
  const file = FILE.check(found, top)
  // What was not understood would be missed again.
  const described = file === undefined || problems.length > 0 ? undefined : toDescription(file, top)
  if (problems.length > 0 || file === undefined || described === undefined) throw invalidConfig(problems)
  const fixed = file.jobs !== undefined && described.error === 0
  return { title: file.name ?? path, description: described, fixed }
}

function parse(source: string, path: string): { found: unknown; locate: Locate } {
  if (path.endsWith('.json')) {
    try {
      return { found: JSON.parse(source), locate: () => ({ file: path }) }
    } catch (error) {
      throw invalidConfig([{ path: '', place: { file: path }, message: `not JSON: ${messageOf(error)}` }])
    }
  }
  const { value, locate, problems } = readYaml(source, path)
  if (problems.length > 0) throw invalidConfig(problems)
  return { found: value, locate }
}

function toDescription(file: File, top: Spot): Description {
  const devices = devicesOf(file, top)
  const models = modelsOf(file, top, devices)
  return {
    devices,
    models,
    arrivals: arrivalsOf(file, top, models),
    losses: lossesOf(file, top, devices),
    rules: {
      quantum: file.quantum ?? DEFAULT_RULES.quantum,
      maxWaitMs: file.maxWait ?? DEFAULT_RULES.maxWaitMs,
    },
    unloadMs: file.unload ?? 0,
    capacity: file.capacity ?? Number.MAX_SAFE_INTEGER,
    error: file.error ?? 0,
  }
}

function devicesOf({ devices = {} }: File, top: Spot): SimDevice[] {
  const found = Object.entries(devices).flatMap(([key, { memory, worker = 'worker', copies }]) => {
    if (memory === undefined) {
      top.below('devices').below(key).report('has no memory; write memory: 24GB')
      return []
    }
    return numbered(key, copies).map((each) => ({ key: each, memory, worker }))
  })
  if (found.length === 0)
    top.below('devices').report('there are none; write devices: { gpu: { memory: 24GB } }')
  return found
}

/** `copies: 3` of `gpu` are gpu1, gpu2 and gpu3. */
function numbered(key: string, copies: number | undefined): string[] {
  return copies === undefined ? [key] : Array.from({ length: copies }, (_, index) => `${key}${index + 1}`)
}

function modelsOf({ models = {} }: File, top: Spot, devices: readonly SimDevice[]): ModelDescription[] {
  const found = Object.entries(models).flatMap(([key, model]) => {
    const at = top.below('models').below(key)
    const { memory, load, run = 0, perJob = 0, weight = 1, zipf = 0 } = model
    if (memory === undefined || load === undefined) {
      at.report(`has no ${memory === undefined ? 'memory' : 'load time'}; write { memory: 20GB, load: 12s }`)
      return []
    }
    const wide = devices.filter((device) => device.memory >= memory + perJob).length
    if (wide < (model.devices ?? 1)) at.report('fits on too few of the devices')
    return numbered(key, model.copies).map((name, index) => ({
      name,
      memory,
      loadMs: load,
      runMs: run,
      devices: model.devices ?? 1,
      perJob,
      parallel: model.parallel ?? 1,
      pinned: model.pinned ?? false,
      weight: weight / (index + 1) ** zipf,
      priority: model.priority ?? 0,
    }))
  })
  if (found.length === 0) top.below('models').report('there are none; name at least one')
  return found
}

function arrivalsOf(file: File, top: Spot, models: readonly ModelDescription[]): ArrivalDescription {
  const { arrivals, jobs } = file
  if ((arrivals === undefined) === (jobs === undefined)) {
    top.report('write either arrivals, to have jobs made up, or jobs, a list of them')
    return { kind: 'burst', tasks: 1 }
  }
  if (jobs !== undefined) return recorded(jobs, top, models)
  const { kind, tasks = 1000, load = 0.7, period = 86_400_000 } = arrivals!
  if (kind === undefined)
    top.below('arrivals').report('has no kind; write burst, steady, diurnal or alternating')
  if (models.every(({ runMs }) => runMs === 0))
    top.below('models').report('no model says how long its jobs run: write run: 4s')
  if (kind === 'diurnal') return { kind, tasks, load, periodMs: period }
  return kind === 'steady' || kind === 'alternating' ? { kind, tasks, load } : { kind: 'burst', tasks }
}

function recorded(
  jobs: NonNullable<File['jobs']>,
  top: Spot,
  models: readonly ModelDescription[],
): ArrivalDescription {
  const read = jobs.map((job, index) => {
    const { at = 0, model = '', run, priority } = job ?? {}
    const found = models.findIndex(({ name }) => name === model)
    if (found < 0) top.below('jobs').below(index).report(`there is no model ${model}`)
    const { runMs, priority: usual } = models[found] ?? { runMs: 0, priority: 0 }
    return { at, model: found, runMs: run ?? runMs, priority: priority ?? usual }
  })
  return { kind: 'recorded', jobs: read }
}

function lossesOf({ losses = [] }: File, top: Spot, devices: readonly SimDevice[]): Loss[] {
  return losses.map((loss, index) => {
    const { device = '', at = 0, back } = loss ?? {}
    const spot = top.below('losses').below(index)
    if (!devices.some(({ key }) => key === device)) spot.report(`there is no device ${device}`)
    if (back !== undefined && back <= at) spot.report('it comes back before it is lost')
    return { device, at, back: back ?? null }
  })
}
