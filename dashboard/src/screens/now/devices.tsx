import type { Now } from '../../../../src/client/index.ts'
import { amountWords } from '../../parts/amount.ts'
import { To } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useHasScreen } from '../../shell/navigation.tsx'

type Device = Now['devices'][number]

/** What is held of each device, what was measured there, and which models it has loaded. */
export function Devices({ devices }: { devices: readonly Device[] }) {
  const has = useHasScreen()
  const columns: Column<Device>[] = [
    {
      id: 'device',
      head: 'Device',
      width: '24%',
      cell: ({ budget, name, host }) => (
        <span title={host ?? undefined}>
          {has('/gpu') ? <To path="/gpu">{name === '' ? budget : name}</To> : name === '' ? budget : name}
          {host !== null && <span className="soft"> {host}</span>}
        </span>
      ),
    },
    {
      id: 'use',
      head: 'In use',
      width: '20%',
      cell: ({ name, capacity, held, bytes }) => (
        <Meter
          label={`Device ${name}`}
          limit={capacity}
          parts={[{ label: `held (${amountWords(held, bytes)})`, value: held, tone: 'running' }]}
        />
      ),
    },
    {
      id: 'held',
      phone: '150px',
      head: 'Amount',
      width: '150px',
      align: 'right',
      cell: ({ held, capacity, bytes }) => (
        <>
          {amountWords(held, bytes)}
          <span className="soft"> / {capacity === null ? '∞' : amountWords(capacity, bytes)}</span>
        </>
      ),
    },
    {
      id: 'measured',
      head: 'Measured',
      width: '100px',
      align: 'right',
      phone: 'below',
      cell: ({ measuredUsed, bytes }) => (measuredUsed === null ? '–' : amountWords(measuredUsed, bytes)),
    },
    {
      id: 'models',
      head: 'Loaded',
      phone: 'below',
      cell: ({ models, lostAt }) =>
        lostAt !== null ? (
          <>
            Lost <Ago at={lostAt} />
          </>
        ) : (
          models
            .map(
              ({ model, state, running }) =>
                `${model} (${state === 'loaded' ? `${running} running` : state})`,
            )
            .join(', ') || <span className="soft">–</span>
        ),
    },
  ]
  return (
    <Table
      label="Devices and budgets"
      columns={columns}
      rows={devices}
      rowKey={({ budget, key }) => `${budget} ${key}`}
    />
  )
}
