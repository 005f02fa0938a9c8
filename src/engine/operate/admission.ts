import type { Queryable } from '../../db/database.ts'
import { checkOptions, checkWhole, invalidArgument } from '../../model/argument.ts'
import type { Duration } from '../../model/duration.ts'
import { isName, MAX_COUNT, NAME_RULE } from '../../model/limits.ts'
import { DEADLINE } from '../../model/task-fields.ts'
import {
  type AdmissionLimits,
  type Authority,
  changeAdmission,
  type DeclaredAdmission,
} from '../../store/change-admission.ts'
import { maintainLedger } from '../../store/maintain-ledger.ts'
import { type Admission, readAdmission } from '../../store/read-admission.ts'
import { resetAdmission } from '../../store/reset-admission.ts'

/** What an operator changes. `null` is a value: no limit. What is left out stays as it is. */
export interface AdmissionChange extends Omit<AdmissionLimits, 'deadline'> {
  /** How long jobs may wait for their start whose submission and task say nothing about it. */
  readonly deadline?: Duration | 'none' | null
}

const FIELDS = ['maxActive', 'maxScheduled', 'maxPerOwner', 'maxQueued', 'deadline'] as const

/** The limits on what may enter, and how far they are used. */
export async function getAdmission(db: Queryable): Promise<Admission> {
  return readAdmission(db)
}

/**
 * An operator's change. It holds for submissions that begin afterwards; what is active stays, also above a new limit.
 * Call `settleAdmission` once it is committed.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field.
 */
export async function setAdmission(db: Queryable, change: AdmissionChange, by: string): Promise<Admission> {
  await changeAdmission(db, checkChange(change), by, 'operator')
  return readAdmission(db)
}

/** What operators change of it, as the audit has it. */
export function admissionLimits({ maxActive, maxScheduled, maxPerOwner, maxQueued, deadlineMs }: Admission) {
  return { maxActive, maxScheduled, maxPerOwner, maxQueued, deadlineMs }
}

/** Undoes operators' changes: it is again as files and programs last said. */
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
  const { maxActive, maxScheduled, maxPerOwner, maxQueued, deadline } = change
  if (FIELDS.every((field) => change[field] === undefined))
    throw invalidArgument('change', change, `an object with some of ${FIELDS.join(', ')}`)
  if (maxActive !== undefined) checkLimit(maxActive, 'maxActive')
  if (maxScheduled !== undefined) checkLimit(maxScheduled, 'maxScheduled')
  if (maxPerOwner !== undefined) checkLimit(maxPerOwner, 'maxPerOwner')
  if (maxQueued !== undefined) {
    if (typeof maxQueued !== 'object' || maxQueued === null || Array.isArray(maxQueued))
      throw invalidArgument('maxQueued', maxQueued, 'an object with a limit by the name of each task')
    for (const [task, limit] of Object.entries(maxQueued)) {
      if (!isName(task)) throw invalidArgument('maxQueued', task, `as its keys task names: ${NAME_RULE}`)
      checkLimit(limit, `maxQueued.${task}`)
    }
  }
  return {
    ...(maxActive !== undefined && { maxActive }),
    ...(maxScheduled !== undefined && { maxScheduled }),
    ...(maxPerOwner !== undefined && { maxPerOwner }),
    ...(maxQueued !== undefined && { maxQueued }),
    ...(deadline !== undefined && { deadline: checkDeadline(deadline) }),
  }
}

function checkDeadline(value: unknown): number | null {
  const ms = DEADLINE.read(value)
  if (ms === undefined) throw invalidArgument('deadline', value, DEADLINE.expected)
  return ms
}

function checkLimit(value: unknown, name: string): void {
  if (value !== null) checkWhole(value, name, 1, MAX_COUNT)
}
