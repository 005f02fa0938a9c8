import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'

const database = useDatabase({ asMigrated: true })
const page = await readFile(new URL('../../docs/reference/sql.md', import.meta.url), 'utf8')

/** The columns of a table or view, in order, with their types. */
function columnsOf(table: string): Promise<{ name: string; type: string }[]> {
  return database.sql(
    `select a.attname as name, format_type(a.atttypid, a.atttypmod) as type from pg_attribute a
      where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`,
    [table],
  )
}

/** Programs read these columns by name. A release may add others at the end. */
const JOBS = `
  id             bigint
  submitted_at   timestamp with time zone
  ready_at       timestamp with time zone
  started_at     timestamp with time zone
  finished_at    timestamp with time zone
  deadline_at    timestamp with time zone
  cancel_at      timestamp with time zone
  deadline_ms    bigint
  worker_id      bigint
  parent_id      bigint
  root_id        bigint
  class_id       integer
  state          sluice.job_state
  composite      sluice.composite_kind
  rank           integer
  priority       integer
  attempt        integer
  idx            integer
  failures       smallint
  losses         smallint
  task           text
  step           text
  key            text
  key_owner      text
  tags           text[]
  input          jsonb
  result         jsonb
  error          text
  submitted_by   text
  policy         jsonb
  superseded_at  timestamp with time zone
  trace          text
  uses           jsonb
  chosen_by      text[]
  approved_by    text`

test('sluice.jobs has exactly these columns', async () => {
  const expected = JOBS.trim()
    .split('\n')
    .map((line) => /^\s*(?<name>\S+)\s+(?<type>.+)$/.exec(line)!.groups)
  expect(expected).toHaveLength(35)
  expect(await columnsOf('sluice.jobs')).toEqual(expected)
})

/** The tables and views that the page describes, with the columns in the last cell of each row. */
const documented = [...page.matchAll(/^\| `(sluice\.\w+)`[^|]*\|[^|]*\| (.*) \|$/gm)].map(
  ([, table, columns]): [table: string, columns: string[]] => [
    table!,
    [...columns!.matchAll(/`(\w+)`/g)].map(([, name]) => name!),
  ],
)

test('finds tables and views on the page', () => {
  expect(documented.map(([table]) => table)).toEqual(
    expect.arrayContaining(['sluice.jobs', 'sluice.claimed']),
  )
})

test.each(documented)('%s has the columns that the page lists', async (table, columns) => {
  const existing = (await columnsOf(table)).map(({ name }) => name)
  expect(existing).toEqual(expect.arrayContaining(columns))
})
