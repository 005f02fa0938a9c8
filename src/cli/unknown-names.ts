import { hasCode } from '../errors.ts'
import { suggest } from '../model/suggest.ts'
import type { World } from './command.ts'
import type { FilterOptions } from './filter-options.ts'
import { painter } from './output/style.ts'
import type { System } from './system.ts'

/**
 * Warns of a task or a lane in a filter that found nothing, where there is none of that name: it is most likely misspelled.
 *
 * @returns whether it warned.
 */
export async function warnOfUnknownNames(
  { err }: Pick<World, 'err'>,
  system: Pick<System, 'listTasks' | 'listLanes'>,
  { task, lane }: FilterOptions,
): Promise<boolean> {
  const warnings = [
    await unknownName('task', task, () => system.listTasks()),
    await unknownName('lane', lane, () => system.listLanes()),
  ].filter((each) => each !== undefined)
  for (const warning of warnings) err.line(`${painter(err)('yellow', 'warning:')} ${warning}`)
  return warnings.length > 0
}

async function unknownName(
  kind: 'task' | 'lane',
  name: string | undefined,
  list: () => Promise<readonly { readonly name: string }[]>,
): Promise<string | undefined> {
  if (name === undefined) return undefined
  // Whoever may see jobs need not be allowed to see lanes.
  const known = await list().catch((error: unknown) => {
    if (hasCode(error, 'FORBIDDEN')) return undefined
    throw error
  })
  if (known === undefined || known.some((each) => each.name === name)) return undefined
  const near = suggest(
    name,
    known.map((each) => each.name),
  )
  const hint = near === undefined ? `list them with: sluice ${kind}s` : `did you mean ${near}?`
  return `${kind} ${JSON.stringify(name)} does not exist; ${hint}`
}
