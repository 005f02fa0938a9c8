import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { useWay, WAYS } from './ways.ts'

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase()
  const { cli, direct } = useWay(way, database)

  test('sluice tasks lists what can be submitted', async () => {
    expect((await cli.run(['tasks'])).stdout).toMatch(/^No task or workflow is registered\. Define one/)
    await cli.write(
      'sluice.yaml',
      'tasks: { noop: { exec: [/bin/true] } }\nworkflows: { twice: { steps: { one: { task: noop } } } }\n',
    )
    await direct.json('submit', 'noop')
    expect((await cli.run(['tasks'])).stdout).toMatch(
      /^NAME +KIND +LANE\nnoop +task +default\ntwice +workflow\n$/,
    )
    expect(await cli.json('tasks')).toEqual([
      { name: 'noop', kind: 'task', lane: 'default', moved: false },
      { name: 'twice', kind: 'workflow', lane: null, moved: false },
    ])
  })

  test('sluice tasks delete forgets a task or a workflow', async () => {
    expect(await cli.json('tasks', 'delete', 'twice')).toEqual({ name: 'twice', deleted: true })
    expect(await cli.json('tasks')).toMatchObject([{ name: 'noop' }])
    const again = await cli.run(['tasks', 'delete', 'twice'])
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('TASK_NOT_FOUND')])
  })

  test('sluice tasks delete refuses a task that needs approval, until a file says that it does not', async () => {
    const declare = async (approval: boolean) => {
      await cli.write('sluice.yaml', `tasks: { payout: { exec: [/bin/true], approval: ${approval} } }\n`)
      await direct.json('submit', 'payout')
    }
    await declare(true)
    const refused = await cli.run(['tasks', 'delete', 'payout'])
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('TASK_NEEDS_APPROVAL')])
    expect(refused.stderr).toContain('Set approval: false')
    await declare(false)
    expect(await cli.json('tasks', 'delete', 'payout')).toEqual({ name: 'payout', deleted: true })
  })

  test('submit with an idempotency key is done once by a server; a database refuses it', async () => {
    const again = ['submit', 'noop', '--idempotency-key', 'order-7', '--json']
    const [first, second] = [await cli.run(again), await cli.run(again)]
    if (way === 'the database') {
      expect(first.code).toBe(2)
      expect(first.stderr).toContain('--idempotency-key requires --server')
      return
    }
    expect([first.code, second.stdout]).toEqual([0, first.stdout])
    const other = await cli.run([...again, '--input', '1'])
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('IDEMPOTENCY_CONFLICT')])
  })
})
