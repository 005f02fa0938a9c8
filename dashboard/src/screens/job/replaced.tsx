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
        This is history: its workflow was run again, and this step with it.{' '}
        {successor !== undefined && successor.id !== job.id ? (
          <>
            In its place there is <JobLink id={successor.id} /> now.
          </>
        ) : (
          <>
            Look at <To path={`/workflows/${rootId}`}>the workflow as it is now</To>.
          </>
        )}
      </span>
    </Note>
  )
}
