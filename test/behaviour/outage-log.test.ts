import { expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('an outage is logged when it begins and when it ends, not with every try', async () => {
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const act = task({ name: 'act', run: () => null })
  const app = await apps.open({
    database: proxy.url,
    tasks: [act],
    heartbeat: 200,
    lanes: { default: { poll: '100ms' } },
  })
  await app.work()
  await (await app.submit(act, undefined)).result()
  let tries = 0
  const heal = proxy.onConnect((connection) => {
    tries++
    connection.cut()
  })
  for (const connection of proxy.connections()) connection.cut()
  await until(() => tries > 60, 'many tries')
  heal()
  await until(() => apps.logged.some(({ message }) => message === 'cycles succeed again'), 'its end')
  await (await app.submit(act, undefined)).result()
  const lines = (text: RegExp) => apps.logged.filter(({ message }) => text.test(message))
  expect(lines(/^(cycle failed|resync failed)/)).toHaveLength(1)
  expect(lines(/^duties: the database cannot be reached$/).length).toBeLessThanOrEqual(1)
  expect(lines(/^cycles succeed again$/)).toHaveLength(1)
})

test('the heartbeat that ends an outage does not give up a cycle on a connection made since', async () => {
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const act = task({ name: 'act', run: () => null })
  const app = await apps.open({
    database: proxy.url,
    tasks: [act],
    heartbeat: 200,
    lanes: { default: { poll: '100ms' } },
  })
  await app.work()
  await (await app.submit(act, undefined)).result()
  const failures = () => apps.logged.filter(({ message }) => /^(cycle failed|resync failed)/.test(message))
  let beats = 0
  let heals = false
  proxy.onConnect((connection) => {
    if (heals) return
    if (connection.applicationName === 'sluice-heartbeat') beats++
    // Cycles get through before heartbeats do, slowly, so that one is under way when a heartbeat arrives.
    if (connection.applicationName === 'sluice-cycle' && beats > 5) connection.delay(150)
    else connection.cut()
  })
  for (const connection of proxy.connections()) connection.cut()
  await until(() => apps.logged.some(({ message }) => message === 'cycles succeed again'), 'a cycle')
  expect(failures()).toHaveLength(1)
  const cycles = proxy.connections('sluice-cycle')
  heals = true
  await until(() => proxy.connections('sluice-heartbeat').some(({ bytes }) => bytes.answers > 500), 'a beat')
  await (await app.submit(act, undefined)).result()
  expect(failures()).toHaveLength(1)
  expect(cycles.every(({ open }) => open)).toBe(true)
})
