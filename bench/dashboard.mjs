// The dashboard on a large system, in a real Chromium: how long each screen takes until it can be used, how long the page is
// busy at a time while jobs change, and whether its memory stays as it is.
//   npm run build && node bench/dashboard.mjs [--jobs 1000000] [--items 100000] [--workers 200] [--rate 10000] [--minutes 10]
//                                             [--only screens|memory] [--screens now,jobs]
// Prints one table; exits with 1 when a goal was missed.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import pg from 'pg'
import pino from 'pino'
import { chromium } from 'playwright-core'
import { transactForCallers } from '../dist/db/for-callers.js'
import { authorOfDatabase } from '../dist/engine/access/author.js'
import { createKey } from '../dist/engine/access/keys.js'
import { sluice } from '../dist/index.js'
import { startServer } from '../dist/server/start-server.js'
import { findChromium, NO_CHROMIUM } from '../scripts/ensure-chromium.mjs'
import { fill } from './dashboard/fill.mjs'
import { LANES, tasksOf } from './dashboard/tasks.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000000' },
    items: { type: 'string', default: '100000' },
    workers: { type: 'string', default: '200' },
    rate: { type: 'string', default: '10000' },
    minutes: { type: 'string', default: '10' },
    only: { type: 'string' },
    screens: { type: 'string' },
  },
})
const size = { jobs: Number(values.jobs), items: Number(values.items), workers: Number(values.workers) }
const rate = Number(values.rate)
const minutes = Number(values.minutes)

const USABLE_MS = 2000
const TASK_MS = 100
/** Heap after ten minutes against that after the first: what a page needs differs by so much from one second to the next. */
const GROWTH = 1.1
/** Jobs a second while screens are opened: what a system of this size does on a usual day. */
const OPENING_RATE = 500
const OPENINGS = 3
/** How long each screen is watched at the full rate. */
const WATCH_MS = 3000

/** By name: its address, and what is there once it shows what it is for. */
const screensOf = (ids) => ({
  now: ['/', '.tile', 'table[aria-label="Lanes"] tbody tr', '.sparkline canvas'],
  lanes: ['/lanes', 'main tbody tr'],
  jobs: ['/jobs', 'table[aria-label="Jobs"] tbody tr'],
  'jobs failed': ['/jobs?tab=failed', 'table[aria-label="Jobs"] tbody tr'],
  'jobs of a task': ['/jobs?tab=completed&task=mail.send', 'table[aria-label="Jobs"] tbody tr'],
  'jobs queued': ['/jobs?tab=queued', 'table[aria-label="Jobs"] tbody tr'],
  'jobs by error': ['/jobs?error=mailbox%20123', 'table[aria-label="Jobs"] tbody tr'],
  'jobs by a tag of none': ['/jobs?tag=nowhere', '~No job matches'],
  'job completed': [`/jobs/${ids.completed}`, '~Timeline', '~Completed'],
  'job running': [`/jobs/${ids.running}`, '~Timeline', '~encoding, part'],
  'job waiting': [`/jobs/${ids.waiting}`, '~nightly', '.why'],
  trace: [`/trace/${ids.child}`, '~answered 503'],
  'workflow graph': [`/workflows/${ids.workflow}`, '.react-flow__node', '.strip-columns span'],
  'workflow tree': [`/workflows/${ids.workflow}?view=tree`, '~items'],
  'workflow waterfall': [`/workflows/${ids.workflow}?view=time`, '.falls li'],
  'fan-out': [`/workflows/${ids.fanOut}`, '.strip-columns span', '.children tbody tr'],
  errors: ['/errors', 'main tbody tr'],
  'errors all': ['/errors?span=all', 'main tbody tr'],
  workers: ['/workers', 'table[aria-label="Workers"] tbody tr'],
  devices: ['/gpu', '.devices > *'],
  approvals: ['/approvals', 'main tbody tr'],
  schedules: ['/schedules', 'main tbody tr'],
  recovery: ['/recovery', 'main tbody tr'],
  access: ['/access', 'main tbody tr'],
  audit: ['/audit', 'main tbody tr'],
})

let missed = 0
function tell(what, value, goal = '', met = undefined) {
  if (met === false) missed += 1
  const verdict = met === undefined ? '' : met ? 'met' : 'MISSED'
  console.log(`${what.padEnd(48)} ${String(value).padEnd(52)} ${goal.padEnd(10)} ${verdict}`.trimEnd())
}

