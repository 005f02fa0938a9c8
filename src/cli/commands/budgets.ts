import { InvalidArgumentError } from 'commander'
import type { OperatorBudgetChange } from '../../engine/operate/budget-control.ts'
import type { BudgetView, DeviceView } from '../../engine/views/budget-view.ts'
import { SluiceError } from '../../errors.ts'
import { formatQuantity, quantity } from '../../model/amount.ts'
import { formatDuration } from '../../model/duration.ts'
import { MAX_STORED_MS } from '../../model/limits.ts'
import { duration } from '../../model/setting-value.ts'
import { type Given, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

type Limits = Readonly<Record<string, number | null>>

interface SetOptions extends CommonOptions {
  readonly capacity?: Given<number>
  readonly safety?: Given<number>
  readonly quantum?: number
  readonly maxWait?: Given<number>
  readonly limit?: Limits
}

const wait = duration({ min: 1, max: MAX_STORED_MS })

/** `sluice budgets`, and `list`, `show`, `set`, `reset` and `delete` below it */
export const declareBudgets: Declare = (command, act) => {
  declareList(command, act, listBudgets)
  declareShowOne(command, act, {
    noun: 'budget',
    missing: 'BUDGET_NOT_FOUND',
    all: async (system) => (await system.budgets()).budgets,
    nameOf: (budget: BudgetView) => budget.name,
    print: printBudget,
  })
  command
    .command('set')
    .description('change a budget; the change stays, whatever files say, until reset')
    .argument('<name>', 'name of the budget')
    .option('--capacity <amount>', 'of a budget for the whole system, such as 3 or 24GB', setting(quantity))
    .option(
      '--limit <device=amount|none>',
      'the most that may be held of a device, by its key, or its name on every machine; may be given several times',
      limit,
    )
    .option('--safety <amount>', 'left free on each device, as measured', setting(quantity))
    .option('--quantum <number>', 'a model serves for so many of its load times', atLeastZero)
    .option('--max-wait <duration>', "from then on a model may take another's place", setting(wait))
    .action((name: string, options: SetOptions) => act((world) => setBudget(world, name, options)))
  command
    .command('reset')
    .description('undo what operators changed: the budget is again as files and programs last said')
    .argument('<name>', 'name of the budget')
    .action((name: string, options: CommonOptions) => act((world) => resetBudget(world, name, options)))
  command
    .command('delete')
    .description('remove a budget that has left the file; refused while tasks use it')
    .argument('<name>', 'name of the budget')
    .action((name: string, options: CommonOptions) => act((world) => deleteBudget(world, name, options)))
}

function limit(text: string, before: Limits = {}): Limits {
  const place = text.lastIndexOf('=')
  const amount = text.slice(place + 1)
  const value = amount === 'none' ? null : quantity.readText(amount)
  if (place < 1 || value === undefined)
    throw new InvalidArgumentError('Write a device and an amount, such as gpu0=20GB, or gpu0=none.')
  return { ...before, [text.slice(0, place)]: value }
}

function atLeastZero(text: string): number {
  const number = Number(text)
  if (text.trim() === '' || !Number.isFinite(number) || number < 0)
    throw new InvalidArgumentError('Write a number of at least 0.')
  return number
}

interface Row {
  readonly budget: BudgetView
  readonly device: DeviceView | undefined
}

function listBudgets(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { budgets } = await system.budgets()
    if (options.json === true) writeJson(world.out, budgets)
    else if (budgets.length === 0)
      world.out.line('there are no budgets; a config file names them under budgets:, such as licences: 3')
    else {
      const rows = budgets.flatMap((budget): Row[] =>
        budget.devices.length === 0
          ? [{ budget, device: undefined }]
          : budget.devices.map((device) => ({ budget, device })),
      )
      writeTable(world.out, COLUMNS, rows)
    }
    return EXIT.done
  })
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'BUDGET', value: ({ budget }) => budget.name },
  {
    title: 'DEVICE',
    value: ({ device }) => (device === undefined ? 'none offered yet' : device.key),
    optional: true,
    colour: ({ device }) => (device !== undefined && device.lostAt !== null ? 'red' : undefined),
  },
  {
    title: 'HELD',
    value: ({ budget, device }) => (device === undefined ? '' : size(device.held, budget)),
    align: 'right',
  },
  {
    title: 'CAPACITY',
    value: ({ budget, device }) => (device === undefined ? '' : orNone(device.capacity, budget)),
    align: 'right',
  },
  {
    title: 'ROOM',
    value: ({ budget, device }) => (device === undefined ? '' : orNone(device.room, budget)),
    align: 'right',
  },
  {
    title: 'SAFETY',
    value: ({ budget }) => (budget.safety === 0 ? '' : size(budget.safety, budget)),
    align: 'right',
    optional: true,
  },
  { title: 'QUANTUM', value: ({ budget }) => String(budget.quantum), align: 'right' },
  { title: 'MAX WAIT', value: ({ budget }) => formatDuration(budget.maxWaitMs), align: 'right' },
  {
    title: 'SET BY OPERATOR',
    value: ({ budget, device }) => setByOperator(budget, device).join(' '),
    shrinks: true,
    optional: true,
  },
]

