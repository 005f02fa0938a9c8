import type { Duty } from './duty.ts'

/** What manages the pools of this process. */
export interface FleetTender {
  /** Checks every pool once. Returns what was done, or `undefined` if there was nothing to do. */
  tend(): Promise<Record<string, unknown> | undefined>
}

/** Requests workers when jobs overflow. Only processes that have provisioners run this duty. */
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