const executablePath = findChromium()
if (executablePath === undefined) throw new Error(NO_CHROMIUM)
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-dashboard-'))
// PostgreSQL does not run as root: the user it runs as then keeps its data here too, and they are removed with the rest.
chmodSync(folder, 0o755)
const log = pino({ level: 'silent' })
const closing = []
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => stop().finally(() => process.exit(130)))
try {
  const started = performance.now()
  const system = await openSystem()
  const [jobs, items, workers] = Object.values(size).map((each) => each.toLocaleString('en'))
  tell(`${jobs} finished jobs, a fan-out of ${items}, ${workers} workers`, `made in ${seconds(started)}`)
  const { page, context } = await openBrowser(system)
  if (values.only !== 'memory') await measureScreens(system, page, context)
  if (values.only !== 'screens') await measureMemory(system, page, context)
} finally {
  await stop()
}
process.exitCode = missed === 0 ? 0 : 1

async function stop() {
  for (let close = closing.pop(); close !== undefined; close = closing.pop()) await close()
  rmSync(folder, { recursive: true, force: true })
}

/** Server, database and rows, a fleet that is heard of, jobs that come and go, a fan-out under way. */
async function openSystem() {
  const app = await sluice({
    dataFolder: join(folder, 'data'),
    log,
    ...tasksOf(),
    lanes: LANES,
    budgets: { vram: { devices: 'auto' } },
  })
  closing.push(() => app.close())
  const sql = new pg.Client(app.databaseUrl)
  await sql.connect()
  closing.push(() => sql.end())
  const ids = await fill(sql, size)
  const pulse = setInterval(() => {
    const text = `update sluice.workers set seen_at = clock_timestamp() where name like 'fleet-%' and ended_at is null`
    sql.query(text).catch((error) => console.error(error.message))
  }, 2000)
  closing.push(() => clearInterval(pulse))
  const server = await startServer({ app, log, host: '127.0.0.1', port: 0, graceMs: 500 })
  closing.push(() => server.stop({ now: true }))
  const { key } = await transactForCallers(app.room.db, (tx) =>
    createKey(tx, { name: 'ada', role: 'platform_admin' }, authorOfDatabase('bench')),
  )
  const traffic = await openTraffic(app.databaseUrl)
  const workflow = await app.submit('catalogue.import', { count: size.items })
  const items = await until(sql, `parent_id = ${workflow.id} and composite = 'fanout'`)
  // Quick ones first; from then on it goes slowly, whatever is measured.
  await until(sql, `parent_id = ${items} and state = 'running' and idx >= ${Math.floor(size.items * 0.6)}`)
  const child = await until(sql, `parent_id = ${items} and state = 'failed'`)
  return { url: server.url, key, traffic, ids: { ...ids, workflow: workflow.id, fanOut: items, child } }
}

/** The id of a job, as soon as there is one. */
async function until(sql, where) {
  const end = Date.now() + 120_000
  while (Date.now() < end) {
    const found = await sql.query(`select id from sluice.jobs where ${where} limit 1`)
    if (found.rows.length > 0) return found.rows[0].id
    await pause(200)
  }
  throw new Error(`there is no job where ${where}`)
}

async function openTraffic(url) {
  const child = fork(fileURLToPath(new URL('dashboard/traffic.mjs', import.meta.url)), [url])
  closing.push(async () => {
    if (!child.connected) return
    const exited = once(child, 'exit')
    child.send({ stop: true })
    await exited
  })
  await once(child, 'message')
  let done = 0
  child.on('message', (message) => {
    done = message.done
  })
  return {
    set: (jobs) => child.send({ rate: jobs }),
    /** Starts counting; the function it returns answers jobs a second since then. */
    count() {
      const [from, at] = [done, performance.now()]
      return () => Math.round(((done - from) * 1000) / (performance.now() - at))
    },
  }
}

async function openBrowser({ url, key }) {
  const browser = await chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--js-flags=--expose-gc',
    ],
  })
  closing.push(() => browser.close())
  const context = await browser.newContext({
    baseURL: url,
    locale: 'en-GB',
    viewport: { width: 1360, height: 850 },
  })
  context.setDefaultTimeout(30_000)
  await context.addInitScript(watchTasks)
  const page = await context.newPage()
  await page.goto('/')
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  return { page, context }
}

/** Runs in the page. Browsers tell of tasks of 50 ms and more. */
function watchTasks() {
  globalThis.longest = 0
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries())
      globalThis.longest = Math.max(globalThis.longest, Math.round(duration))
  }).observe({ type: 'longtask', buffered: true })
}

/** Runs in the page: the longest task since it was last asked. */
function takeLongest() {
  const ms = globalThis.longest
  globalThis.longest = 0
  return ms
}

/** From the address to a page that shows what it is for, has nothing left to load, and has drawn it; by the page's clock. */
async function open(page, [path, ...shows]) {
  await page.goto(path, { waitUntil: 'commit' })
  await page.waitForFunction(isThere, shows, { polling: 'raf' })
  return page.evaluate(
    () =>
      new Promise((drawn) =>
        requestAnimationFrame(() => requestAnimationFrame(() => drawn(performance.now()))),
      ),
  )
}

