import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { To, useGo } from '../../parts/link.tsx'
import { Panel } from '../../parts/panel.tsx'
import { hasEnded } from '../../parts/state-badge.tsx'
import { treeKey } from '../workflow/use-workflow.ts'
import '../workflow/workflow.css'

const StepGraph = lazy(() =>
  import('../workflow/graph.tsx').then(({ StepGraph }) => ({ default: StepGraph })),
)

const EVERY_MS = 2000
/** More steps than that are read more easily as the tree of the workflow's own page. */
const MOST_STEPS = 150

/** The graph of a workflow, before anything else of its job. A step leads to its place on the workflow's own page. */
export function JobSteps({ job }: { job: Job }) {
  const path = `/workflows/${job.id}`
  const go = useGo()
  const { data } = useQuery({
    queryKey: treeKey(job.id, 'graph'),
    queryFn: () => client.graph(job.id),
    refetchInterval: hasEnded(job) ? false : EVERY_MS,
  })
  if (data !== undefined && (data.steps.length === 0 || data.steps.length > MOST_STEPS)) return null
  const loading = <div className="graph-place" data-loading="" />
  return (
    <Panel title="Steps" aside={<To path={path}>Open workflow</To>} flush>
      {data === undefined ? (
        loading
      ) : (
        <Suspense fallback={loading}>
          <StepGraph steps={data.steps} chosen={undefined} onChoose={(step) => go(path, { step })} />
        </Suspense>
      )}
    </Panel>
  )
}
