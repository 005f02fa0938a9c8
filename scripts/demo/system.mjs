// A system as somebody might run it, for pictures: real server, database, workers and jobs; only the past is made up.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import { SluiceClient } from '../../dist/client/index.js'
import { transactWithRetries } from '../../dist/db/with-retries.js'
import { authorOfDatabase } from '../../dist/engine/access/author.js'
import { createKey } from '../../dist/engine/access/keys.js'
import { sluice } from '../../dist/index.js'
import { startServer } from '../../dist/server/start-server.js'
import { DemoGpus } from './fake-gpus.mjs'
import { overflow, POOLS } from './pool.mjs'
import { demoTasks } from './tasks.mjs'

const LANES = {
  interactive: { slots: 8, perWorker: null },
  batch: { slots: 12, perWorker: null },
  mail: { slots: 6, perWorker: null },
  imports: { slots: 30, perWorker: null },
  nightly: { slots: 4, perWorker: null },
  films: { slots: 8, perWorker: null },
  gpu: { perWorker: null },
}
const SCHEDULES = {
  'nightly-report': {
    task: 'reports.monthly',
    cron: '0 3 * * *',
    timezone: 'Europe/Berlin',
    input: { n: 1 },
  },
  'catalogue-import': { workflow: 'catalogue.import', cron: '30 5 * * 1-5', input: { items: [1, 2, 3] } },
  'mail-digest': {
    task: 'mail.send',
    cron: '*/15 7-19 * * 1-5',
    timezone: 'America/New_York',
    input: { n: 2 },
  },
  reindex: { task: 'search.reindex', cron: '0 */6 * * *', input: { n: 3 }, overlap: 'skip' },
  'month-end': {
    task: 'invoices.render',
    cron: '0 22 L * *',
    timezone: 'Europe/London',
    input: { n: 4 },
    catchUp: 1,
  },
}
const WORKERS = [
  { name: 'web-1', capacity: 8, labels: { zone: 'eu-1', disk: 'ssd' }, not: 'gpu' },
  { name: 'web-2', capacity: 8, labels: { zone: 'eu-2', disk: 'ssd' }, not: 'gpu' },
  { name: 'batch-1', capacity: 16, labels: { zone: 'eu-1', cores: 32 }, not: 'gpu' },
  { name: 'batch-2', capacity: 16, labels: { zone: 'eu-2', cores: 32 }, not: 'gpu' },
  { name: 'batch-3', capacity: 4, labels: { zone: 'eu-2', spot: true }, not: 'gpu' },
  { name: 'gpu-1', capacity: 6, labels: { zone: 'eu-1', gpu: 'a100' }, only: 'gpu' },
]
const ON_GPU = ['texts.summarise', 'speech.transcribe', 'pictures.draw']
const GPUS = ['GPU-4f1a', 'GPU-7c22', 'GPU-a90e'].map((uuid, n) => ({
  uuid,
  name: n === 2 ? 'NVIDIA L4' : 'NVIDIA A100',
  totalMiB: n === 2 ? 24_000 : 81_000,
}))
const ERRORS = [
  (n) => `ECONNRESET: the bank at 10.4.${n % 9}.${n % 250} closed the connection after ${900 + n} ms`,
  (n) => `card of order ${48_000 + n} was declined: insufficient funds`,
  (n) => `HTTP 503 from https://pay.example.com/v2/charges/${n}`,
]

