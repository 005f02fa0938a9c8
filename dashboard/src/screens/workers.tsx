import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { client } from '../connection.ts'
import { Input } from '../parts/controls.tsx'
import { count } from '../parts/count.ts'
import { useAddress } from '../parts/link.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { Table } from '../parts/table.tsx'
import { useSession } from '../session.tsx'
import { useWorkerActions } from './workers/actions.tsx'
import { workerColumns } from './workers/columns.tsx'
import { FleetPanels } from './workers/fleet.tsx'
import type { StatusWorker } from './workers/state.tsx'
import { WorkerDetails } from './workers/worker-details.tsx'
import './workers/workers.css'

const EVERY_MS = 2000

/** Who works, on what, and whether they are heard of; in the order in which they are given jobs. */
export function Screen() {
  const { search, change } = useAddress()
  const { may } = useSession()
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['workers'],
    queryFn: () => client.status(),
    refetchInterval: EVERY_MS,
  })
  const act = useWorkerActions(data?.workers ?? [])
  const columns = useMemo(
    () => workerColumns(may('workers:manage') ? act : undefined, data?.workers ?? []),
    [act, may, data],
  )
  const wanted = search.name ?? ''
  const rows = useMemo(() => inFillOrder(data?.workers ?? [], wanted), [data, wanted])
  const open = data?.workers.find(({ id }) => id === search.worker)
  return (
    <>
      <PageHead title="Workers" about={data === undefined ? ' ' : summaryOf(data.workers)}>
        <Input
          aria-label="Name, host, label or task"
          placeholder="Name, host, label or task"
          value={wanted}
          onChange={(event) => change({ name: event.target.value })}
        />
      </PageHead>
      <Problem error={error} onRetry={() => void refetch()} />
      {open !== undefined && (
        <WorkerDetails worker={open} act={act} onClose={() => change({ worker: undefined })} />
      )}
      {/* Another one while it loads: what is open comes above it, and nothing that is read moves. */}
      <Panel key={isPending ? 'loading' : 'list'} title="Workers in fill order" flush>
        {isPending ? (
          <Loading lines={8} />
        ) : (
          <Table
            label="Workers"
            columns={columns}
            rows={rows}
            rowKey={({ id }) => id}
            onOpen={({ id }) => change({ worker: id }, { push: true })}
            empty={
              wanted === '' ? (
                <Empty title="No live workers" command="sluice worker">
                  Jobs wait until you start a worker.
                </Empty>
              ) : (
                <Empty title="No matching workers">Clear the search to show all workers.</Empty>
              )
            }
          />
        )}
      </Panel>
      <FleetPanels />
    </>
  )
}

function inFillOrder(workers: readonly StatusWorker[], text: string): StatusWorker[] {
  const wanted = text.trim().toLowerCase()
  const matches = ({ name, host, labels, tasks, pool }: StatusWorker) =>
    [name, host, pool ?? '', JSON.stringify(labels), ...tasks].some((each) =>
      each.toLowerCase().includes(wanted),
    )
  return workers
    .filter((each) => wanted === '' || matches(each))
    .toSorted((a, b) => a.rank - b.rank || a.startedAt.getTime() - b.startedAt.getTime())
}

function summaryOf(workers: readonly StatusWorker[]): string {
  const running = workers.reduce((sum, each) => sum + each.running, 0)
  const unbounded = workers.some(({ capacity }) => capacity === 0)
  const slots = workers.reduce((sum, { capacity }) => sum + capacity, 0)
  const parts = [
    `${workers.length.toLocaleString()} live`,
    `${count(running, 'running job')}${unbounded ? '' : `, capacity ${slots.toLocaleString()}`}`,
    ...some(workers.filter(({ draining }) => draining).length, 'draining'),
    ...some(workers.filter(({ stopping }) => stopping).length, 'stopping'),
    ...some(workers.filter(({ silent }) => silent).length, 'silent'),
  ]
  return parts.join(', ')
}

function some(count: number, what: string): string[] {
  return count === 0 ? [] : [`${count.toLocaleString()} ${what}`]
}
