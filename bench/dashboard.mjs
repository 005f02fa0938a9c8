// Measures the dashboard on a large system, in a real Chromium: how long each screen takes until it can be used, how long the page is
// busy at a time while jobs change, and whether its memory stays flat. Prints one table; exits with 1 if a goal was missed.
//
//   npm run build && node bench/dashboard.mjs [--jobs 1000000] [--items 100000] [--workers 200] [--rate 10000] [--minutes 10]
//                                             [--only screens|memory] [--screens now,jobs] [--nice 10]
//
// --nice lowers the priority of server, database and workers, because a browser usually has a machine of its own.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { launchBrowser, openWindow } from './dashboard/browser.mjs'
import { measureLive } from './dashboard/live.mjs'
import { countMissed, tell } from './dashboard/report.mjs'
import { measureScreens } from './dashboard/screens.mjs'
import { openSystem } from './dashboard/system.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000000' },
    items: { type: 'string', default: '100000' },
    workers: { type: 'string', default: '200' },
    rate: { type: 'string', default: '10000' },
    minutes: { type: 'string', default: '10' },
    only: { type: 'string' },
    screens: { type: 'string' },
    nice: { type: 'string', default: '0' },
  },
})
const size = { jobs: Number(values.jobs), items: Number(values.items), workers: Number(values.workers) }
const wanted = values.screens?.split(',')
const options = { rate: Number(values.rate), minutes: Number(values.minutes), wanted }

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-dashboard-'))
// PostgreSQL does not run as root: the user it runs as then keeps its data here too, and they are removed with the rest.
chmodSync(folder, 0o755)
const closing = []
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => stop().finally(() => process.exit(130)))
try {
  const browser = await launchBrowser()
  closing.push(() => browser.close())
  // The browser is there already; what is started from here on inherits it.
  if (Number(values.nice) > 0) setPriority(Number(values.nice))
  const started = performance.now()
  const system = await openSystem(folder, size, closing)
  const [jobs, items, workers] = Object.values(size).map((each) => each.toLocaleString('en'))
  const took = Math.round((performance.now() - started) / 1000)
  tell(`${jobs} jobs, a fan-out of ${items}, ${workers} workers`, `made in ${took} s`)
  const window = await openWindow(browser, system)
  if (values.only !== 'memory') await measureScreens(system, window, options)
  if (values.only !== 'screens') await measureLive(system, window, options)
} finally {
  await stop()
}
process.exitCode = countMissed() === 0 ? 0 : 1

async function stop() {
  for (let close = closing.pop(); close !== undefined; close = closing.pop()) await close()
  rmSync(folder, { recursive: true, force: true })
}
