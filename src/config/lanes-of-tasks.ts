import type { Path } from '../model/setting-value.ts'
import { suggest } from '../model/suggest.ts'
import type { Config } from './schema.ts'

/** One statement of the config about which lane a task is in. */
export interface Placement {
  readonly task: string
  readonly lane: string
  readonly path: Path
}

/** All of them, from `lanes.NAME.tasks` and `tasks.NAME.lane`, in the order of the file. */
export function placements(config: Config): Placement[] {
  const inLanes = Object.entries(config.lanes ?? {}).flatMap(([lane, { tasks = [] }]) =>
    tasks.map((task, index) => ({ task, lane, path: ['lanes', lane, 'tasks', index] })),
  )
  const inTasks = Object.entries(config.tasks ?? {}).flatMap(([task, { lane }]) =>
    lane === undefined ? [] : [{ task, lane, path: ['tasks', task, 'lane'] }],
  )
  return [...inLanes, ...inTasks]
}

/** The lane of each task the config places. Tasks it does not mention are where their code puts them. */
export function lanesOfTasks(config: Config): ReadonlyMap<string, string> {
  return new Map(placements(config).map(({ task, lane }) => [task, lane]))
}

/** A task that a lane names and nobody is known to bring. */
export interface UnknownPlacement extends Placement {
  /** The known name that was most likely meant. */
  readonly near: string | undefined
}

/**
 * What is likely a slip in `lanes.NAME.tasks`: it takes the limit of the lane from the task that was meant.
 *
 * @param known The tasks that there are.
 */
export function unknownPlacements({ lanes = {} }: Config, known: readonly string[]): UnknownPlacement[] {
  const there = new Set(known)
  return placements({ lanes })
    .filter(({ task }) => !there.has(task))
    .map((placement) => ({ ...placement, near: suggest(placement.task, known) }))
}
