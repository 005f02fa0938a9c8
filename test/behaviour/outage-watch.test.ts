import { afterEach, describe, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { OutageWatch } from '../../src/db/outage-watch.ts'
import { useDatabase } from '../support/database.ts'
import { startProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const LOOK = { name: 'look', text: 'select 1 as one' }
const SLOW = { name: 'slow', text: 'select pg_sleep(2.5)' }

describe('a database that was out of reach', () => {
  const database = useDatabase()
  let proxy: TcpProxy
  let db: Database
  let watch: OutageWatch

  async function connectThroughProxy(): Promise<void> {
    proxy = await startProxy(database.url)
    db = new Database({ url: proxy.url, maxConnections: 2, applicationName: 'watched' })
    watch = new OutageWatch(proxy.url, [db])
  }
  afterEach(async () => {
    watch.close()
    await db.close()
    await proxy.close()
  })

  test('is asked again as soon as it is back: nobody waits for the connections from before', async () => {
    await connectThroughProxy()
    await db.run(LOOK)
    // From here on all are silent, those to come too. The connection from before stays so for good.
    for (const each of proxy.connections()) each.blackhole()
    let tries = 0
    const heal = proxy.onConnect((each) => {
      tries++
      each.blackhole()
    })
    const lost = db.run(LOOK).catch((error: Error) => error)
    await until(() => tries > 1, 'a second try to reach the database')
    heal()
    const healedAt = performance.now()
    expect(await lost).toBeInstanceOf(Error)
    expect(await db.run(LOOK)).toEqual([{ one: 1 }])
    // The limit of the statement is 30 s.
    expect(performance.now() - healedAt).toBeLessThan(5000)
    expect(tries).toBeLessThan(10)
  })

  test('is left alone where it is only slow', async () => {
    await connectThroughProxy()
    let tries = 0
    proxy.onConnect(({ applicationName }) => {
      if (applicationName === 'sluice-watch') tries++
    })
    await db.run(SLOW)
    expect(tries, 'new connections that were tried meanwhile').toBeGreaterThan(0)
    expect(proxy.connections('watched'), 'connections that were kept').toHaveLength(1)
    await until(() => proxy.connections('sluice-watch').length === 0, 'nothing to be left of those tries')
  })
})
