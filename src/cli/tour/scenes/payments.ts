import { fail } from '../../../worker/ending.ts'
import { task } from '../../../worker/task.ts'
import { workflow } from '../../../workflow/define/define.ts'
import type { Flow } from '../../../workflow/define/flow.ts'
import { hasJob, type Scene, submitAll } from './scene.ts'
import { pretend } from './work.ts'

interface Order {
  readonly order: number
  readonly card: string
}

const ORDERS: readonly Order[] = [
  { order: 48_211, card: 'valid' },
  { order: 48_212, card: 'valid' },
  { order: 48_213, card: 'expired' },
  { order: 48_214, card: 'valid' },
  { order: 48_215, card: 'valid' },
]

const reserve = task({
  name: 'tour.reserve-stock',
  run: async ({ order }: Order, ctx) => {
    await pretend(ctx, 500, ['reserving'])
    return { order, shelf: `A-${order % 40}` }
  },
})

const charge = task({
  name: 'tour.charge-card',
  retry: { attempts: 2, backoff: 'fixed', delay: '1s' },
  run: async ({ order, card }: Order, ctx) => {
    ctx.log.info(`charging order ${order}`)
    await pretend(ctx, 800, ['asking the bank'])
    if (card !== 'valid') {
      const answer = new Error('HTTP 402 from the bank: the card expired in 05/24')
      throw new Error(`order ${order} could not be charged`, { cause: answer })
    }
    return { order, charged: true }
  },
})

const ship = task({
  name: 'tour.ship-order',
  run: async ({ order, shelf }: { order: number; shelf: string }, ctx) => {
    await pretend(ctx, 700, ['packing', 'handing over'])
    return { order, parcel: `P-${order}-${shelf}` }
  },
})

const handleOrder = workflow({
  name: 'tour.handle-order',
  steps: (flow: Flow<Order>) => {
    const stock = flow.step('reserve', reserve, { order: flow.input.order, card: flow.input.card })
    const paid = flow.step('charge', charge, { order: stock.result.order, card: flow.input.card })
    return flow.step('ship', ship, { order: paid.result.order, shelf: stock.result.shelf }).result
  },
})

const closeDay = workflow({
  name: 'tour.close-day',
  steps: (flow: Flow<{ orders: readonly Order[] }>) => {
    flow.each('orders', flow.input.orders, handleOrder, (order) => ({ order: order.order, card: order.card }))
  },
})

const readInvoice = task({
  name: 'tour.read-invoice',
  run: async ({ file }: { file: string }) => {
    throw fail(`${file} is not a PDF: it begins with "<html>"`)
  },
})

/** Failures that stay until somebody retries them: one deep in a workflow, and one of a plain job. */
export const payments: Scene = {
  program: { tasks: [reserve, charge, ship, readInvoice], workflows: [handleOrder, closeDay] },
  async tend(app) {
    if (!(await hasJob(app, closeDay))) await submitAll(app, closeDay, [{ orders: ORDERS }])
    if (!(await hasJob(app, readInvoice)))
      await submitAll(
        app,
        readInvoice,
        [114, 115, 118].map((number) => ({ file: `invoice-${number}.pdf` })),
      )
  },
}
