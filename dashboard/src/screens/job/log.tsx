import { useVirtualizer } from '@tanstack/react-virtual'
import { type CSSProperties, useEffect, useRef, useState } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { Command } from '../../parts/command.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { Moment } from '../../parts/time.tsx'
import type { JobStream } from './use-job-stream.ts'

/** The log as it is written. It follows its end until somebody scrolls up. */
export function JobLog({ job, stream }: { job: Job; stream: JobStream }) {
  const { lines, dropped } = stream
  const box = useRef<HTMLElement>(null)
  const [following, setFollowing] = useState(true)
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => 20,
    overscan: 20,
    getItemKey: (at) => lines[at]!.id,
  })
  useEffect(() => {
    if (following && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: 'end' })
  }, [following, lines.length, rows])
  const scrolled = () => {
    const element = box.current
    if (element === null) return
    setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < 40)
  }
  if (lines.length === 0)
    return (
      <p className="soft log-empty" data-loading={stream.begun ? undefined : ''}>
        {!stream.begun ? 'Loading…' : stream.ended ? 'The job logged nothing.' : 'No log lines yet.'}
      </p>
    )
  const attempts = new Set(lines.map(({ attempt }) => attempt)).size
  return (
    <>
      {dropped > 0 && (
        <p className="soft log-dropped">
          {count(dropped, 'earlier line is', 'earlier lines are')} not shown.{' '}
          <Command text={`sluice logs ${job.id}`} />
        </p>
      )}
      <section
        className="log"
        ref={box}
        onScroll={scrolled}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        aria-label="Lines of the log"
        style={{ '--lines': `${rows.getTotalSize() + 2}px` } as CSSProperties}
        data-grows={stream.ended ? undefined : ''}
      >
        <div className="log-all" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, key, start }) => {
            const line = lines[index]!
            return (
              <div
                key={key}
                className="log-line"
                data-index={index}
                data-level={line.level}
                ref={rows.measureElement}
                style={{ transform: `translateY(${start}px)` }}
              >
                <span className="log-at">
                  <Moment at={line.at} />
                </span>
                {attempts > 1 && <span className="log-attempt">{line.attempt}</span>}
                <span className="log-text">
                  {line.level !== 'info' && <b>{line.level} </b>}
                  {line.line}
                </span>
              </div>
            )
          })}
        </div>
      </section>
      <div className="log-foot">
        <span className="soft">{count(lines.length + dropped, 'line')}</span>
        {!following && (
          <Button small onClick={() => setFollowing(true)}>
            Jump to the end
          </Button>
        )}
      </div>
    </>
  )
}
