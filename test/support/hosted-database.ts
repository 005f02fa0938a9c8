import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { findBinaries } from '../../src/db/embedded/binaries.ts'
import { findFolders } from '../../src/db/embedded/folders.ts'
import { createCluster, DATABASE, PORT, USER } from '../../src/db/embedded/server.ts'
import { migrate } from '../../src/db/migrate.ts'
import type { Sql } from './database.ts'
import { query } from './embedded.ts'
import type { HostNetwork } from './host-network.ts'
import { until } from './until.ts'

/** A PostgreSQL on a host of its own. */
export interface HostedDatabase {
  /** As other hosts reach it. */
  readonly url: string
  /** Past the network, by its socket: whatever is cut off, the test sees and submits. */
  readonly socketUrl: string
  /** Over the socket, on a connection that is kept. */
  readonly sql: Sql
  stop(): Promise<void>
}

/** With the schema in it, and set up for a commit checker. */
export async function startHostedDatabase(network: HostNetwork, host: string): Promise<HostedDatabase> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-host-'))
  // Open to the account the server runs as.
  await chmod(folder, 0o755)
  const folders = await findFolders(folder)
  const binaries = await findBinaries(folders)
  await createCluster(folders, binaries, () => {})
  await appendFile(join(folders.cluster, 'pg_hba.conf'), `host all all ${network.range} trust\n`)
  const settings = {
    listen_addresses: network.addressOf(host),
    unix_socket_directories: folders.run,
    port: String(PORT),
    wal_level: 'logical',
    max_connections: '100',
  }
  const account =
    folders.account === undefined
      ? []
      : ['setpriv', `--reuid=${folders.account.uid}`, `--regid=${folders.account.gid}`, '--clear-groups']
  const [program, ...args] = [
    ...network.on(host),
    ...account,
    ...[binaries.postgres, '-D', folders.cluster],
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
  const server = spawn(program!, args, { cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-10_000)
  })
  const socketUrl = `postgres:///${DATABASE}?host=${encodeURIComponent(folders.run)}&port=${PORT}&user=${USER}`
  const client = new pg.Client(socketUrl)
  client.on('error', () => {})
  let last: Promise<unknown> = Promise.resolve()
  const sql: Sql = (text, values) => {
    const result = last.then(() => client.query(text, values))
    last = result.catch(() => {})
    return result.then(({ rows }) => rows as never)
  }
  const stop = async () => {
    await client.end()
    // Ends all sessions, also those whose other side cannot be reached.
    await end(server, 'SIGINT')
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await until(
      () => {
        if (server.exitCode !== null) throw new Error(`PostgreSQL ended: ${said}`)
        return query(socketUrl, 'select 1').then(
          () => true,
          () => false,
        )
      },
      'PostgreSQL to accept connections',
      60_000,
    )
    await migrate(socketUrl)
    await client.connect()
  } catch (error) {
    await stop()
    throw error
  }
  const url = `postgres://${USER}@${network.addressOf(host)}:${PORT}/${DATABASE}`
  return { url, socketUrl, sql, stop }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}
