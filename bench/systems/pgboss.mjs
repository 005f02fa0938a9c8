import pg from 'pg'
import { PgBoss } from 'pg-boss'

const QUEUE = 'bench'

export async function open({ url, role, options }) {
  const boss = new PgBoss({
    connectionString: url,
    max: role === 'producer' ? options.producerPool : 10,
    schedule: false,
    supervise: role === 'worker',
    useListenNotify: options.notify && role === 'worker',
  })
  boss.on('error', (error) => console.error(`pg-boss: ${error.message}`))
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  await boss.start()
  return {
    setup: () => boss.createQueue(QUEUE, { notify: options.notify }),
    async bulkEnqueue(count) {
      for (let done = 0; done < count; done += options.bulk) {
        const size = Math.min(options.bulk, count - done)
        await boss.insert(
          QUEUE,
          Array.from({ length: size }, (_, i) => ({ data: { i: done + i } })),
        )
      }
    },
    enqueueMany: (payloads) =>
      boss.insert(
        QUEUE,
        payloads.map((data) => ({ data })),
      ),
    enqueueOne: (payload) => boss.send(QUEUE, payload),
    async startWorker({ onJob }) {
      await boss.work(
        QUEUE,
        {
          batchSize: options.batchSize,
          localConcurrency: options.concurrency,
          burstWhenBatchFull: options.batchSize > 1,
          // The shortest that pg-boss allows, with NOTIFY and without.
          pollingIntervalSeconds: 0.5,
          notifyPollingIntervalSeconds: 0.5,
        },
        async (jobs) => {
          await Promise.all(jobs.map((job) => onJob(job.data)))
        },
      )
      return { stop: () => boss.offWork(QUEUE) }
    },
    async unfinished() {
      const { rows } = await pool.query(
        `select exists (select from pgboss.job where name = '${QUEUE}' and state < 'completed') as some`,
      )
      return rows[0].some ? 1 : 0
    },
    async finishDelays() {
      const { rows } = await pool.query(
        `select extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000 - (data->>'w')::float8 as ms
           from pgboss.job where name = '${QUEUE}' and state = 'completed' and data ? 'w'`,
      )
      return rows.map((row) => Number(row.ms))
    },
    async close() {
      await pool.end()
      await boss.stop({ graceful: false })
    },
  }
}
