import type { Queryable } from '../../db/database.ts'
import { readServerState } from '../../store/read-server-state.ts'
import { type Finding, ok } from './finding.ts'

/** A worker has 7 connections: 4 shared, and one each for cycles, heartbeat and hints. */
const PER_WORKER = 7

/** Whether more processes can connect. */
export async function checkConnections({ db }: { db: Queryable }): Promise<Finding[]> {
  const { connections, maxConnections } = await readServerState(db)
  const free = maxConnections - connections
  const found = `${connections} of ${maxConnections} in use`
  if (free >= 2 * PER_WORKER) return [ok('connections', found)]
  return [
    {
      check: 'connections',
      level: free < PER_WORKER ? 'problem' : 'warning',
      found: `${found}: ${free < PER_WORKER ? 'not even one' : 'only one'} more worker fits (each has ${PER_WORKER})`,
      advice:
        'raise max_connections and restart the server, or let programs share connections with PgBouncer',
    },
  ]
}
