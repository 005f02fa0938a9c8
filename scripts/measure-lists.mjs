// Measures how long a page of a list takes with 10,000 and with 1,000,000 finished jobs, by filter. Uses the built files and the
// embedded PostgreSQL.
//
//   npm run build && node scripts/measure-lists.mjs [PAGES]    pages per filter, 200 unless given
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { openEmbedded } from '../dist/db/embedded/embedded.js'
import { readPage, toCursor } from '../dist/engine/views/job-list.js'
import { sluice, task } from '../dist/index.js'

const SIZES = [10_000, 1_000_000]
const PAGES = Number(process.argv[2] ?? 200)
const tasks = Array.from({ length: 10 }, (_, n) =>
  task({ name: `task${n}`, lane: `lane${n % 3}`, run: () => null }),
)
const lanes = { lane0: {}, lane1: {}, lane2: {} }
const now = Date.now()
const hoursAgo = (hours) => new Date(now - hours * 3_600_000)

/** Filters, and whether pages begin anywhere in the list. */
const FILTERS = {
  none: {},
  'status completed': { status: ['completed'] },
  'status failed': { status: ['failed'] },
  'status queued, running': { status: ['queued', 'running'] },
  'a task': { task: 'task3' },
  'a task, failed': { task: 'task3', status: ['failed'] },
  'a lane': { lane: 'lane1' },
  'an owner': { submittedBy: 'user7' },
  'an owner, failed': { submittedBy: 'user7', status: ['failed'] },
  'a tag': { tag: 'tag20' },
  'a tag that is nowhere': { tag: 'nowhere' },
  'a key': { key: 'key50' },
  'text in error': { error: 'host 103 refused' },
  'text that is nowhere': { error: 'nothing of the kind' },
  'an hour of submissions': { submittedFrom: hoursAgo(2), submittedTo: hoursAgo(1) },
  'finished before': { finishedTo: hoursAgo(1) },
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-lists-'))
await chmod(folder, 0o755)
const embedded = await openEmbedded({ dataFolder: join(folder, 'data') })
try {
  const apps = []
  for (const size of SIZES) apps.push(await filled(size))
  const found = new Map()
  for (const [name, filter] of Object.entries(FILTERS)) found.set(name, await measure(apps, filter))
  for (const app of apps) await app.close()
  for (const [name, [small, large]] of found) {
    const ratio = (large.p95 / small.p95).toFixed(1)
    console.log(`${name.padEnd(24)} ${shown(small)}   ${shown(large)}   p95 ${ratio}x`)
  }
} finally {
  await embedded.release()
  await rm(folder, { recursive: true, force: true })
}

/** A database of its own with so many finished jobs. */
async function filled(size) {
  const admin = new pg.Client(embedded.url)
  await admin.connect()
  await admin.query(`create database lists_${size}`)
  await admin.end()
  const database = embedded.url.replace('/sluice?', `/lists_${size}?`)
  const app = await sluice({ database, tasks, lanes })
  const client = new pg.Client(database)
  await client.connect()
  // Lets statements write to the view sluice.jobs.
  await client.query(await readFile(new URL('../test/support/state/planting.sql', import.meta.url), 'utf8'))
  await client.query(
    `insert into sluice.jobs (task, class_id, state, submitted_at, started_at, finished_at, attempt, error, tags, submitted_by, input, result, key)
     select t.name, t.class_id,
            (case when n % 100 = 7 then 'cancelled' when n % 25 = 3 then 'failed' else 'completed' end)::sluice.job_state,
            s.at, s.at, s.at + interval '1 s', 1,
            case when n % 100 = 7 then 'cancelled: on request' when n % 25 = 3 then 'connection to host ' || n % 1000 || ' refused' end,
            case when n % 20 = 0 then array['tag' || n % 200] end, 'user' || n % 23,
            '{"url": "http://example.com/some/path/of/usual/length"}', '{"ok": true}', case when n % 50 = 0 then 'key' || n end
       from generate_series(1, $1::integer) n
       join sluice.tasks t on t.name = 'task' || n % 10
      cross join lateral (select now() - make_interval(secs => ($1 - n) * 0.5) as at) s
      order by n`,
    [size],
  )
  await client.query('vacuum analyze sluice.job_data, sluice.outcomes')
  await client.end()
  return app
}

/** In turns, so that what else goes on meets both. */
async function measure(apps, filter) {
  const seen = apps.map(() => ({ ms: [], rows: 0 }))
  for (let page = 0; page < PAGES; page++) {
    const share = 0.5 + Math.random() / 2
    for (const [at, app] of apps.entries()) {
      const cursor = page % 2 === 0 ? undefined : toCursor(String(Math.ceil(SIZES[at] * share)))
      const from = performance.now()
      const { jobs } = await readPage(app.services.calls, filter, cursor, 50)
      seen[at].ms.push(performance.now() - from)
      seen[at].rows += jobs.length
    }
  }
  return seen.map(({ ms, rows }) => {
    ms.sort((a, b) => a - b)
    return { p50: ms[Math.floor(PAGES * 0.5)], p95: ms[Math.floor(PAGES * 0.95)], rows: rows / PAGES }
  })
}

function shown({ p50, p95, rows }) {
  return `p50 ${p50.toFixed(1).padStart(5)} p95 ${p95.toFixed(1).padStart(5)} ms, ${rows.toFixed(0).padStart(2)} rows`
}
