import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import type { AuditEntry } from '../../src/engine/access/audit.ts'
import { RefusalTally } from '../../src/server/limits/refusal-tally.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('refusals beyond those that are written down leave a line with their number', async () => {
  const server = await startTestServer(database.url)
  const worker = await server.keyOf('worker', 'stubborn')
  for (let times = 0; times < 107; times++)
    expect((await server.call('GET', '/keys', { key: worker })).status).toBe(403)
  for (let times = 0; times < 25; times++)
    await server.call('GET', '/session', { key: `slk_${randomBytes(32).toString('base64url')}` })
  const { access } = server.app
  const before = await access.readAudit({ actor: 'stubborn' }, { limit: 1000 })
  expect(before.entries).toHaveLength(100)
  const [id] = before.entries.map(({ keyId }) => keyId)

  await server.stop()

  const another = await startTestServer(database.url)
  const { entries } = await another.app.access.readAudit({}, { limit: 1000 })
  expect(
    entries.filter(({ after }) => after !== null && typeof after === 'object' && 'more' in after),
  ).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        actor: 'stubborn',
        keyId: id,
        action: 'access.refuse',
        target: `and 7 more of key ${id}`,
        refused: 'FORBIDDEN',
        after: { more: 7 },
      }),
      expect.objectContaining({
        actor: 'unknown',
        action: 'access.authenticate',
        target: 'and 5 more of address 127.0.0.1',
        refused: 'UNAUTHENTICATED',
      }),
    ]),
  )
  await another.stop()
})

test('the line comes when the period is over, and sources beyond a number share one', async () => {
  const written: AuditEntry[] = []
  const write = async (entry: AuditEntry) => {
    written.push(entry)
  }
  const tally = new RefusalTally({ most: 1, periodMs: 20, sources: 2, write })
  const refusal = (keyId: string) => ({
    actor: `of ${keyId}`,
    keyId,
    action: 'access.refuse',
    refused: 'FORBIDDEN',
  })
  const admitted = ['1', '1', '1', '2', '3', '4', '5'].map((key) => tally.admit(`key ${key}`, refusal(key)))

  expect(admitted).toEqual([true, false, false, true, true, false, false])
  await until(() => written.length === 2, 'the period to end')
  expect(written).toEqual([
    { ...refusal('1'), target: 'and 2 more of key 1', after: { more: 2 } },
    {
      ...refusal('5'),
      actor: 'several',
      keyId: undefined,
      target: 'and 2 more of other sources',
      after: { more: 2 },
    },
  ])
  expect(tally.admit('key 1', refusal('1')), 'a new period').toBe(true)
  await tally.close()
  expect(written).toHaveLength(2)
})
