import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { sqlState } from '../../src/db/sqlstate.ts'
import { until } from './until.ts'

/** One changed row. Values are texts as PostgreSQL prints them; a deleted row has its key only. */
export interface Change {
  readonly table: string
  readonly kind: 'INSERT' | 'UPDATE' | 'DELETE'
  readonly row: Readonly<Record<string, string | null>>
  /** The row before, or its key, where an update changed the key or the table's replica identity is full. */
  readonly old?: Readonly<Record<string, string | null>>
}

export interface Commit {
  readonly xid: string
  /** When it committed, in milliseconds, by the server's clock. */
  readonly at: number
  readonly changes: readonly Change[]
}

/** Read in one round trip, about. Whole transactions only, so a large one makes it more. */
const SLOT_IN_USE = '55006'
const BATCH = 20_000
/** How the decoder begins each of two rows. */
const OLD = 'old-key: '
const NEW = 'new-tuple: '

/**
 * The commits of one database in the order in which they became durable, by
 * logical decoding. From `open` on nothing is missed, crashes of the server
 * included. Needs `wal_level=logical` and the contrib module `test_decoding`.
 */
export class CommitStream {
  readonly #url: string
  readonly #slot: string
  readonly #tables: ReadonlySet<string>
  #open: Change[] = []

  private constructor(url: string, slot: string, tables: readonly string[]) {
    this.#url = url
    this.#slot = slot
    this.#tables = new Set(tables)
  }

  /** @param tables Changes of other tables are left out, for example `sluice.queue`. */
  static async open(url: string, tables: readonly string[]): Promise<CommitStream> {
    const slot = `commits_${randomBytes(6).toString('hex')}`
    const stream = new CommitStream(url, slot, tables)
    await stream.#query(`select pg_create_logical_replication_slot($1, 'test_decoding')`, [slot])
    return stream
  }

  /** Commits that nobody has read yet, some of them: empty when there are none left. */
  async read(): Promise<Commit[]> {
    const rows = await this.#query<{ data: string }>(
      `select data from pg_logical_slot_get_changes($1, null, $2, 'include-timestamp', 'on', 'skip-empty-xacts', 'on')`,
      [this.#slot, BATCH],
    )
    const commits: Commit[] = []
    for (const { data } of rows) {
      if (data.startsWith('BEGIN')) this.#open = []
      else if (data.startsWith('COMMIT')) commits.push({ ...parseCommit(data), changes: this.#open })
      else {
        const change = parseChange(data, this.#tables)
        if (change !== undefined) this.#open.push(change)
      }
    }
    return commits
  }

  /** Gives the slot back; with it open the database cannot be dropped. */
  async close(): Promise<void> {
    await this.#query('select pg_drop_replication_slot($1)', [this.#slot])
  }

  /** The server may not have noticed yet that whoever read last has gone. */
  async #query<R extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<R[]> {
    return until(
      () =>
        this.#ask<R>(text, values).catch((error: unknown) => {
          if (sqlState(error) !== SLOT_IN_USE) throw error
          return undefined
        }),
      `slot ${this.#slot} to be free`,
    )
  }

  /** A connection for each call: the server may have been killed since the last one. */
  async #ask<R extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<R[]> {
    const client = new pg.Client({ connectionString: this.#url, options: '-c timezone=UTC' })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query<R>(text, values)).rows
    } finally {
      await client.end()
    }
  }
}

function parseCommit(line: string): { xid: string; at: number } {
  const match = /^COMMIT (\d+) \(at (.+)\)$/.exec(line)
  if (match === null) throw new Error(`cannot read ${line}`)
  return { xid: match[1]!, at: Date.parse(match[2]!) }
}

/**
 * Reads a line such as `table sluice.outcomes: UPDATE: id[bigint]:1 error[text]:'it''s'`.
 *
 * @returns `undefined` for a table that is not among `tables`.
 */
export function parseChange(line: string, tables: ReadonlySet<string>): Change | undefined {
  const head = /^table (\S+): (INSERT|UPDATE|DELETE): /.exec(line)
  if (head === null || !tables.has(head[1]!)) return undefined
  const [table, kind] = [head[1]!, head[2] as Change['kind']]
  const from = head[0].length
  if (!line.startsWith(OLD, from)) return { table, kind, row: readRow(line, from).row }
  const old = readRow(line, from + OLD.length)
  return { table, kind, row: readRow(line, old.end + NEW.length).row, old: old.row }
}

/** Up to the end of the line, or to the new row where this is the old one. */
function readRow(line: string, start: number): { row: Change['row']; end: number } {
  const row: Record<string, string | null> = {}
  let from = start
  while (from < line.length && !line.startsWith(NEW, from)) {
    const type = line.indexOf('[', from)
    const colon = line.indexOf(']:', type)
    if (type < 0 || colon < 0) break
    const value = readValue(line, colon + 2)
    if (value.text !== 'unchanged-toast-datum') row[line.slice(from, type)] = value.text
    from = value.end + 1
  }
  return { row, end: from }
}

function readValue(line: string, start: number): { text: string | null; end: number } {
  if (line[start] !== "'") {
    const space = line.indexOf(' ', start)
    const end = space < 0 ? line.length : space
    const text = line.slice(start, end)
    return { text: text === 'null' ? null : text, end }
  }
  let end = start + 1
  for (;;) {
    end = line.indexOf("'", end)
    if (line[end + 1] !== "'") break
    end += 2
  }
  return { text: line.slice(start + 1, end).replaceAll("''", "'"), end: end + 1 }
}
