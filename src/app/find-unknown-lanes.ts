import type { LoadedConfig } from '../config/load-config.ts'
import { formatPath, type Problem } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { AnyTask } from '../worker/task.ts'

// The same number that the database lists for a submission.
const MAX_LISTED = 20

/**
 * Finds tasks whose lane does not exist. None of their jobs could be stored.
 *
 * @param lanes The existing lanes.
 */
export function findUnknownLanes(
  file: LoadedConfig | undefined,
  tasks: ReadonlyMap<string, AnyTask>,
  lanes: ReadonlySet<string>,
): (Problem & { readonly task: string })[] {
  return [...tasks].flatMap(([task, { lane }]) => {
    if (lane === undefined || lanes.has(lane)) return []
    const known = [...lanes].sort()
    const near = suggest(lane, known)
    const more = known.length > MAX_LISTED ? ` and ${known.length - MAX_LISTED} more` : ''
    const there = `existing lanes: ${known.slice(0, MAX_LISTED).join(', ')}${more}`
    const isInFile = file?.config.tasks?.[task]?.lane === lane
    const declared = isInFile ? `lanes: { ${lane}: {} }` : `declare it: sluice({ lanes: { '${lane}': {} } })`
    const hint = near === undefined ? `use one of them, or ${declared}` : `did you mean ${near}?`
    const message = `lane ${lane} does not exist; ${there}; ${hint}`
    if (!isInFile) return [{ task, path: `lane of task ${task}`, message }]
    const path = ['tasks', task, 'lane']
    return [{ task, path: formatPath(path), place: file!.locate(path, 'value'), message }]
  })
}
