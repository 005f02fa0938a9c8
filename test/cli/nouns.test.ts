import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { plantHolder } from '../support/state/assigned.ts'
import { useWay, WAYS } from './ways.ts'

const FILE = `
lanes: { narrow: { slots: 3, tasks: [noop] } }
tasks: { noop: { exec: [/bin/true] } }
budgets: { licences: 2 }
schedules: { nightly: { task: noop, cron: '0 3 * * *' } }
fleet: { pools: { burst: { max: 3, provisioner: command, options: { argv: [/bin/true] } } } }
`

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase({ asMigrated: true })
  const { cli, direct } = useWay(way, database)

  beforeAll(async () => {
    await cli.write('sluice.yaml', FILE)
    await direct.run(['submit', 'noop'])
    await plantHolder(database.sql, 'w1', 'narrow')
    if (way === 'the database') await cli.run(['keys', 'create', 'root', '--role', 'platform_admin'])
    await cli.run(['keys', 'create', 'ann', '--role', 'viewer'])
  })

  const NOUNS = [
    ['tasks', 'noop', 'nop', 'task', 'TASK_NOT_FOUND'],
    ['lanes', 'narrow', 'narow', 'lane', 'LANE_NOT_FOUND'],
    ['budgets', 'licences', 'licence', 'budget', 'BUDGET_NOT_FOUND'],
    ['pools', 'burst', 'brust', 'pool', 'POOL_NOT_FOUND'],
    ['schedules', 'nightly', 'nightl', 'schedule', 'SCHEDULE_NOT_FOUND'],
    ['workers', 'w1', 'w2', 'worker', 'WORKER_NOT_FOUND'],
    ['keys', 'ann', 'anne', 'key', 'KEY_NOT_FOUND'],
    ['roles', 'viewer', 'viewr', 'role', 'ROLE_NOT_FOUND'],
  ] as const

  test.each(NOUNS)('%s list is %s without a verb', async (noun) => {
    const bare = await cli.json<object[]>(noun)
    expect(bare.length).toBeGreaterThan(0)
    const listed = await cli.json<object[]>(noun, 'list')
    expect(withoutTimes(listed)).toEqual(withoutTimes(bare))
    const { code, stdout } = await cli.run([noun, 'list'])
    expect([code, stdout === '']).toEqual([0, false])
  })

  test.each(NOUNS)('%s show %s shows it', async (noun, name) => {
    const all = await cli.json<{ name: string }[]>(noun)
    const shown = await cli.json<{ name: string }>(noun, 'show', name)
    const listed = all.find((each) => each.name === name)!
    expect(Object.keys(withoutTimes(shown))).toEqual(
      expect.arrayContaining(
        Object.keys(withoutTimes(listed)).filter((field) => field !== 'waiting' && field !== 'oldestAt'),
      ),
    )
    expect(shown.name).toBe(name)
    const { code, stdout } = await cli.run([noun, 'show', name])
    expect(code).toBe(0)
    expect(stdout).toContain(name)
  })

  test.each(NOUNS)(
    '%s: a name that does not exist (not %s but %s) is rejected with its code',
    async (noun, _, wrong, singular, errorCode) => {
      const { code, stdout, stderr } = await cli.run([noun, 'show', wrong])
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toContain(`${singular} "${wrong}" does not exist`)
      expect(stderr).toContain(`code:  ${errorCode}`)
      // On a database the engine itself names what is near; through a server it cannot.
      expect(stderr).toMatch(
        /(did you mean \w+\?|list them with: sluice \w+|; there (is|are) |no schedule "nightl")/,
      )
    },
  )

  test('budgets create makes a budget that tasks can use and that a file leaves alone', async () => {
    const made = await cli.json('budgets', 'create', 'memory', '--capacity', '24GB', '--max-wait', '1m')
    expect(made).toMatchObject({
      name: 'memory',
      kind: 'shared',
      bytes: true,
      capacity: 24 * 1024 ** 3,
      maxWaitMs: 60_000,
      operatorSet: ['capacity', 'maxWaitMs'],
    })
    expect((await cli.run(['budgets', 'show', 'memory'])).stdout).toMatch(/^capacity +24GB$/m)
    const again = await cli.run(['budgets', 'create', 'memory', '--capacity', '3'])
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('BUDGET_EXISTS')])
    const wrong = await cli.run(['budgets', 'create', 'calls', '--capacity', 'many'])
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--capacity')])
    expect(await cli.json('budgets', 'delete', 'memory')).toEqual({ name: 'memory', removed: true })
  })

  test('pools delete removes a pool, unless it has workers', async () => {
    await cli.write('sluice.yaml', FILE.replace('burst:', 'spare: { max: 1 }, burst:'))
    await direct.run(['submit', 'noop'])
    expect((await cli.run(['pools', 'delete', 'spare'])).stdout).toBe('pool spare is deleted\n')
    const gone = await cli.run(['pools', 'delete', 'spare'])
    expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining('POOL_NOT_FOUND')])
    await database.sql(`update sluice.workers set pool = 'burst' where name = 'w1'`)
    const used = await cli.run(['pools', 'delete', 'burst'])
    expect([used.code, used.stderr]).toEqual([
      1,
      expect.stringContaining('pool burst cannot be deleted: it has 1 live worker'),
    ])
    await database.sql(`update sluice.workers set pool = null where name = 'w1'`)
  })

  test('of two keys with one name, show asks for an id', async () => {
    const { id } = await cli.json<{ id: string }>('keys', 'create', 'ann', '--role', 'viewer')
    const { code, stderr } = await cli.run(['keys', 'show', 'ann'])
    expect(code).toBe(2)
    expect(stderr).toContain('2 keys are called "ann"')
    expect(stderr).toMatch(new RegExp(`^hint: {2}name one by its id: \\d+, ${id}$`, 'm'))
    expect(await cli.json('keys', 'show', id)).toMatchObject({ id, name: 'ann' })
  })
})

/** Ages differ between two calls. */
function withoutTimes<T>(value: T): T {
  return JSON.parse(JSON.stringify(value, (field, each) => (/(Ms|At)$/.test(field) ? undefined : each)))
}
