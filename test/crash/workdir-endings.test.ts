import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)
let app: Sluice
let root: string

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES })
  root = await mkdtemp(join(tmpdir(), 'sluice-workdirs-'))
})
afterAll(async () => {
  await app.close()
  await rm(root, { recursive: true, force: true })
})

const start = (tasks = { act: {} }) =>
  startWorker({ options: { database: database.url, shutdownGrace: 100 }, work: { workdirRoot: root }, tasks })

test.each([
  ['success', {}, {}, 'completed'],
  ['a failure', { fail: 'for good' }, { retry: { attempts: 1 } }, 'failed'],
  ['a failure that is tried again', { fail: 1 }, {}, 'completed'],
  ['a timeout', { sleepMs: 60_000 }, { timeout: 50, retry: { attempts: 1 } }, 'failed'],
] as const)('the workdir is gone after %s', async (_, input, settings, status) => {
  const worker = await start({ act: settings })
  const { id } = await app.submit('act', { ...input, folder: true })
  const { folder } = await worker.started(id)
  await until(async () => (await app.getJob(id)).status === status, `job ${id} to be ${status}`)
  expect(existsSync(folder!)).toBe(false)
  await worker.close()
})

test('the workdir is gone after a cancel', async () => {
  const worker = await start()
  const { id } = await app.submit('act', { gate: true, folder: true })
  const { folder } = await worker.started(id)
  expect(existsSync(folder!)).toBe(true)
  await app.cancel(id)
  await until(async () => (await app.getJob(id)).status === 'cancelled', 'the job to be cancelled')
  expect(existsSync(folder!)).toBe(false)
  await worker.close()
})

test('the workdir is gone after a graceful stop, and nothing is left below the root', async () => {
  const worker = await start()
  const { id } = await app.submit('act', { gate: true, folder: true })
  const { folder } = await worker.started(id)
  await worker.close()
  expect(existsSync(folder!)).toBe(false)
  expect(await readdir(root)).toEqual([])
  await app.cancel(id)
})

test('the workdir is gone after a lost lease, though another attempt has one of its own', async () => {
  const sleeper = await start()
  const { id } = await app.submit('act', { gate: true, folder: true })
  const { folder } = await sleeper.started(id)
  const other = await start()
  await sleeper.pause()
  const second = await other.started(id, 2)
  expect(second.folder).not.toBe(folder)
  sleeper.resume()
  await until(() => !existsSync(folder!), 'the workdir of the lost attempt to go')
  expect(existsSync(second.folder!)).toBe(true)
  other.go(id)
  await app.job(id).result()
  expect(existsSync(second.folder!)).toBe(false)
  await other.close()
  await sleeper.close()
})

test('the workdir of a worker killed with -9 is gone once another starts with the same root', async () => {
  const victim = await start()
  const { id } = await app.submit('act', { gate: true, folder: true })
  const { folder } = await victim.started(id)
  await victim.kill()
  expect(existsSync(folder!)).toBe(true)

  const next = await start()
  expect(existsSync(folder!)).toBe(false)
  await next.started(id, 2)
  next.go(id)
  await app.job(id).result()
  await next.close()
  expect(await readdir(root)).toEqual([])
})
