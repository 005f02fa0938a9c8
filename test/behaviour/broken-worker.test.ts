import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { checkAttention } from '../../src/engine/diagnosis/attention.ts'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('a worker that cannot start a program is seen as broken, with why; the job keeps its attempts, and runs once that is mended', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-broken-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'sluice.yaml'), 'tasks: { hello: { exec: [./no-such-program] } }')
  const config = await loadConfig({ folder })
  const app = await sluice({
    database: database.url,
    config,
    log: { debug() {}, info() {}, warn() {}, error() {} },
  })
  onTestFinished(() => app.close())
  await app.work({ name: 'broken' })

  const { id } = await app.submit('hello', null)

  await until(
    async () => (await app.listWorkers())[0]?.draining === true,
    'the worker to be seen as draining',
  )
  const missing = expect.stringContaining('no-such-program')
  expect((await app.listWorkers())[0]).toMatchObject({ name: 'broken', broken: missing })
  await until(async () => (await app.getJob(id)).status === 'queued', 'the last try to be handed back')
  expect((await app.why(id)).reason).toMatch(
    /^every worker that runs task hello is draining or broken: worker broken: .*no-such-program/,
  )
  const findings = await checkAttention({ db: app.room.db })
  expect(findings.find(({ check }) => check === 'worker broken')).toMatchObject({
    level: 'problem',
    found: missing,
    advice: expect.stringContaining('undrain broken'),
  })
  const attempts = await app.listAttempts(id)
  expect(attempts).toHaveLength(3)
  for (const attempt of attempts) expect(attempt).toMatchObject({ ending: 'returned', error: missing })
  expect(await app.getJob(id)).toMatchObject({ status: 'queued', failures: 0 })

  await writeFile(join(folder, 'no-such-program'), '#!/bin/sh\necho \'"well"\'\n', { mode: 0o755 })
  await app.drainWorker('broken', false)
  await app.job(id).result({ timeout: '20s' })
  expect((await app.listWorkers())[0]).toMatchObject({ draining: false, broken: null })
})
