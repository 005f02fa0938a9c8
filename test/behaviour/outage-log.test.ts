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
  await until(() => apps.logged.some(({ message }) => message === 'cycles get through again'), 'its end')
  await (await app.submit(act, undefined)).result()
  const lines = (text: RegExp) => apps.logged.filter(({ message }) => text.test(message))
  expect(lines(/^(cycle failed|resync failed)/)).toHaveLength(1)
  expect(lines(/^duties: the database cannot be reached$/).length).toBeLessThanOrEqual(1)
  expect(lines(/^cycles get through again$/)).toHaveLength(1)
})
