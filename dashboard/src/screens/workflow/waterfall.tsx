import { useQuery } from '@tanstack/react-query'
import { Fragment, useState } from 'react'
import type { Waterfall } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Button } from '../../parts/controls.tsx'
import { To } from '../../parts/link.tsx'
import { Loading } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateBadge } from '../../parts/state-badge.tsx'
import { Duration, durationWords, Moment } from '../../parts/time.tsx'
import { barOf, type FallRow, fallRows, type Span, type ToCome } from './fall-rows.ts'
import { treeKey } from './use-workflow.ts'

/** Rows that are drawn before somebody asks for more. */
const FIRST = 200

/** Where the time went: a bar for each job, thin while it waited; what the whole waited for is framed. */
export function WaterfallView({ id }: { id: string }) {
  const { data, error, refetch } = useQuery({
    queryKey: treeKey(id, 'waterfall'),
    queryFn: () => client.waterfall(id),
  })
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map())
  const [shown, setShown] = useState(FIRST)
  if (data === undefined)
    return error === null ? <Loading lines={8} /> : <Problem error={error} onRetry={() => void refetch()} />
  const rows = fallRows(data.spans, opened)
  return (
    <div className="falls">
      <Axis whole={data} />
      <ul aria-label="Jobs over time">
        {rows.slice(0, shown).map((row) => (
          <Fragment key={row.span.id}>
            <Fall
              row={row}
              whole={data}
              onToggle={(open) => setOpened(new Map([...opened, [row.span.id, open]]))}
            />
            {row.hidden > 0 && (
              <li className="fall-more">
                <To path={`/workflows/${row.span.parentId}`}>{row.hidden.toLocaleString()} more</To>
              </li>
            )}
            {row.toCome.map((each) => (
              <StillToCome key={each.of} toCome={each} />
            ))}
          </Fragment>
        ))}
      </ul>
      {rows.length > shown && (
        <p className="fall-foot">
          <Button small onClick={() => setShown(shown + FIRST)}>
            Show {Math.min(FIRST, rows.length - shown)} more of {rows.length.toLocaleString()}
          </Button>
        </p>
      )}
      <p className="fall-foot">
        {durationWords(data.until.getTime() - data.since.getTime())} in total. Framed: critical path. Thin:
        waiting for a slot, for the window of a fan-out, or for a retry.
      </p>
    </div>
  )
}

/** From the start of the whole, at each quarter. */
function Axis({ whole: { since, until } }: { whole: Waterfall }) {
  const all = until.getTime() - since.getTime()
  return (
    <div className="fall fall-axis" aria-hidden="true">
      <span />
      <span className="fall-times">
        {[0, 0.25, 0.5, 0.75].map((share) => (
          <span key={share}>{share === 0 ? <Moment at={since} /> : `+${durationWords(all * share)}`}</span>
        ))}
      </span>
      <span className="fall-took">+{durationWords(all)}</span>
    </div>
  )
}

function Fall({
  row: { span, name, open },
  whole,
  onToggle,
}: {
  row: FallRow
  whole: Waterfall
  onToggle: (open: boolean) => void
}) {
  const { submittedAt, startedAt, finishedAt, status } = span
  const began = startedAt ?? finishedAt
  return (
    <li className="fall" data-critical={span.critical || undefined}>
      <span className="fall-name" style={{ paddingLeft: indentOf(span.depth) }}>
        {open === undefined ? (
          <span className="tree-toggle" />
        ) : (
          <button
            type="button"
            className="tree-toggle"
            aria-expanded={open}
            aria-label={`Children of ${name}`}
            onClick={() => onToggle(!open)}
          >
            {open ? '▾' : '▸'}
          </button>
        )}
        <StateBadge state={status} quiet />
        <To path={span.kind === null ? `/jobs/${span.id}` : `/workflows/${span.id}`}>{name}</To>
        {span.critical && <span className="hidden-visually">, on the critical path</span>}
      </span>
      <span className="fall-bar" title={barWords(span)}>
        <span className="fall-wait" style={barOf(whole, submittedAt, began)} />
        {span.earlier.map((attempt) => (
          <span
            key={attempt.startedAt.getTime()}
            className="fall-run"
            data-earlier=""
            data-tone={EARLIER_TONES[attempt.ending] ?? 'ended'}
            style={barOf(whole, attempt.startedAt, attempt.endedAt)}
          />
        ))}
        {startedAt !== null && (
          <span className="fall-run" data-tone={toneOf(status)} style={barOf(whole, startedAt, finishedAt)} />
        )}
      </span>
      <span className="fall-took">
        {startedAt !== null && <Duration ms={(finishedAt ?? whole.until).getTime() - startedAt.getTime()} />}
      </span>
    </li>
  )
}

/** Steps without a bar: the run has not come to them. */
function StillToCome({ toCome: { depth, steps, more } }: { toCome: ToCome }) {
  const indent = { paddingLeft: indentOf(depth) }
  return (
    <>
      {steps.map((step) => (
        <li className="fall" key={step}>
          <span className="fall-name soft" style={indent}>
            <span className="tree-toggle" />
            <StateBadge state="not_reached" quiet />
            <span className="fall-step">{step}</span>
          </span>
          <span className="fall-bar fall-to-come soft">not reached</span>
          <span className="fall-took" />
        </li>
      ))}
      {more > 0 && <li className="fall-more soft">{more.toLocaleString()} more steps not reached</li>}
    </>
  )
}

function indentOf(depth: number): string {
  return `${Math.min(depth, 6) * 14}px`
}

const EARLIER_TONES: Readonly<Record<string, string>> = {
  failed: 'failed',
  out_of_memory: 'failed',
  lost: 'failed',
}

function barWords(span: Span): string {
  const { earlier } = span
  const before = earlier.map(
    ({ startedAt, endedAt, ending }, at) =>
      `attempt ${at + 1}: ${ending.replaceAll('_', ' ')} after ${durationWords(endedAt.getTime() - startedAt.getTime())}`,
  )
  return [...before, lastWords(span)].join('; ')
}

function lastWords({ submittedAt, startedAt, finishedAt }: Span): string {
  if (startedAt === null) return 'Not started'
  const waited = `Waited ${durationWords(startedAt.getTime() - submittedAt.getTime())}`
  if (finishedAt === null) return `${waited}, still running`
  return `${waited}, took ${durationWords(finishedAt.getTime() - startedAt.getTime())}`
}

function toneOf(status: Span['status']): string {
  if (status === 'completed' || status === 'failed' || status === 'running') return status
  return status === 'queued' || status === 'awaiting_approval' ? 'waiting' : 'ended'
}
