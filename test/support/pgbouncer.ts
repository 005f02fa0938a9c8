import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { until } from './until.ts'

export const PGBOUNCER = '/usr/sbin/pgbouncer'

export interface Pooler {
  /** The address of a database of the server, through the pooler. */
  through(url: string): string
  stop(): Promise<void>
}

/**
 * PgBouncer in transaction mode in front of a server, for every database there is or will be.
 *
 * Connections to the server are few on purpose: sessions change hands all the time.
 */
export async function startPgbouncer(serverUrl: string): Promise<Pooler> {
  if (!existsSync(PGBOUNCER)) throw new Error(`${PGBOUNCER} is not there: apt-get install pgbouncer`)
  const { hostname, port, searchParams, username } = new URL(serverUrl)
  const host = searchParams.get('host') ?? hostname
  const serverPort = searchParams.get('port') ?? (port || '5432')
  const users = new Set([searchParams.get('user') ?? username, process.env.SLUICE_TEST_ROLE ?? ''])
  users.delete('')

  const folder = await mkdtemp(join(tmpdir(), 'sluice-pgbouncer-'))
  await chmod(folder, 0o777)
  const listenPort = await freePort()
  const log = join(folder, 'log')
  await writeFile(join(folder, 'users'), [...users].map((user) => `"${user}" ""\n`).join(''))
  await writeFile(
    join(folder, 'ini'),
    `[databases]
* = host=${host} port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, 'users')}
pool_mode = transaction
max_client_conn = 2000
default_pool_size = 6
logfile = ${log}
`,
  )
  // It refuses to run as root, and a socket in a private folder opens only to its owner.
  const owner = host.startsWith('/') ? await stat(host) : { uid: 65534, gid: 65534 }
  const account = process.geteuid?.() === 0 ? { uid: owner.uid || 65534, gid: owner.gid || 65534 } : {}
  const child = spawn(PGBOUNCER, ['-q', join(folder, 'ini')], { ...account, stdio: 'ignore' })
  const through = (url: string): string => {
    const address = new URL(url)
    address.searchParams.set('host', '127.0.0.1')
    address.searchParams.set('port', String(listenPort))
    return address.href
  }
  await until(async () => {
    if (child.exitCode !== null) {
      throw new Error(`pgbouncer did not start: ${await readFile(log, 'utf8').catch(() => 'no log')}`)
    }
    return answers(through(serverUrl))
  }, 'pgbouncer to answer')
  return {
    through,
    async stop() {
      await ended(child)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } catch {
    return false
  } finally {
    await client.end().catch(() => {})
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
