import { chooseSetting, type Found, type Sources, staleProblem } from './choose-setting.ts'
import { defaultsOf } from './fields/field.ts'
import {
  LANE_DEFAULTS,
  LANE_FIELDS,
  type LaneField,
  type LaneSource,
  type LaneValues,
} from './fields/lane.ts'
import { isName, NAME_RULE } from './limits.ts'
import { formatPath, type Problem, type Reader } from './setting-value.ts'
import { suggest } from './suggest.ts'
import { isSet } from './unknown-variables.ts'

/** The settings of a lane that a program works with. */
export interface LaneSettings extends LaneValues {
  /** Which fields were set by option, environment or file. The rest are defaults and overwrite nothing in the database. */
  readonly given: ReadonlySet<LaneField>
}

/** All lanes that are given, and those that always exist. */
export function resolveLanes(
  sources: Sources<{ readonly lanes?: { readonly [name: string]: LaneSource } | undefined }>,
  problems: Problem[],
  heartbeat: Found<number>,
  stale: Found<number>,
): Map<string, LaneSettings> {
  const names = new Set(Object.keys(LANE_DEFAULTS))
  for (const source of [sources.file, sources.options]) {
    for (const name of Object.keys(source?.lanes ?? {})) names.add(name)
  }
  const variables = laneVariables(sources.environment ?? {}, names, problems)
  // Lanes without their own value share the general one, and its problem is reported once.
  const thresholds = new Set([stale])
  const lanes = new Map<string, LaneSettings>()
  for (const name of names) {
    if (!isName(name)) {
      problems.push({ path: formatPath(['lanes', name]), message: `the name of a lane must be ${NAME_RULE}` })
      continue
    }
    const { settings, threshold } = resolveLane(sources, problems, name, variables.get(name), stale)
    thresholds.add(threshold)
    lanes.set(name, settings)
  }
  for (const threshold of thresholds) {
    const problem = staleProblem(threshold, heartbeat)
    if (problem !== undefined) problems.push(problem)
  }
  return lanes
}

function resolveLane(
  sources: Sources,
  problems: Problem[],
  name: string,
  slotsVariable: string | undefined,
  stale: Found<number>,
): { settings: LaneSettings; threshold: Found<number> } {
  const find = (field: LaneField, fallback: unknown) => {
    const reader: Reader<unknown, unknown> = LANE_FIELDS[field]
    const variable = field === 'slots' ? slotsVariable : undefined
    return chooseSetting(sources, problems, ['lanes', name, field], variable, reader, fallback)
  }
  const known = Object.hasOwn(LANE_DEFAULTS, name)
    ? LANE_DEFAULTS[name as keyof typeof LANE_DEFAULTS]
    : undefined
  const slots = find('slots', known === undefined ? null : known.slots)
  const defaults: Readonly<Record<string, unknown>> = {
    ...newLane(slots.value as number | null),
    staleMs: stale.value,
    ...known,
  }
  const given = new Set<LaneField>()
  const values: Record<string, unknown> = {}
  let threshold = stale
  for (const [field, { storedAs }] of Object.entries(LANE_FIELDS) as [LaneField, { storedAs: string }][]) {
    const found = field === 'slots' ? slots : find(field, defaults[storedAs])
    if (found.given) given.add(field)
    if (field === 'stale' && found.given) threshold = found as Found<number>
    values[storedAs] = found.value
  }
  if (threshold.given) given.add('stale')
  return { settings: { ...(values as unknown as LaneValues), given }, threshold }
}

/** A lane of which only the slots are known. */
export function newLane(slots: number | null): Omit<LaneValues, 'staleMs'> {
  const { pollMs } = LANE_DEFAULTS.default
  // Something must bound a lane of the user's own: its slots, else the capacity or the cores of each worker.
  const perWorker = slots === null ? -1 : null
  return { ...(defaultsOf(LANE_FIELDS) as LaneValues), slots, perWorker, pollMs }
}

/** The variable for a lane's slots: `my-lane` becomes `SLUICE_LANE_MY_LANE_SLOTS`. */
export function laneVariable(name: string): string {
  return `SLUICE_LANE_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}_SLOTS`
}

/** Maps variables to lanes. Adds lanes that only the environment names to `names`. */
function laneVariables(
  environment: Readonly<Record<string, string | undefined>>,
  names: Set<string>,
  problems: Problem[],
): Map<string, string> {
  const variables = new Map<string, string>()
  for (const [variable, text] of Object.entries(environment)) {
    if (!variable.startsWith('SLUICE_LANE_') || !isSet(text)) continue
    const match = /^SLUICE_LANE_(.+)_SLOTS$/.exec(variable)
    const lanes = [...names].filter((name) => laneVariable(name) === variable)
    if (match === null) {
      problems.push({
        path: variable,
        message:
          'not a known variable; the only lane variable is SLUICE_LANE_<NAME>_SLOTS. Set other fields in the config file',
      })
    } else if (lanes.length > 1) {
      problems.push({
        path: variable,
        message: `matches several lanes (${lanes.join(', ')}); set their slots in the config file and remove the variable`,
      })
    } else {
      const name = lanes[0] ?? match[1]!.toLowerCase()
      // A short name resembles many others.
      const near = lanes.length > 0 || name.length < 4 ? undefined : suggest(name, [...names])
      if (near !== undefined) {
        problems.push({
          path: variable,
          message: `lane ${name} does not exist; did you mean ${laneVariable(near)}? Otherwise, declare the lane in the config file`,
        })
        continue
      }
      names.add(name)
      variables.set(name, variable)
    }
  }
  return variables
}
