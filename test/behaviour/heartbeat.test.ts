import { expect, onTestFinished, test } from 'vitest'
import { databaseBeats, Heartbeat } from '../../src/engine/heartbeat.ts'
import { useDatabase } from '../support/database.ts'
import { startRequestProxy } from '../support/request-proxy.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('a beat asked for while one is under way follows it at once', async () => {
  const proxy = await startRequestProxy(database.directUrl)
  const isBeat = ({ statement }: { statement: string }) => statement === 'beat'
  const first = proxy.hold(isBeat)
  let beats = 0
  // So far apart that only a beat that was asked for can come in time.
  const heartbeat = new Heartbeat({
    thread: databaseBeats(proxy.url),
    workerId: '1',
    heartbeatMs: 60_000,
    inlineTasks: [],
    log: { debug() {}, info() {}, warn() {}, error() {} },
    events: { beat: () => beats++, silent() {} },
  })
  onTestFinished(async () => {
    await heartbeat.stop()
    await proxy.close()
  })

  const held = await first
  // Carried out by the server, not yet answered: it cannot have seen what is announced now.
  expect(await held.deliver()).toBe(true)
  const second = proxy.hold(isBeat)
  heartbeat.now()
  held.pass()
  ;(await second).pass()
  await until(() => beats === 2, 'the second beat to be answered')
})
