// Opens many event streams on one server in a process of its own, and measures the memory of each and how long an event takes to
// arrive. Uses the built files and the embedded PostgreSQL.
//
//   npm run build && node scripts/measure-streams.mjs [STREAMS]    2000 unless given
import { fork } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { openEmbedded } from '../dist/db/embedded/embedded.js'
import { transactWithRetries } from '../dist/db/with-retries.js'
import { authorOfDatabase } from '../dist/engine/access/author.js'
import { createKey } from '../dist/engine/access/keys.js'
import { sluice, task } from '../dist/index.js'
import { startServer } from '../dist/server/start-server.js'

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const talk = task({
  name: 'talk',
  run: async (_, ctx) => {
    while (!ctx.signal.aborted) {
      ctx.log.info(`${Date.now()}`)
      await pause(1000)
    }
  },
})

if (process.send !== undefined) await serve()
else await measure(Number(process.argv[2] ?? 2000))

/** The server that is measured: no worker in it, and nobody reads its streams but over HTTP. */
async function serve() {
  const app = await sluice({ database: process.env.MEASURED_DATABASE, tasks: [talk] })
  const server = await startServer({
    app,
    log: pino({ level: 'silent' }),
    host: '127.0.0.1',
    port: 0,
    graceMs: 1000,
  })
  process.on('message', async (what) => {
    if (what === 'stop') {
      await server.stop()
      await app.close()
      process.disconnect()
      return
    }
    globalThis.gc()
    await pause(200)
    globalThis.gc()
    const { rss, heapUsed, external } = process.memoryUsage()
    process.send({ rss, used: heapUsed + external, cpu: process.cpuUsage() })
  })
  process.send({ url: server.url })
}

async function measure(streams) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-streams-'))
  const { chmod } = await import('node:fs/promises')
  await chmod(folder, 0o755)
  const embedded = await openEmbedded({ dataFolder: join(folder, 'data') })
  const app = await sluice({ database: embedded.url, tasks: [talk], lanes: { default: { perWorker: null } } })
  const env = { ...process.env, MEASURED_DATABASE: embedded.url }
  const child = fork(new URL(import.meta.url).pathname, [], { env, execArgv: ['--expose-gc'] })
  const answer = () => new Promise((resolve) => child.once('message', resolve))
  const look = () => {
    child.send('look')
    return answer()
  }
  try {
    const { url } = await answer()
    const author = authorOfDatabase('measure')
    const { key } = await transactWithRetries(app.services.db, (tx) =>
      createKey(tx, { name: 'm', role: 'viewer' }, author),
    )
    const jobs = await app.submitMany(talk, Array.from({ length: streams }), { runAt: '1h' })
    await report(look, url, key, jobs, app)
  } finally {
    child.send('stop')
    await new Promise((resolve) => child.once('exit', resolve))
    await app.close()
    await embedded.release()
    await rm(folder, { recursive: true, force: true })
  }
}

async function report(look, url, key, jobs, app) {
  const readers = []
  let arrived = 0
  const delays = []
  const open = (id) =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}` }
      const sent = request(`${url}/api/v1/jobs/${id}/stream`, { headers, agent: false }, (response) => {
        response.setEncoding('utf8')
        response.on('error', () => {})
        response.on('data', (text) => {
          arrived += text.split('event: ').length - 1
          for (const [, at] of text.matchAll(/"line":"(\d+)"/g)) delays.push(Date.now() - Number(at))
        })
        resolve()
      })
      sent.on('error', reject)
      sent.end()
      readers.push(sent)
    })
  await Promise.all(jobs.slice(0, 10).map(({ id }) => open(id)))
  await pause(2000)
  const before = await look()
  console.log(`streams ${readers.length}: ${mib(before.rss)} MiB resident, ${mib(before.used)} MiB in use`)
  for (const part of [0.25, 0.5, 1]) {
    for (const { id } of jobs.slice(readers.length, Math.floor(jobs.length * part))) await open(id)
    while (arrived < readers.length) await pause(50)
    await pause(1000)
    const now = await look()
    const each = (now.used - before.used) / (readers.length - 10) / 1024
    console.log(
      `streams ${readers.length}: ${mib(now.rss)} MiB resident, ${mib(now.used)} MiB in use, ${each.toFixed(1)} KiB a stream`,
    )
  }
  const idle = await cpuOver(look, 10_000)
  console.log(`idle: ${idle.toFixed(1)} % of a core`)
  const running = Math.min(100, jobs.length)
  for (const { id } of jobs.slice(0, running)) await app.cancel(id)
  const live = await app.submitMany(talk, Array.from({ length: running }))
  for (const { id } of live) await open(id)
  await app.work({ capacity: running })
  await pause(3000)
  delays.length = 0
  const busy = await cpuOver(look, 10_000)
  delays.sort((a, b) => a - b)
  const at = (share) => delays[Math.floor(delays.length * share)]
  console.log(
    `${running} of them with a line a second: ${busy.toFixed(1)} % of a core, ${delays.length} lines, from the task to the reader p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`,
  )
  for (const reader of readers) reader.destroy()
  await pause(3000)
  const after = await look()
  console.log(`all cut off: ${mib(after.rss)} MiB resident, ${mib(after.used)} MiB in use`)
  await app.stopWorking()
}

async function cpuOver(look, ms) {
  const from = await look()
  await pause(ms)
  const to = await look()
  return (to.cpu.user + to.cpu.system - from.cpu.user - from.cpu.system) / (ms + 400) / 10
}

function mib(bytes) {
  return (bytes / 1024 / 1024).toFixed(1)
}
