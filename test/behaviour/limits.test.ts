import { describe, expect, test } from 'vitest'
import { ADMISSION_CHANGES, ADMISSION_FIELDS } from '../../src/model/fields/admission.ts'
import { BUDGET_FIELDS } from '../../src/model/fields/budget.ts'
import { columnOf } from '../../src/model/fields/columns.ts'
import type { Fields } from '../../src/model/fields/field.ts'
import { LANE_DEFAULTS, LANE_FIELDS } from '../../src/model/fields/lane.ts'
import { POOL_FIELDS, POOL_NUMBERS } from '../../src/model/fields/pool.ts'
import { SCHEDULE_FIELDS } from '../../src/model/fields/schedule.ts'
import {
  DEFAULT_LOSSES,
  isName,
  MAX_JSON_BYTES,
  MAX_JSON_DEPTH,
  MAX_KEY,
  MAX_LOG_LINES,
  MAX_OWNER,
  MAX_STORED_MS,
  MAX_TAG,
  MAX_TAGS,
  PRIORITY_RANGE,
} from '../../src/model/limits.ts'
import { RECOVERY_KINDS } from '../../src/model/recovery.ts'
import type { Reader } from '../../src/model/setting-value.ts'
import { SETTINGS } from '../../src/model/settings.ts'
import { DEADLINE, isModelName, TASK_FIELDS } from '../../src/model/task-fields.ts'
import { useDatabase } from '../support/database.ts'

/**
 * Rules that both TypeScript and SQL check. Each check constraint of the database is asked about the values around every number in it, and
 * has to say what TypeScript says.
 */

const database = useDatabase({ asMigrated: true })

type Accepts = (value: never) => boolean

const reads =
  (reader: Pick<Reader<unknown, unknown>, 'read'>) =>
  (value: unknown): boolean =>
    reader.read(value) !== undefined
/** Stored as 0 where it is switched off. */
const readsOrZero = (reader: Pick<Reader<unknown, unknown>, 'read'>) => (value: unknown) =>
  value === 0 || reads(reader)(value)
const _amount = (value: number) => value >= 0
const name = (value: string) => isName(value) || value === '__proto__'

/** A constraint for every field with bounds, which the reader takes as they are. */
function checksOf(table: string, fields: Fields): Record<string, Accepts> {
  const bounded = Object.values(fields).filter(
    ({ stored }) => !['boolean', 'object'].includes(`${stored.type}`),
  )
  return Object.fromEntries(
    bounded.map((field) => [
      `${table}_${columnOf(field.storedAs)}_check`,
      (value: unknown) => field.read(value) === value,
    ]),
  )
}

/** The columns of fields with a default of their own; no default is null. */
function defaultsIn(table: string, fields: Fields): [column: string, value: unknown][] {
  return Object.values(fields).flatMap((field) => {
    const { storedAs, default: value } = field
    return (value ?? null) === null ? [] : [[`${table}.${columnOf(storedAs)}`, value]]
  })
}

/** By constraint: what TypeScript accepts. */
const COMPARED: Readonly<Record<string, Accepts>> = {
  settings_value_check: reads(SETTINGS.retention.reader),
  lanes_name_check: name,
  ...checksOf('lanes', LANE_FIELDS),
  workflows_name_check: name,
  workflows_priority_check: reads(TASK_FIELDS.priority),
  workflows_deadline_ms_check: readsOrZero(DEADLINE),
  workflows_timeout_ms_check: reads(TASK_FIELDS.timeout),
  tasks_name_check: name,
  tasks_priority_check: reads(TASK_FIELDS.priority),
  tasks_keys_check: reads(TASK_FIELDS.keys),
  tasks_deadline_ms_check: readsOrZero(DEADLINE),
  tasks_max_losses_check: reads(TASK_FIELDS.losses),
  tasks_on_lost_check: reads(TASK_FIELDS.onLost),
  tasks_parallel_check: reads(TASK_FIELDS.parallel),
  workers_capacity_check: reads(SETTINGS.capacity.reader),
  ...checksOf('admission', ADMISSION_CHANGES),
  admission_max_scheduled_check: readsOrZero(ADMISSION_FIELDS.maxScheduled),
  roles_name_check: name,
  api_keys_name_check: (value: string) => value.length > 0 && value.length <= MAX_OWNER,
  schedules_name_check: name,
  schedules_overlap_check: reads(SCHEDULE_FIELDS.overlap),
  schedules_catch_up_check: reads(SCHEDULE_FIELDS.catchUp),
  budgets_name_check: name,
  ...checksOf('budgets', BUDGET_FIELDS),
  models_name_check: isModelName,
  pools_name_check: name,
  ...checksOf('pools', POOL_NUMBERS),
  recoveries_kind_check: (value: string) => (RECOVERY_KINDS as readonly string[]).includes(value),
}

