import { afterAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { forCallers } from '../../src/db/for-callers.ts'
import { createFirstKey } from '../../src/engine/access/keys.ts'
import { Cli, type Running } from '../cli/cli.ts'
import { createDatabase } from '../support/database.ts'

const cli = new Cli({ SLUICE_PORT: '0' })
const started: Running[] = []
afterAll(async () => {
  for (const each of started) await each.end('SIGKILL')
})

function startServer(url: string, command = 'server'): Running {
  const running = cli.start([command], { environment: { DATABASE_URL: url } })
  started.push(running)
  return running
}

const keysOf = (running: Running) => [...running.stdout.matchAll(/^ *admin key: (slk_[A-Za-z0-9_-]{43})$/gm)]

test('however many ask at once, one gets the first key of a database', async () => {
  const database = await createDatabase()
  const dbs = Array.from(
    { length: 4 },
    (_, n) => new Database({ url: database.url, maxConnections: 3, applicationName: `first-${n}` }),
  )
  try {
    const asked = dbs.flatMap((db) => Array.from({ length: 5 }, () => createFirstKey(forCallers(db))))
    const got = (await Promise.all(asked)).filter((each) => each !== undefined)
    expect(got).toHaveLength(1)
    const rows = await database.sql<{ id: string; role: string }>('select id, role from sluice.api_keys')
    expect(rows).toEqual([{ id: got[0]!.id, role: 'platform_admin' }])
    await database.sql('update sluice.api_keys set revoked_at = now()')
    expect(
      await createFirstKey(forCallers(dbs[0]!)),
      'a database whose keys were revoked is not empty',
    ).toBeUndefined()
  } finally {
    await Promise.all(dbs.map((db) => db.close()))
    await database.drop()
  }
})

test('two servers that start together on an empty database print one key between them, and it works on both', {
  timeout: 120_000,
}, async () => {
  const database = await createDatabase({ empty: true })
  try {
    const both = [startServer(database.url), startServer(database.url)]
    await Promise.all(both.map((each) => each.says('listening on')))
    const keys = both.flatMap(keysOf)
    expect(keys).toHaveLength(1)
    const key = keys[0]![1]!
    for (const each of both) {
      const url = /listening on (http:\/\/[^;\s]+)/.exec(each.stdout)![1]!
      const answer = await fetch(`${url}/api/v1/session`, { headers: { authorization: `Bearer ${key}` } })
      expect(await answer.json()).toMatchObject({ name: 'admin', role: 'platform_admin' })
      expect(each.stderr).not.toContain(key)
    }
    for (const each of both) expect(await each.end('SIGTERM')).toBe(0)

    const again = startServer(database.url)
    await again.says('listening on')
    expect(keysOf(again)).toEqual([])
    expect(await again.end('SIGTERM')).toBe(0)
  } finally {
    await database.drop()
  }
})
