import { Database, type Queryable } from '../../db/database.ts'
import { OutageWatch } from '../../db/outage-watch.ts'
import { withRetries } from '../../db/with-retries.ts'
import { CYCLE_TIMEOUT_MS } from '../../model/limits.ts'

/** One lookup of keys on its way, one to follow. */
const KEY_CONNECTIONS = 2
/** For the cycles of all workers of this server. */
const CYCLE_CONNECTIONS = 8
/** One asks whether the database can be reached, one reads what needs attention. */
const PROBE_CONNECTIONS = 2
/** Longer than `/readyz` waits for an answer. */
const PROBE_TIMEOUT_MS = 5000
/** Whatever keeps cycles waiting must not end leases. */
const BEAT_CONNECTIONS = 2

/**
 * The connections of a server beside those of its application, opened when they are needed. Each kind has its own, so that none
 * waits for another: what a heartbeat needs, from the key to the lease, is not behind the submissions of others.
 */
export class ServerConnections {
  /** Whose key it is: only reads, which may be sent again. */
  readonly keys: Queryable
  readonly cycles: Database
  readonly beats: Database
  /** What `/readyz` asks: it must find out why all others wait. */
  readonly probe: Queryable
  readonly #keys: Database
  readonly #probe: Database
  readonly #watch: OutageWatch

  constructor(url: string, heartbeatMs: number) {
    this.#keys = new Database({ url, maxConnections: KEY_CONNECTIONS, applicationName: 'sluice-keys' })
    this.keys = withRetries(this.#keys)
    this.cycles = new Database({
      url,
      maxConnections: CYCLE_CONNECTIONS,
      applicationName: 'sluice-cycle',
      statementTimeoutMs: CYCLE_TIMEOUT_MS,
    })
    this.beats = new Database({
      url,
      maxConnections: BEAT_CONNECTIONS,
      applicationName: 'sluice-heartbeat',
      statementTimeoutMs: heartbeatMs,
    })
    this.#probe = new Database({
      url,
      maxConnections: PROBE_CONNECTIONS,
      applicationName: 'sluice-probe',
      statementTimeoutMs: PROBE_TIMEOUT_MS,
    })
    this.probe = withRetries(this.#probe)
    this.#watch = new OutageWatch(url, [this.#keys, this.cycles, this.beats])
  }

  async close(): Promise<void> {
    this.#watch.close()
    await Promise.all([this.#keys.close(), this.cycles.close(), this.beats.close(), this.#probe.close()])
  }
}
