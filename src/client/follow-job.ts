import { followStream, type StreamOptions } from './follow-stream.ts'
import { type Link, segment } from './link.ts'
import type { ServerEvent } from './read-events.ts'

export interface FollowOptions extends StreamOptions {
  /** Includes everything below the job. */
  readonly tree?: boolean | undefined
  /** If false: states and progress only. */
  readonly logs?: boolean | undefined
}

/**
 * The events of a job, from its first line to its end. None is missing or repeated, even when servers go away.
 *
 * @throws {SluiceError} the server's error: `JOB_NOT_FOUND`, `UNAUTHENTICATED`, `FORBIDDEN`.
 */
export function followJob(link: Link, id: string, options: FollowOptions): AsyncGenerator<ServerEvent> {
  const { tree, logs, ...rest } = options
  return followStream(link, `/jobs/${segment(id, 'id')}/stream`, { tree, logs }, rest)
}
