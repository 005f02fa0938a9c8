import {
  ACTIVE_STATUSES,
  JOB_STATUSES,
  type JobFilter,
  type JobStatus,
  type Now,
} from '../../../../src/client/index.ts'
import type { Search } from '../../parts/link.tsx'

export interface Tab {
  readonly id: string
  readonly label: string
  readonly filter: Pick<JobFilter, 'status' | 'waits' | 'children'>
  /** Where the live picture has its number. */
  readonly counts?: keyof Now['states']
}

/** Scheduled and retrying are inside queued for programs; people look for each by itself. */
export const TABS: readonly Tab[] = [
  { id: 'all', label: 'All', filter: {} },
  { id: 'active', label: 'Active', filter: { status: [...ACTIVE_STATUSES] } },
  {
    id: 'approval',
    label: 'Needs approval',
    // Each has to be looked at by somebody, whether it is a step or not.
    filter: { status: ['awaiting_approval'], children: true },
    counts: 'awaiting_approval',
  },
  { id: 'scheduled', label: 'Scheduled', filter: { waits: 'time' }, counts: 'scheduled' },
  { id: 'queued', label: 'Queued', filter: { waits: 'turn' }, counts: 'queued' },
  { id: 'retrying', label: 'Retrying', filter: { waits: 'retry' }, counts: 'retrying' },
  { id: 'running', label: 'Running', filter: { status: ['running'] }, counts: 'running' },
  { id: 'completed', label: 'Completed', filter: { status: ['completed'] } },
  { id: 'failed', label: 'Failed', filter: { status: ['failed'] } },
  { id: 'cancelled', label: 'Cancelled', filter: { status: ['cancelled'] } },
]

/** How far back a list goes, by when jobs were submitted. */
export const SPANS: readonly { readonly id: string; readonly label: string; readonly ms: number }[] = [
  { id: '15m', label: 'Last 15 minutes', ms: 900_000 },
  { id: '1h', label: 'Last hour', ms: 3_600_000 },
  { id: '24h', label: 'Last 24 hours', ms: 86_400_000 },
  { id: '7d', label: 'Last 7 days', ms: 604_800_000 },
]

/** Texts that are taken over as they stand. */
export const TEXT_FIELDS = ['task', 'lane', 'key', 'tag', 'submittedBy', 'error'] as const

export function tabOf(search: Search): Tab {
  return TABS.find(({ id }) => id === search.tab) ?? TABS[0]!
}

/** What the address asks for. `from` and `to` are moments; `span` counts back from now. */
export function filterOf(search: Search, now: number): JobFilter {
  const span = SPANS.find(({ id }) => id === search.span)
  const from =
    momentOf(search.from) ?? (span === undefined ? undefined : new Date(now - span.ms).toISOString())
  const to = momentOf(search.to)
  const texts = TEXT_FIELDS.flatMap((name) => {
    const text = search[name]?.trim()
    return text === undefined || text === '' ? [] : [[name, text] as const]
  })
  const tab = tabOf(search).filter
  return {
    ...tab,
    ...(tab.status === undefined && tab.waits === undefined && statusesOf(search.status)),
    ...(search.with === 'steps' && { children: true }),
    ...(tab.waits === 'turn' && search.order === 'line' && { order: 'line' as const }),
    ...(Object.fromEntries(texts) as Partial<Record<(typeof TEXT_FIELDS)[number], string>>),
    ...(from !== undefined && { submittedFrom: from }),
    ...(to !== undefined && { submittedTo: to }),
  }
}

/** Links from elsewhere may name states: `?status=queued,running`. What is none is left out. */
function statusesOf(text: string | undefined): Pick<JobFilter, 'status'> {
  const status = (text ?? '')
    .split(',')
    .filter((each): each is JobStatus => JOB_STATUSES.some((known) => known === each))
  return status.length === 0 ? {} : { status }
}

function momentOf(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** How many conditions beside the tab there are: for the button that takes them away. */
export function countConditions(search: Search): number {
  return [...TEXT_FIELDS, 'span', 'from', 'to', 'status'].filter((name) => (search[name] ?? '') !== '').length
}

/** The filter in words, for whoever is about to act on all that match. */
export function filterWords(search: Search): string {
  const parts = [
    tabOf(search).id === 'all' ? 'jobs in any state' : `jobs under “${tabOf(search).label}”`,
    ...TEXT_FIELDS.flatMap((name) => (search[name] ? [`${FIELD_WORDS[name]} “${search[name]}”`] : [])),
    ...(search.span ? [(SPANS.find(({ id }) => id === search.span)?.label ?? '').toLowerCase()] : []),
    ...(search.from ? [`submitted from ${search.from}`] : []),
    ...(search.to ? [`submitted until ${search.to}`] : []),
  ]
  return parts.join(', ')
}

const FIELD_WORDS: Readonly<Record<(typeof TEXT_FIELDS)[number], string>> = {
  task: 'of task',
  lane: 'in lane',
  key: 'with key',
  tag: 'with tag',
  submittedBy: 'submitted by',
  error: 'with an error that contains',
}
