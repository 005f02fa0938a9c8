import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type pg from 'pg'

const FOLDER = new URL('../../sql/functions/', import.meta.url)

/** A file of `sql/functions`: a function with its triggers, or a view. */
export interface SqlFunction {
  /** `area/name`, the path of its file. */
  readonly name: string
  readonly sql: string
  readonly hash: string
}

/** The functions and views of this program, in an order in which they can be created. */
export async function loadFunctions(): Promise<readonly SqlFunction[]> {
  const entries = await readdir(FOLDER, { recursive: true })
  const files = entries.filter((path) => path.endsWith('.sql')).sort()
  const functions = await Promise.all(
    files.map(async (path) => {
      const sql = await readFile(new URL(path, FOLDER), 'utf8')
      const name = path.replaceAll('\\', '/').replace(/\.sql$/, '')
      return { name, sql, hash: createHash('sha256').update(sql).digest('hex') }
    }),
  )
  return inOrder(functions)
}

/** The functions whose file differs from the one applied last. */
export async function staleFunctions(
  look: (text: string) => Promise<{ name: string; hash: string }[]>,
  functions: readonly SqlFunction[],
): Promise<readonly SqlFunction[]> {
  const applied = new Map(
    (await look('select name, hash from sluice.functions')).map(({ name, hash }) => [name, hash]),
  )
  return functions.filter(({ name, hash }) => applied.get(name) !== hash)
}

/**
 * Creates or replaces the functions whose file differs from the one applied last.
 * The caller holds the migration lock in a transaction.
 *
 * @returns the names of the functions that were applied.
 */
export async function applyFunctions(
  client: pg.Client,
  functions: readonly SqlFunction[],
): Promise<readonly string[]> {
  const changed = await staleFunctions(async (text) => (await client.query(text)).rows, functions)
  // Bodies may name functions that are created after them.
  await client.query('set local check_function_bodies = off')
  for (const { name, sql, hash } of changed) {
    await client.query(sql)
    await client.query(
      `insert into sluice.functions (name, hash) values ($1, $2)
         on conflict (name) do update set hash = excluded.hash, applied_at = clock_timestamp()`,
      [name, hash],
    )
  }
  return changed.map(({ name }) => name)
}

/** Each after those that must exist when it is created. */
function inOrder(functions: readonly SqlFunction[]): readonly SqlFunction[] {
  const byObject = new Map(functions.map((each) => [objectOf(each.name), each]))
  const ordered = new Set<SqlFunction>()
  const visit = (each: SqlFunction, path: readonly SqlFunction[]): void => {
    if (ordered.has(each) || path.includes(each)) return
    for (const [, object] of neededNow(each.sql).matchAll(/\bsluice\.(\w+)/g)) {
      const needed = byObject.get(object!)
      if (needed !== undefined) visit(needed, [...path, each])
    }
    ordered.add(each)
  }
  for (const each of functions) visit(each, [])
  return [...ordered]
}

function objectOf(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1)
}

/** What PostgreSQL looks up on creation: all but comments and bodies in quotes. */
function neededNow(sql: string): string {
  return sql.replace(/--.*$/gm, '').replace(/\$\$.*?\$\$/gs, '')
}
