// Server, database and rows, a fleet that is heard of, jobs that come and go, a fan-out under way.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import pino from 'pino'
import { transactWithRetries } from '../../dist/db/with-retries.js'
import { authorOfDatabase } from '../../dist/engine/access/author.js'
import { createKey } from '../../dist/engine/access/keys.js'
import { sluice } from '../../dist/index.js'
import { startServer } from '../../dist/server/start-server.js'
import { fill } from './fill.mjs'
import { LANES, tasksOf } from './tasks.mjs'

const log = pino({ level: 'silent' })

/**
 * @param folder For the database.
 * @param size How many `jobs`, `items` of the fan-out, and `workers`.
 * @param closing Gets what has to be called at the end, the last first.
 */
export async function openSystem(folder, size, closing) {
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
  const { key } = await transactWithRetries(app.services.db, (tx) =>
    createKey(tx, { name: 'ada', role: 'platform_admin' }, authorOfDatabase('bench')),
  )
  const traffic = await openTraffic(app.databaseUrl, closing)
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

async function openTraffic(url, closing) {
  const child = fork(fileURLToPath(new URL('traffic.mjs', import.meta.url)), [url])
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
