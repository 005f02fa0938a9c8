import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type HttpProxy, startHttpProxy } from '../support/http-proxy.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { startWorker, type WorkerProcess } from '../support/worker-process.ts'

// Longer than for direct workers: a heartbeat takes two processes here.
const HEARTBEAT_MS = 500
const STALE_MS = 4000
const LEASES = { heartbeat: HEARTBEAT_MS, stale: STALE_MS } as const
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

const database = useDatabase()
useCommitChecker(database)
let app: Sluice
let proxy: HttpProxy
let server: ServerProcess
let key: string

/** `sluice server` in a process of its own, which can be killed. */
class ServerProcess {
  readonly process: ChildProcess
  readonly url: Promise<string>

  constructor() {
    this.process = spawn(process.execPath, [MAIN, 'server', '--port', '0'], {
      env: { ...process.env, DATABASE_URL: database.url, SLUICE_LOG: 'silent' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const lines = createInterface({ input: this.process.stdout! })
    this.url = new Promise((resolve) => {
      lines.on('line', (line) => {
        const url = /^listening on (http\S+);/.exec(line)?.[1]
        if (url !== undefined) resolve(url)
      })
    })
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const exited = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await exited
  }
}

async function startServer(): Promise<void> {
  server = new ServerProcess()
  proxy.target = await server.url
}

beforeAll(async () => {
  const act = task({ name: 'act', run: () => null })
  app = await sluice({ database: database.url, tasks: [act], ...LEASES })
  key = await workerKey(app)
  proxy = await startHttpProxy('http://127.0.0.1:4')
  await startServer()
}, 240_000)
afterAll(async () => {
  await server.kill()
  await proxy.close()
  await app.close()
})

async function start(): Promise<WorkerProcess> {
  const worker = await startWorker({ remote: { server: proxy.url, key, grace: '200ms' } })
  onTestFinished(() => {
    proxy.decide = () => 'pass'
  })
  return worker
}

async function endOf(id: string): Promise<{ result: unknown; attempt: number; losses: number }> {
  const result = await app.job(id).result({ timeout: '60s' })
  const { attempt, losses } = await app.getJob(id)
  return { result, attempt, losses }
}

const isCycle = (path: string) => path.endsWith('/cycle')

/** Cuts the first cycle that brings what is wanted, and passes everything else. */
function cutOnce(fate: 'cut before' | 'cut after', matches: (body: string) => boolean): () => boolean {
  let done = false
  proxy.decide = (path, body) => {
    if (done || !isCycle(path) || !matches(body)) return 'pass'
    done = true
    return fate
  }
  return () => done
}

test('a worker that is killed loses its jobs to another one', async () => {
  const victim = await start()
  const { id } = await app.submit('act', { gate: true })
  await victim.started(id)
  await victim.kill()

  const survivor = await start()
  await survivor.started(id, 2)
  survivor.go(id)
  expect(await endOf(id)).toEqual({ result: { attempt: 2, pid: survivor.pid }, attempt: 2, losses: 1 })
  await survivor.close()
})

test('a server that is killed in the middle costs no attempt: the worker goes on with the next one', async () => {
  const worker = await start()
  const { id } = await app.submit('act', { gate: true })
  await worker.started(id)
  await server.kill()
  // The job ends while there is nobody to tell.
  worker.go(id)
  await worker.logged('cycle failed')
  await startServer()
  expect(await endOf(id)).toEqual({ result: { attempt: 1, pid: worker.pid }, attempt: 1, losses: 0 })
  const next = await app.submit('act', {})
  expect(await endOf(next.id)).toEqual({ result: { attempt: 1, pid: worker.pid }, attempt: 1, losses: 0 })
  await worker.close()
})

test.each(['cut before', 'cut after'] as const)(
  'an answer with a job that is lost (%s) burns no attempt',
  async (fate) => {
    const worker = await start()
    // Whatever asks for jobs: with the job committed before, the answer has it.
    const cut = cutOnce(fate, (body) => body.includes('"free":1'))
    const jobs = await app.submitMany('act', [{}, {}, {}])
    for (const job of jobs)
      expect(await endOf(job.id)).toEqual({ result: { attempt: 1, pid: worker.pid }, attempt: 1, losses: 0 })
    await until(() => cut() || app.submit('act', {}).then(() => false), 'a cycle to be cut')
    await worker.close()
  },
)

test.each(['cut before', 'cut after'] as const)(
  'an ending whose answer is lost (%s) counts once',
  async (fate) => {
    const worker = await start()
    const { id } = await app.submit('act', { gate: true })
    await worker.started(id)
    const cut = cutOnce(fate, (body) => body.includes('"ended":[') && body.includes(`"id":"${id}"`))
    worker.go(id)
    expect(await endOf(id)).toEqual({ result: { attempt: 1, pid: worker.pid }, attempt: 1, losses: 0 })
    expect(cut()).toBe(true)
    const next = await app.submit('act', {})
    expect((await endOf(next.id)).attempt).toBe(1)
    await worker.close()
  },
)

test('a job is stopped before its lease ends when the server cannot be reached', async () => {
  const worker = await start()
  const { id } = await app.submit('act', { gate: true })
  await worker.started(id)
  proxy.decide = () => 'cut before'
  const cutAt = Date.now()
  const { reason, at } = await worker.stopped(id)
  expect(reason).toBe('lease-lost')
  expect(at - cutAt).toBeLessThan(STALE_MS)
  proxy.decide = () => 'pass'
  await worker.started(id, 2)
  worker.go(id)
  expect((await endOf(id)).result).toMatchObject({ attempt: 2 })
  await worker.close()
})

test('a task that blocks the event loop does not stop the heartbeats', async () => {
  const worker = await start()
  const { id } = await app.submit('act', { blockMs: 2 * STALE_MS })
  expect(await endOf(id)).toEqual({ result: { attempt: 1, pid: worker.pid }, attempt: 1, losses: 0 })
  await worker.close()
})
