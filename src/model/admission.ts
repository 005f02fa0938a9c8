import { chooseSetting, type Sources } from './choose-setting.ts'
import { ADMISSION_FIELDS, type AdmissionSource, MAX_QUEUED } from './fields/admission.ts'
import { columnOf } from './fields/columns.ts'
import type { StoredFields } from './fields/field.ts'
import { isName, NAME_RULE } from './limits.ts'
import { formatPath, type Problem, type Reader } from './setting-value.ts'

/** The limits that were given. None has a default; `null` means no limit. */
export interface AdmissionSettings extends Partial<StoredFields<typeof ADMISSION_FIELDS>> {
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
    reader: Reader<unknown, number | null>,
  ) => chooseSetting(sources, problems, ['admission', ...path], variable, reader, null)
  const given: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(ADMISSION_FIELDS)) {
    const { storedAs } = field
    const found = find([name], `SLUICE_${columnOf(name).toUpperCase()}`, field)
    if (found.given) given[storedAs] = found.value
  }
  const depths = new Map<string, number | null>()
  for (const source of [sources.file, sources.options]) {
    for (const task of Object.keys(source?.admission?.maxQueued ?? {})) {
      if (isName(task)) depths.set(task, find(['maxQueued', task], undefined, MAX_QUEUED).value)
      else {
        const path = formatPath(['admission', 'maxQueued', task])
        problems.push({ path, message: `the name of a task must be ${NAME_RULE}` })
      }
    }
  }
  return { ...given, ...(depths.size > 0 && { maxQueued: Object.fromEntries(depths) }) }
}
