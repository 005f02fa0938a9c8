import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import type pg from 'pg'

const FOLDER = new URL('../../sql/functions/', import.meta.url)

/** A file of `sql/functions`: a function with its triggers, or a view. */
export interface SqlFunction {
  /** `area/name`, the path of its file. */
  readonly name: string
  readonly sql: string
  readonly hash: string
  /** What the file creates. */
  readonly objects: readonly SqlObject[]
}

interface SqlObject {
  readonly kind: 'function' | 'view' | 'trigger'
  readonly name: string
  /** Hash of the text between `$$`. The server keeps that text as it is; of anything else it keeps only what it has parsed. */
  readonly body?: string
}

/** A file that has to be applied. */
export interface StaleFunction extends SqlFunction {
  /** Something that it creates does not exist. */
  readonly isMissing: boolean
  /** It is the file that was applied last: somebody has dropped or changed what it created. */
  readonly wasApplied: boolean
  /** It is the file that was applied last, and what it created is there. Whether somebody has changed that cannot be told: see `FOUND`. */
  readonly isUnverified: boolean
}

/** The functions and views of this program. Reads the files synchronously: every start does it, and asynchronous reads take four times as long. */
export function loadFunctions(): readonly SqlFunction[] {
  const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.sql'),
  )
  return files.sort().map((path) => {
    const sql = readFileSync(new URL(path, FOLDER), 'utf8')
    const name = path.replaceAll('\\', '/').replace(/\.sql$/, '')
    return { name, sql, hash: hashOf(sql), objects: objectsIn(sql) }
  })
}

const CREATES = /^create (?:or replace |constraint )?(function|view|trigger) (?:sluice\.)?(\w+)/gm

