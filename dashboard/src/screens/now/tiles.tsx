import { type ReactNode, useMemo } from 'react'
import { COUNTED_FAILURES, type Now, type Series } from '../../../../src/client/index.ts'
import { count } from '../../parts/count.ts'
import { type Search, To } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { type Line, Sparkline } from '../../parts/sparkline.tsx'
import { type ShownState, StateBadge } from '../../parts/state-badge.tsx'
import { useHasScreen } from '../../shell/navigation.tsx'

const HALF_HOUR_MS = 1_800_000

type Tabs = keyof Now['states']

const TABS: readonly { readonly tab: Tabs; readonly state: ShownState; readonly search: Search }[] = [
  { tab: 'running', state: 'running', search: { tab: 'running' } },
  { tab: 'queued', state: 'queued', search: { tab: 'queued' } },
  { tab: 'retrying', state: 'retrying', search: { tab: 'retrying' } },
  { tab: 'scheduled', state: 'scheduled', search: { tab: 'scheduled' } },
  { tab: 'awaiting_approval', state: 'awaiting_approval', search: { tab: 'approval' } },
]

/** As the list behind it has them: roots; of what needs approval also steps, which somebody has to look at one by one. */
function shownCount({ states, steps }: Now, tab: Tabs): number {
  return tab === 'awaiting_approval' ? states[tab] + steps[tab] : states[tab]
}

/** The numbers that tell how it goes; each leads to the list behind it. */
export function Tiles({ now, series }: { now: Now; series: Series | undefined }) {
  const { admission, workers } = now
  // With the series only: the picture comes four times a second, and each new line is drawn.
  const lines = useMemo(() => linesOf(series), [series])
  return (
    <>
      <ul className="states" aria-label="Jobs by state">
        {TABS.map(({ tab, state, search }) => (
          <li key={tab}>
            <To path="/jobs" search={search}>
              <StateBadge state={state} />
              <strong>
                {shownCount(now, tab).toLocaleString()}
                {now.more.includes(tab) && '+'}
              </strong>
              {tab !== 'awaiting_approval' && now.steps[tab] > 0 && (
                <span className="soft">and {count(now.steps[tab], 'step')}</span>
              )}
            </To>
          </li>
        ))}
      </ul>
      <div className="tiles">
        <Tile
          title="Admission"
          number={admission.active?.toLocaleString() ?? '–'}
          of={
            admission.maxActive === null
              ? 'active, no limit'
              : `of ${admission.maxActive.toLocaleString()} active`
          }
          path="/jobs"
          search={{ tab: 'active' }}
          line={lines.active}
          foot={[
            ...(admission.scheduled === null || admission.maxScheduled === null || admission.scheduled === 0
              ? []
              : [
                  `${admission.scheduled.toLocaleString()}${now.more.includes('scheduled') && admission.scheduled < admission.maxScheduled ? '+' : ''} of ${admission.maxScheduled.toLocaleString()} scheduled`,
                ]),
            ...busiestOwner(admission),
            `${admission.refusedPerMinute.toLocaleString()} rejected per minute`,
            ...(admission.retryAfter === null ? [] : [`retry after ${admission.retryAfter} s`]),
          ].join(', ')}
        >
          <Meter
            label="Active jobs"
            limit={admission.maxActive}
            parts={[{ label: 'active', value: admission.active ?? 0, tone: 'accent' }]}
          />
        </Tile>
        <Tile
          title="Workers"
          number={workers.busy.toLocaleString()}
          of={`of ${workers.live.toLocaleString()} busy`}
          path="/workers"
          line={lines.running}
          foot={[
            `${workers.idle} idle`,
            ...(workers.draining > 0 ? [`${workers.draining} draining`] : []),
            ...(workers.stopping > 0 ? [`${workers.stopping} stopping`] : []),
            workers.capacity === null
              ? count(workers.running, 'job')
              : `${count(workers.running, 'job')}, capacity ${workers.capacity.toLocaleString()}`,
          ].join(', ')}
        >
          <Meter
            label="Workers"
            limit={workers.live}
            parts={[
              { label: 'busy', value: workers.busy, tone: 'running' },
              { label: 'draining', value: workers.draining, tone: 'held' },
            ]}
          />
        </Tile>
        <Tile
          title="Failures"
          number={failures(now.failedPerMinute)}
          of="per minute"
          path="/errors"
          search={{ span: '1h' }}
          line={lines.failed}
          foot={`${failures(now.failedLastHour)} in the last hour`}
        />
        <Tile
          title="Recoveries"
          number={now.recoveredLastHour.toLocaleString()}
          of="in the last hour"
          path="/recovery"
          line={lines.recovered}
          foot={`${count(now.lateWritesLastHour, 'late write')}, ${count(now.driftLastHour, 'repair')}`}
        />
      </div>
    </>
  )
}

function failures(count: number): string {
  return `${count.toLocaleString()}${count >= COUNTED_FAILURES ? '+' : ''}`
}

function Tile({
  title,
  number,
  of,
  path,
  search,
  line,
  foot,
  children,
}: {
  title: string
  number: string
  of: string
  path: string
  search?: Search
  line: TileLine
  foot: string
  children?: ReactNode
}) {
  const has = useHasScreen()
  const value = (
    <>
      <span className="tile-number">{number}</span> <span className="soft">{of}</span>
    </>
  )
  return (
    <section className="tile" aria-label={title}>
      <h2>{title}</h2>
      <p>
        {has(path) ? (
          <To path={path} {...(search !== undefined && { search })}>
            {value}
          </To>
        ) : (
          value
        )}
      </p>
      <div className="tile-meter">{children}</div>
      <Sparkline
        label={`${title}, last 30 minutes`}
        times={line.times}
        lines={line.lines}
        spanMs={HALF_HOUR_MS}
      />
      <p className="tile-foot">{foot}</p>
    </section>
  )
}

interface TileLine {
  readonly times: readonly Date[]
  readonly lines: readonly Line[]
}

type Point = Series['points'][number]

function linesOf(
  series: Series | undefined,
): Record<'active' | 'running' | 'failed' | 'recovered', TileLine> {
  const points = series?.points ?? []
  const failures = series?.failures ?? []
  const times = points.map(({ at }) => at)
  const of = (label: string, tone: Line['tone'], read: (point: Point) => number | null): TileLine => ({
    times,
    lines: [{ label, tone, values: points.map(read) }],
  })
  return {
    active: of('active', 'accent', ({ active }) => active),
    running: of('running', 'running', ({ workers }) => workers.running),
    failed: {
      times: failures.map(({ at }) => at),
      lines: [{ label: 'failed', tone: 'failed', values: failures.map(({ failed }) => failed) }],
    },
    recovered: of('recovered', 'retrying', ({ recoveredPerMinute }) => recoveredPerMinute),
  }
}

/** Who has the most jobs, where one owner may have so many only. */
function busiestOwner({ owners, maxPerOwner }: Now['admission']): string[] {
  const [first] = Object.entries(owners ?? {}).sort(([, a], [, b]) => b - a)
  if (first === undefined || maxPerOwner === null) return []
  return [`${first[0]} has ${first[1].toLocaleString()} of ${maxPerOwner.toLocaleString()} jobs`]
}
