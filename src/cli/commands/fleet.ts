import type { FleetView } from '../../engine/views/fleet-view.ts'
import { POOL_FIELDS } from '../../model/fields/pool.ts'
import { type Given, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { count, roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import type { Output } from '../output/output.ts'
import { type Column, writeTable } from '../output/table.ts'
import { NO_POOLS, poolColumns } from './pools.ts'

type Decision = FleetView['decisions'][number]

interface FleetOptions extends CommonOptions {
  readonly pool?: string
  readonly limit?: Given<number>
}

/** `sluice fleet` */
export const declareFleet: Declare = (command, act) => {
  command
    .option('--pool <name>', 'only this pool')
    .option('--limit <number>', 'maximum number of decisions (default: 20)', setting(POOL_FIELDS.max))
    .action((options: FleetOptions) => act((world) => show(world, options)))
}

function show(world: World, options: FleetOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const view = await system.fleet({ pool: options.pool, limit: options.limit?.value })
    if (options.json === true) writeJson(world.out, view)
    else write(world.out, view, world.now().getTime())
    return EXIT.done
  })
}

function write(out: Output, { pools, decisions }: FleetView, now: number): void {
  if (pools.length === 0) {
    out.line(NO_POOLS)
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

function decisionColumns(now: number): Column<Decision>[] {
  return [
    { title: 'WHEN', value: ({ decidedAt }) => `${roughly(now - decidedAt.getTime())} ago`, align: 'right' },
    { title: 'POOL', value: ({ pool }) => pool },
    {
      title: 'DECISION',
      value: ({ action, count: workers }) =>
        action === 'start'
          ? `start ${workers}`
          : `keep ${workers} that ${workers === 1 ? 'was' : 'were'} leaving`,
    },
    {
      title: 'OUTCOME',
      value: becameOf,
      colour: ({ outcome }) => (outcome === 'failed' || outcome === 'expired' ? 'red' : undefined),
    },
    { title: 'REASON', value: ({ reason }) => reason, shrinks: true },
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
