import type { Database } from '../../db/database.ts'
import { isUsable, type MigrationState } from '../../db/schema-state.ts'
import { messageOf } from '../../errors.ts'
import type { Attention } from '../../model/attention.ts'
import type { Settings } from '../../model/settings.ts'
import { checkAttention } from './attention.ts'
import { checkBudgets } from './budgets.ts'
import { checkConnections } from './connections.ts'
import type { Check, Finding } from './finding.ts'
import { checkHints } from './hints.ts'
import { checkLanes } from './lanes.ts'
import { checkLocks } from './locks.ts'
import { checkOwners } from './owners.ts'
import { checkQueues } from './queues.ts'
import { checkSchedules } from './schedules.ts'
import { checkSchema } from './schema.ts'
import { checkServer } from './server.ts'
import { checkTables } from './tables.ts'
import { checkTransactions } from './transactions.ts'
import { checkWorkers } from './workers.ts'

/** The system to check. */
export interface Patient {
  readonly db: Database
  /** Not called while tables are locked. */
  readonly schema: () => Promise<MigrationState>
  /** The settings of config file and environment. `undefined` if they cannot be read. */
  readonly settings: Settings | undefined
  /** The lane of each task that the config file places. */
  readonly placements?: ReadonlyMap<string, string>
  /** Tasks that lanes of the config file name, and that are neither in the file nor given. */
  readonly findMisplaced?: (known: readonly string[]) => readonly { lane: string; message: string }[]
  /** Milliseconds by this machine's clock. */
  readonly now: number
}

/** With results that one check passes to the next. */
interface Examined extends Patient {
  /** What `checkAttention` found. */
  readonly told: readonly Attention[]
  readonly tell: (found: readonly Attention[]) => void
}

/** Checks of the server come first, because they also work without a schema. */
const SERVER_CHECKS: readonly Check<Patient>[] = [checkServer, checkConnections, checkTransactions]
const TABLE_CHECKS: readonly Check<Examined>[] = [
  checkAttention,
  checkTables,
  checkLanes,
  checkWorkers,
  checkQueues,
  checkOwners,
  checkBudgets,
  checkSchedules,
  checkHints,
]

/**
 * Checks a system and reports findings, good or bad, as it proceeds. Changes nothing.
 *
 * A check that cannot run is itself a finding, and the others continue.
 */
export async function* diagnose(patient: Patient): AsyncGenerator<Finding> {
  for (const check of SERVER_CHECKS) yield* await examine(nameOf(check), check, patient)
  let isClosed = false
  const examineLocks: Check<Patient> = async ({ db }) => {
    const { findings, closed } = await checkLocks(db)
    isClosed = closed
    return findings
  }
  yield* await examine('locks', examineLocks, patient)
  if (isClosed) return
  const schema = await patient.schema()
  const checkVersion: Check<Patient> = ({ db }) => checkSchema({ db, schema })
  yield* await examine('schema', checkVersion, patient)
  if (!isUsable(schema)) return
  let told: readonly Attention[] = []
  const tell = (found: readonly Attention[]) => {
    told = found
  }
  for (const check of TABLE_CHECKS) yield* await examine(nameOf(check), check, { ...patient, tell, told })
}

function nameOf<P>(check: Check<P>): string {
  return check.name.replace('check', '').toLowerCase()
}

async function examine<P>(name: string, check: Check<P>, patient: P): Promise<Finding[]> {
  try {
    return await check(patient)
  } catch (error) {
    return [{ check: name, level: 'problem', found: `could not be checked: ${messageOf(error)}` }]
  }
}
