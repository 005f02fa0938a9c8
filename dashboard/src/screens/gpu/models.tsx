import type { Budgets } from '../../../../src/client/index.ts'
import { amountWords } from '../../parts/amount.ts'
import { type Column, Table } from '../../parts/table.tsx'
import { Duration } from '../../parts/time.tsx'

type Model = Budgets['models'][number]

/** Every model that is known: where it stands, what it costs to load, and what waits for it. */
export function Models({ models, budgets }: { models: readonly Model[]; budgets: Budgets['budgets'] }) {
  const bytes = new Set(budgets.filter((each) => each.bytes).map(({ name }) => name))
  const columns: readonly Column<Model>[] = [
    {
      id: 'name',
      head: 'Model',
      cell: ({ name, pinned }) => (
        <>
          {name}
          {pinned && <span className="soft"> pinned</span>}
        </>
      ),
    },
    { id: 'depth', head: 'Waiting', width: '84px', align: 'right', cell: ({ depth }) => count(depth) },
    {
      id: 'waited',
      head: 'Oldest wait',
      width: '104px',
      align: 'right',
      cell: ({ waitedMs, depth }) => (depth === 0 ? <None /> : <Duration ms={waitedMs} />),
    },
    { id: 'running', head: 'Running', width: '84px', align: 'right', cell: ({ running }) => count(running) },
    {
      id: 'copies',
      head: 'Copies',
      width: '80px',
      align: 'right',
      phone: 'below',
      cell: ({ copies }) => count(copies),
    },
    {
      id: 'needs',
      head: 'Size',
      width: '96px',
      align: 'right',
      has: ({ amounts }) => Object.keys(amounts).length > 0,
      phone: 'below',
      cell: ({ amounts }) =>
        Object.entries(amounts)
          .map(([budget, amount]) => amountWords(amount, bytes.has(budget)))
          .join(', ') || <span className="soft">–</span>,
    },
    {
      id: 'load',
      head: 'Load time',
      width: '90px',
      align: 'right',
      phone: 'below',
      cell: ({ loadMs }) => <Duration ms={loadMs} />,
    },
    {
      id: 'run',
      head: 'Job time',
      width: '90px',
      align: 'right',
      has: ({ runMs }) => runMs !== null,
      phone: 'below',
      cell: ({ runMs }) => <Duration ms={runMs} />,
    },
    {
      id: 'loads',
      head: 'Loads',
      width: '76px',
      align: 'right',
      phone: 'below',
      cell: ({ loads }) => count(loads),
    },
    {
      id: 'avoided',
      head: 'Swaps avoided',
      width: '132px',
      align: 'right',
      has: ({ swapsAvoided }) => swapsAvoided > 0,
      phone: 'below',
      cell: ({ swapsAvoided }) => count(swapsAvoided),
    },
    {
      id: 'oom',
      head: 'Out of memory',
      width: '132px',
      align: 'right',
      has: ({ outOfMemory }) => outOfMemory > 0,
      phone: 'below',
      cell: ({ outOfMemory }) => count(outOfMemory),
    },
  ]
  return <Table label="Models" columns={columns} rows={models} rowKey={({ name }) => name} />
}

function count(number: number) {
  return number === 0 ? <None /> : number.toLocaleString()
}

function None() {
  return <span className="soft">0</span>
}
