import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const server = useServer(database)
const PROGRAM = fileURLToPath(new URL('../../examples/python-worker/worker.py', import.meta.url))
const missing = spawnSync('python3', ['--version']).error !== undefined
const title = 'a worker in Python runs jobs, with steps, lines and progress, and leaves in order'

test.skipIf(missing)(
  missing ? `${title} (python3 is not installed)` : title,
  { timeout: 60_000 },
  async () => {
    const key = await server.keyOf('worker')
    const env = { ...process.env, SLUICE_SERVER: server.url, SLUICE_KEY: key }
    const worker: ChildProcess = spawn('python3', [PROGRAM], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void worker.kill('SIGKILL'))
    server.app.startDuties()
    // It makes the task known when it registers.
    await until(
      async () => (await server.app.listTasks()).some(({ name }) => name === 'count_words'),
      'the worker to register',
      30_000,
    )
    const job = await server.app.submit('count_words', 'to be or not to be')
    expect(await job.result({ timeout: '30s' })).toEqual({ be: 2, not: 1, or: 1, to: 2 })
    expect(await server.app.getJob(job.id)).toMatchObject({ attempt: 1, progress: 1 })
    expect((await server.app.readLogs(job.id)).map(({ line }) => line)).toEqual(['counting 6 words'])

    const bad = await server.app.submit('count_words', 7)
    await until(async () => (await server.app.getJob(bad.id)).failures === 1, 'the failure to be counted')
    expect((await server.app.getJob(bad.id)).error).toMatch(/AttributeError/)

    const exited = once(worker, 'exit')
    worker.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
    expect(await server.app.listWorkers()).toEqual([])
  },
)
