import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'
import { expectGone, isAlive } from '../support/processes.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('a cancel by an operator stops a running program, with all of its process group', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-cancel-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const pids = join(folder, 'pids')
  // Neither the program nor its child ends by itself, and the child ignores SIGTERM.
  const program = `#!/bin/sh\n(trap '' TERM; exec sleep 1000) &\necho "$$ $!" > ${pids}.part && mv ${pids}.part ${pids}\nwait\n`
  await writeFile(join(folder, 'forever'), program, { mode: 0o755 })
  await writeFile(join(folder, 'sluice.yaml'), 'tasks: { forever: { exec: [./forever] } }\ngrace: 500ms\n')
  const server = await startTestServer(database.url, { config: await loadConfig({ folder }) })
  onTestFinished(() => server.stop())
  await server.app.work()
  const { id } = await server.app.submit('forever', null)
  const text = await until(() => readFile(pids, 'utf8').catch(() => undefined), 'the program to run')
  const group = text.trim().split(' ').map(Number)
  for (const pid of group) expect(isAlive(pid)).toBe(true)

  const key = await server.keyOf('operator')
  const answer = await server.call('POST', `/admin/workers/jobs/${id}/cancel`, {
    key,
    body: { reason: 'wrong input' },
  })

  expect(answer.status).toBe(200)
  await expectGone(...group)
  await until(async () => (await server.app.getJob(id)).status === 'cancelled', 'the job to be cancelled')
  expect((await server.app.getJob(id)).error).toContain('wrong input')
})
