import { expect, onTestFinished, test } from 'vitest'
import { Connection } from '../../src/db/connection.ts'
import { Dispatcher } from '../../src/engine/dispatcher.ts'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)

test('an ending of a job that the worker no longer holds is refused, and keeps no other ending from being recorded', async () => {
  const plain = task({ name: 'plain', run: () => {} })
  const app = await apps.open({ tasks: [plain] })
  const connection = new Connection({ url: database.url, applicationName: 'late', timeoutMs: 15_000 })
  onTestFinished(() => connection.close())
  const logged: string[] = []
  const note = (_: object, message: string) => logged.push(message)
  const dispatcher = new Dispatcher({
    db: app.room.db,
    connection,
    identity: {
      ...{ name: 'late', host: 'h', pid: 1, version: '0', capacity: 2, cores: 2 },
      ...{ tasks: ['plain'], labels: {} },
    },
    processTasks: new Set(),
    log: { debug: note, info: note, warn: note, error: note },
    hears: () => true,
  })
  await dispatcher.open()
  await app.submitMany(plain, [undefined, undefined])
  const taken: { id: string; attempt: number }[] = []
  while (taken.length < 2) taken.push(...(await dispatcher.cycle([], 2, 0)).assignments)
  const ended = (of: { id: string; attempt: number }, n: number) => ({
    ...{ id: of.id, attempt: of.attempt },
    ending: { kind: 'completed' as const, result: String(n) },
  })
  const [first, second] = [taken[0]!, taken[1]!]
  expect(await dispatcher.cycle([ended(first, 1)], 0, 0)).toMatchObject({ reached: true, unsent: [] })

  const answer = await dispatcher.cycle([ended(first, 2), ended(second, 3)], 0, 0)
  expect(answer).toMatchObject({ reached: true, unsent: [] })
  expect(logged.filter((message) => message.includes('cycle failed'))).toEqual([])
  expect(logged).toContain('some endings were refused: this worker no longer held the jobs')
  expect(await app.getJob(first.id)).toMatchObject({ state: 'completed', result: 1 })
  expect(await app.getJob(second.id)).toMatchObject({ state: 'completed', result: 3 })
  await dispatcher.close('the test is over')
})
