import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { JOB_TABLES } from '../../model/job-tables.ts'
import { type IndexState, readIndexState } from '../../store/read-index-state.ts'
import { readTableState, type TableState } from '../../store/read-table-state.ts'
import { type Finding, ok } from './finding.ts'

/** Autovacuum of the jobs starts at 20,000 dead rows. At five times that number, it does not keep up. */
const MANY_DEAD = 100_000
/** An entry of a b-tree here takes 30 to 60 bytes when the pages are full, and twice that in normal use. */
const WASTEFUL_BYTES_PER_ENTRY = 500
const LARGE_INDEX_BYTES = 64 * 1024 * 1024

/** Dead rows, and indexes that are much larger than their content. */
export async function checkTables({ db }: { db: Queryable }): Promise<Finding[]> {
  const tables = await readTableState(db)
  const found = [
    ...tables.flatMap((table) => deadRows(table)),
    ...(await readIndexState(db)).flatMap((index) => bloated(index)),
  ]
  // The sizes of the tables that jobs are in are always shown.
  const jobs = JOB_TABLES.flatMap((name) => tables.filter((table) => table.name === name)).map(sizes)
  found.unshift(...jobs.filter(({ check }) => !found.some((each) => each.check === check)))
  return found
}

function sizes(table: TableState): Finding {
  const { name, live, dead, bytes, indexBytes } = table
  return ok(
    `table ${name}`,
    `${live} rows, ${dead} dead, ${megabytes(bytes)} and ${megabytes(indexBytes)} of indexes; ${vacuumed(table)}`,
  )
}

function deadRows(table: TableState): Finding[] {
  const check = `table ${table.name}`
  if (!table.autovacuum) {
    return [
      {
        check,
        level: 'problem',
        found: 'autovacuum is switched off for it',
        advice: `run: alter table sluice.${table.name} reset (autovacuum_enabled)`,
      },
    ]
  }
  if (table.dead < MANY_DEAD) return []
  return [
    {
      check,
      level: 'warning',
      found: `${table.dead} dead rows beside ${table.live} live ones; ${vacuumed(table)}`,
      advice: `check for an old open transaction first; then run: vacuum (verbose) sluice.${table.name}`,
    },
  ]
}

function bloated({ name, bytes, entries }: IndexState): Finding[] {
  if (bytes < LARGE_INDEX_BYTES || entries < 0 || bytes < entries * WASTEFUL_BYTES_PER_ENTRY) return []
  return [
    {
      check: `index ${name}`,
      level: 'warning',
      found: `${megabytes(bytes)} for about ${Math.round(entries)} entries`,
      advice: `run: reindex index concurrently sluice.${name}`,
    },
  ]
}

function vacuumed({ vacuumedMsAgo }: TableState): string {
  if (vacuumedMsAgo === null) return 'not vacuumed yet'
  return `vacuumed ${formatDuration(Math.max(1000, Math.round(vacuumedMsAgo / 1000) * 1000))} ago`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}
