import { readFile } from 'node:fs/promises'
import type { Database } from '../../db/database.ts'
import { describeSchema, type SchemaObject } from '../../store/describe-schema.ts'

const SCHEMA_FILE = new URL('../../../sql/schema.sql', import.meta.url)

const HEADER = `-- The schema after all migrations. Generated from a migrated database by \`npm run schema\`; do not edit.
-- Nothing runs this file: it shows reviewers what a migration changes, and \`sluice doctor\` what a database should be.
`

export interface Drift {
  /** Objects that should be there. */
  readonly missing: readonly string[]
  /** Objects that do not belong to Sluice. */
  readonly extra: readonly string[]
  /** Objects that are defined differently. */
  readonly changed: readonly string[]
}

/** The text of `sql/schema.sql` for a schema. */
export function schemaText(objects: readonly SchemaObject[]): string {
  return `${HEADER}${objects.map((each) => `\n${titleOf(each)}\n${each.definition};\n`).join('')}`
}

/**
 * Compares a database with the schema of this program.
 *
 * Function bodies and expressions are compared as the server prints them; versions 15 to 18 print them alike.
 */
export async function schemaDrift(db: Database): Promise<Drift> {
  const expected = sections(await readFile(SCHEMA_FILE, 'utf8'))
  const actual = sections(schemaText(await describeSchema(db)))
  return {
    missing: [...expected.keys()].filter((name) => !actual.has(name)),
    extra: [...actual.keys()].filter((name) => !expected.has(name)),
    changed: [...expected.keys()].filter(
      (name) => actual.has(name) && actual.get(name) !== expected.get(name),
    ),
  }
}

const TITLE = /^--- (.+)$/m

function titleOf({ kind, name }: SchemaObject): string {
  return `--- ${kind} ${name}`
}

/** Definition by title. Text between titles belongs to the title above it. */
function sections(text: string): Map<string, string> {
  const [, ...parts] = text.split(TITLE)
  const found = new Map<string, string>()
  for (let i = 0; i + 1 < parts.length; i += 2) found.set(parts[i]!, parts[i + 1]!.trim())
  return found
}
