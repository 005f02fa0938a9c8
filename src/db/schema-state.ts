import type pg from 'pg'
import { SluiceError } from '../errors.ts'

/** Versions count migrations: that of a program or database is the number of its last one. */
export interface MigrationState {
  /** The version of the database; 0 without a schema. */
  readonly applied: number
  /** The oldest program that may use the database. */
  readonly compatibleSince: number
  /** The version of this program. */
  readonly available: number
}

/** Whether this program may work on the database: nothing is missing, and the database still supports this program. */
export function isUsable({ applied, compatibleSince, available }: MigrationState): boolean {
  return applied >= available && compatibleSince <= available
}

/** What to say of a schema that no longer supports this program. */
export function describeUnsupported({ applied, compatibleSince, available }: MigrationState): string {
  return `at version ${applied}, which supports programs from version ${compatibleSince} on; this program has version ${available}`
}

/** What to say of a schema that is newer than this program and supports it. */
export function describeNewer({ applied, available }: Omit<MigrationState, 'compatibleSince'>): string {
  return `the schema is at version ${applied}, newer than this program's ${available}, and supports it: left unchanged`
}

/** Runs a statement and returns its rows. */
export type Look = <R extends pg.QueryResultRow>(text: string) => Promise<R[]>

/** How far the schema is, without judging it. */
export async function readSchema(look: Look): Promise<Omit<MigrationState, 'available'>> {
  const [found] = await look<{ ours: boolean; current: boolean; others: string | null }>(
    // Before the first release, jobs were one table, functions were part of the migrations, what the server keeps of them was not recorded, and any newer
    // schema was refused.
    `select exists (select 1 from pg_attribute f where f.attrelid = to_regclass('sluice.functions') and f.attname = 'kept')
              and exists (select 1 from pg_attribute a where a.attrelid = to_regclass('sluice.migrations') and a.attname = 'compatible_since')
              and not exists (select 1 from pg_class j where j.oid = to_regclass('sluice.jobs') and j.relkind = 'r') as current, (select count(*) = 3 from pg_attribute a
              where a.attrelid = to_regclass('sluice.migrations') and a.attname in ('version', 'name', 'applied_at')) as ours,
            (select string_agg(c.relname, ', ' order by c.relname)
               from (select c.relname from pg_class c
                      where c.relnamespace = to_regnamespace('sluice') and c.relkind in ('r', 'p', 'v', 'm', 'f') order by c.relname limit 5) c) as others`,
  )
  const { ours, current, others } = found!
  if (!ours && others !== null) throw foreign(others)
  if (!ours) return { applied: 0, compatibleSince: 0 }
  if (!current) throw preRelease()
  const [latest] = await look<{ applied: number; compatibleSince: number }>(
    `select coalesce(max(version), 0) as applied, coalesce(max(compatible_since), 0) as "compatibleSince" from sluice.migrations`,
  )
  return latest!
}

/** @throws {SluiceError} when the schema no longer supports this program. */
export function supported(state: MigrationState): MigrationState {
  if (state.compatibleSince <= state.available) return state
  throw new SluiceError(
    'DATABASE_UNSUITABLE',
    `the schema is ${describeUnsupported(state)}. Upgrade this program`,
    { details: { ...state } },
  )
}

function foreign(relations: string): SluiceError {
  return unsuitable(
    `this database has a schema named sluice that is not Sluice's: it contains ${relations}. Use another database, or rename that schema: alter schema sluice rename to other`,
  )
}

function preRelease(): SluiceError {
  return unsuitable(
    'this database was created by a pre-release version of Sluice, which cannot be migrated. Use a new database, or delete the old schema with all its jobs: drop schema sluice cascade',
  )
}

/** What the message names, and what to do about it. */
export function unsuitable(message: string, cause?: unknown): SluiceError {
  return new SluiceError('DATABASE_UNSUITABLE', message, { cause })
}
