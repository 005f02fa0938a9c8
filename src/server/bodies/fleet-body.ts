import type { FleetBody, PoolBody } from '../../api/fleet.ts'
import type { FleetView, PoolView } from '../../engine/views/fleet-view.ts'
import { orNull } from './job-bodies.ts'

export function toFleetBody({ pools, decisions }: FleetView): FleetBody {
  return {
    pools: pools.map(toPoolBody),
    decisions: decisions.map((decision) => ({
      ...decision,
      decidedAt: decision.decidedAt.toISOString(),
      dueAt: orNull(decision.dueAt),
      endedAt: orNull(decision.endedAt),
      instances: [...decision.instances],
      failures: [...decision.failures],
      workers: decision.workers.map((worker) => ({
        ...worker,
        arrivedAt: worker.arrivedAt.toISOString(),
        endedAt: orNull(worker.endedAt),
      })),
    })),
  }
}

export function toPoolBody(pool: PoolView): PoolBody {
  return {
    ...pool,
    labels: { ...pool.labels },
    lanes: [...pool.lanes],
    since: orNull(pool.since),
    operatorSet: [...pool.operatorSet],
  }
}