/** Constraints on what only Sluice itself writes. */
const INTERNAL = [
  'admission_one_check',
  'api_keys_hash_check',
  'attempts_ending_check',
  'budgets_kind_check',
  'claim_has_jobs',
  'composites_window_before_check',
  'composites_window_size_check',
  'devices_most_check',
  'devices_total_check',
  'firings_skipped_check',
  'firings_ticks_check',
  'fleet_decisions_action_check',
  'fleet_decisions_count_check',
  'fleet_decisions_outcome_check',
  'fleet_decisions_started_check',
  'generations_one_check',
  'holdings_slots_check',
  'lane_sweep_one_check',
  'notes_progress_check',
  'outcomes_state_check',
  'reservations_amount_check',
  'residents_amount_check',
  'sessions_hash_check',
  'sign_ins_hash_check',
  'tasks_lane_from_check',
  'watch_one_check',
  'workers_cores_check',
  'workers_process_limit_check',
  'workers_processes_check',
]

interface Constraint extends Record<string, unknown> {
  readonly name: string
  readonly columns: readonly string[]
  readonly type: string
  readonly expression: string
}

async function constraints(): Promise<Constraint[]> {
  return database.sql<Constraint>(
    `select c.conname as name, array_agg(a.attname::text) as columns, min(format_type(a.atttypid, a.atttypmod)) as type,
            pg_get_expr(c.conbin, c.conrelid) as expression
       from pg_constraint c join pg_attribute a on a.attrelid = c.conrelid and a.attnum = any (c.conkey)
      where c.contype = 'c' and c.connamespace = 'sluice'::regnamespace group by c.oid order by c.conname`,
  )
}

/** Whether a constraint on one column accepts each of the values. */
async function accepted({ columns, type, expression }: Constraint, values: readonly unknown[]) {
  const rows = await database.sql<{ accepted: boolean }>(
    `select ${expression} as accepted from unnest($1::${type}[]) with ordinality as t(${columns[0]}, n) order by n`,
    [values],
  )
  return rows.map((row) => row.accepted)
}

/** The values around each number of a constraint, its words and one more, or texts of all lengths and letters that can matter. */
function candidates({ type, expression }: Constraint): unknown[] {
  if (type === 'text') {
    const words = [...expression.matchAll(/'([a-z_-]+)'::text/g)].map(([, word]) => word)
    if (words.length > 0) return [...words, 'other', '']
    const letters = Array.from({ length: 126 }, (_, at) => String.fromCharCode(at + 1))
    return [
      ...['', 'é', 'ß1', '__proto__', ...[99, 100, 101, 199, 200, 201].map((length) => 'a'.repeat(length))],
      ...letters.flatMap((letter) => (letter < ' ' ? [] : [letter, `a${letter}`])),
    ]
  }
  const numbers = [...expression.matchAll(/'?(-?\d+)'?/g)].map(([, number]) => Number(number))
  return [...new Set(numbers.flatMap((number) => [number - 1, number, number + 1]))]
}

describe('a constraint of the database accepts what TypeScript accepts', async () => {
  for (const [constraint, accepts] of Object.entries(COMPARED)) {
    test(constraint, async () => {
      const found = (await constraints()).find((each) => each.name === constraint)
      expect(found?.columns).toHaveLength(1)
      const values = candidates(found!)
      expect(values.length).toBeGreaterThan(1)
      const inTypeScript = values.map((value) => accepts(value as never))
      const inDatabase = await accepted(found!, values)
      expect(values.filter((_, at) => inDatabase[at] !== inTypeScript[at])).toEqual([])
    })
  }

  test('and none is left out of the comparison by mistake', async () => {
    const all = (await constraints()).filter(({ columns }) => columns.length === 1).map((each) => each.name)
    expect(all).toEqual([...Object.keys(COMPARED), ...INTERNAL].toSorted())
  })
})

