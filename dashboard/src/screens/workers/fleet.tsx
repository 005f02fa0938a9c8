import { useQuery } from '@tanstack/react-query'
import { client } from '../../connection.ts'
import { count } from '../../parts/count.ts'
import { useAddress } from '../../parts/link.tsx'
import { Empty } from '../../parts/notes.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago, Duration } from '../../parts/time.tsx'
import { DecisionDetails } from './decision-details.tsx'

type Fleet = Awaited<ReturnType<typeof client.fleet>>
type Pool = Fleet['pools'][number]
export type Decision = Fleet['decisions'][number]

const EVERY_MS = 3000

/** Pools that start workers when jobs overflow, and what was decided there, with the reason. Nothing without pools. */
export function FleetPanels() {
  const { search, change } = useAddress()
  const { data, error } = useQuery({
    queryKey: ['workers', 'fleet'],
    queryFn: () => client.fleet({ limit: 50 }),
    refetchInterval: EVERY_MS,
  })
  if (data === undefined) return <Problem error={error} />
  if (data.pools.length === 0) return null
  const open = data.decisions.find(({ id }) => id === search.decision)
  return (
    <>
      <Panel title="Pools" flush>
        <Table label="Pools" columns={POOLS} rows={data.pools} rowKey={({ name }) => name} />
      </Panel>
      <Panel title="Scaling decisions" flush>
        <Table
          label="Decisions"
          columns={DECISIONS}
          rows={data.decisions}
          rowKey={({ id }) => id}
          onOpen={({ id }) => change({ decision: id === search.decision ? undefined : id })}
          empty={
            <Empty title="No workers requested yet">
              Workers are requested when no live worker can take a waiting job.
            </Empty>
          }
        />
      </Panel>
      {open !== undefined && (
        <DecisionDetails decision={open} onClose={() => change({ decision: undefined })} />
      )}
    </>
  )
}

const POOLS: readonly Column<Pool>[] = [
  {
    id: 'name',
    head: 'Pool',
    width: '18%',
    cell: ({ name, provisioner }) => (
      <>
        {name} <span className="soft">{provisioner}</span>
      </>
    ),
  },
  {
    id: 'workers',
    head: 'Workers',
    width: '170px',
    cell: ({ workers, draining, min, max }) => (
      <>
        {workers.toLocaleString()}
        <span className="soft">
          {' '}
          of {min.toLocaleString()} to {max.toLocaleString()}
          {draining > 0 && `, ${draining} draining`}
        </span>
      </>
    ),
  },
  {
    id: 'overflow',
    head: 'Overflow',
    wrap: true,
    cell: ({ overflow, since, lanes }) =>
      overflow === 0 ? (
        <span className="soft">none</span>
      ) : (
        <span title={lanes.map(({ lane, reason }) => `${lane}: ${reason}`).join('\n')}>
          {count(overflow, 'job')}, since <Ago at={since} />
        </span>
      ),
  },
  {
    id: 'idle',
    head: 'Idle timeout',
    width: '160px',
    phone: 'below',
    cell: ({ idleMs }) => (idleMs === null ? 'never' : <Duration ms={idleMs} />),
  },
  {
    id: 'totals',
    head: 'Totals',
    width: '26%',
    phone: 'below',
    wrap: true,
    cell: ({ requests, arrived, failed }) =>
      `${count(requests, 'request')}, ${count(arrived, 'worker')} started, ${failed.toLocaleString()} failed`,
  },
]

const OUTCOMES: Readonly<Record<NonNullable<Decision['outcome']>, string>> = {
  arrived: '✓ Started',
  expired: '✕ Timed out',
  failed: '✕ Failed',
  returned: '✓ Kept',
}

const DECISIONS: readonly Column<Decision>[] = [
  { id: 'at', head: 'Time', width: '110px', phone: '86px', cell: ({ decidedAt }) => <Ago at={decidedAt} /> },
  { id: 'pool', head: 'Pool', width: '12%', phone: 'below', cell: ({ pool }) => pool },
  {
    id: 'what',
    head: 'Action',
    width: '130px',
    cell: ({ action, count: many }) => `${action === 'start' ? 'start' : 'undrain'} ${many.toLocaleString()}`,
  },
  { id: 'reason', head: 'Reason', wrap: true, cell: ({ reason }) => reason },
  {
    id: 'outcome',
    head: 'Outcome',
    width: '22%',
    phone: 'below',
    wrap: true,
    cell: ({ outcome, endedWhy, failures, dueAt, workers, count: many }) =>
      outcome === null ? (
        <>
          starting{dueAt !== null && ', due '}
          {dueAt !== null && <Ago at={dueAt} />}
        </>
      ) : (
        <span
          title={[endedWhy ?? '', ...failures.map(({ message }) => message), ...workers.map(did)]
            .join('\n')
            .trim()}
        >
          {outcome === 'arrived' && workers.length < many
            ? `✓ ${workers.length.toLocaleString()} of ${many.toLocaleString()} started`
            : OUTCOMES[outcome]}
          {outcome === 'arrived' && <span className="soft">, {count(doneBy(workers), 'job')} run</span>}
          {outcome === 'arrived' && failures.length > 0 && <span className="soft">; others failed</span>}
          <InVain why={failures[0]?.message ?? (outcome === 'arrived' ? null : endedWhy)} />
        </span>
      ),
  },
]

function did({ name, done }: Decision['workers'][number]): string {
  return `${name}: ${count(done, 'job')} run`
}

function doneBy(workers: Decision['workers']): number {
  return workers.reduce((sum, { done }) => sum + done, 0)
}

function InVain({ why }: { why: string | null }) {
  return why !== null && <span className="soft">: {why}</span>
}
