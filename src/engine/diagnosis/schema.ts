import type { Database } from '../../db/database.ts'
import { describeUnsupported, type MigrationState } from '../../db/schema-state.ts'
import { readIndexState } from '../../store/read-index-state.ts'
import { type Finding, ok } from './finding.ts'
import { type Drift, schemaDrift } from './schema-drift.ts'

/** Whether the schema exists, is up to date, and matches the migrations. */
export async function checkSchema({
  db,
  schema,
}: {
  db: Database
  schema: MigrationState
}): Promise<Finding[]> {
  const { applied, compatibleSince, available } = schema
  if (applied === 0) return [problem('this database has none', 'sluice migrate creates it')]
  if (applied < available) {
    return [
      problem(`at version ${applied}, but this program needs ${available}`, 'sluice migrate upgrades it'),
    ]
  }
  if (compatibleSince > available) {
    return [problem(describeUnsupported(schema), 'upgrade this program')]
  }
  return [
    ...(applied > available ? [newer(schema)] : await compare(db, applied)),
    ...(await invalidIndexes(db)),
  ]
}

/** Only the newer program knows what its schema should be. */
function newer({ applied, available }: MigrationState): Finding {
  return {
    check: 'schema',
    level: 'note',
    found: `at version ${applied}, newer than this program's ${available}, and supports it; drift was not checked`,
    advice: 'upgrade this program when you can, or run sluice doctor of the newer release',
  }
}

async function compare(db: Database, applied: number): Promise<Finding[]> {
  const drift = driftFindings(await schemaDrift(db))
  return [
    ok('schema', `at version ${applied}`),
    ...(drift.length === 0
      ? [ok('schema drift', 'none: every object is as the migrations created it')]
      : drift),
  ]
}

async function invalidIndexes(db: Database): Promise<Finding[]> {
  const invalid = (await readIndexState(db)).filter((index) => !index.valid)
  return invalid.map(({ name }) =>
    drifted(
      'problem',
      `index sluice.${name} is not valid: no query uses it`,
      `run: reindex index concurrently sluice.${name}`,
    ),
  )
}

function driftFindings(drift: Drift): Finding[] {
  const missing = drift.missing.map(withoutArguments)
  const changed = drift.changed.map(withoutArguments)
  const extra = drift.extra.map(withoutArguments)
  const restore = 'restore its definition from sql/schema.sql of this package'
  return [
    ...missing.map((name) => drifted('problem', `${name} is missing`, restore)),
    ...changed.map((name) => drifted('problem', `${name} differs from what the migrations created`, restore)),
    ...extra.map((name) =>
      drifted(
        'note',
        `${name} does not belong to Sluice`,
        'keep your own objects in your own schema, or drop it',
      ),
    ),
  ]
}

/** A function's arguments may fill three lines; its name is enough to find it. */
function withoutArguments(title: string): string {
  return title.replace(/\(.+\)$/, '(...)')
}

function drifted(level: Finding['level'], found: string, advice: string): Finding {
  return { check: 'schema drift', level, found, advice }
}

function problem(found: string, advice: string): Finding {
  return { check: 'schema', level: 'problem', found, advice }
}
