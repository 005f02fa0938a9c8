import { spawnSync } from 'node:child_process'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { startTlsProxy } from '../support/tls-proxy.ts'
import { until } from '../support/until.ts'

const database = useDatabase({ direct: true })
const apps = useApps(database)
const hasOpenssl = spawnSync('openssl', ['version']).status === 0

test.each([
  ['hello', 'must look like postgres://user:password@host:5432/name'],
  [
    'postgres://ann:s#cret@localhost/app',
    'it is not a valid URL. Write special characters of the password in',
  ],
  [
    'postgres://ann:secret@localhost/app?sslmode=verify-full&sslrootcert=/nowhere/ca.pem',
    '/nowhere/ca.pem cannot be read (ENOENT). sslrootcert, sslcert and sslkey name files on this machine',
  ],
])('rejects the address %s and does not repeat a password', async (address, message) => {
  const refused = await sluice({ database: address }).catch((error: Error) => error)
  expect(refused).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringContaining(message) })
  // Logs show an error with its causes and their properties.
  expect(inspect(refused, { depth: null })).not.toMatch(/s#cret|secret/)
  expect(refused).not.toHaveProperty('cause')
})

test.runIf(hasOpenssl)('encrypts every connection of a worker with sslmode=verify-full', async () => {
  const proxy = await startTlsProxy()
  onTestFinished(() => proxy.close())
  const verified = proxy.through(database.directUrl, {
    sslmode: 'verify-full',
    sslrootcert: proxy.authority,
  })
  const greet = task({ name: 'greet', run: (name: string) => `hello ${name}` })
  const app = await apps.open({ database: verified, tasks: [greet] })
  await app.work()
  expect(await (await app.submit(greet, 'Ada')).result()).toBe('hello Ada')

  const open = async () => {
    const rows = await database.admin<{ name: string }>(
      `select application_name as name from pg_stat_activity where datname = current_database()`,
    )
    return rows.map(({ name }) => name)
  }
  await until(async () => (await open()).includes('sluice-heartbeat'), 'the heartbeat to connect')
  expect(await open()).toEqual(expect.arrayContaining(['sluice', 'sluice-cycle', 'sluice-listen']))
  expect(proxy.encrypted).toBeGreaterThanOrEqual(4)
  expect(proxy.plain).toBe(0)
  await app.close()
})

test.runIf(hasOpenssl)(
  'refuses a server whose certificate it cannot verify, and one without TLS',
  async () => {
    const proxy = await startTlsProxy()
    onTestFinished(() => proxy.close())
    const reason = async (address: string) => {
      const refused = await sluice({ database: address }).catch((error: Error) => error)
      expect(refused).toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
      return (refused as Error).message
    }
    const through = (parameters: Record<string, string>) => proxy.through(database.directUrl, parameters)

    expect(await reason(through({ sslmode: 'verify-full' }))).toContain(
      'unable to verify the first certificate',
    )
    const sslrootcert = proxy.authority
    const byNumber = new URL(through({ sslmode: 'verify-full', sslrootcert }))
    byNumber.searchParams.set('host', '127.0.0.1')
    expect(await reason(byNumber.href)).toContain("does not match certificate's altnames")

    await (await sluice({ database: through({ sslmode: 'no-verify' }), publish: false })).close()
    expect(proxy.plain).toBe(0)
    await expect(sluice({ database: through({}) })).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    expect(proxy.plain).toBeGreaterThan(0)
  },
)
