import type { Database } from '../db/database.ts'
import type { MigrationState } from '../db/migrate.ts'
import { messageOf } from '../errors.ts'
import type { Settings } from '../model/settings.ts'
import { checkAttention } from './diagnosis/attention.ts'
import { checkBudgets } from './diagnosis/budgets.ts'
import { checkConnections } from './diagnosis/connections.ts'
import { checkHints } from './diagnosis/hints.ts'
import { checkLanes } from './diagnosis/lanes.ts'
import { checkQueues } from './diagnosis/queues.ts'
import { checkSchedules } from './diagnosis/schedules.ts'
import { checkSchema } from './diagnosis/schema.ts'
import { checkServer } from './diagnosis/server.ts'
import { checkTables } from './diagnosis/tables.ts'
import { checkTransactions } from './diagnosis/transactions.ts'
import { checkWorkers } from './diagnosis/workers.ts'
import type { Check, Finding } from './finding.ts'

/** What is examined. */
export interface Patient {
  readonly db: Database
  readonly schema: MigrationState
  /** What the config file and the environment say; `undefined` when they cannot be read. */
  readonly settings: Settings | undefined
  /** The tasks that lanes of the config file name and that are neither in the file nor among those given. */
  readonly findMisplaced?: (known: readonly string[]) => readonly { lane: string; message: string }[]
  /** Milliseconds, by the clock of this machine. */
  readonly now: number
}

/** Those of the server come first: they also work without a schema. */
const SERVER_CHECKS: readonly Check<Patient>[] = [
  checkServer,
  checkConnections,
  checkTransactions,
  checkSchema,
]
const SCHEMA_CHECKS: readonly Check<Patient>[] = [
  checkAttention,
  checkTables,
  checkLanes,
  checkWorkers,
  checkQueues,
  checkBudgets,
  checkSchedules,
  checkHints,
]

/**
 * Examines a system and tells what was found, good or bad, as it goes. Changes nothing.
 *
 * A check that cannot be made is a finding itself; the others go on.
 */
export async function* diagnose(patient: Patient): AsyncGenerator<Finding> {
  const complete = patient.schema.applied === patient.schema.available
  for (const check of complete ? [...SERVER_CHECKS, ...SCHEMA_CHECKS] : SERVER_CHECKS) {
    try {
      yield* await check(patient)
    } catch (error) {
      const why = messageOf(error)
      yield {
        check: check.name.replace('check', '').toLowerCase(),
        level: 'problem',
        found: `could not be examined: ${why}`,
      }
    }
  }
}
