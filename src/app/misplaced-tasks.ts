import { type UnknownPlacement, unknownPlacements } from '../config/lanes-of-tasks.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import { formatPath, formatPlace } from '../model/setting-value.ts'

/** A task in `lanes.NAME.tasks` that neither the program nor the database knows. */
export interface MisplacedTask {
  readonly task: string
  readonly lane: string
  /** Its position, and what follows from it. */
  readonly message: string
  readonly near: string | undefined
}

/**
 * Finds tasks that lanes of a file name and that no program has registered: misspelled, or of a program that has not
 * started yet.
 *
 * @param known The tasks of the database and of this program.
 */
export function findMisplaced(file: LoadedConfig | undefined, known: readonly string[]): MisplacedTask[] {
  if (file === undefined) return []
  const declared = Object.keys(file.config.tasks ?? {})
  return unknownPlacements(file.config, [...known, ...declared]).map((placement) => ({
    task: placement.task,
    lane: placement.lane,
    near: placement.near,
    message: `${locationOf(file, placement)}: ${messageOf(placement)}`,
  }))
}

function locationOf(file: LoadedConfig, { path }: UnknownPlacement): string {
  const place = file.locate(path, 'value')
  return place === undefined ? formatPath(path) : `${formatPlace(place)}: ${formatPath(path)}`
}

function messageOf({ task, lane, near }: UnknownPlacement): string {
  const unknown = `no file or program has declared a task ${task}`
  return near === undefined
    ? `${unknown}. It will run in lane ${lane} once a program with this file registers it`
    : `${unknown}; did you mean ${near}? Lane ${lane} does not apply to ${near}`
}
