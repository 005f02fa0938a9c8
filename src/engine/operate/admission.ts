import type { Queryable } from '../../db/database.ts'
import { checkOptions, invalidArgument } from '../../model/argument.ts'
import { ADMISSION_CHANGES, type AdmissionChange, MAX_QUEUED } from '../../model/fields/admission.ts'
import { pickStored } from '../../model/fields/field.ts'
import { readChange } from '../../model/fields/read-change.ts'
import { isName, NAME_RULE } from '../../model/limits.ts'
import {
  type AdmissionLimits,
  type Authority,
  changeAdmission,
  type DeclaredAdmission,
} from '../../store/change-admission.ts'
import { maintainLedger } from '../../store/maintain-ledger.ts'
import { type Admission, readAdmission } from '../../store/read-admission.ts'
import { resetAdmission } from '../../store/reset-admission.ts'

const FIELDS = [...Object.keys(ADMISSION_CHANGES), 'maxQueued']

/** The admission limits and their usage. */
export async function getAdmission(db: Queryable): Promise<Admission> {
  return readAdmission(db)
}

/**
 * Changes limits as an operator. The change applies to later submissions; active jobs stay, even above a new limit.
 * Call `settleAdmission` after the commit.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`, which names the field.
 */
export async function setAdmission(db: Queryable, change: AdmissionChange, by: string): Promise<Admission> {
  await changeAdmission(db, checkChange(change), by, 'operator')
  return readAdmission(db)
}

/** What operators change of it, as the audit has it. */
export function admissionLimits(admission: Admission) {
  return { ...pickStored(ADMISSION_CHANGES, admission), maxQueued: admission.maxQueued }
}

/** Reverts operators' changes to what files and programs last declared. */
export async function forgetAdmissionChanges(db: Queryable, by: string): Promise<Admission> {
  await resetAdmission(db, by)
  return readAdmission(db)
}

/** What files and code say, or a default: operators' values stay. */
export async function declareAdmission(
  db: Queryable,
  change: DeclaredAdmission,
  by: string,
  authority: Exclude<Authority, 'operator'>,
): Promise<void> {
  await changeAdmission(db, change, by, authority)
  await settleAdmission(db)
}

/**
 * Completes the ledger after a limit was set where there was none. Until it is complete each submission counts all active
 * jobs. It cannot be while transactions are open that are older than the limit; a duty then does it later.
 */
export async function settleAdmission(db: Queryable): Promise<void> {
  for (let tries = 0; tries < 3; tries++) {
    if (await maintainLedger(db)) return
  }
}

function checkChange(change: AdmissionChange): AdmissionLimits {
  checkOptions(change, FIELDS, 'change')
  const { maxQueued, ...fields } = change
  if (Object.values(change).every((value) => value === undefined))
    throw invalidArgument('change', change, `an object with some of ${FIELDS.join(', ')}`)
  return {
    ...readChange(ADMISSION_CHANGES, fields),
    ...(maxQueued !== undefined && { maxQueued: readDepths(maxQueued) }),
  }
}

function readDepths(maxQueued: unknown): Record<string, number | null> {
  if (typeof maxQueued !== 'object' || maxQueued === null || Array.isArray(maxQueued))
    throw invalidArgument('maxQueued', maxQueued, 'an object with a limit by the name of each task')
  const read: Record<string, number | null> = Object.create(null)
  for (const [task, given] of Object.entries(maxQueued)) {
    if (!isName(task)) throw invalidArgument('maxQueued', task, `as its keys task names: ${NAME_RULE}`)
    const limit = MAX_QUEUED.read(given)
    if (limit === undefined) throw invalidArgument(`maxQueued.${task}`, given, MAX_QUEUED.expected)
    read[task] = limit
  }
  return read
}
