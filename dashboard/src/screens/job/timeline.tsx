import { useQuery } from '@tanstack/react-query'
import type { Timeline as Entries, Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Loading } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { durationWords, Moment } from '../../parts/time.tsx'

type Entry = Entries[number]

/** Every transition of the job: attempts, workers, who did what, and how long each took. */
export function Timeline({ job }: { job: Job }) {
  const {
    data: entries,
    error,
    refetch,
  } = useQuery({ queryKey: ['job', job.id, 'timeline'], queryFn: () => client.timeline(job.id) })
  if (entries === undefined)
    return error === null ? <Loading /> : <Problem error={error} onRetry={() => void refetch()} />
  return (
    <ol className="timeline">
      {entries.map((entry, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries are only ever added at the end
        <li key={at} data-what={entry.what}>
          <p>
            <strong>{wordsOf(entry)}</strong>
            {entry.at !== null && (
              <>
                {' '}
                <Moment at={entry.at} />
              </>
            )}
          </p>
          <p className="soft">{detailsOf(entry)}</p>
          {entry.error !== null && <p className="timeline-error">{entry.error}</p>}
        </li>
      ))}
    </ol>
  )
}

const WORDS: Readonly<Partial<Record<string, string>>> = {
  ready: 'Queued',
  started: 'Started',
  returned: 'Handed back',
  out_of_memory: 'Ran out of memory',
  cancel_asked: 'Asked to stop',
  rerun: 'Rerun',
}

function wordsOf({ what, attempt }: Entry): string {
  const words = WORDS[what] ?? what.charAt(0).toUpperCase() + what.slice(1).replaceAll('_', ' ')
  return what === 'started' && attempt !== null ? `${words}, attempt ${attempt}` : words
}

function detailsOf({ what, worker, by, durationMs }: Entry): string {
  return [
    ...(worker === null ? [] : [`on ${worker}`]),
    ...(by === null ? [] : [`by ${by}`]),
    ...(durationMs === null
      ? []
      : [
          what === 'started'
            ? `after waiting ${durationWords(durationMs)}`
            : `took ${durationWords(durationMs)}`,
        ]),
  ].join(', ')
}
