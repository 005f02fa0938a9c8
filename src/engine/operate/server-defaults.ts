import type { Queryable } from '../../db/database.ts'
import type { Settings } from '../../model/settings.ts'
import { DEADLINE } from '../../model/task-fields.ts'
import type { Admission } from '../../store/read-admission.ts'
import { declareAdmission, getAdmission } from './admission.ts'

const DEFAULT_CEILING = 1024
/** What waits longer than this for its start is no longer wanted. */
const DEFAULT_DEADLINE_MS = 4 * 3_600_000

/**
 * What the first start of a server sets where nobody has said anything: a ceiling on active jobs, and a deadline for
 * their start. They hold for whoever submits, also by the library.
 *
 * A `deadline` of the server's own settings is the deadline of the whole system: `none` switches it off.
 *
 * @returns what to tell whoever starts it: undefined when nothing was set.
 */
export async function declareServerDefaults(
  db: Queryable,
  settings: Pick<Settings, 'deadlineMs' | 'given'>,
  by: string,
): Promise<string | undefined> {
  const before = await getAdmission(db)
  const defaults = { maxActive: DEFAULT_CEILING, deadlineMs: DEFAULT_DEADLINE_MS }
  if (settings.given.has('deadline'))
    await declareAdmission(db, { deadlineMs: settings.deadlineMs }, by, 'program')
  await declareAdmission(db, defaults, by, 'default')
  const after = await getAdmission(db)
  const fresh = after.defaultSet.filter((field) => !before.defaultSet.includes(field))
  return describeDefaults(after, fresh)
}

/** In words, what the first start of a server has set, and how to switch that off. */
export function describeDefaults(
  { maxActive, deadlineMs }: Pick<Admission, 'maxActive' | 'deadlineMs'>,
  fields: readonly string[],
): string | undefined {
  const limits = [
    ...(fields.includes('maxActive') ? [`at most ${maxActive} active jobs`] : []),
    ...(fields.includes('deadline') ? [`jobs must start within ${DEADLINE.format(deadlineMs)}`] : []),
  ]
  if (limits.length === 0) return undefined
  const off = [
    ...(fields.includes('maxActive') ? ['--max-active none'] : []),
    ...(fields.includes('deadline') ? ['--deadline none'] : []),
  ]
  return `${limits.join(', ')}, for all submitters, including the library; switch off with: sluice admission ${off.join(' ')}`
}
