import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import pg from 'pg'
import { startWorkflows, WORKFLOWS } from './sluice-workflows.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
// A backlog is meant to wait, so no warning about it is printed.
process.env.SLUICE_LOG ??= 'error'
const LANES = ['bench', 'other']
const BULK = 50_000
const MIXED_FANS = 10

// One index probe per place that a waiting or running job can be in. A workflow is running from its submission to its end.
const NARROW = {
  unfinished: `select exists (select from sluice.queue where state = 'ready')
                        or exists (select from sluice.running)
                        or exists (select from sluice.queue where state = 'scheduled')
                        or exists (select from sluice.composites where not ended and started_at is not null) as some`,
  notCompleted: `
    select ((select count(*) from sluice.job_data)
        - (select count(*) from sluice.outcomes where state in ('completed', 'skipped')))::integer as n`,
  // Retention is far longer than a run, so no finished row has gone when these are read.
  finishDelays: `
    select extract(epoch from pg_xact_commit_timestamp(o.xmin)) * 1000 - (d.input->>'w')::float8 as ms
      from sluice.outcomes o join sluice.job_data d on d.id = o.id where o.state = 'completed' and d.input ? 'w'`,
}
// Commits from before the job row was split have one wide table.
const WIDE = {
  unfinished: `select exists (select from sluice.jobs where state = 'ready')
                   or exists (select from sluice.jobs where state = 'running')
                   or exists (select from sluice.jobs where state = 'scheduled') as some`,
  notCompleted: `select count(*)::integer as n from sluice.jobs where state not in ('completed', 'skipped')`,
  finishDelays: `
    select extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000 - (input->>'w')::float8 as ms
      from sluice.jobs where state = 'completed' and input ? 'w'`,
}

/**
 * The public entry of a checkout, found through its `exports` as a user's import would be. A plain
 * `import 'sluice'` does not reach it: bench/ has a package.json of its own.
 */
async function load(checkout) {
  const entry = createRequire(join(checkout, 'package.json')).resolve('sluice')
  return import(pathToFileURL(entry).href)
}

/** A worker that speaks to a server, and to no database. */
async function openRemote({ server, key }, checkout) {
  const { remoteWorker, task } = await load(checkout)
  let worker = null
  return {
    async startWorker({ slots, onJob }) {
      const tasks = LANES.map((name) => task({ name: `noop-${name}`, lane: name, run: onJob }))
      worker = await remoteWorker({ server, key, tasks, capacity: slots })
      return { stop: () => worker.close() }
    },
    close: async () => worker?.close(),
  }
}

/**
 * `options.remote`: where a worker gets its jobs, in place of the database.
 * `options.limit` is the hard limit of each lane over the whole system; `null` means lanes without one.
 * `options.placement`: which of several free workers gets a job.
 * `options.prefetch`: the most jobs assigned beyond the slots of a worker; left out, the default.
 * `options.workflows`: whether the workflows of the registry are known.
 * `options.laneCount`: so many lanes with one task each, and single jobs go to them in turn; left out, two lanes.
 * `options.mixed`: tasks that fail where their input says so, and one more of them.
 * `options.urgentTask`: urgent jobs have a task of their own, in the first lane.
 * `options.checkout`: where the measured Sluice is; left out, this one.
 */
export async function open({ url, options }) {
  const { limit, placement = 'fill', prefetch, laneCount, checkout = ROOT } = options
  if (options.remote !== undefined) return openRemote(options.remote, checkout)
  const { sluice, task } = await load(checkout)
  let handler = null
  const plain = { run: (input) => handler(input) }
  const failing = {
    retry: { attempts: 3, delay: '0ms', backoff: 'fixed' },
    run: (input, { attempt }) => {
      if (input.fail === true && attempt === 1) throw new Error('fails once')
      return handler(input)
    },
  }
  const laneNames =
    laneCount === undefined ? LANES : Array.from({ length: laneCount }, (_, index) => `lane-${index}`)
  const tasks = laneNames
    .map((lane) => ({ name: `noop-${lane}`, lane }))
    // A second class in the first lane.
    .concat(options.mixed || options.urgentTask ? [{ name: 'noop-third', lane: LANES[0] }] : [])
    .map((one) => task({ ...one, ...(options.mixed ? failing : plain) }))
  const lane = { slots: limit, perWorker: null, placement, ...(prefetch === undefined ? {} : { prefetch }) }
  const app = await sluice({
    database: url,
    tasks,
    workflows: options.workflows ? WORKFLOWS : [],
    lanes: Object.fromEntries(laneNames.map((name) => [name, lane])),
  })
  // Statistics from the time of the backlog would let the planner read the whole table for UNFINISHED.
  const pool = new pg.Pool({ connectionString: url, max: 1, options: '-c enable_seqscan=off' })
  let sent = 0
  let known
  const queries = async () => {
    known ??= (await pool.query(`select to_regclass('sluice.outcomes') is null as wide`)).rows[0].wide
      ? WIDE
      : NARROW
    return known
  }
  return {
    setup: async () => {},
    async bulkEnqueue(count, { lanes = 1, call = BULK } = {}) {
      for (let done = 0; done < count; done += call) {
        const size = Math.min(call, count - done)
        for (let lane = 0; lane < lanes; lane++) {
          const share = Math.ceil((size - lane) / lanes)
          await app.submitMany(
            tasks[lane],
            Array.from({ length: share }, (_, i) => ({ i: done + i })),
          )
        }
      }
    },
    enqueueMany: (payloads) => app.submitMany(tasks[0], payloads),
    enqueueOne: (payload) =>
      app.submit(laneCount === undefined ? tasks[0] : tasks[sent++ % laneCount], payload),
    enqueueUrgent: (payload) =>
      app.submit(options.urgentTask ? tasks.at(-1) : tasks[0], payload, { priority: 10 }),
    enqueueMixed: (count) => enqueueMixed(app, tasks, count),
    runOne: async (payload) => (await app.submit(tasks[0], payload)).result(),
    startWorkflows: (shape, n) => startWorkflows(app, shape, n),
    async startWorker({ slots, onJob }) {
      handler = onJob
      await app.work({ capacity: slots })
      return { stop: () => app.close() }
    },
    async unfinished() {
      const { rows } = await pool.query((await queries()).unfinished)
      return rows[0].some ? 1 : 0
    },
    async notCompleted() {
      const { rows } = await pool.query((await queries()).notCompleted)
      return rows[0].n
    },
    async finishDelays() {
      const { rows } = await pool.query((await queries()).finishDelays)
      return rows.map((row) => Number(row.ms))
    },
    async close() {
      await pool.end()
      await app.close()
    },
  }
}

/**
 * Three classes in two lanes by turns, a tenth of them failing once and tried again at once, and another tenth as children of
 * fan-outs with a window of 100.
 */
async function enqueueMixed(app, tasks, count) {
  const children = Math.floor(count / 10)
  const plain = count - children
  const inputs = tasks.map(() => [])
  for (let i = 0; i < plain; i++) inputs[i % tasks.length].push(i % 10 === 0 ? { i, fail: true } : { i })
  for (const [index, task] of tasks.entries()) await app.submitMany(task, inputs[index])
  const size = Math.ceil(children / MIXED_FANS)
  for (let from = 0; from < children; from += size)
    await app.submit('fan', { items: Array.from({ length: Math.min(size, children - from) }, (_, i) => i) })
}
