import { count, type InputOf, orNone } from '../setting-value.ts'
import { DEADLINE } from '../task-fields.ts'
import { field, type StoredFields, type WrittenFields } from './field.ts'

/** People try large numbers here to mean no limit, so messages name the largest. */
const limit = orNone(count({ min: 1, namesMax: true }))

/** The limits on what may enter. Their bounds match the table `admission`. `maxQueued`, a limit by task, comes beside them. */
export const ADMISSION_FIELDS = {
  /** Maximum number of active root jobs. */
  maxActive: field('maxActive', limit, {
    text: 'Maximum number of active root jobs',
    more: 'It counts root jobs that have not ended, except scheduled ones. A workflow counts once. Environment variable: `SLUICE_MAX_ACTIVE`.',
    defaultText: 'none',
  }),
  /** Maximum number of scheduled root jobs. */
  maxScheduled: field('maxScheduled', limit, {
    text: 'Maximum number of scheduled root jobs',
    more: 'They count towards `maxActive` and `maxQueued` once they are due, even if a limit is then exceeded. Environment variable: `SLUICE_MAX_SCHEDULED`.',
    defaultText: '100,000 if `maxActive` is set, else none',
  }),
  /** Maximum number of root jobs of one owner, including scheduled jobs. */
  maxPerOwner: field('maxPerOwner', limit, {
    text: 'Maximum number of root jobs of one owner, including scheduled jobs',
    more: 'Environment variable: `SLUICE_MAX_PER_OWNER`.',
    defaultText: 'none',
  }),
} as const

/** The most root jobs of one task that wait for approval, a retry or capacity. */
export const MAX_QUEUED = limit

/** What operators change. Files and programs give the deadline as a setting. */
export const ADMISSION_CHANGES = {
  ...ADMISSION_FIELDS,
  /** Start deadline of jobs whose submission and task set none. */
  deadline: field('deadlineMs', DEADLINE, {
    text: 'Start deadline of jobs whose submission and task set none',
  }),
} as const

/** The limits as written in a config file or by a caller. */
export interface AdmissionSource extends WrittenFields<typeof ADMISSION_FIELDS> {
  readonly maxQueued?: { readonly [task: string]: InputOf<typeof MAX_QUEUED> | undefined } | undefined
}

/** What an operator changes. `null` is a value: no limit. What is left out stays as it is. */
export interface AdmissionChange extends WrittenFields<typeof ADMISSION_CHANGES> {
  readonly maxQueued?: { readonly [task: string]: InputOf<typeof MAX_QUEUED> | undefined } | undefined
}

/** All values that are set, as they are stored. */
export interface AdmissionValues extends StoredFields<typeof ADMISSION_CHANGES> {}
