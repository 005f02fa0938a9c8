import { describe, expect, expectTypeOf, test } from 'vitest'
import { StatusBody } from '../api/admin-workers.ts'
import { AuditList } from '../api/audit.ts'
import { BudgetsBody } from '../api/budgets.ts'
import { JobListBody } from '../api/job-list.ts'
import { WhyBody } from '../api/job-why.ts'
import { AttemptsBody, JobBody, LogsBody, TraceBody, TreeBody } from '../api/jobs.ts'
import { CreatedKeyBody, KeyList } from '../api/keys.ts'
import { LaneList } from '../api/lanes.ts'
import { RoleList } from '../api/roles.ts'
import { FiringList, ScheduleList } from '../api/schedules.ts'
import { type Dated, dated } from './dated.ts'

interface Described {
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly items?: Described
  readonly properties?: Readonly<Record<string, Described>>
}

/** Every field of a schema, with the names that the type `Dated` goes by. */
function* fieldsOf(schema: Described): Generator<[name: string, field: Described]> {
  if (schema.items !== undefined) yield* fieldsOf(schema.items)
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    yield [name, field]
    yield* fieldsOf(field)
  }
}

const ANSWERS = Object.entries({
  AttemptsBody,
  AuditList,
  BudgetsBody,
  CreatedKeyBody,
  FiringList,
  JobBody,
  JobListBody,
  KeyList,
  LaneList,
  LogsBody,
  RoleList,
  ScheduleList,
  StatusBody,
  TraceBody,
  TreeBody,
  WhyBody,
})

describe.each(ANSWERS)('%s', (_, schema) => {
  test('has moments exactly where the types say so', () => {
    for (const [name, field] of fieldsOf(schema as Described)) {
      const isText = [field.type].flat().includes('string')
      const named = /At$|^(at|since|until)$/.test(name) && isText
      expect([name, field.format === 'date-time']).toEqual([name, named])
    }
  })
})

test('makes dates of moments, at any depth, and leaves what jobs took and gave alone', () => {
  const at = '2031-05-01T08:00:00.000Z'
  const job = { input: { submittedAt: at }, result: [at], submittedAt: at, startedAt: null, tags: ['at'] }
  const list = dated(JobListBody, { jobs: [job], next: null })
  expect(list).toEqual({ jobs: [{ ...job, submittedAt: new Date(at) }], next: null })
})

test('the types tell dates from texts', () => {
  expectTypeOf<
    Dated<{ at: string; startedAt: string | null; note: string; failedAt: number[] }>
  >().toEqualTypeOf<{
    at: Date
    startedAt: Date | null
    note: string
    failedAt: number[]
  }>()
})
