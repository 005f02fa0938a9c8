import { useQuery } from '@tanstack/react-query'
import type { Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { JobLink, To } from '../../parts/link.tsx'
import { Note } from '../../parts/notes.tsx'

/** Says that a job is history, and leads to what has taken its place. */
export function Replaced({ job }: { job: Job }) {
  const { parentId, rootId, step } = job
  const { data: graph } = useQuery({
    queryKey: ['workflow', parentId, 'graph'],
    queryFn: () => client.graph(parentId ?? ''),
    enabled: parentId !== null && step !== null,
  })
  const successor = graph?.steps.find((each) => each.step === step)?.job
  return (
    <Note>
      <span className="in-text">
        A rerun of the workflow has replaced this job.{' '}
        {successor !== undefined && successor.id !== job.id ? (
          <>
            The current job of this step is <JobLink id={successor.id} />.
          </>
        ) : (
          <>
            Go to the <To path={`/workflows/${rootId}`}>current workflow</To>.
          </>
        )}
      </span>
    </Note>
  )
}
