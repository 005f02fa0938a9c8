import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('a withdrawn task is tried again after a minute, by one job, and comes back when that starts', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-withdrawn-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'sluice.yaml'), 'tasks: { hello: { exec: [./program] } }')
  const config = await loadConfig({ folder })
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const app = await sluice({ database: database.url, config, log })
  onTestFinished(() => app.close())
  await app.work({ capacity: 1 })
  const { id } = await app.submit('hello', null)
  await until(
    async () => (await app.listWorkers())[0]?.withdrawn.length === 1,
    'the task to be withdrawn',
    30_000,
  )
  const others = await app.submitMany('hello', [1, 2, 3, 4])

  // Still missing: one job of the five finds out.
  await until(async () => (await app.listAttempts(id)).length === 4, 'the first retry', 90_000)
  for (const other of others) expect(await app.getJob(other.id)).toMatchObject({ attempt: 0 })

  await writeFile(join(folder, 'program'), '#!/bin/sh\n', { mode: 0o755 })
  await Promise.all(
    [id, ...others.map((each) => each.id)].map((each) => app.job(each).result({ timeout: '90s' })),
  )
  const endings = (await app.listAttempts(id)).map(({ ending }) => ending)
  expect(endings).toEqual(['returned', 'returned', 'returned', 'returned', 'completed'])
  await until(
    async () => (await app.listWorkers())[0]?.withdrawn.length === 0,
    'the task to be shown as startable',
  )
}, 240_000)
