// Runs tests behind PgBouncer in transaction mode, as a role that owns its databases and has no other rights. Needs Debian's package
// pgbouncer. It tries to install it, and otherwise skips the tests and says why. Part of `npm run test:long`.
//
//   node test/long/behind-pgbouncer.mjs [FILE...]    test/behaviour unless given
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const PGBOUNCER = '/usr/sbin/pgbouncer'
/** Which test files; all by default. */
const files = process.argv.length > 2 ? process.argv.slice(2) : ['test/behaviour']

if (!existsSync(PGBOUNCER)) install()
if (!existsSync(PGBOUNCER)) {
  console.log(`skipped: the behaviour suite behind PgBouncer, because ${PGBOUNCER} is not there`)
} else {
  const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url))
  const { status } = spawnSync(process.execPath, [vitest, 'run', ...files], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: 'inherit',
    env: { ...process.env, SLUICE_TEST_POOLER: 'pgbouncer', SLUICE_TEST_ROLE: 'sluice_plain' },
  })
  process.exitCode = status ?? 1
}

function install() {
  if (process.geteuid?.() !== 0) {
    console.log('pgbouncer is not installed, and only root can do that: apt-get install pgbouncer')
    return
  }
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', 'pgbouncer']]) {
    const { error, status, stderr } = spawnSync('apt-get', args, { encoding: 'utf8' })
    if (error !== undefined || status !== 0) {
      console.log(`apt-get ${args.join(' ')} failed: ${error?.message ?? stderr.trim()}`)
      return
    }
  }
}
