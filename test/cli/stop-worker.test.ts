import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { Cli } from './cli.ts'

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url })

test('a worker that is asked to stop lets its job finish and ends by itself', {
  timeout: 90_000,
}, async () => {
  await cli.write(
    'sluice.yaml',
    'tasks: { wait: { exec: [sh, -c, "while [ ! -f $GO ]; do sleep 0.05; done"] } }\n',
  )
  const go = `${cli.folder}/go`
  const worker = cli.start(['worker', '--name', 'w1'], { environment: { GO: go } })
  await worker.says('ready to take jobs')
  const { id } = await cli.json<{ id: string }>('submit', 'wait')
  await expect.poll(async () => (await cli.json('show', id)).status, { timeout: 60_000 }).toBe('running')
  const told = await cli.run(['workers', 'stop', 'w1'])
  expect([told.code, told.stdout]).toEqual([0, 'worker w1 ends once what it runs has ended\n'])
  await worker.says('asked to stop')
  const [listed] = await cli.json<{ name: string; stopping: boolean }[]>('workers')
  expect(listed).toMatchObject({ name: 'w1', stopping: true })
  await cli.write('go', '')
  expect(await worker.exited).toBe(0)
  expect((await cli.json('show', id)).status).toBe('completed')
  const nobody = await cli.run(['workers', 'stop', 'w1'])
  expect([nobody.code, nobody.stderr]).toEqual([1, expect.stringContaining('WORKER_NOT_FOUND')])
})
