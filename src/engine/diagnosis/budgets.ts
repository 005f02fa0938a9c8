import type { Queryable } from '../../db/database.ts'
import { formatQuantity } from '../../model/amount.ts'
import { formatDuration } from '../../model/duration.ts'
import type { Settings } from '../../model/settings.ts'
import { listBudgets, type StoredBudget } from '../../store/list-budgets.ts'
import { type BudgetState, readBudgetState } from '../../store/read-budget-state.ts'
import { differs, notMade } from './differs.ts'
import { type Finding, ok } from './finding.ts'

type Device = BudgetState['devices'][number]

/** Devices that are lost, overdrawn, limited or not measured, tasks whose jobs can never start, and where budgets differ from the config. */
export async function checkBudgets({
  db,
  settings,
}: {
  db: Queryable
  settings: Settings | undefined
}): Promise<Finding[]> {
  const { devices, blind, impossible, undeclared } = await readBudgetState(db)
  const budgets = await listBudgets(db)
  const findings = [
    ...(settings === undefined ? [] : differences(settings, budgets)),
    ...devices.flatMap(aboutLimit),
    ...blind.map(aboutBlind),
    ...devices.flatMap(aboutDevice),
    ...impossible.map(({ task, why }) => ({
      check: `task ${task}`,
      level: 'warning' as const,
      found: `none of its jobs can start: it ${why}`,
      advice: 'lower uses of the task, or add a larger device; until then its jobs are rejected',
    })),
    ...undeclared.map(({ task, budget }) => ({
      check: `task ${task}`,
      level: 'warning' as const,
      found: `uses budget ${budget}, which is not declared`,
      advice: 'add it to budgets in the config file; until then its jobs wait',
    })),
  ]
  if (devices.length === 0) return findings
  return [
    ok('budgets', `${devices.length} ${devices.length === 1 ? 'device' : 'devices'} or shared amounts`),
    ...findings,
  ]
}

/** What operators may change, and how it is written. */
const FIELDS: readonly {
  readonly name: string
  readonly column: 'capacity' | 'safety' | 'quantum' | 'maxWaitMs'
  readonly format: (value: number, bytes: boolean) => string
}[] = [
  { name: 'capacity', column: 'capacity', format: formatQuantity },
  { name: 'safety', column: 'safety', format: formatQuantity },
  { name: 'quantum', column: 'quantum', format: String },
  { name: 'maxWait', column: 'maxWaitMs', format: (value) => formatDuration(value) },
]

function differences(settings: Settings, budgets: readonly StoredBudget[]): Finding[] {
  return [...settings.budgets].flatMap(([name, wanted]) => {
    const check = `budget ${name}`
    const budget = budgets.find((each) => each.name === name)
    if (budget === undefined) return [notMade(check)]
    return FIELDS.flatMap(({ name: field, column, format }) => {
      const [should, is] = [wanted[column], budget[column]]
      if (should === is || should === null || is === null) return []
      const operator = budget.operatorSet.includes(column)
        ? { ...budget, reset: `sluice budgets reset ${name}` }
        : undefined
      return [differs(check, field, format(should, wanted.bytes), format(is, wanted.bytes), operator)]
    })
  })
}

/** Files do not set limits, so an operator's limit is always a difference. */
function aboutLimit({ budget, key, bytes, total, limit }: Device): Finding[] {
  if (limit === null) return []
  const of = total === null ? '' : ` of ${formatQuantity(total, bytes)}`
  return [
    {
      check: `device ${key}`,
      level: 'note',
      found: `an operator's limit holds ${budget} at ${formatQuantity(limit, bytes)}${of}; the config does not set one`,
      advice: `sluice budgets set ${budget} --limit ${key}=none removes it; sluice audit shows who set it`,
    },
  ]
}

/** Its machine had GPUs, so it does not count as one that runs such jobs without limits. */
function aboutBlind({ host, budget, keys }: BudgetState['blind'][number]): Finding {
  return {
    check: `budget ${budget}`,
    level: 'warning',
    found: `a worker on ${host} detects no GPUs, though the machine had ${keys.join(', ')}: it gets no jobs that use ${budget}`,
    advice:
      'check whether nvidia-smi works there; GPUs that no worker offers are forgotten after a day, and a worker with an empty CUDA_VISIBLE_DEVICES uses none',
  }
}

function aboutDevice(device: Device): Finding[] {
  const { budget, key, bytes, capacity, held, lost, ageMs, fresh, offers } = device
  const check = key === '' ? `budget ${budget}` : `device ${key}`
  const size = (amount: number) => formatQuantity(amount, bytes)
  if (lost && offers > 0)
    return [
      {
        check,
        level: 'problem',
        found: 'it has disappeared and gets no work',
        advice: 'check nvidia-smi and the kernel log of its machine',
      },
    ]
  if (capacity !== null && held > capacity * (1 + 1e-9))
    return [
      {
        check,
        level: 'note',
        found: `${size(held)} are held of ${size(capacity)}: it was made smaller, and nothing new starts until it fits`,
      },
    ]
  if (ageMs !== null && !fresh && offers > 0)
    return [
      {
        check,
        level: 'warning',
        found: `not measured for ${formatDuration(Math.round(ageMs / 1000) * 1000)}: only what jobs declare is counted`,
        advice: 'check whether nvidia-smi works on its machine',
      },
    ]
  return []
}
