import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import type { EndedAttempt } from '../../src/model/assignment.ts'
import { DatabaseSource } from '../../src/worker/sources/database.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)

test('an ending of a job that the worker no longer holds is refused, and keeps no other ending from being recorded', async () => {
  const plain = task({ name: 'plain', run: () => {} })
  const app = await apps.open({ tasks: [plain] })
  const logged: string[] = []
  const note = (_: object, message: string) => logged.push(message)
  const source = new DatabaseSource({
    db: app.services.db,
    listener: app.services.listener,
    heartbeatMs: 5000,
    inlineTasks: ['plain'],
    identity: {
      ...{ name: 'late', host: 'h', pid: 1, version: '0', capacity: 2, cores: 2 },
      ...{ tasks: ['plain'], labels: {} },
    },
    processTasks: new Set(),
    log: { debug: note, info: note, warn: note, error: note },
  })
  await source.open({ wake() {}, answered() {}, beat() {}, recall() {}, silent() {} })
  const cycle = (ended: readonly EndedAttempt[], free: number) =>
    source.cycle({ ended, free, freeProcesses: 0, running: () => [], poll: false, resync: false })
  await app.submitMany(plain, [undefined, undefined])
  const taken: { id: string; attempt: number }[] = []
  while (taken.length < 2) taken.push(...(await cycle([], 2)).assignments)
  const ended = (of: { id: string; attempt: number }, n: number) => ({
    ...{ id: of.id, attempt: of.attempt },
    ending: { kind: 'completed' as const, result: String(n) },
  })
  const [first, second] = [taken[0]!, taken[1]!]
  expect(await cycle([ended(first, 1)], 0)).toMatchObject({ refused: [] })

  const answer = await cycle([ended(first, 2), ended(second, 3)], 0)
  expect(answer).toMatchObject({ refused: [{ id: first.id }] })
  expect(logged.filter((message) => message.includes('cycle failed'))).toEqual([])
  expect(logged).toContain('rejected outcomes: this worker no longer held the jobs')
  expect(await app.getJob(first.id)).toMatchObject({ state: 'completed', result: 1 })
  expect(await app.getJob(second.id)).toMatchObject({ state: 'completed', result: 3 })
  await source.close('the test is over')
})
