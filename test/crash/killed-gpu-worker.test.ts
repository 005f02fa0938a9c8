import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { type RunningServer, startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { FakeGpus } from '../support/fake-gpus.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { startWorker } from '../support/worker-process.ts'

// A worker with a model in memory is killed. What holds the memory, a server of the model for example, lives on for a while:
// the books say that it is free, and it is not.

const GB = 1024 ** 3
const GPU = 'GPU-only'
// Longer than for direct workers alone: a heartbeat takes two processes behind a server.
const LEASES = { heartbeat: 500, stale: 4000 } as const
const LINGER_MS = 1.5 * LEASES.stale
const budgets = { vram: { devices: 'auto' } } as const
const tasks = {
  ask: { model: { name: 'llama', bytes: 20 * GB, lingerMs: LINGER_MS }, uses: { vram: '20GB' } },
}

const database = useDatabase()
useCommitChecker(database)
let app: Sluice
let server: RunningServer
let gpus: FakeGpus
let uninstall: () => void

beforeAll(async () => {
  gpus = new FakeGpus([{ uuid: GPU, totalMiB: 24 * 1024 }])
  uninstall = gpus.install()
  const log = pino({ level: 'silent' })
  app = await sluice({ database: database.url, budgets, log, ...LEASES })
  app.startDuties()
  server = await startServer({ app, log, host: '127.0.0.1', port: 0, graceMs: 2000 })
})
afterAll(async () => {
  await server.stop()
  await app.close()
  uninstall()
  gpus.delete()
})

test.each(['direct', 'remote'])(
  '%s: its job is taken over, and loads the model only when the memory is really free',
  async (way) => {
    const start = async () => {
      const remote = { server: server.url, key: await workerKey(app) }
      return startWorker({
        program: 'gpu-worker.mjs',
        tasks,
        options: { database: database.url, budgets, ...LEASES },
        ...(way === 'remote' && { remote }),
      })
    }
    const victim = await start()
    const { id } = await app.submit('ask', { gate: true })
    await victim.started(id)
    await until(async () => {
      const rows = await database.sql(`select 1 from sluice.devices where key = $1 and measured_used >= $2`, [
        GPU,
        20 * GB,
      ])
      return rows.length === 1
    }, 'the model to be seen on the GPU')
    const survivor = await start()
    await victim.kill()
    const killedAt = Date.now()

    const load = await survivor.logged('load llama')
    expect(load.at - killedAt).toBeGreaterThan(LINGER_MS * 0.9)
    expect(load.fields.free).toBe(24 * GB)
    await survivor.started(id, 2)
    const held = await database.sql<{ pid: number }>(
      'select w.pid from sluice.residents r join sluice.workers w on w.id = r.worker_id where w.ended_at is null',
    )
    expect(held).toEqual([{ pid: survivor.pid }])
    survivor.go(id)
    expect(await app.job(id).result()).toMatchObject({ attempt: 2, devices: [GPU], pid: survivor.pid })
    const { losses, failures } = await app.getJob(id)
    expect({ losses, failures }).toEqual({ losses: 1, failures: 0 })
    await survivor.close()
    expect(gpus.used(GPU)).toBe(0)
  },
)
