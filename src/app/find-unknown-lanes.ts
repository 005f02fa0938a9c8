import type { LoadedConfig } from '../config/load-config.ts'
import { formatPath, type Problem } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { AnyTask } from '../worker/task.ts'

// As many as the database lists for a submission.
const MAX_LISTED = 20

/**
 * The tasks of a file whose lane nobody has made: none of their jobs could be stored.
 *
 * @param lanes Those there are.
 */
export function findUnknownLanes(
  file: LoadedConfig,
  tasks: ReadonlyMap<string, AnyTask>,
  lanes: ReadonlySet<string>,
): (Problem & { readonly task: string })[] {
  return Object.entries(file.config.tasks ?? {}).flatMap(([task, { lane }]) => {
    if (lane === undefined || lanes.has(lane) || !tasks.has(task)) return []
    const path = ['tasks', task, 'lane']
    const known = [...lanes].sort()
    const near = suggest(lane, known)
    const more = known.length > MAX_LISTED ? ` and ${known.length - MAX_LISTED} more` : ''
    const there = `there are ${known.slice(0, MAX_LISTED).join(', ')}${more}`
    const hint = near === undefined ? `write one of them, or lanes: { ${lane}: {} }` : `did you mean ${near}?`
    const message = `no lane is called ${lane}; ${there}; ${hint}`
    return [{ task, path: formatPath(path), place: file.locate(path, 'value'), message }]
  })
}
