import { createProvisioners } from '../../app/create-fleet.ts'
import { unknownPlacements } from '../../config/lanes-of-tasks.ts'
import { type LoadedConfig, loadConfig } from '../../config/load-config.ts'
import { formatQuantity } from '../../model/amount.ts'
import type { BudgetSettings } from '../../model/budget.ts'
import { Ticks } from '../../model/cron.ts'
import { formatDuration } from '../../model/duration.ts'
import { LANE_FIELDS } from '../../model/fields/lane.ts'
import { POOL_DEFAULTS } from '../../model/pool.ts'
import { completeSchedule } from '../../model/schedule.ts'
import { resolveSettings, type Settings } from '../../model/settings.ts'
import type { AnyTask } from '../../worker/task.ts'
import { findWarnings, userWarnings } from '../check-warnings.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { painter } from '../output/style.ts'
import { writeTable } from '../output/table.ts'
import { checkFile } from '../run/choose-workflow.ts'
import { zoneClock } from '../zone-clock.ts'

/** `sluice check [FILE]` */
export const declareCheck: Declare = (command, act) => {
  command
    .argument(
      '[file]',
      'the config or workflow file; default: the config of this folder or the nearest one above it',
    )
    .addHelpText('after', '\nReads the file and the environment. Opens no database and changes nothing.')
    .action((file: string | undefined, options: CommonOptions) => act((world) => check(world, file, options)))
}

async function check(world: World, given: string | undefined, options: CommonOptions): Promise<ExitCode> {
  const loaded = await loadConfig({ path: given ?? options.config, folder: world.folder })
  const settings = resolveSettings({
    file: loaded.config,
    locate: loaded.locate,
    environment: world.environment,
  })
  const file = checkFile(loaded)
  // As a server will: what their options mean is for each provisioner to know.
  await createProvisioners({ settings, config: loaded })
  const tasks = [...file.tasks.values()]
  const workflows = file.workflows.records.map(({ name, body }) => ({ name, steps: stepsIn(body, name) }))
  const undeclared = undeclaredTasks(loaded, tasks)
  const lanes = [...settings.lanes].map(([name, lane]) => ({
    name,
    slots: lane.slots,
    perWorker: lane.perWorker,
    tasks: tasks.filter((task) => task.lane === name).map((task) => task.name),
    undeclared: undeclared.filter(({ lane: each }) => each === name),
  }))
  const budgets = budgetsOf(settings, tasks)
  const pools = [...settings.pools].map(([name, pool]) => ({ name, ...POOL_DEFAULTS, ...pool }))
  const schedules = schedulesOf(loaded, world.now().getTime())
  const found = findWarnings({
    loaded,
    tasks,
    elsewhere: file.elsewhere,
    workflows: workflows.map(({ name }) => name),
    schedules,
    environment: world.environment,
    budgets: settings.budgets,
    lanes: new Set(settings.lanes.keys()),
  })
  const warnings = [...found, ...(await userWarnings(tasks))]
  if (options.json === true) {
    const shown = tasks.map(({ name, lane, execution }) => ({ name, lane, execution }))
    writeJson(world.out, {
      file: loaded.file ?? null,
      valid: true,
      lanes: lanes.map((lane) => ({ ...lane, undeclared: lane.undeclared.map(({ task }) => task) })),
      budgets,
      // Options may have passwords in them, as arguments of a program or in a pod template: this goes into logs of builds.
      pools: pools.map(({ options: _, ...pool }) => pool),
      tasks: shown,
      workflows,
      schedules,
      warnings,
    })
    return EXIT.done
  }
  world.out.line(
    loaded.file === undefined
      ? `there is no config in ${world.folder}: the defaults hold`
      : `${loaded.file} is fine: ${count(tasks.length, 'task')} in ${count(lanes.length, 'lane')}${workflows.length === 0 ? '' : `, ${count(workflows.length, 'workflow')}`}`,
  )
  writeTable(
    world.out,
    [
      { title: 'LANE', value: (lane) => lane.name },
      { title: 'SLOTS', value: (lane) => LANE_FIELDS.slots.format(lane.slots), align: 'right' },
      { title: 'PER WORKER', value: (lane) => LANE_FIELDS.perWorker.format(lane.perWorker), align: 'right' },
      { title: 'TASKS', value: tasksOfLane, shrinks: true },
    ],
    lanes,
  )
  writeBudgets(world, budgets)
  writePools(world, pools)
  writeWorkflows(world, workflows)
  writeSchedules(world, schedules)
  for (const { message, ...about } of warnings)
    world.err.line(
      `${painter(world.err)('yellow', 'warning:')} ${Object.entries(about).flat().join(' ')}: ${message}`,
    )
  return EXIT.done
}

