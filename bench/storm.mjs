// Measures how responsive a server stays when 500 workers register within a second, and when all of them come back after a restart.
//
//   npm run build && node bench/storm.mjs [WORKERS] [REPETITIONS]
//
// SLUICE_STORM_PROFILE=FOLDER writes a CPU profile of each server. The first server then stops in an orderly way, because a killed one
// leaves no profile.
//
// A worker that registers then polls for jobs and sends a heartbeat; one that comes back polls and sends a heartbeat. A separate process
// sends requests to the server: with 500 sockets in its event loop, it would measure itself.
import { fork, spawn } from 'node:child_process'
import { once, setMaxListeners } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** Looks at /readyz in a second: enough for a 99th percentile in a few of them, and no load by itself. */
const LOOKS_PER_SECOND = 50
const QUIET_SECONDS = 10
const SETTLE_MS = 2000
const profile = process.env.SLUICE_STORM_PROFILE
const own = fileURLToPath(import.meta.url)
const main = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))

if (process.argv[2] === '--look') await look(Number(process.argv[3]))
else await measure(Number(process.argv[2] ?? 500), Number(process.argv[3] ?? 1))

/** The process that looks: tells how long each look took when it is asked to. */
async function look(port) {
  // One look that takes long must not hold up the next.
  const agent = new Agent({ keepAlive: true })
  const paths = ['/readyz', '/healthz']
  // Its own first calls are not what is measured.
  for (const path of [...paths, ...paths, ...paths]) await call({ port, path, agent })
  // Those that had to connect first are also told by themselves: connections wait in a line of their own.
  const times = { '/readyz': [], '/healthz': [], connecting: [] }
  const looks = []
  let turn = 0
  const timer = setInterval(() => {
    const path = paths[turn++ % 2]
    const began = performance.now()
    const note = ({ isNew }) => {
      const tookMs = performance.now() - began
      times[path].push(tookMs)
      if (isNew) times.connecting.push(tookMs)
    }
    looks.push(call({ port, path, agent }).then(note))
  }, 500 / LOOKS_PER_SECOND)
  process.send('looking')
  await once(process, 'message')
  clearInterval(timer)
  await Promise.all(looks)
  process.send(times)
  process.disconnect()
  agent.destroy()
}

async function measure(workers, repetitions) {
  const ratios = {}
  for (let round = 0; round < repetitions; round++) {
    const all = await storm(workers)
    for (const [name, ratio] of Object.entries(report(all))) ratios[name] = [...(ratios[name] ?? []), ratio]
  }
  if (repetitions < 2) return
  for (const [name, each] of Object.entries(ratios)) {
    const sorted = each.sort((a, b) => a - b)
    const text = sorted.map((ratio) => ratio.toFixed(2)).join(' ')
    console.log(
      `${name.padEnd(18)} ratio of p99: median ${sorted[Math.floor(sorted.length / 2)].toFixed(2)} (${text})`,
    )
  }
}