/** Runs in the page, with each frame. What begins with a tilde is a text, anything else a selector. */
function isThere(shows) {
  if (document.querySelector('.loading') !== null) return false
  const text = document.querySelector('main')?.textContent ?? ''
  return shows.every((each) =>
    each.startsWith('~')
      ? text.includes(each.slice(1))
      : [...document.querySelectorAll(each)].some((found) => found.checkVisibility()),
  )
}

async function measureScreens({ traffic, ids }, page, context) {
  const all = Object.entries(screensOf(ids))
  const wanted = values.screens?.split(',')
  const screens = wanted === undefined ? all : all.filter(([name]) => wanted.includes(name))
  traffic.set(OPENING_RATE)
  if (wanted === undefined) await measureFirst(context, screensOf(ids).now)
  const slow = traffic.count()
  for (const [name, screen] of screens) {
    const times = []
    try {
      for (let n = 0; n < OPENINGS; n += 1) times.push(await open(page, screen))
      times.sort((a, b) => a - b)
      const usable = `${Math.round(times[1])} ms, at most ${Math.round(times.at(-1))}`
      const atOpening = await page.evaluate(takeLongest)
      tell(name, `${usable}; longest task ${shown(atOpening)}`, `<= ${USABLE_MS} ms`, times[1] <= USABLE_MS)
    } catch (error) {
      tell(name, error.message.split('\n')[0], `<= ${USABLE_MS} ms`, false)
    }
  }
  tell('jobs that ended a second meanwhile', slow())
  traffic.set(rate)
  await pause(2000)
  for (const [name, screen] of screens) {
    const reached = traffic.count()
    await open(page, screen).catch(() => {})
    await page.evaluate(takeLongest)
    await pause(WATCH_MS)
    const longest = await page.evaluate(takeLongest)
    const value = `${shown(longest)} at ${reached()} jobs/s`
    tell(`${name}: longest task`, value, `< ${TASK_MS} ms`, longest < TASK_MS)
  }
}

/** A visitor whose browser has nothing of the page yet. */
async function measureFirst(context, screen) {
  const fresh = await context
    .browser()
    .newContext({ baseURL: context.pages()[0].url(), storageState: await context.storageState() })
  await fresh.addInitScript(watchTasks)
  const ms = await open(await fresh.newPage(), screen)
  await fresh.close()
  tell('now, nothing cached', `${Math.round(ms)} ms`, `<= ${USABLE_MS} ms`, ms <= USABLE_MS)
}

function seconds(since) {
  return `${Math.round((performance.now() - since) / 1000)} s`
}

function shown(ms) {
  return ms === 0 ? 'under 50 ms' : `${ms} ms`
}

/** Three pages that stay open side by side while jobs change. */
async function measureMemory({ traffic, ids }, first, context) {
  traffic.set(rate)
  const screens = screensOf(ids)
  const pages = []
  for (const name of ['now', 'jobs', 'fan-out']) {
    const page = pages.length === 0 ? first : await context.newPage()
    await open(page, screens[name])
    const cdp = await context.newCDPSession(page)
    for (const domain of ['Performance', 'HeapProfiler']) await cdp.send(`${domain}.enable`)
    pages.push({ name, page, cdp, heaps: [], nodes: [], longest: 0 })
  }
  const reached = traffic.count()
  const end = performance.now() + minutes * 60_000
  // Before the first measurement everything has been drawn many times.
  await pause((minutes * 60_000) / 10)
  for (const { page } of pages) await page.evaluate(takeLongest)
  while (performance.now() < end || pages[0].heaps.length < 2) {
    for (const each of pages) {
      each.longest = Math.max(each.longest, await each.page.evaluate(takeLongest))
      const { heap, nodes } = await heapOf(each.cdp)
      // A forced collection is a long task that nobody has without it.
      await each.page.evaluate(takeLongest)
      each.heaps.push(heap)
      each.nodes.push(nodes)
    }
    await pause((minutes * 60_000) / 20)
  }
  for (const { name, heaps, nodes, longest } of pages) {
    const early = median(heaps.slice(0, 3))
    const late = median(heaps.slice(-3))
    const value = `${early.toFixed(1)} -> ${late.toFixed(1)} MB, nodes ${median(nodes.slice(0, 3))} -> ${median(nodes.slice(-3))}`
    tell(`${name}: heap over ${minutes} min`, value, `<= ${GROWTH}x`, late <= early * GROWTH)
    tell(`${name}: longest task in that time`, shown(longest))
  }
  tell('jobs that ended a second meanwhile', reached())
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]
}

async function heapOf(cdp) {
  // What the first collection frees may let go of more.
  for (let n = 0; n < 2; n += 1) await cdp.send('HeapProfiler.collectGarbage')
  const { metrics } = await cdp.send('Performance.getMetrics')
  const of = (wanted) => metrics.find(({ name }) => name === wanted).value
  return { heap: of('JSHeapUsedSize') / 1e6, nodes: of('Nodes') }
}
