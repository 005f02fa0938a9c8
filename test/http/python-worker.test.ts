import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { startHttpProxy } from '../support/http-proxy.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const server = useServer(database)
const FOLDER = fileURLToPath(new URL('../../examples/python-worker/', import.meta.url))
const missing = spawnSync('python3', ['--version']).error !== undefined

/** A worker of the same module with a task that goes on until it is told to stop. */
const PATIENT = `
import time
from worker import Worker

def wait(_, job):
    while True:
        job.progress(0.5, "waiting")
        time.sleep(0.02)

Worker({"wait": wait}).run()
`

/** One with a task that ends once the worker has been asked to stop. */
const BUSY = `
import time
from worker import start

def last(_, job):
    job.progress(0.5, "begun")
    while not job.worker.stopping:
        time.sleep(0.02)

start({"last": last})
`

/** What a process says, so far. */
function textOf(child: ChildProcess): () => string {
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part) => (text += String(part)))
  return () => text
}

async function runPython(env: NodeJS.ProcessEnv): Promise<{ status: number | null; stderr: string }> {
  const child = spawn('python3', [`${FOLDER}worker.py`], { env, stdio: 'pipe' })
  onTestFinished(() => void child.kill('SIGKILL'))
  const said = textOf(child)
  await once(child, 'close')
  return { status: child.exitCode, stderr: said() }
}

async function startPython(args: readonly string[], address: string, task: string): Promise<ChildProcess> {
  const env = {
    ...process.env,
    SLUICE_SERVER: address,
    SLUICE_KEY: await server.keyOf('worker'),
    PYTHONPATH: FOLDER,
    PYTHONDONTWRITEBYTECODE: '1',
  }
  const worker = spawn('python3', args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void worker.kill('SIGKILL'))
  // It makes the task known when it registers.
  await until(
    async () => (await server.app.listTasks()).some(({ name }) => name === task),
    'the worker to register',
  )
  return worker
}

async function leave(worker: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  const exited = once(worker, 'exit')
  worker.kill(signal)
  expect(await exited).toEqual([0, null])
  expect(await server.app.listWorkers()).toEqual([])
}

describe.skipIf(missing)(missing ? 'in Python (python3 is not installed)' : 'in Python', () => {
  test('a worker runs jobs, with lines and progress, and leaves in order', { timeout: 240_000 }, async () => {
    server.app.startDuties()
    const worker = await startPython([`${FOLDER}worker.py`], server.url, 'count_words')
    const job = await server.app.submit('count_words', 'to be or not to be')
    expect(await job.result({ timeout: '30s' })).toEqual({ be: 2, not: 1, or: 1, to: 2 })
    expect(await server.app.getJob(job.id)).toMatchObject({ attempt: 1, progress: 1 })
    expect((await server.app.readLogs(job.id)).map(({ line }) => line)).toEqual(['counting 6 words'])

    const bad = await server.app.submit('count_words', 7)
    await until(async () => (await server.app.getJob(bad.id)).failures === 1, 'the failure to be counted')
    expect((await server.app.getJob(bad.id)).error).toMatch(/AttributeError/)
    await leave(worker)
  })

  test('a job whose answer got lost is started after all, at its first attempt, and stops when it is cancelled', {
    timeout: 240_000,
  }, async () => {
    const proxy = await startHttpProxy(server.url)
    onTestFinished(() => proxy.close())
    proxy.decide = (path) => (path.endsWith('/cycle') ? 'cut after' : 'pass')
    const worker = await startPython(['-c', PATIENT], proxy.url, 'wait')
    const { id } = await server.app.submit('wait', null)
    await until(async () => (await server.app.getJob(id)).attempt === 1, 'an answer with the job')
    proxy.decide = () => 'pass'
    await until(async () => (await server.app.getJob(id)).progress === 0.5, 'the job to run')

    await server.app.cancel(id)
    await until(async () => (await server.app.getJob(id)).status === 'cancelled', 'it to stop')
    expect(await server.app.getJob(id)).toMatchObject({ attempt: 1, losses: 0 })
    await leave(worker)
  })

  test('a worker that gets Ctrl-C finishes and reports what runs, and leaves without a traceback', {
    timeout: 240_000,
  }, async () => {
    const worker = await startPython(['-c', BUSY], server.url, 'last')
    const said = textOf(worker)
    const { id } = await server.app.submit('last', null)
    await until(async () => (await server.app.getJob(id)).progress === 0.5, 'the job to run')
    expect(said()).toMatch(/^ready to take jobs: last$/m)

    await leave(worker, 'SIGINT')
    expect(await server.app.getJob(id)).toMatchObject({ status: 'completed', attempt: 1 })
    expect(said()).not.toContain('Traceback')
  })

  test.each([
    [
      'a server that is not there',
      (): string => 'http://127.0.0.1:1',
      'worker',
      /cannot register at .*: .*refused/,
    ],
    ['a key that may not', (): string => server.url, 'viewer', /cannot register at .*: 403 .*workers:run/],
  ] as const)('%s is told in a line', { timeout: 240_000 }, async (_, address, role, expected) => {
    const env = { ...process.env, SLUICE_SERVER: address(), SLUICE_KEY: await server.keyOf(role) }
    const { status, stderr } = await runPython(env)
    expect(status).toBe(1)
    expect(stderr.trim()).toMatch(expected)
    expect(stderr.trim()).not.toContain('\n')
  })
})
