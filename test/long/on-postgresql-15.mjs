// Runs tests on PostgreSQL 15, the oldest supported version, with Debian's defaults, which include JIT; the embedded server has none. Needs
// Debian's package postgresql-15, and tries to install it.
//
//   node test/long/on-postgresql-15.mjs             test/behaviour, test/http and test/crash
//   node test/long/on-postgresql-15.mjs --short     a few files; part of `npm test`
//   node test/long/on-postgresql-15.mjs FILE...     these files, or options of Vitest
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { quickFolder } from '../support/quick-folder.mjs'

const PROGRAMS = '/usr/lib/postgresql/15/bin'

/**
 * One file or two for each part that sends SQL of its own: settings and JIT, migrations, submitting with keys, the claim and its
 * plans, prefetch, start deadlines, locks, steps, lists, workflows, duties, routes. Everything else runs in `test:long`: CI has 20 minutes for all.
 */
const SHORT = [
  ...[
    'own-settings',
    'migrations',
    'schema-dump',
    'keys',
    'claim-plan',
    'claims',
    'prefetch',
    'steady-cycle',
    'start-deadline',
    'locked-lane',
  ].map((name) => `test/behaviour/${name}.test.ts`),
  ...['list-pages', 'workflow-windows', 'duties'].map((name) => `test/behaviour/${name}.test.ts`),
  'test/http/submit.test.ts',
  'test/http/job-list.test.ts',
  'test/crash/start-deadline.test.ts',
  'test/crash/killed-step.test.ts',
]
const given = process.argv.slice(2)
const files =
  given[0] === '--short' ? SHORT : given.length > 0 ? given : ['test/behaviour', 'test/http', 'test/crash']
/** The server refuses to run as root: it runs as nobody then. */
const account = process.geteuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
/** What the tests cannot do without; all else is as Debian ships it. No port is opened. */
const SETTINGS = {
  listen_addresses: "''",
  wal_level: 'logical',
  max_connections: '300',
  max_replication_slots: '20',
}

if (!existsSync(PROGRAMS)) install()
if (!existsSync(PROGRAMS)) {
  const missing = `there is no PostgreSQL 15 in ${PROGRAMS}: install the package postgresql-15`
  if (process.env.CI === 'true') {
    console.error(`${missing}. Tests on it are part of CI.`)
    process.exitCode = 1
  } else console.log(`${missing}. Tests on it are skipped.`)
} else {
  const folder = mkdtempSync(join(quickFolder(), 'sluice-pg15-'))
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

function install() {
  // Only Debian and its kin, and only as root: anybody else decides for themselves.
  if (process.geteuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return
  console.log('installing postgresql-15 for tests on it ...')
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) =>
    spawnSync('apt-get', args, { stdio: ['ignore', 'ignore', 'inherit'], env }).status === 0
  const packages = ['install', '-y', '-qq', '--no-install-recommends', 'postgresql-15']
  // The list of packages of a fresh image is empty.
  if (!apt(...packages)) void (apt('update', '-qq') && apt(...packages))
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
