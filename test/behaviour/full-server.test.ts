import { expect, onTestFinished, test } from 'vitest'
import { Database, statement } from '../../src/db/database.ts'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { withUser } from '../support/global-setup.ts'
import { lockTable } from '../support/state/tables.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const database = useDatabase({ direct: true })

test('distinguishes a server without free connections from one that cannot be reached', async () => {
  const role = `crowded_${database.name}`
  await database.admin(`create role ${role} login connection limit 0`)
  try {
    const opened = sluice({ database: withUser(database.directUrl, role) })
    await expect(opened).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      message: expect.stringMatching(
        /^PostgreSQL has no free connection: too many connections for role .* Raise max_connections/,
      ) as string,
    })
  } finally {
    await database.admin(`drop role ${role}`)
  }
})

const LOOK = statement('full_server_look', 'select 1 as one')

test('says that all connections of the program are busy while a lock holds them', {
  timeout: 60_000,
}, async () => {
  const app = await sluice({ database: database.url, tasks: [task({ name: 'plain', run: () => null })] })
  onTestFinished(() => app.close())
  const lock = await lockTable(database.directUrl, 'jobs')
  onTestFinished(() => lock.release())
  const holding = [1, 2, 3, 4].map(() => app.listJobs({ limit: 1 }))
  await expect(app.listLanes()).rejects.toMatchObject({
    code: 'DATABASE_UNAVAILABLE',
    message: expect.stringMatching(
      /^all 4 connections of this program have been busy for 10s, and nothing was sent: .* Run sluice doctor/,
    ) as string,
  })
  await lock.release()
  await Promise.all(holding)
  expect(await app.listLanes()).not.toEqual([])
})

test('calls a pool full only while each connection is made and in use', async () => {
  const proxy = await startProxy(database.directUrl)
  const db = new Database({
    ...{ url: proxy.url, maxConnections: 2, applicationName: 'full' },
    // As long as a caller then waits for a connection.
    statementTimeoutMs: 1000,
  })
  onTestFinished(async () => {
    await db.close()
    await proxy.close()
  })
  const gate = new Gate()
  const holding = [1, 2].map(() => db.transaction(() => gate.pass()))
  await gate.arrived(2)
  await expect(db.run(LOOK)).rejects.toThrow('all 2 connections of this program have been busy for 1s')
  gate.open()
  await Promise.all(holding)
  expect(await db.run(LOOK)).toEqual([{ one: 1 }])

  // Nothing answers: the pool is full of connections that are being made.
  db.noteOutage()
  proxy.onConnect((connection) => connection.blackhole())
  const refused = await Promise.allSettled([1, 2, 3].map(() => db.run(LOOK)))
  for (const each of refused)
    expect((each as PromiseRejectedResult).reason.message).toMatch(/^cannot connect to PostgreSQL: /)
})