/** Opens it and fills it; `close` ends and removes all of it. */
export async function openDemo() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  // Root's PostgreSQL runs as another user, who must reach it.
  chmodSync(folder, 0o755)
  const log = pino({ level: 'silent' })
  const made = demoTasks(new DemoGpus(folder, GPUS))
  const app = await sluice({
    dataFolder: join(folder, 'data'),
    log,
    ...made,
    lanes: LANES,
    schedules: SCHEDULES,
    budgets: { vram: { devices: 'auto' }, 'bank-connections': 12 },
    admission: { maxActive: 4000 },
    fleet: { pools: POOLS },
  })
  const database = app.databaseUrl
  const running = await startServer({ app, log, host: '127.0.0.1', port: 0, graceMs: 500 })
  const sql = new pg.Client(database)
  await sql.connect()
  const workers = []
  const demo = {
    url: running.url,
    /** Another program on the same database. */
    open: () => sluice({ database, log, ...made, publish: false }),
    app,
    sql: (text, values) => sql.query(text, values).then(({ rows }) => rows),
    keys: {},
    ids: {},
    async close() {
      await running.stop()
      await Promise.all(workers.map((each) => each.close()))
      await sql.end()
      await app.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  for (const [name, role] of [
    ['ada', 'platform_admin'],
    ['olga', 'operator'],
    ['anna', 'approver'],
    ['ci', 'submitter'],
    ['shop', 'submitter'],
    ['grafana', 'viewer'],
    ['gpu-fleet', 'worker'],
  ])
    demo.keys[name] = await keyOf(app, name, role)
  demo.client = (name) => new SluiceClient({ server: running.url, key: demo.keys[name] })
  await fillPast(demo)
  for (const { name, capacity, labels, only } of WORKERS) {
    const own = await demo.open()
    workers.push(own)
    const names = made.tasks
      .map((each) => each.name)
      .filter((each) => ON_GPU.includes(each) === (only === 'gpu'))
    await own.work({
      name,
      capacity,
      labels,
      tasks: names,
      build: name === 'batch-3' ? '2026.10.2' : '2026.11.0',
    })
  }
  await overflow(demo, async (options) => {
    const own = await demo.open()
    workers.push(own)
    await own.work({ ...options, tasks: ['films.render'], build: '2026.11.0' })
  })
  await fillPresent(demo)
  await makeUpHistory(demo)
  return demo
}

async function keyOf(app, name, role) {
  const runs = { tasks: ['*'], lanes: ['*'], pools: ['*'] }
  const author = authorOfDatabase('setup')
  return (
    await transactWithRetries(app.services.db, (tx) =>
      createKey(tx, { name, role, ...(role === 'worker' && { runs }) }, author),
    )
  ).key
}

const many = (count, make) => Array.from({ length: count }, (_, n) => make(n))

/** Jobs that end at once, while a worker takes whatever there is. */
async function fillPast(demo) {
  const shop = demo.client('shop')
  await shop.submitMany(
    'images.resize',
    many(180, (n) => ({ n })),
    { tags: ['shop'] },
  )
  await shop.submitMany(
    'mail.send',
    many(120, (n) => ({ n })),
    { tags: ['shop'] },
  )
  await shop.submitMany(
    'videos.transcode',
    many(40, (n) => ({ n })),
    { tags: ['studio'] },
  )
  const failing = (count, at) => many(count, (n) => ({ n, fail: ERRORS[at](n * 7 + at) }))
  await shop.submitMany('payments.capture', failing(34, 0))
  await shop.submitMany('payments.capture', failing(13, 1))
  await shop.submitMany('invoices.render', failing(5, 2))
  for (let order = 1; order <= 6; order += 1)
    await shop.submit('orders.ship', { order, ...(order === 5 && { fail: ERRORS[0](5) }) })
  const past = await demo.open()
  await past.work({ name: 'web-0', capacity: 40 })
  await settled(demo, `state < 'completed'`, 0)
  await past.close()
  const [failed] = await demo.sql(
    `select id from sluice.jobs where task = 'payments.capture' and parent_id is not null and state = 'failed' limit 1`,
  )
  demo.ids.trace = String(failed.id)
}

async function settled(demo, where, count) {
  const end = Date.now() + 90_000
  for (;;) {
    const [{ n }] = await demo.sql(`select count(*)::int as n from sluice.jobs where ${where}`)
    if (n <= count) return
    if (Date.now() > end) throw new Error(`still ${n} jobs where ${where}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function reached(demo, where, count) {
  const end = Date.now() + 90_000
  while ((await demo.sql(`select count(*)::int as n from sluice.jobs where ${where}`))[0].n < count) {
    if (Date.now() > end) throw new Error(`fewer than ${count} jobs where ${where}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** What runs and waits while the pictures are taken. */
async function fillPresent(demo) {
  const [shop, ci, olga] = ['shop', 'ci', 'olga'].map(demo.client)
  const message = (n) => `${['reading', 'encoding', 'uploading'][n % 3]}, part ${1 + (n % 9)} of 9`
  await olga.because('Storage is being moved until 06:00').setLane('nightly', { enabled: false })
  await olga.because('The bank asks for fewer connections').setLane('interactive', { slots: 6 })
  await olga.because('No digests over the holidays').setSchedule('mail-digest', { enabled: false })
  demo.ids.workflow = (
    await shop.submit('catalogue.import', { items: many(2000, (n) => n) }, { tags: ['catalogue'] })
  ).id
  // Its fan-out comes first: the lanes fill up with what stays.
  await reached(demo, `task = 'catalogue.import-item' and state in ('completed', 'failed')`, 1260)
  const busy = await shop.submitMany(
    'videos.transcode',
    many(30, (n) => ({ n, hold: true, at: (n % 10) / 10, message: message(n) })),
    { tags: ['studio'] },
  )
  demo.ids.running = busy[3].id
  demo.ids.waiting = busy.at(-1).id
  await shop.submitMany(
    'images.resize',
    many(20, (n) => ({ n, hold: true, at: (n % 5) / 5, message: message(n) })),
  )
  await shop.submitMany(
    'reports.monthly',
    many(14, (n) => ({ n })),
  )
  await shop.submitMany(
    'mail.send',
    many(7, (n) => ({ n, fail: `SMTP 421: mailbox ${n} is busy, try again later` })),
  )
  await shop.submitMany(
    'mail.send',
    many(5, (n) => ({ n })),
    { runAt: '3h' },
  )
  await shop.submitMany(
    'texts.summarise',
    many(9, (n) => ({ n, hold: true })),
  )
  await shop.submitMany(
    'speech.transcribe',
    many(12, (n) => ({ n, hold: true })),
  )
  await shop.submitMany(
    'pictures.draw',
    many(8, (n) => ({ n, hold: true })),
  )
  const waiting = await Promise.all(
    ['1.42.0', '1.43.0-rc1', '1.43.0'].map((version) =>
      ci.submit(
        'releases.deploy',
        { version, environment: 'production', commit: '9f2c1e7' },
        { tags: ['release'] },
      ),
    ),
  )
  demo.ids.approval = waiting[0].id
  // A second import that has begun: its first two dozen items are there.
  await shop.submit(
    'catalogue.import',
    { items: many(200, (n) => (n < 24 ? n : 2000 + n)) },
    { tags: ['catalogue'] },
  )
  await reached(demo, `task = 'catalogue.import-item' and state in ('completed', 'failed')`, 1284)
  await olga.because('Its machine goes away tonight').drainWorker('batch-3')
  await demo
    .client('grafana')
    .setLane('batch', { slots: 1 })
    .catch(() => {})
}

/** Spreads what has ended over a day, and gives the charts half an hour. */
async function makeUpHistory(demo) {
  // Lets statements write to the view sluice.jobs.
  await demo.sql(await readFile(new URL('../../test/support/state/planting.sql', import.meta.url), 'utf8'))
  // What runs has done so for a while; on the worker that has just come it has not.
  await demo.sql(`
    with shift as (select id, (2 + random() * 11) * interval '1 minute' as ago from sluice.jobs
                    where state in ('running', 'ready') and parent_id is null and composite is null and task <> 'films.render')
    update sluice.jobs j set submitted_at = j.submitted_at - s.ago, ready_at = j.ready_at - s.ago, started_at = j.started_at - s.ago * 0.8
      from shift s where s.id = j.id`)
  await demo.sql(`
    with spread as (
      select id, clock_timestamp() - random() * random() * interval '22 hours' - interval '2 minutes' as ended, random() as r
        from sluice.jobs where state >= 'completed' and parent_id is null and composite is null and task <> 'films.render')
    update sluice.jobs j set finished_at = s.ended, started_at = s.ended - s.r * interval '90 seconds' - interval '80 ms',
           submitted_at = s.ended - s.r * interval '140 seconds' - interval '1 second', ready_at = s.ended - s.r * interval '140 seconds' - interval '1 second'
      from spread s where s.id = j.id`)
  await demo.sql('drop schema planting cascade')
  await demo.sql(`
    insert into sluice.recoveries (at, kind, worker, lane, jobs, requeued, failed, job_ids, detail)
    select clock_timestamp() - n * n * interval '4 minutes', case when n % 4 = 3 then 'late_write' else 'taken_over' end,
           'batch-' || 1 + n % 3, 'batch', 1 + n % 5, case when n % 4 = 3 then 0 else n % 5 end, case when n % 4 = 3 then 0 else 1 end,
           array[100 + n, 101 + n, 102 + n], case when n % 4 = 3 then 'the worker came back after its lease had ended' end
      from generate_series(1, 14) n order by n desc`)
  // Long enough for the duties to have looked: what waits is sampled every 2 s.
  const start = Date.now()
  while ((await demo.client('ada').sampleQueues()).length === 0 && Date.now() - start < 20_000)
    await new Promise((resolve) => setTimeout(resolve, 200))
  const [{ snapshot }] = await demo.sql('select sluice.snapshot_v1(2000) as snapshot')
  await demo.sql('delete from sluice.snapshots')
  for (let n = 1; n <= 180; n += 1) {
    // It ends where the present begins.
    const wave = 0.6 + 0.27 * Math.cos(n / 17) + 0.13 * Math.cos(n / 5)
    const moved = structuredClone(snapshot)
    moved.at -= n * 10_000
    moved.failed.minute = Math.max(0, Math.round(6 * Math.sin(n / 11) * wave))
    moved.recovered.minute = n % 60 === 20 ? 4 : 0
    moved.admission.active = Math.round((moved.admission.active ?? 0) * wave)
    for (const lane of moved.lanes)
      for (const field of ['running', 'held', 'depth']) lane[field] = Math.round(lane[field] * wave)
    // Models came one after the other, and made way for each other.
    for (const [place, device] of moved.devices.entries())
      device.models = device.models.filter((_, at) => (n + 40 * place + 70 * at) % 180 < 120)
    await demo.sql(
      `insert into sluice.snapshots (at, snapshot) values (clock_timestamp() - $1 * interval '10 seconds', $2)`,
      [n, moved],
    )
  }
}
