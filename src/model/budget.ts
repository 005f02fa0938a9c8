import { hasUnit, parseQuantity, quantity } from './amount.ts'
import type { Duration } from './duration.ts'
import { BUDGET_FIELDS, type BudgetValues } from './fields/budget.ts'
import { defaultsOf } from './fields/field.ts'
import { isName, NAME_RULE } from './limits.ts'
import { describe, duration, type Problem } from './setting-value.ts'
import { isModelName, MODEL_RULE } from './task-fields.ts'

type Sizes = { readonly [name: string]: number | string | undefined }

/**
 * A budget as written in a config file or in code: one amount for the whole system, `3`. or one for each device of
 * each machine:
 * `{ devices: 'auto' }` for the machine's GPUs, `{ gpu0: '24GB', gpu1: '24GB' }` for declared ones. Further keys are
 * `safety` (measured memory to keep free on each device), `quantum` (how many load times a model stays loaded) and
 * `maxWait` (how long a job waits before its model may evict another).
 */
export type BudgetSource = number | string | { readonly [key: string]: number | string | Sizes | undefined }

/** Settings of a model: how long it takes to load, until that is measured, and whether it is pinned. */
export interface ModelSource {
  readonly load?: Duration | undefined
  readonly pinned?: boolean | undefined
}

/** A parsed budget. Fields that were not given are absent. */
export interface BudgetSettings extends Omit<BudgetValues, 'capacity'> {
  readonly kind: 'shared' | 'device'
  readonly capacity: number | null
  readonly auto: boolean
  readonly devices: Readonly<Record<string, number>>
  readonly bytes: boolean
}

export interface ModelSettings {
  readonly name: string
  readonly loadMs?: number
  readonly pinned?: boolean
}

/**
 * The default of a budget that reads GPUs, because the memory that drivers and other programs use is never known
 * exactly.
 */
const DEFAULT_SAFETY = 512 * 1024 ** 2
/** The longest load: one day. */
export const MAX_LOAD_MS = 86_400_000

const { capacity: _, ...RULES } = BUDGET_FIELDS
const OPTIONS = ['devices', ...Object.keys(RULES)]

export const BUDGET_RULE =
  'an amount such as 3 or 24GB for the whole system, { devices: auto }, or the devices of each machine such as { gpu0: 24GB }'

const RULE_DEFAULTS = defaultsOf(RULES) as Omit<BudgetValues, 'capacity'>

type Report = (path: readonly string[], message: string) => void

/** Reads a budget. Returns `undefined` after reporting a problem. */
export function readBudget(value: unknown, report: Report): BudgetSettings | undefined {
  if (typeof value === 'number' || typeof value === 'string') {
    const capacity = parseQuantity(value)
    if (capacity === undefined) {
      report([], `found ${describe(value)}; write ${BUDGET_RULE}`)
      return undefined
    }
    return {
      kind: 'shared',
      capacity,
      auto: false,
      devices: {},
      bytes: hasUnit(value),
      ...RULE_DEFAULTS,
    }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    report([], `found ${describe(value)}; write ${BUDGET_RULE}`)
    return undefined
  }
  return readDevices(value as Readonly<Record<string, unknown>>, report)
}

