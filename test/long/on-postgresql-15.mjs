// Runs the behaviour suite on PostgreSQL 15, the oldest that is supported. Needs the server's programs where Debian's package
// postgresql-15 puts them, and is skipped with a reason where they are not.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROGRAMS = '/usr/lib/postgresql/15/bin'
/** Which test files; all by default. */
const files = process.argv.length > 2 ? process.argv.slice(2) : ['test/behaviour']
/** The server refuses to run as root: it runs as nobody then. */
const account = process.geteuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
const SETTINGS = {
  listen_addresses: "''",
  wal_level: 'logical',
  max_connections: '300',
  max_replication_slots: '20',
  autovacuum_naptime: '5s',
}

if (!existsSync(PROGRAMS)) {
  console.log(`skipped: the behaviour suite on PostgreSQL 15, because ${PROGRAMS} is not there`)
} else {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pg15-'))
  chmodSync(folder, 0o777)
  const data = join(folder, 'data')
  try {
    run('initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C')
    const settings = Object.entries({ ...SETTINGS, unix_socket_directories: folder })
    const options = settings.map(([name, value]) => `-c ${name}=${value}`).join(' ')
    run('pg_ctl', '-D', data, '-w', '-l', join(folder, 'log'), '-o', options, 'start')
    try {
      const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url))
      const server = `postgresql:///postgres?host=${encodeURIComponent(folder)}&user=postgres`
      const { status } = spawnSync(process.execPath, [vitest, 'run', ...files], {
        cwd: fileURLToPath(new URL('../..', import.meta.url)),
        stdio: 'inherit',
        env: { ...process.env, SLUICE_TEST_SERVER: server },
      })
      process.exitCode = status ?? 1
    } finally {
      run('pg_ctl', '-D', data, '-m', 'immediate', 'stop')
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function run(program, ...args) {
  const { error, status, stderr } = spawnSync(join(PROGRAMS, program), args, {
    ...account,
    cwd: tmpdir(),
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (error !== undefined || status !== 0) throw new Error(`${program}: ${error?.message ?? stderr.trim()}`)
}
