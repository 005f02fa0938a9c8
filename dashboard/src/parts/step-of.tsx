import type { JobSummary } from '../../../src/client/index.ts'
import { To } from './link.tsx'

/** Where in a workflow a job stands: `release #226, ship`, with the way to its graph. Nothing of a job by itself. */
export function StepOf({
  job: { rootId, workflow, step, index },
  short = false,
}: {
  job: Pick<JobSummary, 'rootId' | 'workflow' | 'step' | 'index'>
  /** Without the name of the workflow, which is there on hover. */
  short?: boolean
}) {
  if (rootId === null) return null
  const place = step ?? (index === null ? null : `[${index}]`)
  return (
    <span title={`${workflow ?? ''} #${rootId}${place === null ? '' : `, ${place}`}`}>
      <To path={`/workflows/${rootId}`}>
        {short ? (
          `#${rootId}`
        ) : (
          <>
            {workflow} <span className="soft">#{rootId}</span>
          </>
        )}
      </To>
      {place !== null && <span className="soft">, {place}</span>}
    </span>
  )
}