function readDevices(value: Readonly<Record<string, unknown>>, report: Report): BudgetSettings | undefined {
  let good = true
  const problem: Report = (path, message) => {
    good = false
    report(path, message)
  }
  const auto = value.devices === 'auto'
  const named = Object.entries(value).filter(([key, given]) => !OPTIONS.includes(key) && given !== undefined)
  const below =
    typeof value.devices === 'object' && value.devices !== null ? Object.entries(value.devices) : []
  if (value.devices !== undefined && !auto && below.length === 0)
    problem(['devices'], `found ${describe(value.devices)}; write auto, or a map such as { gpu0: 24GB }`)
  if (auto && named.length > 0)
    problem(
      [named[0]![0]],
      'does not apply, because devices are detected; remove it, or remove devices: auto',
    )
  const devices: Record<string, number> = Object.create(null)
  for (const [path, name, given] of [
    ...named.map(([name, given]) => [[name], name, given] as const),
    ...below.map(([name, given]) => [['devices', name], name, given] as const),
  ]) {
    const size = parseQuantity(given)
    if (!isName(name)) problem(path, `found the name ${describe(name)}; write ${NAME_RULE}`)
    else if (size === undefined) problem(path, `found ${describe(given)}; write ${quantity.expected}`)
    else devices[name] = size
  }
  if (!auto && Object.keys(devices).length === 0 && good)
    problem([], `names no devices; write ${BUDGET_RULE}`)
  const bytes = auto || [...named, ...below].some(([, given]) => hasUnit(given))
  const rules: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(RULES)) {
    const given = value[name]
    if (given === undefined) continue
    const read = field.read(given)
    if (read === undefined) problem([name], `found ${describe(given)}; write ${field.expected}`)
    rules[field.storedAs] = read
  }
  if (!good) return undefined
  const safety = auto ? DEFAULT_SAFETY : RULES.safety.default
  return {
    kind: 'device',
    capacity: null,
    auto,
    devices: { ...devices },
    bytes,
    ...RULE_DEFAULTS,
    ...(safety !== undefined && { safety }),
    ...rules,
  }
}

const load = duration({ min: 0, max: MAX_LOAD_MS })

export function readModel(name: string, value: unknown, report: Report): ModelSettings | undefined {
  if (!isModelName(name)) {
    report([], `found the name ${describe(name)}; write ${MODEL_RULE}`)
    return undefined
  }
  if (value === null || value === undefined) return { name }
  if (typeof value !== 'object' || Array.isArray(value)) {
    report([], `found ${describe(value)}; write a map such as { load: 12s, pinned: true }`)
    return undefined
  }
  const { load: given, pinned, ...others } = value as Record<string, unknown>
  const [unknown] = Object.keys(others)
  const loadMs = given === undefined ? undefined : load.read(given)
  if (unknown !== undefined) report([unknown], 'unknown key; the keys here are load, pinned')
  else if (given !== undefined && loadMs === undefined)
    report(['load'], `found ${describe(given)}; write ${load.expected}`)
  else if (pinned !== undefined && typeof pinned !== 'boolean')
    report(['pinned'], `found ${describe(pinned)}; write true or false`)
  else return { name, ...(loadMs !== undefined && { loadMs }), ...(pinned !== undefined && { pinned }) }
  return undefined
}

export interface BudgetsSource {
  readonly budgets?: { readonly [name: string]: BudgetSource | undefined } | undefined
  readonly models?: { readonly [name: string]: ModelSource | null | undefined } | undefined
}

/** Resolves budgets and models. Those of the file override those of the code. Reports every invalid value. */
export function resolveBudgets(
  sources: { readonly file?: BudgetsSource | undefined; readonly options?: BudgetsSource | undefined },
  problems: Problem[],
): { budgets: ReadonlyMap<string, BudgetSettings>; models: readonly ModelSettings[] } {
  const budgets = new Map<string, BudgetSettings>()
  const models = new Map<string, ModelSettings>()
  for (const source of [sources.options, sources.file]) {
    for (const [name, value] of Object.entries(source?.budgets ?? {})) {
      const report: Report = (path, message) =>
        problems.push({ path: ['budgets', name, ...path].join('.'), message })
      if (!isName(name)) report([], `the name of a budget must be ${NAME_RULE}`)
      const read = value === undefined ? undefined : readBudget(value, report)
      if (read !== undefined) budgets.set(name, read)
    }
    for (const [name, value] of Object.entries(source?.models ?? {})) {
      const read = readModel(name, value, (path, message) =>
        problems.push({ path: ['models', name, ...path].join('.'), message }),
      )
      if (read !== undefined) models.set(name, read)
    }
  }
  return { budgets, models: [...models.values()] }
}
