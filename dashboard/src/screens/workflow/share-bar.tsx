import type { GraphNode } from './use-workflow.ts'

type Counts = NonNullable<GraphNode['counts']>

/** How the children of a fan-out stand, as shares of a bar: failed first, since a few of many thousand still have to be seen. */
export function ShareBar({ counts }: { counts: Counts | undefined }) {
  const parts = counts === undefined ? [] : sharesOf(counts)
  return (
    <div className="share-bar" aria-hidden="true">
      {parts.map(({ tone, share }) => (
        <span key={tone} data-tone={tone} style={{ flexGrow: share }} />
      ))}
    </div>
  )
}

function sharesOf(counts: Counts): { tone: string; share: number }[] {
  const { total, completed, failed, cancelled, inFlight } = counts
  const waiting = Math.max(0, total - completed - failed - cancelled - inFlight)
  return [
    { tone: 'failed', share: failed },
    { tone: 'completed', share: completed },
    { tone: 'running', share: inFlight },
    { tone: 'ended', share: cancelled },
    { tone: 'rest', share: waiting },
  ].filter(({ share }) => share > 0)
}
