import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** What is served at once. Their first requests take about 4 ms of the one thread, for which everybody else waits. */
const MOST = 8
/** How long the first of them waits for others. */
const WITHIN_MS = 50

export interface AcceptBounds {
  readonly most: number
  readonly withinMs: number
}

/**
 * Lets a server take the connections that wait for it before it serves the first of them. To be called before it listens.
 *
 * Node takes one connection in each turn of its event loop (libuv since 1.45). So when hundreds come at once, each turn serves
 * the one before, and the last of them wait for as many turns as there are connections: seconds on a busy machine, health checks
 * among them, while whoever is connected is answered within milliseconds. Their requests come one by one, too, so that little of
 * what they ask the database for goes together. Here a turn that only takes a connection takes microseconds, and the requests come
 * together. A connection that comes alone waits for one turn without work.
 */
export function acceptTogether(
  server: Server,
  bounds: AcceptBounds = { most: MOST, withinMs: WITHIN_MS },
): void {
  const serve = server.listeners('connection')
  server.removeAllListeners('connection')
  let held: Socket[] = []
  let since = 0

  const look = (seen: number) => {
    const comeMore = held.length > seen && held.length < bounds.most
    if (comeMore && performance.now() - since < bounds.withinMs) setImmediate(look, held.length)
    else release()
  }
  const release = () => {
    const all = held
    held = []
    for (const socket of all) {
      // A server that closes has closed those without a request already, and would wait for this one.
      if (!server.listening) socket.destroy()
      if (socket.destroyed) continue
      socket.off('error', ignore)
      for (const each of serve) each.call(server, socket)
    }
  }
  server.on('connection', (socket: Socket) => {
    // Nobody else listens yet, and one that breaks off must not end the process.
    socket.on('error', ignore)
    if (held.push(socket) > 1) return
    since = performance.now()
    setImmediate(look, 0)
  })
}

function ignore(): void {}