describe('the database has the same defaults', () => {
  test.each<[column: string, value: unknown]>([
    ['lanes.poll_ms', LANE_DEFAULTS.default.pollMs],
    ['lanes.stale_ms', SETTINGS.stale.default],
    ...defaultsIn('lanes', LANE_FIELDS),
    ['tasks.max_losses', DEFAULT_LOSSES],
    ...defaultsIn('budgets', BUDGET_FIELDS),
    ...defaultsIn('pools', POOL_NUMBERS),
    ['pools.provisioner', POOL_FIELDS.provisioner.default],
  ])('for %s', async (column, value) => {
    const [table, attribute] = column.split('.')
    const [found] = await database.sql<{ expression: string }>(
      `select pg_get_expr(d.adbin, d.adrelid) as expression from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
        where d.adrelid = ('sluice.' || $1)::regclass and a.attname = $2`,
      [table, attribute],
    )
    const [row] = await database.sql<{ value: string }>(`select (${found!.expression})::text as value`)
    expect(row!.value).toBe(String(value))
  })

  test('for the lanes that always exist', async () => {
    const rows = await database.sql<{ name: string; slots: number; perWorker: number; pollMs: number }>(
      'select name, slots, per_worker as "perWorker", poll_ms as "pollMs" from sluice.lanes',
    )
    expect(Object.fromEntries(rows.map(({ name: lane, ...fields }) => [lane, fields]))).toEqual(LANE_DEFAULTS)
  })

  test('for the settings of the whole system', async () => {
    const rows = await database.sql<{ name: string; value: string }>(
      'select name, value from sluice.settings',
    )
    const given = Object.fromEntries(rows.map(({ name: setting, value }) => [setting, Number(value)]))
    expect(given).toEqual({
      heartbeat_ms: SETTINGS.heartbeat.default,
      retention_ms: SETTINGS.retention.default,
      audit_retention_ms: SETTINGS.auditRetention.default,
      schedules_per_owner: SETTINGS.schedulesPerOwner.default,
      schedule_interval_ms: SETTINGS.scheduleInterval.default,
      children_per_tree: SETTINGS.childrenPerTree.default,
      tree_depth: SETTINGS.treeDepth.default,
    })
  })
})

describe('sluice.submit accepts what TypeScript accepts', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

  test.each<[option: string, sql: string, last: unknown, tooMuch: unknown]>([
    ['priority', '$1::integer', PRIORITY_RANGE.max, PRIORITY_RANGE.max + 1],
    ['priority', '$1::integer', PRIORITY_RANGE.min, PRIORITY_RANGE.min - 1],
    ['key', '$1::text', 'k'.repeat(MAX_KEY), 'k'.repeat(MAX_KEY + 1)],
    ['key', '$1::text', 'k', ''],
    ['tags', '$1::text[]', Array(MAX_TAGS).fill('t'), Array(MAX_TAGS + 1).fill('t')],
    ['tags', '$1::text[]', ['t'.repeat(MAX_TAG)], ['t'.repeat(MAX_TAG + 1)]],
    ['submitted_by', '$1::text', 'o'.repeat(MAX_OWNER), 'o'.repeat(MAX_OWNER + 1)],
    ['deadline', "$1 * interval '1 ms'", MAX_STORED_MS, MAX_STORED_MS + 1],
    ['input', '$1::jsonb', `"${'i'.repeat(MAX_JSON_BYTES - 2)}"`, `"${'i'.repeat(MAX_JSON_BYTES - 1)}"`],
    ['input', '$1::jsonb', nested(MAX_JSON_DEPTH), nested(MAX_JSON_DEPTH + 1)],
  ])('in %s', async (option, sql, last, tooMuch) => {
    const submit = `select sluice.submit('no_such_task', ${option} => ${sql})`
    // A value that it accepts gets as far as the search for the task.
    await expect(database.sql(submit, [last])).rejects.toMatchObject({ code: 'SL002' })
    await expect(database.sql(submit, [tooMuch])).rejects.toMatchObject({ code: 'SL005', detail: option })
  })
})

test('pruning counts as many log lines as one attempt keeps, and the line that says that there were more', async () => {
  const [row] = await database.sql<{ text: string }>(
    `select prosrc as text from pg_proc where proname = 'prune_jobs_v1' and pronamespace = 'sluice'::regnamespace`,
  )
  expect(row!.text).toContain(`least(t.lines, ${MAX_LOG_LINES + 1})`)
})
