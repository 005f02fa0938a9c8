import type { Graph } from '../../../../src/client/index.ts'
import { hasEnded } from '../../parts/state-badge.tsx'
import { useSession } from '../../session.tsx'

/** What whoever is signed in may do with this tree, in the state it is in. */
export function useRights({
  job,
  path,
  submittedBy,
  superseded,
}: Pick<Graph, 'job' | 'path' | 'submittedBy' | 'superseded'>): {
  mayResize: boolean
  mayCancel: boolean
  /** A tree runs again in parts once all of it has ended; what was replaced in it does not. */
  mayRetry: boolean
} {
  const { session, may } = useSession()
  const theirs = submittedBy === session.name || may('workers:manage')
  const root = path[0] ?? job
  return {
    mayResize: theirs && may('jobs:cancel'),
    mayCancel: theirs && may('jobs:cancel') && !hasEnded(job),
    mayRetry: theirs && may('jobs:submit') && hasEnded(root) && !superseded,
  }
}
