import pg from 'pg'

/** A server says goodbye within milliseconds; one that has gone silent never does. */
const GOODBYE_MS = 1000

/** Ends a connection politely, and cuts it when no answer comes: a half-open one would keep the caller, and the process, for ever. */
export async function endClient(client: pg.ClientBase & { end?(): Promise<void> }): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([
    client.end?.().catch(() => {}),
    new Promise<void>((resolve) => {
      timer = setTimeout(resolve, GOODBYE_MS)
    }),
  ])
  clearTimeout(timer)
  cutClient(client)
}

/** Ends a connection without a word. */
function cutClient(client: pg.ClientBase): void {
  streamOf(client)?.destroy()
}

function isCut(client: pg.ClientBase): boolean {
  return streamOf(client)?.destroyed ?? true
}

function streamOf(client: pg.ClientBase): { readonly destroyed: boolean; destroy(): void } | undefined {
  const { connection } = client as unknown as { connection?: Pick<pg.Connection, 'stream'> }
  return connection?.stream
}

/**
 * Ends a connection on which a statement may be under way. The server is told first: while a backend waits for a lock it does
 * not notice that its client has left, and the next connection would come on top of it.
 */
export async function discardClient(client: pg.ClientBase): Promise<void> {
  // The connection is closed even if the cancel cannot be sent, and nobody waits for this to fail.
  if (!isCut(client)) await cancelStatement(client).catch(() => {})
  cutClient(client)
}

/** What the driver knows about a connection. Its types leave this out. */
interface Session {
  readonly host: string
  readonly port: number
  readonly ssl: boolean | object
  readonly sslNegotiation: string
  readonly processID: number | null
  readonly secretKey: number | null
}

interface DriverConnection extends pg.Connection {
  connect(portOrPath: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
}

/** Asks the server to end what it is doing for this client, over a connection that is for that alone and never logs in. */
async function cancelStatement(client: pg.ClientBase): Promise<void> {
  const { host, port, ssl, sslNegotiation, processID, secretKey } = client as unknown as Session
  if (processID === null || secretKey === null) return
  const connection = new pg.Connection({ ssl, sslNegotiation } as pg.ConnectionConfig) as DriverConnection
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>((resolve) => {
    timer = setTimeout(resolve, GOODBYE_MS)
    connection.on('error', () => resolve())
    // The server hangs up once it has passed it on.
    connection.on('end', () => resolve())
    connection.on('sslconnect', () => connection.cancel(processID, secretKey))
    connection.on('connect', () => {
      if (ssl === false) connection.cancel(processID, secretKey)
      else if (sslNegotiation !== 'direct') connection.requestSsl()
    })
    if (host.startsWith('/')) connection.connect(`${host}/.s.PGSQL.${port}`)
    else connection.connect(port, host)
  })
  clearTimeout(timer)
  connection.stream.destroy()
}
