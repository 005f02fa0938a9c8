import { expect, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

test('a worker restarted under the same name does not keep its predecessor’s job alive', async () => {
  const app = await sluice({ database: database.url, ...SHORT_LEASES })
  try {
    const start = () => startWorker({ options: { database: database.url }, work: { name: 'twin' } })
    const first = await start()
    const { id } = await app.submit('act', { gate: true })
    await first.started(id)
    await first.kill()

    // It beats under that name from now on, long before the old lease ends.
    const second = await start()
    await second.started(id, 2)
    second.go(id)
    expect(await app.job(id).result()).toEqual({ attempt: 2, pid: second.pid })

    const incarnations = await database.sql<{ pid: number; why: string | null }>(
      `select pid, ended_why as why from sluice.workers where name = 'twin' order by id`,
    )
    expect(incarnations).toEqual([
      { pid: first.pid, why: 'stopped answering' },
      { pid: second.pid, why: null },
    ])
    expect((await app.listAttempts(id)).map(({ ending }) => ending)).toEqual(['lost', 'completed'])
  } finally {
    await app.close()
  }
})
