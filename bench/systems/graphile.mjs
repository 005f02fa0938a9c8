import { Logger, makeWorkerUtils, run, WorkerPreset } from 'graphile-worker'
import pg from 'pg'

// Two task identifiers stand in for two lanes; graphile-worker has no lanes.
const TASKS = ['noop', 'other']

export async function open({ url, role, options }) {
  const pool = new pg.Pool({ connectionString: url, max: role === 'producer' ? options.producerPool : 4 })
  // graphile-worker wants both listeners on a pool it did not make.
  pool.on('error', report)
  pool.on('connect', (client) => client.on('error', report))
  const preset = { extends: [WorkerPreset], worker: workerOptions(url, options) }
  const utils = await makeWorkerUtils({ pgPool: pool, preset })
  return {
    setup: () => utils.migrate(),
    async bulkEnqueue(count, { lanes = 1 } = {}) {
      for (let done = 0; done < count; done += options.bulk) {
        const size = Math.min(options.bulk, count - done)
        await utils.addJobs(
          Array.from({ length: size }, (_, i) => ({
            identifier: TASKS[i % lanes],
            payload: { i: done + i },
          })),
        )
      }
    },
    enqueueMany: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: 'noop', payload }))),
    enqueueOne: (payload) => utils.addJob('noop', payload),
    async startWorker({ slots, onJob }) {
      // A sweep may choose fewer handlers than the scenario has slots, never more.
      const concurrentJobs = Math.min(options.slots ?? slots, slots)
      const runner = await run({
        preset: {
          extends: [WorkerPreset],
          worker: { ...workerOptions(url, options), concurrentJobs },
        },
        taskList: Object.fromEntries(TASKS.map((name) => [name, onJob])),
        crontab: '',
        noHandleSignals: true,
      })
      return { stop: () => runner.stop() }
    },
    // Finished jobs are deleted, so an empty table is a drained queue.
    async unfinished() {
      const { rows } = await pool.query('select exists (select from graphile_worker._private_jobs) as some')
      return rows[0].some ? 1 : 0
    },
    async close() {
      await utils.release()
      await pool.end()
    },
  }
}

function report(error) {
  console.error(`graphile-worker: ${error.message}`)
}

function workerOptions(url, { localQueue, completeDelay, pool }) {
  const batched = { completeJobBatchDelay: completeDelay, failJobBatchDelay: completeDelay }
  return {
    connectionString: url,
    maxPoolSize: pool,
    logger: new Logger(() => (level, message) => {
      if (level === 'error') console.error(`graphile-worker: ${message}`)
    }),
    ...(localQueue === undefined ? {} : { localQueue: { size: localQueue }, ...batched }),
  }
}
