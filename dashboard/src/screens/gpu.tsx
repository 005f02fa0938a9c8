import { useQuery } from '@tanstack/react-query'
import type { Budget, Budgets } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { count } from '../parts/count.ts'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { DeviceCard } from './gpu/device-card.tsx'
import './gpu/gpu.css'
import { DeviceTimeline } from './gpu/history.tsx'
import { Models } from './gpu/models.tsx'
import { Queues } from './gpu/queues.tsx'

const EVERY_MS = 2000

/** Devices and budgets: what is loaded and held, what waits for room, what comes next and why. */
export function Screen() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['budgets'],
    queryFn: () => client.budgets(),
    refetchInterval: EVERY_MS,
  })
  return (
    <>
      <PageHead title="Devices and models" about={data === undefined ? ' ' : summaryOf(data)} />
      <Problem error={error} onRetry={() => void refetch()} />
      {isPending && <Loading lines={12} />}
      {data?.budgets.length === 0 && (
        <Panel>
          <Empty title="No budgets declared" command="sluice budgets list">
            A budget limits GPU memory or any other shared resource that tasks use. Declare budgets under{' '}
            <code>budgets</code> in the config file.
          </Empty>
        </Panel>
      )}
      {data?.budgets.toSorted(devicesFirst).map((budget) => (
        <BudgetPanel key={budget.name} budget={budget} />
      ))}
      {data !== undefined && data.models.length > 0 && <DeviceTimeline />}
      {data !== undefined && data.models.length > 0 && (
        <Panel title="Models" flush>
          <Models models={data.models} budgets={data.budgets} />
        </Panel>
      )}
      {data !== undefined && data.budgets.length > 0 && (
        <Panel title="Waiting jobs" flush>
          <Queues queues={data.queues} />
        </Panel>
      )}
    </>
  )
}

function BudgetPanel({ budget }: { budget: Budget }) {
  return (
    <Panel
      title={`Budget ${budget.name}`}
      aside={budget.kind === 'shared' ? 'shared by the whole system' : count(budget.devices.length, 'device')}
    >
      {budget.devices.length === 0 ? (
        <Empty title="No worker has reported a device for this budget" command="sluice worker" />
      ) : (
        <div className="devices">
          {budget.devices.map((device) => (
            <DeviceCard key={device.key} budget={budget} device={device} />
          ))}
        </div>
      )}
    </Panel>
  )
}

function devicesFirst(a: Budget, b: Budget): number {
  return Number(b.kind === 'device') - Number(a.kind === 'device')
}

function summaryOf({ budgets, models }: Budgets): string {
  const devices = budgets.flatMap((budget) => (budget.kind === 'device' ? budget.devices : []))
  const loaded = models.reduce((sum, { copies }) => sum + copies, 0)
  const loads = models.reduce((sum, each) => sum + each.loads, 0)
  const avoided = models.reduce((sum, { swapsAvoided }) => sum + swapsAvoided, 0)
  const lost = devices.filter(({ lostAt }) => lostAt !== null).length
  return [
    count(devices.length, 'device'),
    ...(lost > 0 ? [`${lost} lost`] : []),
    `${count(loaded, 'model')} loaded`,
    `${count(loads, 'load')}, ${count(avoided, 'swap')} avoided`,
  ].join(', ')
}
