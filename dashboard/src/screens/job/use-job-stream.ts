import { useEffect, useState } from 'react'
import type { Job, LogLine, ServerEvent } from '../../../../src/client/index.ts'
import { client, queries } from '../../connection.ts'
import { pageStream } from '../../live/page-stream.ts'
import { useRounds } from '../../live/rounds.ts'
import { hasEnded } from '../../parts/state-badge.tsx'

/** Lines that are kept on the page; the command line has all of them. */
const MOST_LINES = 5000

export interface JobStream {
  readonly lines: readonly LogLine[]
  /** Lines that came before those, and were let go. */
  readonly dropped: number
  /** The server has told what was written so far: that there is no line says that none was written. */
  readonly begun: boolean
  /** The job has ended, and its last line is here. */
  readonly ended: boolean
}

const NOTHING: JobStream = { lines: [], dropped: 0, begun: false, ended: false }

/** What happens to the job, as it happens: states make the page ask anew, progress is shown at once, lines are kept. */
export function useJobStream(id: string, job: Job | undefined, knownAt: number): JobStream {
  const { round, onOver } = useRounds(id, job !== undefined && !hasEnded(job), knownAt)
  const [stream, setStream] = useState<{ id: string; value: JobStream }>({ id, value: NOTHING })
  useEffect(() => {
    setStream({ id, value: NOTHING })
    return pageStream.claim<ServerEvent>({
      name: `job ${id} ${round}`,
      open: (signal, onLink) => client.follow(id, { signal, onLink }),
      deliver(events) {
        const told = read(events)
        if (told.progress !== undefined) showProgress(id, told.progress)
        if (told.changed) void queries.invalidateQueries({ queryKey: ['job', id] })
        setStream((before) => {
          const known = before.id === id ? before.value : NOTHING
          const isNew = told.lines.length > 0 || told.ended || !known.begun
          return isNew ? { id, value: added(known, told) } : before
        })
      },
      onEnd(error) {
        if (error === undefined) onOver()
        void queries.invalidateQueries({ queryKey: ['job', id] })
      },
    })
  }, [id, round, onOver])
  return stream.id === id ? stream.value : NOTHING
}

interface Told {
  readonly lines: readonly LogLine[]
  readonly progress: { progress: number; message: string | null } | undefined
  readonly changed: boolean
  readonly ended: boolean
}

/** All that came within a quarter of a second. Of many progresses the last is the one to show. */
function read(events: readonly ServerEvent[]): Told {
  const lines: LogLine[] = []
  let progress: Told['progress']
  let changed = false
  let ended = false
  for (const { event, data } of events) {
    if (event === 'log') {
      const { at, ...line } = JSON.parse(data) as Omit<LogLine, 'at'> & { at: string }
      lines.push({ ...line, at: new Date(at) })
    } else if (event === 'progress') {
      const told = JSON.parse(data) as { progress?: number; message?: string | null }
      if (told.progress !== undefined) progress = { progress: told.progress, message: told.message ?? null }
      else changed = true
    } else {
      changed = true
      ended ||= event === 'end'
    }
  }
  return { lines, progress, changed, ended }
}

function added(before: JobStream, told: Told): JobStream {
  const lines = [...before.lines, ...told.lines]
  const over = Math.max(0, lines.length - MOST_LINES)
  const ended = before.ended || told.ended
  return { lines: lines.slice(over), dropped: before.dropped + over, begun: true, ended }
}

function showProgress(id: string, progress: { progress: number; message: string | null }): void {
  queries.setQueryData<Job>(['job', id, 'itself'], (job) =>
    job === undefined ? job : { ...job, ...progress },
  )
}
