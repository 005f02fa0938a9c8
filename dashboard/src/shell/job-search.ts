import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { hasCode, type JobFilter, type JobSummary } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { useGo } from '../parts/link.tsx'
import { shownState, stateWord } from '../parts/state-badge.tsx'
import { useSession } from '../session.tsx'
import type { Finding } from './rank.ts'

/** After the last letter: each search is several questions to the server. */
const PAUSE_MS = 250
/** Jobs of a kind that are shown; a line below leads to all of them. */
const EACH = 4

/** Jobs by what they can be searched for: id, key, tag, and a part of the error. Tasks are known by name already. */
export function useJobSearch(text: string): { found: readonly Finding[]; busy: boolean; error: unknown } {
  const { may } = useSession()
  const go = useGo()
  const typed = text.trim()
  const wanted = useRested(typed)
  const enabled = may('jobs:read') && (wanted.length > 1 || /^\d$/.test(wanted))
  const { data, error, isFetching } = useQuery({
    queryKey: ['search', wanted],
    queryFn: () => search(wanted),
    enabled,
    staleTime: 5000,
  })
  const open = ({ id, kind }: JobSummary) => go(kind === null ? `/jobs/${id}` : `/workflows/${id}`)
  if (typed === '' || data === undefined || wanted !== typed)
    return {
      found: [],
      busy: typed !== '' && (isFetching || wanted !== typed),
      error: wanted === typed ? error : null,
    }
  const found = data.flatMap(({ group, jobs, all }): Finding[] => [
    ...jobs.map((job) => ({
      id: `${group}-${job.id}`.replaceAll(' ', '-'),
      group,
      label: `${job.task} #${job.id}`,
      hint: [
        stateWord(shownState(job)),
        ...(group === 'Error' && job.error !== null ? [job.error] : []),
      ].join(': '),
      run: () => open(job),
    })),
    ...(all === undefined || jobs.length === 0
      ? []
      : [{ id: `${group}-all`, group, label: all.label, run: () => go('/jobs', all.search) }]),
  ])
  return { found, busy: isFetching, error }
}

interface Kind {
  readonly group: string
  readonly jobs: readonly JobSummary[]
  readonly all?: { readonly label: string; readonly search: Record<string, string> }
}

async function search(text: string): Promise<Kind[]> {
  const number = /^#?([1-9]\d{0,18})$/.exec(text)?.[1]
  const list = (filter: JobFilter) =>
    client
      .listJobsPage({ ...filter, children: true, limit: EACH })
      .then(({ jobs }) => jobs)
      // A text that is too long or has odd characters is no key or tag.
      .catch((error: unknown) => {
        if (hasCode(error, 'INVALID_ARGUMENT')) return []
        throw error
      })
  const [byId, byKey, byTag, byError] = await Promise.all([
    number === undefined ? [] : findJob(number),
    list({ key: text }),
    list({ tag: text }),
    number === undefined && text.length > 2 ? list({ error: text, status: ['failed', 'cancelled'] }) : [],
  ])
  const with_ = { with: 'steps' }
  return [
    { group: 'Job', jobs: byId },
    { group: 'Key', jobs: byKey, all: { label: `All jobs with key ${text}`, search: { key: text } } },
    { group: 'Tag', jobs: byTag, all: { label: `All jobs with tag ${text}`, search: { tag: text } } },
    {
      group: 'Error',
      jobs: byError,
      all: { label: `All jobs with “${text}” in their error`, search: { error: text, ...with_ } },
    },
  ]
}

async function findJob(id: string): Promise<JobSummary[]> {
  try {
    return [await client.getJob(id)]
  } catch (error) {
    if (hasCode(error, 'JOB_NOT_FOUND') || hasCode(error, 'INVALID_ARGUMENT')) return []
    throw error
  }
}

/** A text once it has not changed for a moment. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [text])
  return rested
}
