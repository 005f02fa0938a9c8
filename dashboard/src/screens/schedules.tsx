import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { Schedule } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { Input } from '../parts/controls.tsx'
import { count } from '../parts/count.ts'
import { JobLink, To, useAddress } from '../parts/link.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { PausedMark } from '../parts/paused-mark.tsx'
import { Problem } from '../parts/problem.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago } from '../parts/time.tsx'
import { ScheduleButtons } from './schedules/actions.tsx'
import { cronWords } from './schedules/cron-words.ts'
import { ScheduleDetails } from './schedules/schedule-details.tsx'
import './schedules/schedules.css'

const EVERY_MS = 5000

/** What is submitted by the clock, when next, and how it went the last time. */
export function Screen() {
  const { search, change } = useAddress()
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['schedules'],
    queryFn: () => client.listSchedules(),
    refetchInterval: EVERY_MS,
  })
  const wanted = search.find?.trim().toLowerCase() ?? ''
  const rows = useMemo(
    () =>
      (data ?? []).filter(({ name, task, workflow }) =>
        [name, task ?? '', workflow ?? ''].some((each) => each.toLowerCase().includes(wanted)),
      ),
    [data, wanted],
  )
  const open = data?.find(({ name }) => name === search.name)
  return (
    <>
      <PageHead title="Schedules" about={data === undefined ? ' ' : summaryOf(data)}>
        <Input
          aria-label="Name, task or workflow"
          placeholder="Name, task or workflow"
          value={search.find ?? ''}
          onChange={(event) => change({ find: event.target.value })}
        />
      </PageHead>
      <Problem error={error} onRetry={() => void refetch()} />
      {open !== undefined && (
        <ScheduleDetails key={open.name} schedule={open} onClose={() => change({ name: undefined })} />
      )}
      {/* Another one while it loads: what is open comes above it, and nothing that is read moves. */}
      <Panel key={isPending ? 'loading' : 'list'} flush>
        {isPending ? (
          <Loading lines={6} />
        ) : (
          <Table
            label="Schedules"
            columns={COLUMNS}
            rows={rows}
            rowKey={({ name }) => name}
            onOpen={({ name }) => change({ name }, { push: true })}
            empty={
              wanted === '' ? (
                <Empty
                  title="No schedules yet"
                  command="sluice schedules create NAME --task TASK --cron '0 3 * * *'"
                >
                  Declare schedules in the config file or in a program, or create one with:
                </Empty>
              ) : (
                <Empty title="No matching schedules" />
              )
            }
          />
        )}
      </Panel>
    </>
  )
}

function summaryOf(schedules: readonly Schedule[]): string {
  const paused = schedules.filter(({ enabled }) => !enabled).length
  const all = count(schedules.length, 'schedule')
  return paused === 0 ? all : `${all}, ${paused.toLocaleString()} paused`
}

const COLUMNS: readonly Column<Schedule>[] = [
  {
    id: 'name',
    head: 'Schedule',
    wrap: true,
    width: '18%',
    cell: ({ name, enabled }) => (
      <>
        <To path="/schedules" search={{ name }}>
          {name}
        </To>{' '}
        {!enabled && <PausedMark />}
      </>
    ),
  },
  {
    id: 'what',
    head: 'Submits',
    width: '15%',
    phone: 'below',
    wrap: true,
    cell: ({ task, workflow }) => (workflow === null ? task : `workflow ${workflow}`),
  },
  {
    id: 'when',
    head: 'Runs',
    wrap: true,
    cell: ({ cron, timezone }) => (
      <span title={`${cron} ${timezone}`}>
        {cronWords(cron)} <span className="soft">{timezone}</span>
      </span>
    ),
  },
  {
    id: 'next',
    head: 'Next run',
    width: '110px',
    phone: 'below',
    cell: ({ nextAt, enabled }) => (enabled ? <Ago at={nextAt} /> : <span className="soft">–</span>),
  },
  {
    id: 'last',
    head: 'Last run',
    width: '132px',
    phone: 'below',
    wrap: true,
    has: ({ last }) => last !== null,
    cell: ({ last }) => <Last last={last} />,
  },
  {
    id: 'actions',
    head: <span className="hidden-visually">Actions</span>,
    width: '222px',
    align: 'right',
    phone: 'below',
    cell: (schedule) => <ScheduleButtons schedule={schedule} />,
  },
]

function Last({ last }: { last: Schedule['last'] }) {
  if (last === null) return <span className="soft">–</span>
  // Inside a field that may be null, the wire's text is left as it is.
  const at = <Ago at={new Date(last.tickAt)} />
  if (last.jobId !== null)
    return (
      <span className="in-text">
        {at} <JobLink id={last.jobId} />
      </span>
    )
  return (
    <span title={last.reason ?? undefined}>
      {at} <span className="soft">no job: {last.skipped}</span>
    </span>
  )
}