/** Tasks that the file only puts into a lane: code brings them, or the name is a slip. */
function undeclaredTasks({ config }: LoadedConfig, tasks: readonly AnyTask[]) {
  const known = [...tasks.map(({ name }) => name), ...Object.keys(config.tasks ?? {})]
  return unknownPlacements(config, known).map(({ task, lane, near }) => ({ task, lane, near }))
}

function tasksOfLane(lane: {
  readonly tasks: readonly string[]
  readonly undeclared: ReturnType<typeof undeclaredTasks>
}): string {
  const others = lane.undeclared.map(
    ({ task, near }) => `${task} (${near === undefined ? 'from code' : 'unknown'})`,
  )
  return [...lane.tasks, ...others].join(' ')
}

/** As they are written, with the tasks that draw from them. */
function budgetsOf({ budgets }: Settings, tasks: readonly AnyTask[]) {
  return [...budgets].map(([name, budget]) => ({
    name,
    ...budget,
    tasks: tasks
      .filter(({ uses, perJob }) => Object.hasOwn({ ...uses, ...perJob }, name))
      .map((task) => task.name),
  }))
}

function writeBudgets(world: World, budgets: ReturnType<typeof budgetsOf>): void {
  if (budgets.length === 0) return
  world.out.line()
  writeTable(
    world.out,
    [
      { title: 'BUDGET', value: (budget) => budget.name },
      { title: 'CAPACITY', value: whatThereIs },
      { title: 'QUANTUM', value: (budget) => String(budget.quantum), align: 'right' },
      { title: 'MAX WAIT', value: (budget) => formatDuration(budget.maxWaitMs), align: 'right' },
      { title: 'TASKS', value: (budget) => budget.tasks.join(' '), shrinks: true },
    ],
    budgets,
  )
}

function whatThereIs({ kind, capacity, auto, devices, bytes }: BudgetSettings): string {
  if (kind === 'shared') return formatQuantity(capacity ?? 0, bytes)
  if (auto) return 'the GPUs of each machine'
  const each = Object.entries(devices).map(([name, size]) => `${name} ${formatQuantity(size, bytes)}`)
  return `${each.join(', ')} on each machine`
}

function writePools(
  world: World,
  pools: readonly { name: string; provisioner: string; min: number; max: number; capacity: number }[],
): void {
  if (pools.length === 0) return
  world.out.line()
  writeTable(
    world.out,
    [
      { title: 'POOL', value: (pool) => pool.name },
      { title: 'PROVISIONER', value: (pool) => pool.provisioner },
      { title: 'WORKERS', value: ({ min, max }) => (min === 0 ? `up to ${max}` : `${min} to ${max}`) },
      {
        title: 'CAPACITY',
        value: ({ capacity }) => (capacity === 0 ? 'none' : String(capacity)),
        align: 'right',
      },
    ],
    pools,
  )
}

function writeWorkflows(
  world: World,
  workflows: readonly { readonly name: string; readonly steps: readonly string[] }[],
): void {
  if (workflows.length === 0) return
  world.out.line()
  writeTable(
    world.out,
    [
      { title: 'WORKFLOW', value: (workflow) => workflow.name },
      { title: 'STEPS', value: (workflow) => workflow.steps.join(' '), shrinks: true },
    ],
    workflows,
  )
}

function writeSchedules(world: World, schedules: ReturnType<typeof schedulesOf>): void {
  if (schedules.length === 0) return
  world.out.line()
  writeTable(
    world.out,
    [
      { title: 'SCHEDULE', value: (schedule) => schedule.name },
      { title: 'RUNS', value: ({ task, workflow }) => task ?? workflow ?? '' },
      { title: 'CRON', value: (schedule) => schedule.cron },
      { title: 'ZONE', value: (schedule) => schedule.timezone },
      {
        title: 'NEXT TICKS, LOCAL TIME',
        value: ({ next, timezone }) => next.map((tick) => zoneClock(new Date(tick), timezone)).join(', '),
        shrinks: true,
      },
    ],
    schedules,
  )
}

const SHOWN_TICKS = 3

/** With their next ticks: nothing shows better whether an expression means what its writer thinks. */
function schedulesOf({ config }: LoadedConfig, now: number) {
  return Object.entries(config.schedules ?? {}).map(([name, fields]) => {
    const { task, workflow, cron, timezone, enabled } = completeSchedule(fields)
    const ticks = new Ticks(cron, timezone).between(now, Number.POSITIVE_INFINITY, SHOWN_TICKS)
    const next = ticks.map((tick) => new Date(tick).toISOString())
    return { name, task, workflow, cron, timezone, enabled, next }
  })
}

/** The names of the steps of a workflow, in the order they are written. */
function stepsIn(body: unknown, workflow: string): string[] {
  const graph = body as { workflows: Record<string, { steps: readonly { name: string }[] }> }
  return graph.workflows[workflow]!.steps.map(({ name }) => name)
}
