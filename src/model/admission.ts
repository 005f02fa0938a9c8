import { chooseSetting, type Sources } from './choose-setting.ts'
import { isName, NAME_RULE } from './limits.ts'
import { count, formatPath, type InputOf, orNone, type Problem } from './setting-value.ts'

/** Messages name the upper bound because people enter large numbers to mean no limit. */
const limit = orNone(count({ min: 1, namesMax: true }))

/** The limits on what may enter. The bounds are those of the admission table in the database. */
export const ADMISSION_FIELDS = {
  /** Root jobs that may be active at once, workflows included. */
  maxActive: limit,
  /** Root jobs whose first start may lie in the future. Default: 100,000 with a ceiling, no limit without one. */
  maxScheduled: limit,
  /** Root jobs that one owner may have, including scheduled ones. */
  maxPerOwner: limit,
  /** Root jobs of one task that may wait. */
  maxQueued: limit,
} as const

const MAX_ACTIVE_VARIABLE = 'SLUICE_MAX_ACTIVE'
const MAX_SCHEDULED_VARIABLE = 'SLUICE_MAX_SCHEDULED'
const MAX_PER_OWNER_VARIABLE = 'SLUICE_MAX_PER_OWNER'

/** Limits as a config file or a caller writes them. */
export interface AdmissionSource {
  readonly maxActive?: InputOf<typeof ADMISSION_FIELDS.maxActive> | undefined
  readonly maxScheduled?: InputOf<typeof ADMISSION_FIELDS.maxScheduled> | undefined
  readonly maxPerOwner?: InputOf<typeof ADMISSION_FIELDS.maxPerOwner> | undefined
  readonly maxQueued?:
    | { readonly [task: string]: InputOf<typeof ADMISSION_FIELDS.maxQueued> | undefined }
    | undefined
}

/** The limits that were given. None has a default; `null` means no limit. */
export interface AdmissionSettings {
  readonly maxActive?: number | null
  readonly maxScheduled?: number | null
  readonly maxPerOwner?: number | null
  readonly maxQueued?: Readonly<Record<string, number | null>>
}

/** Resolves limits: options override the environment, which overrides the file. Reports every invalid value. */
export function resolveAdmission(
  sources: Sources<{ readonly admission?: AdmissionSource | undefined }>,
  problems: Problem[],
): AdmissionSettings {
  const find = (
    path: readonly string[],
    variable: string | undefined,
    reader: typeof ADMISSION_FIELDS.maxActive,
  ) => chooseSetting(sources, problems, ['admission', ...path], variable, reader, null)
  const ceiling = find(['maxActive'], MAX_ACTIVE_VARIABLE, ADMISSION_FIELDS.maxActive)
  const scheduled = find(['maxScheduled'], MAX_SCHEDULED_VARIABLE, ADMISSION_FIELDS.maxScheduled)
  const owned = find(['maxPerOwner'], MAX_PER_OWNER_VARIABLE, ADMISSION_FIELDS.maxPerOwner)
  const depths = new Map<string, number | null>()
  for (const source of [sources.file, sources.options]) {
    for (const task of Object.keys(source?.admission?.maxQueued ?? {})) {
      if (isName(task))
        depths.set(task, find(['maxQueued', task], undefined, ADMISSION_FIELDS.maxQueued).value)
      else {
        const path = formatPath(['admission', 'maxQueued', task])
        problems.push({ path, message: `the name of a task must be ${NAME_RULE}` })
      }
    }
  }
  return {
    ...(ceiling.given && { maxActive: ceiling.value }),
    ...(scheduled.given && { maxScheduled: scheduled.value }),
    ...(owned.given && { maxPerOwner: owned.value }),
    ...(depths.size > 0 && { maxQueued: Object.fromEntries(depths) }),
  }
}
