import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
let app: Sluice
let folder: string

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES })
  folder = await mkdtemp(join(tmpdir(), 'sluice-step-'))
})
afterAll(async () => {
  await app.close()
  await rm(folder, { recursive: true, force: true })
})

test('a step that was committed survives kill -9: its function is not run again', async () => {
  const file = join(folder, 'runs')
  const victim = await startWorker({ options: { database: database.url } })
  const { id } = await app.submit('act', { stepFile: file, gate: true })
  // Between the step and the end.
  await victim.started(id)
  await victim.kill()

  const survivor = await startWorker({ options: { database: database.url } })
  await survivor.started(id, 2)
  survivor.go(id)
  expect(await app.job(id).result()).toEqual({ attempt: 2, pid: survivor.pid, stepped: 1 })
  expect(await readFile(file, 'utf8')).toBe('1\n')
})
