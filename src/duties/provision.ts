import type { Duty } from './duty.ts'

/** Whoever looks after the pools of a process. */
export interface FleetTender {
  /** What was done; `undefined` when there was nothing to do. */
  tend(): Promise<Record<string, unknown> | undefined>
}

/** Asks for workers where jobs overflow. Only processes that have provisioners do it. */
export function provision(fleet: FleetTender): Duty {
  return {
    name: 'provision',
    everyMs: 1000,
    async run() {
      const summary = await fleet.tend()
      return summary === undefined ? {} : { summary }
    },
  }
}
