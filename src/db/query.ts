import pg from 'pg'
import { messageOf, SluiceError } from '../errors.ts'

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

/** Fails after `timeoutMs` even when the other side has gone silent. The caller must then discard the connection. */
export async function queryWithin<R>(
  client: pg.ClientBase,
  query: { name?: string; text: string } & RowForm,
  values: readonly unknown[],
  timeoutMs: number,
): Promise<R[]> {
  const result = await client.query({
    ...query,
    values: values as unknown[],
    query_timeout: timeoutMs,
  } as pg.QueryConfig)
  return result.rows as R[]
}

/** A failure to connect. Where a host has several addresses the driver's error has no message, only a code. */
export function unreachable(cause: unknown): SluiceError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason'
  const why = messageOf(cause) || code
  return new SluiceError('DATABASE_UNAVAILABLE', `cannot connect to PostgreSQL: ${why}`, { cause })
}
