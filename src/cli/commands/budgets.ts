import { InvalidArgumentError } from 'commander'
import type { OperatorBudgetChange } from '../../engine/operate/budget-control.ts'
import type { BudgetView, DeviceView } from '../../engine/views/budget-view.ts'
import { formatQuantity, quantity } from '../../model/amount.ts'
import { formatDuration } from '../../model/duration.ts'
import { BUDGET_FIELDS } from '../../model/fields/budget.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import {
  type FieldOptions,
  flagsOf,
  givenFields,
  requireSome,
  setByOperator,
  withFieldOptions,
} from '../field-options.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

type Limits = Readonly<Record<string, number | null>>

type SetOptions = CommonOptions & FieldOptions<typeof BUDGET_FIELDS> & { readonly limit?: Limits }
type CreateOptions = CommonOptions & FieldOptions<typeof RULES> & { readonly capacity: string }

/** The capacity of a budget and the limits of devices are the same thing for its two kinds. */
const { capacity: CAPACITY, ...RULES } = BUDGET_FIELDS

/** `sluice budgets`, and `list`, `show`, `create`, `set`, `reset` and `delete` below it */
export const declareBudgets: Declare = (command, act) => {
  declareList(command, act, listBudgets)
  declareShowOne(command, act, {
    noun: 'budget',
    missing: 'BUDGET_NOT_FOUND',
    all: async (system) => (await system.budgets()).budgets,
    nameOf: (budget: BudgetView) => budget.name,
    print: printBudget,
  })
  const create = command
    .command('create')
    .description('create a budget for the whole system, without a file')
    .argument('<name>', 'name of the budget')
    .requiredOption('--capacity <amount>', 'how much there is, such as 3 or 24GB', amountText)
  withFieldOptions(create, RULES)
    .addHelpText(
      'after',
      '\nBudgets with devices are declared in a config file, because machines offer the devices.',
    )
    .action((name: string, options: CreateOptions) => act((world) => createBudget(world, name, options)))
  const set = withFieldOptions(
    command
      .command('set')
      .description('change a budget; the change overrides files until reset')
      .argument('<name>', 'name of the budget'),
    { capacity: CAPACITY },
  ).option(
    '--limit <device=amount|none>',
    'the maximum amount held of a device, by its key, or by its name on every machine; may be repeated',
    limit,
  )
  withFieldOptions(set, RULES).action((name: string, options: SetOptions) =>
    act((world) => setBudget(world, name, options)),
  )
  command
    .command('reset')
    .description('undo the changes of operators: the values of files and programs apply again')
    .argument('<name>', 'name of the budget')
    .action((name: string, options: CommonOptions) => act((world) => resetBudget(world, name, options)))
  command
    .command('delete')
    .description('delete a budget that is no longer in the file and that no task uses')
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

/** Kept as it was written: a size makes it a budget of memory. */
function amountText(text: string): string {
  if (quantity.readText(text) === undefined) throw new InvalidArgumentError(`Write ${quantity.expected}.`)
  return text
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
    title: 'AVAILABLE',
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
    value: ({ budget, device }) => setFields(budget, device).join(' '),
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

/** A limit is shown with the device that has it. */
function setFields({ operatorSet }: BudgetView, device: DeviceView | undefined): string[] {
  const fields = setByOperator(
    BUDGET_FIELDS,
    operatorSet.filter((field) => field !== 'limits'),
  )
  return device !== undefined && device.limit !== null ? [...fields, 'limit'] : fields
}

function createBudget(
  world: World,
  name: string,
  { capacity, ...options }: CreateOptions,
): Promise<ExitCode> {
  const given = { capacity, ...givenFields(RULES, options) }
  return operate(world, options, async (system) =>
    printBudget(world, await system.createBudget(name, given), options),
  )
}

async function setBudget(world: World, name: string, options: SetOptions): Promise<ExitCode> {
  const { limit: limits } = options
  const change: OperatorBudgetChange = {
    ...givenFields(BUDGET_FIELDS, options),
    ...(limits !== undefined && { limits }),
  }
  requireSome(change, ['--capacity', '--limit', ...flagsOf(RULES)])
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
      [...new Set(budget.devices.flatMap((device) => setFields(budget, device)))].join(', ') || 'nothing',
    ],
  ])
  return EXIT.done
}
