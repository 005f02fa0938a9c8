import type { PoolView } from '../../engine/views/fleet-view.ts'
import { POOL_NUMBERS } from '../../model/fields/pool.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { type FieldOptions, flagsOf, givenFields, requireSome, withFieldOptions } from '../field-options.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeTable } from '../output/table.ts'

type SetOptions = CommonOptions & FieldOptions<typeof POOL_NUMBERS>

/** `sluice pools`, and `list`, `show`, `set`, `reset` and `delete` below it */
export const declarePools: Declare = (command, act) => {
  declareList(command, act, listPools)
  declareShowOne(command, act, {
    noun: 'pool',
    missing: 'POOL_NOT_FOUND',
    all: async (system) => (await system.fleet({ limit: 1 })).pools,
    nameOf: (pool: PoolView) => pool.name,
    print: printPool,
  })
  withFieldOptions(
    command
      .command('set')
      .description('change a pool; the change overrides files until reset')
      .argument('<name>', 'name of the pool'),
    POOL_NUMBERS,
  ).action((name: string, options: SetOptions) => act((world) => setPool(world, name, options)))
  command
    .command('reset')
    .description('undo the changes of operators: the values of files and programs apply again')
    .argument('<name>', 'name of the pool')
    .action((name: string, options: CommonOptions) => act((world) => resetPool(world, name, options)))
  command
    .command('delete')
    .description('delete a pool that is no longer in the file and has no workers')
    .argument('<name>', 'name of the pool')
    .action((name: string, options: CommonOptions) => act((world) => deletePool(world, name, options)))
  command.addHelpText(
    'after',
    '\nA pool is created in a config file (fleet.pools), which names the program that starts its workers.',
  )
}

function listPools(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { pools } = await system.fleet({ limit: 1 })
    if (options.json === true) writeJson(world.out, pools)
    else if (pools.length === 0) world.out.line(NO_POOLS)
    else writeTable(world.out, poolColumns(world.now().getTime()), pools)
    return EXIT.done
  })
}

async function setPool(world: World, name: string, options: SetOptions): Promise<ExitCode> {
  const change = givenFields(POOL_NUMBERS, options)
  requireSome(change, flagsOf(POOL_NUMBERS))
  return operate(world, options, async (system) =>
    printPool(world, await system.setPool(name, change), options),
  )
}

function resetPool(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => printPool(world, await system.resetPool(name), options))
}

function deletePool(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    await system.removePool(name)
    if (options.json === true) writeJson(world.out, { name, deleted: true })
    else world.out.line(`pool ${name} is deleted`)
    return EXIT.done
  })
}

function printPool(world: World, pool: PoolView, options: CommonOptions): ExitCode {
  if (options.json === true) writeJson(world.out, pool)
  else writeTable(world.out, poolColumns(world.now().getTime()), [pool])
  return EXIT.done
}

export const NO_POOLS =
  'There are no pools. Declare them in a config file under fleet.pools:, such as burst: { max: 3 }'

export function poolColumns(now: number): Column<PoolView>[] {
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
    { title: 'REQUESTS', value: ({ requests }) => String(requests), align: 'right' },
    {
      title: 'FAILED',
      value: ({ failed }) => String(failed),
      align: 'right',
      colour: ({ failed }) => (failed > 0 ? 'red' : undefined),
    },
    { title: 'REGISTERED', value: ({ arrived }) => String(arrived), align: 'right' },
    { title: 'IDLE', value: ({ idleMs }) => lasting(idleMs), align: 'right', optional: true },
    { title: 'LIFETIME', value: ({ lifetimeMs }) => lasting(lifetimeMs), align: 'right', optional: true },
    { title: 'PROVISIONER', value: ({ provisioner }) => provisioner },
  ]
}
