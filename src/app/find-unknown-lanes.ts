import type { LoadedConfig } from '../config/load-config.ts'
import { formatPath, type Problem } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { AnyTask } from '../worker/task.ts'

// As many as the database lists for a submission.
const MAX_LISTED = 20

/**
 * The tasks whose lane does not exist: none of their jobs could be stored.
 *
 * @param lanes Those that exist.
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
    const there = `there are ${known.slice(0, MAX_LISTED).join(', ')}${more}`
    const isInFile = file?.config.tasks?.[task]?.lane === lane
    const declared = isInFile ? `lanes: { ${lane}: {} }` : `declare it: sluice({ lanes: { '${lane}': {} } })`
    const hint = near === undefined ? `write one of them, or ${declared}` : `did you mean ${near}?`
    const message = `no lane is called ${lane}; ${there}; ${hint}`
    if (!isInFile) return [{ task, path: `lane of task ${task}`, message }]
    const path = ['tasks', task, 'lane']
    return [{ task, path: formatPath(path), place: file!.locate(path, 'value'), message }]
  })
}
