import type pg from 'pg'

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
export function cutClient(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy(): void } } }
  connection?.stream?.destroy()
}
