import { followStream, type StreamOptions } from './follow-stream.ts'
import { type Link, segment } from './link.ts'
import type { ServerEvent } from './read-events.ts'

export interface FollowOptions extends StreamOptions {
  /** With everything below the job. */
  readonly tree?: boolean | undefined
  /** False: states and progress only. */
  readonly logs?: boolean | undefined
}

/**
 * The events of a job, from its first line to its end: nothing is missing and nothing comes twice, whichever servers go
 * away meanwhile.
 *
 * @throws {SluiceError} what the server refuses: `JOB_NOT_FOUND`, `UNAUTHENTICATED`, `FORBIDDEN`.
 */
export function followJob(link: Link, id: string, options: FollowOptions): AsyncGenerator<ServerEvent> {
  const { tree, logs, ...rest } = options
  return followStream(link, `/jobs/${segment(id, 'id')}/stream`, { tree, logs }, rest)
}
