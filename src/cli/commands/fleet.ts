import type { FleetView, PoolView } from '../../engine/fleet-view.ts'
import type { PoolNumbers } from '../../engine/pool-control.ts'
import { SluiceError } from '../../errors.ts'
import { POOL_FIELDS } from '../../model/pool.ts'
import { type Given, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { count, roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import type { Output } from '../output/output.ts'
import { type Column, writeTable } from '../output/table.ts'

type Decision = FleetView['decisions'][number]

interface FleetOptions extends CommonOptions {
  readonly pool?: string
  readonly limit?: Given<number>
}

const FIELDS = ['min', 'max', 'capacity', 'idle', 'lifetime', 'cooldown', 'arrival'] as const
type Field = (typeof FIELDS)[number]
type SetOptions = CommonOptions & Partial<Record<Field, Given<unknown>>>

/** `sluice fleet`, `sluice fleet set POOL`, `sluice fleet reset POOL` */
export const declareFleet: Declare = (command, act) => {
  command
    .option('--pool <name>', 'only this pool')
    .option('--limit <number>', 'decisions at most (default: 20)', setting(POOL_FIELDS.max))
    .action((options: FleetOptions) => act((world) => show(world, options)))
  const change = command
    .command('set')
    .description('change a pool while it runs')
    .argument('<pool>', 'name of the pool')
    .option('--min <number>', 'workers that stay, whatever there is to do', setting(POOL_FIELDS.min))
    .option('--max <number>', 'workers at once, at most', setting(POOL_FIELDS.max))
    .option('--capacity <number>', 'jobs at once of each worker; 0: no limit', setting(POOL_FIELDS.capacity))
    .option(
      '--idle <duration>',
      'a worker without a job for so long leaves; none: it stays',
      setting(POOL_FIELDS.idle),
    )
    .option(
      '--lifetime <duration>',
      'a worker leaves after so long; none: it stays',
      setting(POOL_FIELDS.lifetime),
    )
    .option('--cooldown <duration>', 'between two requests for workers', setting(POOL_FIELDS.cooldown))
    .option(
      '--arrival <duration>',
      'by then a worker that was asked for has come',
      setting(POOL_FIELDS.arrival),
    )
  change.action((pool: string, options: SetOptions) => act((world) => set(world, pool, options)))
  command
    .command('reset')
    .description('undo what operators changed')
    .argument('<pool>', 'name of the pool')
    .action((pool: string, options: CommonOptions) => act((world) => reset(world, pool, options)))
}

function show(world: World, options: FleetOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const view = await system.fleet({ pool: options.pool, limit: options.limit?.value })
    if (options.json === true) writeJson(world.out, view)
    else write(world.out, view, world.now().getTime())
    return EXIT.done
  })
}

function set(world: World, pool: string, options: SetOptions): Promise<ExitCode> {
  const given = FIELDS.filter((field) => options[field] !== undefined)
  if (given.length === 0)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `say what to change: ${FIELDS.map((field) => `--${field}`).join(', ')}`,
    )
  const change = Object.fromEntries(given.map((field) => [field, options[field]!.value])) as PoolNumbers
  return operate(world, options, async (system) =>
    written(world, await system.setPool(pool, change), options),
  )
}

function reset(world: World, pool: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => written(world, await system.resetPool(pool), options))
}

function written(world: World, pool: PoolView, options: CommonOptions): ExitCode {
  if (options.json === true) writeJson(world.out, pool)
  else writeTable(world.out, poolColumns(world.now().getTime()), [pool])
  return EXIT.done
}

function write(out: Output, { pools, decisions }: FleetView, now: number): void {
  if (pools.length === 0) {
    out.line('there are no pools; a config file names them under fleet.pools:, such as burst: { max: 3 }')
    return
  }
  writeTable(out, poolColumns(now), pools)
  for (const { name, lanes } of pools)
    for (const { lane, jobs, reason } of lanes)
      out.line(`  ${name}: ${count(jobs, 'job')} in lane ${lane} that nobody can take: ${reason}`)
  out.line()
  if (decisions.length === 0) out.line('no worker has been asked for yet')
  else writeTable(out, decisionColumns(now), decisions)
}

function poolColumns(now: number): Column<PoolView>[] {
  const lasting = (ms: number | null) => (ms === null ? 'none' : roughly(ms))
  return [
    { title: 'POOL', value: (pool) => pool.name },
    {
      title: 'WORKERS',
      value: ({ workers, draining }) => `${workers}${draining > 0 ? ` + ${draining} leaving` : ''}`,
      align: 'right',
    },
    { title: 'MIN', value: ({ min }) => String(min), align: 'right' },
    { title: 'MAX', value: ({ max }) => String(max), align: 'right' },
    { title: 'RUNNING', value: ({ running }) => String(running), align: 'right' },
    {
      title: 'OVERFLOW',
      value: ({ overflow, since }) =>
        overflow === 0 || since === null ? '' : `${overflow} for ${roughly(now - since.getTime())}`,
      align: 'right',
      colour: ({ overflow }) => (overflow > 0 ? 'yellow' : undefined),
    },
    { title: 'ASKED', value: ({ requests }) => String(requests), align: 'right' },
    {
      title: 'IN VAIN',
      value: ({ failed }) => String(failed),
      align: 'right',
      colour: ({ failed }) => (failed > 0 ? 'red' : undefined),
    },
    { title: 'CAME', value: ({ arrived }) => String(arrived), align: 'right' },
    { title: 'IDLE', value: ({ idleMs }) => lasting(idleMs), align: 'right', optional: true },
    { title: 'LIFETIME', value: ({ lifetimeMs }) => lasting(lifetimeMs), align: 'right', optional: true },
    { title: 'STARTED BY', value: ({ provisioner }) => provisioner },
  ]
}

function decisionColumns(now: number): Column<Decision>[] {
  return [
    { title: 'WHEN', value: ({ decidedAt }) => `${roughly(now - decidedAt.getTime())} ago`, align: 'right' },
    { title: 'POOL', value: ({ pool }) => pool },
    {
      title: 'DECIDED',
      value: ({ action, count: workers }) =>
        action === 'start'
          ? `start ${workers}`
          : `keep ${workers} that ${workers === 1 ? 'was' : 'were'} leaving`,
    },
    {
      title: 'BECAME',
      value: becameOf,
      colour: ({ outcome }) => (outcome === 'failed' || outcome === 'expired' ? 'red' : undefined),
    },
    { title: 'WHY', value: ({ reason }) => reason, shrinks: true },
  ]
}

function becameOf({
  outcome,
  endedWhy,
  workers,
  count: wanted,
  started,
  failures,
  decidedAt,
}: Decision): string {
  if (outcome === 'returned') return 'they stay'
  const last = workers.at(-1)
  const took = last === undefined ? '' : ` within ${roughly(last.arrivedAt.getTime() - decidedAt.getTime())}`
  const left = workers.filter(({ endedAt }) => endedAt !== null).length
  const jobs = workers.reduce((sum, { done }) => sum + done, 0)
  const did = workers.length === 0 ? '' : `, ${count(jobs, 'job')} done`
  const gone = left === 0 ? '' : `, ${left} left since`
  if (outcome === null) return started === null ? 'being started' : `${workers.length} of ${wanted} came`
  if (outcome === 'arrived') {
    const why = failures.length === 0 ? '' : ` (${failures[0]!.message})`
    return `${workers.length} of ${wanted} came${took}${did}${gone}${why}`
  }
  return endedWhy ?? outcome
}
