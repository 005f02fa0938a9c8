// How responsive a server stays when 500 workers register within a second, and when all of them speak again after a restart.
// Run after `npm run build`: node bench/storm.mjs [workers]. Prints GET /readyz in quiet and during each storm, and the ratios.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const WORKERS = Number(process.argv[2] ?? 500)
/** Looks at /readyz in a second: enough for a 99th percentile in a few of them, and no load by itself. */
const LOOKS_PER_SECOND = 50
const QUIET_SECONDS = 10
const main = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sluice-storm-'))
const agent = new Agent({ keepAlive: true, maxSockets: WORKERS })
const probe = new Agent({ keepAlive: true, maxSockets: 4 })

let server = await serve()
const { key } = await call('POST', '/api/v1/keys', { name: 'storm', role: 'worker' }, server.adminKey)
try {
  const quiet = await looking(() => pause(QUIET_SECONDS * 1000))
  const ids = []
  const registering = await looking(async () => {
    await spread(async (index) => {
      const body = {
        name: `storm-${index}`,
        capacity: 1,
        cores: 1,
        tasks: [{ name: 'storm' }],
        pool: 'storm',
      }
      ids.push((await call('POST', '/api/v1/workers', body, key)).id)
    })
    await pause(2000)
  })
  server.child.kill('SIGKILL')
  await once(server.child, 'exit')
  server = { ...(await serve(server.port)), adminKey: server.adminKey }
  const returning = await looking(async () => {
    await spread((index) => call('POST', `/api/v1/workers/${ids[index]}/heartbeat`, {}, key))
    await pause(2000)
  })
  report({ quiet, [`${WORKERS} register`]: registering, [`${WORKERS} come back`]: returning })
} finally {
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  rmSync(folder, { recursive: true, force: true })
}

async function serve(port = 0) {
  const child = spawn(process.execPath, [main, 'server', '--json', '--port', String(port)], {
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
async function spread(act) {
  await Promise.all(
    Array.from({ length: WORKERS }, async (_, index) => {
      await pause((index / WORKERS) * 1000)
      await act(index)
    }),
  )
}

/** The times that /readyz took while `during` ran. */
async function looking(during) {
  const times = []
  const looks = []
  const timer = setInterval(() => {
    const began = performance.now()
    looks.push(
      call('GET', '/readyz', undefined, undefined, probe).then(() => times.push(performance.now() - began)),
    )
  }, 1000 / LOOKS_PER_SECOND)
  await during()
  clearInterval(timer)
  await Promise.all(looks)
  return times.sort((a, b) => a - b)
}

function call(method, path, body, bearer, through = agent) {
  return new Promise((resolve, reject) => {
    const headers = {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
    }
    const sent = request(
      { host: '127.0.0.1', port: server.port, method, path, headers, agent: through },
      (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (chunk) => {
          text += chunk
        })
        answer.on('end', () => {
          if (answer.statusCode < 300) resolve(path === '/readyz' ? undefined : JSON.parse(text || '{}'))
          else reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`))
        })
      },
    )
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

function report(all) {
  const at = (times, share) => times[Math.min(times.length - 1, Math.floor(times.length * share))]
  const quiet = at(all.quiet, 0.99)
  for (const [name, times] of Object.entries(all)) {
    const p99 = at(times, 0.99)
    const figures = { looks: times.length, p50: at(times, 0.5), p99, ratio: p99 / quiet }
    const shown = Object.entries(figures).map(([label, value]) => `${label} ${Math.round(value * 100) / 100}`)
    console.log(`${name.padEnd(16)} ${shown.join('  ')}`)
  }
}
