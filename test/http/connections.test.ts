import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const database = useDatabase({ direct: true })
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const server = useServer(database, { tasks: [echo] })

/** Without the one by which a server tries whether a database that is slow to answer can be reached. */
async function connections(): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
        and application_name <> 'sluice-watch'`,
  )
  return row!.n
}

test('a server never has more than seven connections to the database, however many clients it has', async () => {
  const key = await server.keyOf('operator')
  server.app.startDuties()
  let most = 0
  let busy = true
  const watching = (async () => {
    while (busy) most = Math.max(most, await connections())
  })()
  const answers = await Promise.all(
    Array.from({ length: 400 }, (_, n) =>
      n % 2 === 0
        ? server.call('POST', '/jobs', { key, body: { task: 'echo', input: n } })
        : server.call('GET', '/admin/workers/status', { key }),
    ),
  )
  busy = false
  await watching
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 202]))
  expect(most).toBeGreaterThan(1)
  expect(most).toBeLessThanOrEqual(7)
})
