import type { Problem } from './setting-value.ts'
import { suggest } from './suggest.ts'

/** Variables that commands read, and variables for programs that Sluice starts. */
const READ_ELSEWHERE = [
  'SLUICE_SERVER',
  'SLUICE_KEY',
  'SLUICE_DATA',
  'SLUICE_LOG',
  'SLUICE_PORT',
  'SLUICE_POOL',
  'SLUICE_BUILD',
  'SLUICE_LABELS',
  'SLUICE_REQUEST',
  'SLUICE_OPTIONS',
  'SLUICE_DEVICES',
  'SLUICE_MODEL',
  'SLUICE_HOST',
  'SLUICE_DEBUG',
  'SLUICE_RESULT',
  'SLUICE_JOB_ID',
  'SLUICE_ATTEMPT',
  'SLUICE_MAX_ACTIVE',
  'SLUICE_MAX_SCHEDULED',
  'SLUICE_MAX_PER_OWNER',
]

/** Variables of Sluice's own tests, benchmarks and scripts, besides those that begin with `SLUICE_TEST_`. */
const OF_ITS_TESTS = [
  'SLUICE_ABORTED',
  'SLUICE_CHAOS_SECONDS',
  'SLUICE_CHAOS_SEED',
  'SLUICE_CHAOS_SEEDS',
  'SLUICE_CHILDREN',
  'SLUICE_CHROMIUM',
  'SLUICE_CRASHES',
  'SLUICE_DIST',
  'SLUICE_FUZZ',
  'SLUICE_IMAGES',
  'SLUICE_LEAVES',
  'SLUICE_LEVELS',
  'SLUICE_PARTITION_SEED',
  'SLUICE_REAL_RUNS',
  'SLUICE_RUNNING',
  'SLUICE_RUNS',
  'SLUICE_SEED',
  'SLUICE_STORM_PROFILE',
]

/**
 * Kubernetes sets `SLUICE_SERVICE_HOST`, `SLUICE_WEB_PORT_8080_TCP` and the like for services named sluice or
 * sluice-web.
 */
const OF_KUBERNETES = /_(SERVICE|PORT)(_|$)/

export interface JudgedVariables {
  /** Variables that look like a setting but have no effect, such as a misspelled name. */
  readonly problems: readonly Problem[]
  /** Other unread variables, which may belong to another program. */
  readonly unknown: readonly string[]
}

/**
 * Judges variables that begin with `SLUICE_` and that nothing reads. Otherwise a misspelled limit would be missing
 * silently.
 *
 * @param settings The variables of settings.
 */
export function judgeVariables(
  environment: Readonly<Record<string, string | undefined>>,
  settings: readonly string[],
): JudgedVariables {
  const problems: Problem[] = []
  const unknown: string[] = []
  const known = new Set([...settings, ...READ_ELSEWHERE, ...OF_ITS_TESTS])
  const short = [...known].map((each) => each.slice('SLUICE_'.length))
  for (const [variable, text] of Object.entries(environment)) {
    if (!variable.startsWith('SLUICE_') || known.has(variable) || !isSet(text)) continue
    // Variables of lanes are checked together with the lanes.
    if (/^SLUICE_(LANE|TEST)_/.test(variable) || OF_KUBERNETES.test(variable)) continue
    const message = misspelt(variable.slice('SLUICE_'.length), short)
    if (message === undefined) unknown.push(variable)
    else problems.push({ path: variable, message })
  }
  return { problems, unknown }
}

function misspelt(name: string, known: readonly string[]): string | undefined {
  const lane = /^(?:LANES_)?(.+)_SLOTS?$/.exec(name)?.[1]
  if (lane !== undefined)
    return `is not a variable of Sluice; the slots of a lane are set with SLUICE_LANE_${lane}_SLOTS`
  if (/^LANES(_|$)/.test(name))
    return 'is not a variable of Sluice; the only lane variable is SLUICE_LANE_<NAME>_SLOTS. Set other fields in the config file'
  // A short name resembles many others.
  const near = name.length > 3 ? suggest(name, known) : undefined
  return near === undefined ? undefined : `is not a variable of Sluice; did you mean SLUICE_${near}?`
}

/** The message about an unread variable, after its name. */
export const UNKNOWN_VARIABLE =
  'is not a variable of Sluice and has no effect. Unset it or, if another program reads it, rename it'

/** An empty variable counts as not set. */
export function isSet(text: string | undefined): boolean {
  return text !== undefined && text.trim() !== ''
}
