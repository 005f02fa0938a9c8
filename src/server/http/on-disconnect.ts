import type { ServerResponse } from 'node:http'

/** Calls back when the client has closed the connection, at once where that has happened already. */
export function onDisconnect(raw: ServerResponse, gone: () => void): void {
  if (raw.destroyed) gone()
  else raw.once('close', gone)
}
