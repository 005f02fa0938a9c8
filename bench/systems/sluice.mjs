import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { startWorkflows, WORKFLOWS } from './sluice-workflows.mjs'

// The package's own public entry, found through its `exports` as a user's import would be. A plain
// `import 'sluice'` does not reach it: bench/ has a package.json of its own.
const entry = createRequire(new URL('../../package.json', import.meta.url)).resolve('sluice')

const LANES = ['bench', 'other']
const BULK = 50_000

// One index probe per place that a waiting or running job can be in. A workflow is running from its submission to its end.
const UNFINISHED = `select exists (select from sluice.queue where state = 'ready')
                        or exists (select from sluice.running)
                        or exists (select from sluice.queue where state = 'scheduled')
                        or exists (select from sluice.composites where not ended and started_at is not null) as some`
const NOT_COMPLETED = `
  select ((select count(*) from sluice.job_data)
        - (select count(*) from sluice.outcomes where state in ('completed', 'skipped')))::integer as n`
// Retention is far longer than a run, so no finished row has gone when these are read.
const FINISH_DELAYS = `
  select extract(epoch from pg_xact_commit_timestamp(o.xmin)) * 1000 - (d.input->>'w')::float8 as ms
    from sluice.outcomes o join sluice.job_data d on d.id = o.id where o.state = 'completed' and d.input ? 'w'`

/** A worker that speaks to a server, and to no database. */
async function openRemote({ server, key }) {
  const { remoteWorker, task } = await import(pathToFileURL(entry).href)
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
 * `options.workflows`: whether the workflows of the registry are known.
 */
export async function open({ url, options }) {
  if (options.remote !== undefined) return openRemote(options.remote)
  const { sluice, task } = await import(pathToFileURL(entry).href)
  let handler = null
  const tasks = LANES.map((name) =>
    task({ name: `noop-${name}`, lane: name, run: (input) => handler(input) }),
  )
  const { limit, placement = 'fill' } = options
  const lane = { slots: limit, perWorker: null, placement }
  const app = await sluice({
    database: url,
    tasks,
    workflows: options.workflows ? WORKFLOWS : [],
    lanes: Object.fromEntries(LANES.map((name) => [name, lane])),
  })
  // Statistics from the time of the backlog would let the planner read the whole table for UNFINISHED.
  const pool = new pg.Pool({ connectionString: url, max: 1, options: '-c enable_seqscan=off' })
  return {
    setup: async () => {},
    async bulkEnqueue(count, { lanes = 1 } = {}) {
      for (let done = 0; done < count; done += BULK) {
        const size = Math.min(BULK, count - done)
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
    enqueueOne: (payload) => app.submit(tasks[0], payload),
    runOne: async (payload) => (await app.submit(tasks[0], payload)).result(),
    startWorkflows: (shape, n) => startWorkflows(app, shape, n),
    async startWorker({ slots, onJob }) {
      handler = onJob
      await app.work({ capacity: slots })
      return { stop: () => app.close() }
    },
    async unfinished() {
      const { rows } = await pool.query(UNFINISHED)
      return rows[0].some ? 1 : 0
    },
    async notCompleted() {
      const { rows } = await pool.query(NOT_COMPLETED)
      return rows[0].n
    },
    async finishDelays() {
      const { rows } = await pool.query(FINISH_DELAYS)
      return rows.map((row) => Number(row.ms))
    },
    async close() {
      await pool.end()
      await app.close()
    },
  }
}
