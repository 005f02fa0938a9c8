import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('a worker that cannot start a program is seen as draining, and the job keeps the reason and all its attempts', async () => {
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
  await until(async () => (await app.getJob(id)).status === 'queued', 'the last try to be handed back')
  expect((await app.why(id)).reason).toContain('drain')
  const attempts = await app.listAttempts(id)
  expect(attempts).toHaveLength(3)
  for (const attempt of attempts)
    expect(attempt).toMatchObject({ ending: 'returned', error: expect.stringContaining('no-such-program') })
  expect(await app.getJob(id)).toMatchObject({ status: 'queued', failures: 0 })
})
