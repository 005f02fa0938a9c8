import pg from 'pg'
import { messageOf, SluiceError } from '../errors.ts'
import { formatDuration } from '../model/duration.ts'
import { QueryWithSettings } from './query-with-settings.ts'

/** For a new connection. For the pool this includes waiting for a free one. */
export const CONNECT_TIMEOUT_MS = 10_000

const LEFT_AS_TEXT: ReadonlySet<number> = new Set([pg.types.builtins.JSONB, pg.types.builtins.TIMESTAMPTZ])
const RAW: pg.CustomTypesConfig = {
  getTypeParser: (id, format) =>
    LEFT_AS_TEXT.has(id) ? (text: string) => text : pg.types.getTypeParser(id, format as 'text'),
}

export interface RowForm {
  readonly rowMode?: 'array'
  readonly types?: pg.CustomTypesConfig
}
export const RAW_ROWS: RowForm = { rowMode: 'array', types: RAW }

/** What goes over the wire of a statement: with a name it is parsed once per connection. */
export function wire(
  { name, text, preparedAs = name }: { name: string; text: string; preparedAs?: string },
  prepared: boolean,
): { name?: string; text: string } {
  return prepared ? { name: preparedAs, text } : { text }
}

/** The server ends a statement this much before the client stops waiting, so that its answer still arrives. */
const LONGEST_MARGIN_MS = 1000

/** How long the server works on a statement whose client waits for `timeoutMs`. */
export function serverLimitMs(timeoutMs: number): number {
  return Math.max(1, Math.floor(timeoutMs - Math.min(LONGEST_MARGIN_MS, timeoutMs / 5)))
}

/**
 * Runs a statement in a transaction of its own, under Sluice's settings.
 *
 * The server ends it in time, which leaves the connection whole. Where nothing comes from the server at all it fails after
 * `timeoutMs`, and the caller must discard the connection.
 */
export async function queryWithin<R>(
  client: pg.ClientBase,
  query: { name?: string; text: string } & RowForm,
  values: readonly unknown[],
  timeoutMs: number,
): Promise<R[]> {
  const limits = { clientMs: timeoutMs, serverMs: serverLimitMs(timeoutMs) }
  return new Promise((resolve, reject) => {
    client.query(
      new QueryWithSettings(query, values, limits, (error, result) => {
        if (error === null) resolve(result.rows as R[])
        else reject(error)
      }) as unknown as pg.Submittable,
    )
  })
}

/** Sends a text as it is: for what begins and ends a transaction and for what is inside of one. */
export async function plainQueryWithin<R>(
  client: pg.ClientBase,
  text: string,
  values: readonly unknown[],
  timeoutMs: number,
): Promise<R[]> {
  const query = { text, values: values as unknown[], query_timeout: timeoutMs }
  const result = await client.query(query as pg.QueryConfig)
  return result.rows as R[]
}

/** A failure to connect. Where a host has several addresses the driver's error has no message, only a code. */
export function unreachable(cause: unknown): SluiceError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason'
  const why = messageOf(cause) || code
  // It was reached, and answered.
  if (code === '53300')
    return new SluiceError(
      'DATABASE_UNAVAILABLE',
      `PostgreSQL has no free connection: ${why}. Raise max_connections, run fewer processes, or put a pooler such as PgBouncer in front; a Sluice process takes up to 7`,
      {
        cause,
        details: {
          hint: 'pg_stat_activity shows by application_name who holds them',
        },
      },
    )
  return new SluiceError('DATABASE_UNAVAILABLE', `cannot connect to PostgreSQL: ${why}`, { cause })
}

/** True when the pool gave up waiting for one of its connections. It has no code to know it by, only this text. */
export function isPoolTimeout(error: unknown): boolean {
  return messageOf(error) === 'timeout exceeded when trying to connect'
}

/** Every connection of a pool was in use for as long as the caller may wait for one. Nothing was sent. */
export function poolBusy(
  cause: unknown,
  { max, connectionTimeoutMillis }: { max: number; connectionTimeoutMillis?: number | undefined },
): SluiceError {
  const waited = formatDuration(connectionTimeoutMillis ?? CONNECT_TIMEOUT_MS)
  return new SluiceError(
    'DATABASE_UNAVAILABLE',
    `all ${max} connections of this program have been busy for ${waited}, and nothing was sent: they wait for a lock, or it calls faster than PostgreSQL answers. Run sluice doctor, which names who holds a lock; otherwise make fewer calls at once, or spread them over more processes`,
    {
      cause,
      details: {
        hint: 'pg_stat_activity shows what the sessions with application_name sluice are doing',
      },
    },
  )
}