function size(amount: number, { bytes }: BudgetView): string {
  return formatQuantity(Math.round(amount * 1000) / 1000, bytes)
}

function orNone(amount: number | null, budget: BudgetView): string {
  return amount === null ? 'none' : size(amount, budget)
}

/** The database calls a field `maxWaitMs` where options and files say `maxWait`. A limit is told with the device that has it. */
function setByOperator({ operatorSet }: BudgetView, device: DeviceView | undefined): string[] {
  const fields = operatorSet.filter((field) => field !== 'limits').map((field) => field.replace(/Ms$/, ''))
  return device !== undefined && device.limit !== null ? [...fields, 'limit'] : fields
}

async function setBudget(world: World, name: string, options: SetOptions): Promise<ExitCode> {
  const { capacity, safety, quantum, maxWait, limit: limits } = options
  const change: OperatorBudgetChange = {
    ...(capacity !== undefined && { capacity: capacity.value }),
    ...(safety !== undefined && { safety: safety.value }),
    ...(quantum !== undefined && { quantum }),
    ...(maxWait !== undefined && { maxWait: maxWait.value }),
    ...(limits !== undefined && { limits }),
  }
  if (Object.keys(change).length === 0)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      'nothing to set: give --capacity, --limit, --safety, --quantum or --max-wait',
    )
  return operate(world, options, async (system) =>
    printBudget(world, await system.setBudget(name, change), options),
  )
}

function resetBudget(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) =>
    printBudget(world, await system.resetBudget(name), options),
  )
}

function deleteBudget(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    await system.removeBudget(name)
    if (options.json === true) writeJson(world.out, { name, removed: true })
    else world.out.line(`budget ${name} is deleted`)
    return EXIT.done
  })
}

function printBudget(world: World, budget: BudgetView, options: CommonOptions): ExitCode {
  if (options.json === true) {
    writeJson(world.out, budget)
    return EXIT.done
  }
  const devices = budget.devices.filter(({ key }) => key !== '')
  writeFacts(world.out, [
    ['budget', budget.name],
    ['capacity', budget.kind === 'shared' ? orNone(budget.capacity, budget) : undefined],
    ...devices.map((device): [string, string] => [
      device.key,
      `${size(device.held, budget)} of ${orNone(device.capacity, budget)} held${device.limit === null ? '' : `, limited to ${size(device.limit, budget)}`}`,
    ]),
    ['safety', size(budget.safety, budget)],
    ['quantum', `${budget.quantum} load times`],
    ['max wait', formatDuration(budget.maxWaitMs)],
    [
      'set by operator',
      [...new Set(budget.devices.flatMap((device) => setByOperator(budget, device)))].join(', ') || 'nothing',
    ],
  ])
  return EXIT.done
}