function objectsIn(sql: string): readonly SqlObject[] {
  const text = /\$\$(.*?)\$\$/s.exec(sql)?.[1]
  const body = text === undefined ? {} : { body: hashOf(text) }
  return [...sql.matchAll(CREATES)].map(([, kind, name]) => ({
    ...{ kind: kind as SqlObject['kind'], name: name! },
    ...(kind === 'function' && body),
  }))
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** A part of what the server has: a record of a file, an object, or the place. */
interface Found {
  readonly kind: string
  readonly name: string
  readonly hash: string | null
  /** Of an object: a hash of all that the server keeps of it. Of a file: what was so of its objects once it had been applied. */
  readonly kept: string | null
}

type Look = (text: string) => Promise<Found[]>

/** Not md5, which servers under FIPS refuse. */
const HASHED = (text: string) => `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`

// One statement, because every start waits for its answer.
//
// What the server has parsed names objects by their numbers, unlike the text that it makes of it, which depends on settings of the session. The
// catalog row tells where such numbers can be compared: not after a dump was restored, nor after another PostgreSQL has taken over. The digit in front of it grows
// when the columns below change. Before PostgreSQL 16, a view names itself, by another number each time it is created.
const FOUND = `
  select 'file' as kind, name, hash, kept from sluice.functions
   union all
  select 'catalog', '', concat_ws('.', 1, current_setting('server_version_num')::integer / 10000,
                                'sluice.migrations'::regclass::oid, 'sluice.functions'::regclass::oid), null
   union all
  select 'function', p.proname::text, ${HASHED('p.prosrc')},
         ${HASHED(`row(p.prosrc, p.prosqlbody, p.proargtypes, p.proallargtypes, p.proargmodes, p.proargnames, p.proargdefaults, p.prorettype, p.proretset,
                 p.prolang, p.provolatile, p.proisstrict, p.prosecdef, p.proleakproof, p.proparallel, p.procost::numeric, p.prorows::numeric, p.proconfig)::text`)}
    from pg_proc p where p.pronamespace = 'sluice'::regnamespace
   union all
  select 'view', c.relname::text, null, ${HASHED("replace(row(c.reloptions, r.ev_action)::text, ':relid ' || c.oid || ' ', ':relid 0 ')")}
    from pg_class c join pg_rewrite r on r.ev_class = c.oid where c.relnamespace = 'sluice'::regnamespace and c.relkind = 'v'
   union all
  select 'trigger', t.tgname::text, null,
         ${HASHED(`row(t.tgrelid, t.tgfoid, t.tgtype, t.tgenabled = 'D', t.tgattr, encode(t.tgargs, 'hex'), t.tgqual, t.tgoldtable, t.tgnewtable, t.tgdeferrable,
                 t.tginitdeferred)::text`)}
    from pg_trigger t join pg_class c on c.oid = t.tgrelid
   where c.relnamespace = 'sluice'::regnamespace and not t.tgisinternal`

/** The files that differ from those applied last, and those whose functions were dropped or changed since. */
export async function staleFunctions(look: Look): Promise<readonly StaleFunction[]> {
  const asked = look(FOUND)
  // The driver sends on the next tick. The server then works while this process reads the files.
  const [rows, functions] = await Promise.all([asked, setImmediate().then(loadFunctions)])
  const there = new ServerObjects(rows)
  return functions.flatMap((each) => {
    const { isApplied, kept } = there.recordOf(each)
    const isMissing = there.lacks(each)
    const isComparable = kept !== null && there.isComparable(kept)
    const isChanged = !there.hasBodies(each) || (isComparable && kept !== there.keptOf(each))
    if (isApplied && isComparable && !isMissing && !isChanged) return []
    const wasApplied = isApplied && (isMissing || isChanged)
    return [{ ...each, isMissing, wasApplied, isUnverified: isApplied && !wasApplied }]
  })
}

/** What the server has. */
class ServerObjects {
  readonly #files: ReadonlyMap<string, Found>
  readonly #objects = new Map<string, Found[]>()
  readonly #catalog: string

  constructor(rows: readonly Found[]) {
    this.#files = new Map(rows.filter(({ kind }) => kind === 'file').map((row) => [row.name, row]))
    this.#catalog = rows.find(({ kind }) => kind === 'catalog')!.hash!
    for (const row of rows) {
      const key = `${row.kind} ${row.name}`
      this.#objects.set(key, [...(this.#objects.get(key) ?? []), row])
    }
  }

  recordOf({ name, hash }: SqlFunction): { readonly isApplied: boolean; readonly kept: string | null } {
    const record = this.#files.get(name)
    return { isApplied: record?.hash === hash, kept: record?.kept ?? null }
  }

  lacks({ objects }: SqlFunction): boolean {
    return objects.some((object) => this.#rowsOf(object).length === 0)
  }

  hasBodies({ objects }: SqlFunction): boolean {
    return objects.every(
      (object) => object.body === undefined || this.#rowsOf(object).some(({ hash }) => hash === object.body),
    )
  }

  /** Whether what the server kept then can be compared with what it keeps now. */
  isComparable(kept: string): boolean {
    return kept.startsWith(`${this.#catalog} `)
  }

  /** What the server keeps of a file. */
  keptOf({ objects }: SqlFunction): string {
    const hashes = objects.flatMap((object) => this.#rowsOf(object).map(({ kept }) => kept))
    return `${this.#catalog} ${hashOf(hashes.sort().join())}`
  }

  #rowsOf({ kind, name }: SqlObject): readonly Found[] {
    return this.#objects.get(`${kind} ${name}`) ?? []
  }
}

/** The tables and views that creating it locks, and some that it only names: functions need no lock, views and triggers do. */
export function relationsOf({ sql }: SqlFunction): readonly string[] {
  const text = neededNow(sql)
  return /\b(view|trigger)\b/i.test(text) ? namesIn(text) : []
}

/**
 * Creates or replaces functions.
 * The caller holds the migration lock in a transaction.
 *
 * @returns them in the order in which they were applied.
 */
export async function applyFunctions<F extends SqlFunction>(
  client: pg.Client,
  functions: readonly F[],
): Promise<readonly F[]> {
  const ordered = inOrder(functions)
  // Bodies may name functions that are created after them.
  await client.query('set local check_function_bodies = off')
  for (const { name, sql, hash } of ordered) {
    await client.query(sql)
    await client.query(
      `insert into sluice.functions (name, hash) values ($1, $2)
         on conflict (name) do update set hash = excluded.hash, applied_at = clock_timestamp()`,
      [name, hash],
    )
  }
  await recordKept(client, ordered)
  return ordered
}

/** Records what the server has made of the files that were just applied. */
async function recordKept(client: pg.Client, functions: readonly SqlFunction[]): Promise<void> {
  const there = new ServerObjects((await client.query<Found>(FOUND)).rows)
  await client.query(
    `update sluice.functions f set kept = k.kept from unnest($1::text[], $2::text[]) k(name, kept) where f.name = k.name`,
    [functions.map(({ name }) => name), functions.map((each) => there.keptOf(each))],
  )
}

/** Deletes the records of functions that this program no longer has: a migration has dropped them. */
export async function forgetOthers(client: pg.Client): Promise<void> {
  const names = loadFunctions().map(({ name }) => name)
  await client.query('delete from sluice.functions where name <> all ($1)', [names])
}

/** Each after those that must exist when it is created. */
function inOrder<F extends SqlFunction>(functions: readonly F[]): readonly F[] {
  const byObject = new Map(functions.map((each) => [objectOf(each.name), each]))
  const ordered = new Set<F>()
  const visit = (each: F, path: readonly F[]): void => {
    if (ordered.has(each) || path.includes(each)) return
    for (const object of namesIn(neededNow(each.sql))) {
      const needed = byObject.get(object)
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

/** The objects of Sluice that a text names, without their schema. */
export function namesIn(sql: string): string[] {
  return [...sql.matchAll(/\bsluice\.(\w+)/g)].map(([, name]) => name!)
}

/** What PostgreSQL looks up on creation: all but comments and bodies in quotes. */
function neededNow(sql: string): string {
  return sql.replace(/--.*$/gm, '').replace(/\$\$.*?\$\$/gs, '')
}
