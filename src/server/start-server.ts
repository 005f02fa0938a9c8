import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Sluice } from '../app/app.ts'
import { SluiceError } from '../errors.ts'
import { VERSION } from '../version.ts'
import { acceptTogether } from './limits/accept-connections.ts'
import { ServerConnections } from './limits/connections.ts'
import { refusalTallies } from './limits/refusal-tally.ts'
import type { Server } from './parts.ts'
import { buildServer, DEFAULT_LIMITS, type ServerLimits } from './server.ts'

export interface ServeOptions {
  readonly app: Sluice
  readonly log: Logger
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
  readonly limits?: Partial<ServerLimits>
  /** How long it goes on accepting after it has said that it is not ready, so that balancers can turn away. */
  readonly noticeMs?: number
  /** How long requests under way may take when it stops. */
  readonly graceMs: number
}

export interface RunningServer {
  /** `http://127.0.0.1:8080` */
  readonly url: string
  readonly http: Server
  /**
   * Says that it is not ready, stops accepting, ends streams, lets requests finish within the grace, then cuts what is
   * left. May be called twice; `now` hurries a stop that is under way. The application stays open.
   */
  stop(options?: { readonly now?: boolean }): Promise<void>
}

/**
 * Builds the server and listens.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when the address cannot be listened on.
 */
export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { app, log, host, port } = options
  const hurry = new AbortController()
  let draining = false
  const { services } = app
  const connections = new ServerConnections(services.db.url, services.heartbeatMs)
  const tallies = refusalTallies(services.calls, log)
  const parts = { app, services, connections, log, ...tallies, version: VERSION, draining: () => draining }
  const http = await buildServer(
    parts,
    { ...DEFAULT_LIMITS, ...options.limits },
    services.settings.trustProxy,
  )
  await listen(http, host, port)

  const stop = async (): Promise<void> => {
    draining = true
    await delay(options.noticeMs ?? 0, undefined, { signal: hurry.signal }).catch(() => {})
    const cut = setTimeout(
      () => http.server.closeAllConnections(),
      hurry.signal.aborted ? 0 : options.graceMs,
    )
    hurry.signal.addEventListener('abort', () => http.server.closeAllConnections(), { once: true })
    try {
      await http.close()
    } finally {
      clearTimeout(cut)
      await Promise.all([tallies.refusals.close(), tallies.wrongKeys.close()])
      await connections.close()
    }
  }
  let stopping: Promise<void> | undefined
  return {
    url: addressOf(http, host),
    http,
    stop: ({ now = false } = {}) => {
      stopping ??= stop()
      if (now) hurry.abort()
      return stopping
    },
  }
}

async function listen(http: Server, host: string, port: number): Promise<void> {
  acceptTogether(http.server)
  try {
    await http.listen({ host, port, backlog: 1024 })
  } catch (error) {
    await http.close()
    const { code } = error as NodeJS.ErrnoException
    const why =
      code === 'EADDRINUSE'
        ? 'another program listens there: choose another with --port or SLUICE_PORT'
        : code === 'EACCES'
          ? 'that needs rights this user does not have: choose a port above 1023'
          : code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND'
            ? 'this machine has no such address: choose another with --host'
            : String(error)
    throw new SluiceError('INVALID_CONFIG', `cannot listen on ${host} port ${port}: ${why}`, { cause: error })
  }
}

function addressOf(http: Server, host: string): string {
  const { port } = http.server.address() as AddressInfo
  const name =
    host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${name}:${port}`
}
