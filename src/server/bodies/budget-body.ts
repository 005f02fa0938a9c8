import type { BudgetBody, BudgetsBody } from '../../api/budgets.ts'
import type { BudgetsView, BudgetView } from '../../engine/views/budget-view.ts'
import { orNull } from './job-bodies.ts'

export function toBudgetsBody({ budgets, models, queues }: BudgetsView): BudgetsBody {
  return {
    budgets: budgets.map(toBudgetBody),
    models: models.map((model) => ({
      ...model,
      amounts: { ...model.amounts },
      oldestAt: orNull(model.oldestAt),
    })),
    queues: queues.map((queue) => ({
      ...queue,
      oldestAt: queue.oldestAt.toISOString(),
      heldBy: [...queue.heldBy],
      until: orNull(queue.until),
    })),
  }
}

export function toBudgetBody(budget: BudgetView): BudgetBody {
  return {
    ...budget,
    operatorSet: [...budget.operatorSet],
    updatedAt: budget.updatedAt.toISOString(),
    devices: budget.devices.map((device) => ({
      ...device,
      workers: [...device.workers],
      measuredAt: orNull(device.measuredAt),
      lostAt: orNull(device.lostAt),
      copies: device.copies.map((copy) => ({
        ...copy,
        devices: [...copy.devices],
        since: copy.since.toISOString(),
      })),
      next: device.next.map((next) => ({ ...next, heldBy: [...next.heldBy], until: orNull(next.until) })),
    })),
  }
}
