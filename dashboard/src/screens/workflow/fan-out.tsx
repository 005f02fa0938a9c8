import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Strip } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Note } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { hasEnded } from '../../parts/state-badge.tsx'
import { ChildList, type ChildStatus } from './child-list.tsx'
import { HeatStrip } from './heat-strip.tsx'
import { paceOf } from './pace.ts'
import { STRIP_STATES } from './strip-look.ts'
import type { GraphNode } from './use-workflow.ts'
import { WindowControl } from './window-control.tsx'

const BUCKETS = 120

/** A fan-out folded to a strip, its window, and the children of whichever stretch is chosen. */
export function FanOut({
  job,
  mayResize,
  whole = false,
}: {
  job: GraphNode
  mayResize: boolean
  /** It has the screen to itself. */
  whole?: boolean
}) {
  const [from, setFrom] = useState<number>()
  const [status, setStatus] = useState<ChildStatus>((job.counts?.failed ?? 0) > 0 ? 'failed' : 'all')
  const { data: strip, error } = useStrip(job)
  if (job.counts === undefined)
    return <p className="soft">Not started yet. The list of items is not known.</p>
  if (job.counts.total === 0) return <p className="soft">The list of items was empty.</p>
  const shown = strip?.buckets.find((each) => each.from === from)
  return (
    <div className="fan-out">
      <Legend counts={job.counts} strip={strip} onChoose={setStatus} />
      {job.counts.willFail !== undefined && <Note kind="warn">Will fail: {job.counts.willFail}</Note>}
      <Problem error={error} />
      {strip === undefined ? (
        <div className="strip-place" data-loading="" />
      ) : (
        <HeatStrip strip={strip} chosen={from} onChoose={setFrom} />
      )}
      <WindowControl job={job} mayResize={mayResize} />
      <ChildList
        job={job}
        status={status}
        onStatus={setStatus}
        stretch={shown}
        rows={whole ? 100 : 10}
        onWhole={() => setFrom(undefined)}
      />
    </div>
  )
}

function useStrip(job: GraphNode) {
  const { counts } = job
  const { stamp, ...pace } = paceOf(job, hasEnded(job))
  return useQuery({
    queryKey: ['strip', job.id, ...stamp],
    queryFn: () => client.strip(job.id, { buckets: BUCKETS }),
    enabled: counts !== undefined && counts.total > 0,
    placeholderData: keepPreviousData,
    ...pace,
  })
}

/** How many stand how. Each is a way to the children behind it. */
function Legend({
  counts,
  strip,
  onChoose,
}: {
  counts: NonNullable<GraphNode['counts']>
  strip: Strip | undefined
  onChoose: (status: ChildStatus) => void
}) {
  const sums = new Map<string, number>()
  for (const bucket of strip?.buckets ?? [])
    for (const word of STRIP_STATES) sums.set(word, (sums.get(word) ?? 0) + bucket[word])
  // These are counted as it goes; the others with the strip.
  const { completed, failed, cancelled } = counts
  for (const [word, count] of Object.entries({ completed, failed, cancelled })) sums.set(word, count)
  return (
    <ul className="legend">
      <li>
        <strong>{counts.total.toLocaleString()}</strong> children
      </li>
      {STRIP_STATES.flatMap((word) => {
        const count = sums.get(word) ?? 0
        if (count === 0) return []
        return [
          <li key={word} data-word={word}>
            {word === 'waiting' ? (
              <span>
                <strong>{count.toLocaleString()}</strong> waiting
              </span>
            ) : (
              <button type="button" className="legend-button" onClick={() => onChoose(word)}>
                <strong>{count.toLocaleString()}</strong> {word}
              </button>
            )}
          </li>,
        ]
      })}
    </ul>
  )
}
