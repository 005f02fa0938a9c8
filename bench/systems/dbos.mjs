import { DBOS } from '@dbos-inc/dbos-sdk'
import pg from 'pg'

const QUEUE = 'bench'

let handler = null
const step = (name, payload) => DBOS.runStep(() => handler(payload), { name })

const three = DBOS.registerWorkflow(
  async (x) => {
    await step('a', { x })
    await step('b', {})
    await step('c', {})
  },
  { name: 'three' },
)

const chain = DBOS.registerWorkflow(
  async (n) => {
    await step('work', {})
    if (n > 1) await chain(n - 1)
    return n
  },
  { name: 'chain' },
)

const tree = DBOS.registerWorkflow(
  async (n) => {
    await step('work', {})
    if (n === 1) return n
    const left = await DBOS.startWorkflow(tree)(n - 1)
    const right = await DBOS.startWorkflow(tree)(n - 1)
    await left.getResult()
    await right.getResult()
    return n
  },
  { name: 'tree' },
)

/**
 * Workflows only. `options.queue` is null for workflows that are started directly, `options.inFlight` of
 * them at once (null: all). Otherwise they are enqueued, `options.inFlight` calls at once, and
 * `options.queue` is the queue's own settings.
 */
export async function open({ url, options }) {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const count = async (condition) => {
    const { rows } = await pool.query(
      `select count(*)::integer as n from dbos.workflow_status where ${condition}`,
    )
    return rows[0].n
  }
  return {
    setup: () => DBOS.migrate(url),
    async startWorker({ onJob }) {
      handler = onJob
      DBOS.setConfig({
        name: 'bench',
        systemDatabaseUrl: url,
        systemDatabasePoolSize: options.pool,
        logLevel: 'error',
      })
      await DBOS.launch()
      if (options.queue !== null) await DBOS.registerQueue(QUEUE, options.queue)
      return { stop: () => DBOS.shutdown() }
    },
    async startWorkflows(shape, n) {
      if (shape !== 'three') {
        await (shape === 'chain' ? chain : tree)(n)
        return
      }
      const start = options.queue === null ? three : (x) => DBOS.startWorkflow(three, { queueName: QUEUE })(x)
      let next = 0
      const loops = Array.from({ length: Math.min(n, options.inFlight ?? n) }, async () => {
        while (next < n) await start(next++)
      })
      await Promise.all(loops)
    },
    unfinished: () => count(`status in ('PENDING', 'ENQUEUED', 'DELAYED')`),
    notCompleted: () => count(`status <> 'SUCCESS'`),
    async close() {
      await pool.end()
      await DBOS.shutdown()
    },
  }
}
