import { createPostgresBackend, Queue, Worker } from 'bullmq'

const QUEUE = 'bench'

/** Finished jobs are kept, as is BullMQ's default: Sluice keeps its history too. */
export async function open({ url, redis, role, options }) {
  const connection = options.postgres
    ? { connectionString: url, max: role === 'producer' ? options.producerPool : options.pool, migrate: true }
    : { host: redis.host, port: redis.port, maxRetriesPerRequest: null }
  const backend = options.postgres ? [createPostgresBackend] : []
  const queue = new Queue(QUEUE, { connection }, ...backend)
  queue.on('error', report)
  await queue.waitUntilReady()
  return {
    setup: async () => {},
    async bulkEnqueue(count) {
      for (let done = 0; done < count; done += options.bulk) {
        const size = Math.min(options.bulk, count - done)
        await queue.addBulk(Array.from({ length: size }, (_, i) => ({ name: 'noop', data: { i: done + i } })))
      }
    },
    enqueueMany: (payloads) => queue.addBulk(payloads.map((data) => ({ name: 'noop', data }))),
    enqueueOne: (payload) => queue.add('noop', payload),
    async startWorker({ slots, onJob }) {
      const worker = new Worker(
        QUEUE,
        (job) => onJob(job.data),
        { connection, concurrency: slots },
        ...backend,
      )
      worker.on('error', report)
      await worker.waitUntilReady()
      return { stop: () => worker.close() }
    },
    async unfinished() {
      const counts = await queue.getJobCounts('wait', 'active', 'prioritized', 'delayed')
      return Object.values(counts).reduce((sum, count) => sum + count, 0)
    },
    close: () => queue.close(),
  }
}

function report(error) {
  console.error(`bullmq: ${error.message}`)
}
