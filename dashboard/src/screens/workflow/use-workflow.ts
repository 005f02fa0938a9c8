import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Graph, ServerEvent } from '../../../../src/client/index.ts'
import { client, queries } from '../../connection.ts'
import { pageStream } from '../../live/page-stream.ts'
import { useRounds } from '../../live/rounds.ts'
import { hasEnded, type ShownState } from '../../parts/state-badge.tsx'

export type GraphNode = Graph['job']
export type GraphStep = Graph['steps'][number]

/** Between two questions while a tree changes all the time: a wide fan-out ends thousands of children a second. */
const SHORTEST_MS = 1000

/** All that is shown of this tree is asked for anew below this name. */
export function treeKey(id: string, ...what: readonly unknown[]): readonly unknown[] {
  return ['workflow', id, ...what]
}

/** The workflow, group or fan-out, kept up to date by its stream. */
export function useWorkflow(id: string) {
  const query = useQuery({ queryKey: treeKey(id, 'graph'), queryFn: () => client.graph(id) })
  const { data, dataUpdatedAt } = query
  useTreeStream(id, data !== undefined && !hasEnded(data.job), dataUpdatedAt)
  return query
}

/** Asks anew when something in the tree has changed: at once, and then at most once a second. */
function useTreeStream(id: string, underWay: boolean, knownAt: number): void {
  const { round, onOver } = useRounds(id, underWay, knownAt)
  useEffect(() => {
    let askedAt = Number.NEGATIVE_INFINITY
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = () => {
      timer = undefined
      askedAt = performance.now()
      void queries.invalidateQueries({ queryKey: treeKey(id) })
    }
    const changed = () => {
      timer ??= setTimeout(ask, Math.max(0, askedAt + SHORTEST_MS - performance.now()))
    }
    const leave = pageStream.claim<ServerEvent>({
      name: `tree ${id} ${round}`,
      open: (signal, onLink) => client.follow(id, { signal, onLink, tree: true, logs: false }),
      deliver: changed,
      onEnd(error) {
        if (error === undefined) onOver()
        changed()
      },
    })
    return () => {
      clearTimeout(timer)
      leave()
    }
  }, [id, round, onOver])
}

export function stateOf(job: GraphNode | undefined): ShownState {
  if (job === undefined) return 'not_reached'
  return job.retrying ? 'retrying' : job.status
}

/** `[3]` for a child of a fan-out, the name of its step for any other, the workflow for the root. */
export function placeName(
  job: Pick<GraphNode, 'step' | 'index' | 'parentId' | 'task'>,
  parentKind?: string | null,
) {
  if (parentKind === 'fanout') return `[${job.index}]`
  return job.step ?? job.task
}