async function storm(workers) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-storm-'))
  const agent = new Agent({ keepAlive: true, maxSockets: 2 * workers })
  let server = await serve(folder)
  const { port } = server
  const key = (
    await call({
      port,
      path: '/api/v1/keys',
      body: { name: 'storm', role: 'worker', runs: { tasks: ['*'], lanes: ['*'] } },
      key: server.adminKey,
    })
  ).key
  const asWorker = (path, body, gone) =>
    call({ port, path: `/api/v1/workers${path}`, body, key, agent, gone })
  /** What a worker does once it is known: it waits for a job, and says that it lives. */
  const live = async (id, gone) => {
    asWorker(`/${id}/cycle`, { running: [], free: 1, waitMs: 20_000 }, gone).catch(() => {})
    await asWorker(`/${id}/heartbeat`, {})
  }
  try {
    const quiet = await looking(server, () => pause(QUIET_SECONDS * 1000))
    const ids = []
    const gone = new AbortController()
    setMaxListeners(0, gone.signal)
    const registering = await looking(server, async () => {
      await spread(workers, async (index) => {
        const { id } = await asWorker('', {
          name: `storm-${index}`,
          capacity: 1,
          cores: 1,
          tasks: [{ name: 'storm' }],
          pool: 'storm',
        })
        ids.push(id)
        await live(id, gone.signal)
      })
    })
    server.child.kill(profile === undefined ? 'SIGKILL' : 'SIGTERM')
    await once(server.child, 'exit')
    gone.abort()
    server = { ...(await serve(folder, port)), adminKey: server.adminKey }
    const back = new AbortController()
    setMaxListeners(0, back.signal)
    const returning = await looking(server, async () => {
      await spread(workers, (index) => live(ids[index], back.signal))
    })
    back.abort()
    return { quiet, [`${workers} register`]: registering, [`${workers} come back`]: returning }
  } finally {
    server.child.kill('SIGTERM')
    await once(server.child, 'exit')
    agent.destroy()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function serve(folder, port = 0) {
  const options = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  const child = spawn(process.execPath, [...options, main, 'server', '--json', '--port', String(port)], {
    cwd: folder,
    env: { ...process.env, SLUICE_LOG: 'error', SLUICE_DATA: join(folder, 'data') },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const chunk of child.stdout) {
    text += chunk
    if (text.includes('\n}') || /\}\s*$/.test(text)) break
  }
  const { url, adminKey } = JSON.parse(text)
  return { child, adminKey, port: Number(new URL(url).port) }
}

/** Every worker once, over a second. */
async function spread(workers, act) {
  await Promise.all(
    Array.from({ length: workers }, async (_, index) => {
      await pause((index / workers) * 1000)
      await act(index)
    }),
  )
}

/** The times that /readyz and /healthz took while `during` ran and for a moment after it, and the CPU it took. */
async function looking(server, during) {
  const looker = fork(own, ['--look', String(server.port)])
  await once(looker, 'message')
  const before = cpu(server)
  const began = performance.now()
  await during()
  const tookMs = performance.now() - began
  const after = cpu(server)
  await pause(SETTLE_MS)
  looker.send('enough')
  const [times] = await once(looker, 'message')
  const spent = Object.fromEntries(Object.keys(after).map((who) => [who, after[who] - before[who]]))
  for (const each of Object.values(times)) each.sort((a, b) => a - b)
  return { times, tookMs, spent }
}

/** CPU seconds so far of the server, of its database and of this process. Where there is no /proc, of this process only. */
function cpu(server) {
  const { user, system } = process.cpuUsage()
  const bench = (user + system) / 1e6
  if (!existsSync('/proc/self/stat')) return { bench }
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => processOf(pid) ?? [])
  const mine = all.find(({ pid }) => pid === process.pid)
  const isDatabase = ({ name, bornAt }) => name === 'postgres' && bornAt >= mine.bornAt
  const database = all.filter(isDatabase)
  // Of connections that have been closed only whoever made them knows.
  const root = database.find(({ parent }) => !database.some(({ pid }) => pid === parent))
  const spent = database.reduce((sum, { own }) => sum + own, root?.ended ?? 0)
  return { bench, server: all.find(({ pid }) => pid === server.child.pid).own, database: spent }
}

function processOf(pid) {
  try {
    const [, name, rest] = /^\d+ \((.*)\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    const fields = rest.split(' ').map(Number)
    const own = (fields[11] + fields[12]) / 100
    const ended = (fields[13] + fields[14]) / 100
    return { pid: Number(pid), name, parent: fields[1], own, ended, bornAt: fields[19] }
  } catch {
    return undefined
  }
}

function call({ port, path, body, key, agent, gone }) {
  return new Promise((resolve, reject) => {
    const headers = {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    }
    const method = body === undefined ? 'GET' : 'POST'
    const options = { host: '127.0.0.1', port, method, path, headers, agent, ...(gone && { signal: gone }) }
    const sent = request(options, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      answer.on('end', () => {
        if (answer.statusCode < 300) resolve({ ...JSON.parse(text || '{}'), isNew: !sent.reusedSocket })
        else reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`))
      })
    })
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** Prints what was seen, and gives the ratios of the 99th percentiles. */
function report(all) {
  const at = (times, share) => times[Math.min(times.length - 1, Math.floor(times.length * share))]
  const quiet = at(all.quiet.times['/readyz'], 0.99)
  const ratios = {}
  for (const [name, { times, tookMs, spent }] of Object.entries(all)) {
    const ready = times['/readyz']
    const p99 = at(ready, 0.99)
    const figures = { looks: ready.length, p50: at(ready, 0.5), p99, max: ready.at(-1), ratio: p99 / quiet }
    const { connecting } = times
    const more = {
      'healthz p99': at(times['/healthz'], 0.99),
      connecting: connecting.length,
      ...(connecting.length > 0 && { 'their max': connecting.at(-1) }),
      s: tookMs / 1000,
    }
    const used = Object.entries(spent).map(([who, seconds]) => [`CPU ${who}`, seconds])
    const shown = Object.entries({ ...figures, ...more, ...Object.fromEntries(used) })
    console.log(
      `${name.padEnd(18)} ${shown.map(([label, value]) => `${label} ${Math.round(value * 100) / 100}`).join('  ')}`,
    )
    if (name !== 'quiet') ratios[name] = p99 / quiet
  }
  return ratios
}
