import type { Path } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { Config } from './schema.ts'

/** A statement in the config that places a task in a lane. */
export interface Placement {
  readonly task: string
  readonly lane: string
  readonly path: Path
}

/** All placements, from `lanes.NAME.tasks` and `tasks.NAME.lane`, in the order of the file. */
export function placements(config: Config): Placement[] {
  const inLanes = Object.entries(config.lanes ?? {}).flatMap(([lane, { tasks = [] }]) =>
    tasks.map((task, index) => ({ task, lane, path: ['lanes', lane, 'tasks', index] })),
  )
  const inTasks = Object.entries(config.tasks ?? {}).flatMap(([task, { lane }]) =>
    lane === undefined ? [] : [{ task, lane, path: ['tasks', task, 'lane'] }],
  )
  return [...inLanes, ...inTasks]
}

/** The lane of each task that the config places. Other tasks are placed by their code. */
export function lanesOfTasks(config: Config): ReadonlyMap<string, string> {
  return new Map(placements(config).map(({ task, lane }) => [task, lane]))
}

/** A task that a lane names and that no program has registered. */
export interface UnknownPlacement extends Placement {
  /** The known name that was probably meant. */
  readonly near: string | undefined
}

/**
 * Finds probable misspellings in `lanes.NAME.tasks`. The intended task would miss the limit of its lane.
 *
 * @param known The existing tasks.
 */
export function unknownPlacements({ lanes = {} }: Config, known: readonly string[]): UnknownPlacement[] {
  const there = new Set(known)
  return placements({ lanes })
    .filter(({ task }) => !there.has(task))
    .map((placement) => ({ ...placement, near: suggest(placement.task, known) }))
}
