import { hostname, userInfo } from 'node:os'
import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { useWay, WAYS } from './ways.ts'

describe.each(WAYS)('over %s', (way) => {
  const { cli, direct } = useWay(way, useDatabase())

  interface Key {
    readonly id: string
    readonly key: string
    readonly role: string
    readonly state: string
    readonly expiresAt: string | null
  }

  beforeAll(async () => {
    // Over a server there is one already: whoever asks has it.
    if (way === 'the database') await cli.json('keys', 'create', 'root', '--role', 'platform_admin')
  })

  describe('keys', () => {
    test('are shown when they are made, and never again', async () => {
      const { code, stdout, stderr } = await cli.run([
        'keys',
        'create',
        'ann',
        '--role',
        'viewer',
        '--expires',
        '30d',
      ])
      expect([code, stderr]).toEqual([0, 'keep it: it is not shown again\n'])
      const key = /^key +(slk_[A-Za-z0-9_-]{43})\nid +(\d+)\nname +ann\nrole +viewer\nexpires +\d{4}-/.exec(
        stdout,
      )
      expect(key, stdout).not.toBeNull()
      const listed = await cli.run(['keys'])
      expect(listed.stdout).toMatch(/^ID +NAME +ROLE +STATE +LAST USED +CREATED +CREATED BY +EXPIRES\n/)
      expect(listed.stdout).toMatch(/ann +viewer +active +never/)
      expect(listed.stdout).not.toContain(key![1])
      expect(JSON.stringify(await cli.json('keys'))).not.toContain(key![1])
    })

    test('of workers name what they may run, which can be changed', async () => {
      const make = (...more: string[]) => cli.run(['keys', 'create', 'box', '--role', 'worker', ...more])
      const nothing = await make()
      expect([nothing.code, nothing.stderr]).toEqual([0, expect.stringContaining('it runs nothing yet')])
      const some = await make('--tasks', 'mail.*,bill', '--lanes', '*', '--max-capacity', 'none')
      expect(some.stderr).toBe('keep it: it is not shown again\n')
      expect(some.stdout).toMatch(
        /^runs +tasks: mail\.\*, bill; lanes: \*; pools: none; capacity: any; rank: 0 or more$/m,
      )
      const id = /^id +(\d+)$/m.exec(some.stdout)![1]!
      expect((await cli.run(['keys'])).stdout).toMatch(/box +worker +active .* mail\.\*, bill *\n/)
      const set = ['keys', 'set', id, '--tasks', 'none', '--pools', 'burst', '--min-rank', '5']
      expect(await cli.json(...(set as [string]))).toMatchObject({
        id,
        runs: { tasks: [], lanes: ['*'], pools: ['burst'], maxCapacity: null, minRank: 5 },
      })
      expect((await cli.run(['keys', 'set', id])).code).toBe(2)
      const viewer = await cli.run(['keys', 'create', 'v', '--role', 'viewer', '--tasks', '*'])
      expect([viewer.code, viewer.stderr]).toEqual([2, expect.stringContaining('workers:run')])
    })

    test('are revoked by their id', async () => {
      const { id } = await cli.json<Key>('keys', 'create', 'gone', '--role', 'worker')
      expect(await cli.json<Key>('keys', 'delete', id)).toMatchObject({ id, state: 'revoked' })
      expect((await cli.run(['keys', 'delete', id])).code).toBe(0)
    })

    test('take over a name, and are revoked with the schedules of their owner', async () => {
      const first = await cli.json<Key>('keys', 'create', 'leaver', '--role', 'submitter')
      const revoked = await cli.run(['keys', 'delete', first.id, '--with-schedules'])
      expect([revoked.code, revoked.stdout]).toEqual([
        0,
        `key ${first.id} of leaver is revoked\nleaver has no enabled schedules\n`,
      ])
      const second = await cli.json<Key>('keys', 'create', 'leaver', '--role', 'submitter', '--takeover')
      const again = await cli.json('keys', 'delete', second.id, '--with-schedules')
      expect(again).toMatchObject({ id: second.id, state: 'revoked', pausedSchedules: [] })
    })

    test('that cannot be made say what would be right', async () => {
      const unknown = await cli.run(['keys', 'create', 'x', '--role', 'king'])
      expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('ROLE_NOT_FOUND')])
      const noRole = await cli.run(['keys', 'create', 'x'])
      expect([noRole.code, noRole.stderr]).toEqual([2, expect.stringContaining('--role')])
      const badTime = await cli.run(['keys', 'create', 'x', '--role', 'viewer', '--expires', 'soon'])
      expect([badTime.code, badTime.stderr]).toEqual([2, expect.stringContaining('duration')])
      const missing = await cli.run(['keys', 'delete', '99999'])
      expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('KEY_NOT_FOUND')])
      const noId = await cli.run(['keys', 'delete', 'slk_abc'])
      expect(noId.code).toBe(2)
    })

    test('of the last administrator stay', async () => {
      const keys = await cli.json<Key[]>('keys')
      const { id } = keys.find(({ role }) => role === 'platform_admin')!
      const { code, stderr } = await cli.run(['keys', 'delete', id])
      expect([code, stderr]).toEqual([1, expect.stringContaining('LAST_ADMIN')])
    })
  })

  describe('roles', () => {
    test('are listed, made, changed and deleted', async () => {
      const { stdout } = await cli.run(['roles'])
      expect(stdout).toMatch(
        /^ROLE +KIND +KEYS +PERMISSIONS\nviewer +built in +\d+ +jobs:read jobs:read:all workers:view\n/,
      )
      const made = await cli.json('roles', 'create', 'auditor', '--allow', 'access:manage,jobs:read:all')
      expect(made).toMatchObject({
        permissions: ['jobs:read', 'jobs:read:all', 'access:manage'],
        builtIn: false,
      })
      const changed = await cli.json('roles', 'set', 'auditor', '--allow', 'access:manage')
      expect(changed).toMatchObject({ permissions: ['access:manage'] })
      expect(await cli.json('roles', 'delete', 'auditor')).toEqual({ name: 'auditor', deleted: true })
      const builtIn = await cli.run(['roles', 'delete', 'viewer'])
      expect([builtIn.code, builtIn.stderr]).toEqual([1, expect.stringContaining('ROLE_CONFLICT')])
      const unknown = await cli.run(['roles', 'create', 'x', '--allow', 'jobs:fly'])
      expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('jobs:submit')])
    })
  })

  describe('the audit', () => {
    test('says who did what, and can be asked for parts of it', async () => {
      const all =
        await cli.json<{ id: string; action: string; actor: string; keyId: string | null }[]>('audit')
      expect(all.map(({ action }) => action)).toEqual(
        expect.arrayContaining(['key.create', 'key.revoke', 'role.create', 'role.change', 'role.delete']),
      )
      const own = all.filter(({ action }) => action.startsWith('role.'))
      expect(new Set(own.map(({ keyId }) => keyId === null))).toEqual(new Set([way === 'the database']))
      const keys = await cli.json<{ action: string }[]>(
        'audit',
        '--action',
        'key.',
        '--since',
        '1h',
        '--limit',
        '2',
      )
      expect(keys.map(({ action }) => action.slice(0, 4))).toEqual(['key.', 'key.'])
      // Who has the database is refused nothing that would be written down.
      const refused = await cli.json<{ refused: string }[]>('audit', '--refused')
      expect(refused.map((each) => each.refused)).toEqual(
        way === 'the database' ? [] : expect.arrayContaining(['ROLE_CONFLICT', 'LAST_ADMIN']),
      )
      const [newest, second] = all
      expect((await cli.json<{ id: string }[]>('audit', '--before', newest!.id, '-n', '1'))[0]!.id).toBe(
        second!.id,
      )
      const { stdout } = await cli.run(['audit', '--target', 'role auditor'])
      expect(stdout).toMatch(/^ID +AT +ACTOR +(KEY +)?ACTION +TARGET +(REFUSED +)?CHANGE\n/)
      expect((await cli.run(['audit', '--actor', 'nobody'])).stdout).toBe('nothing found\n')
      expect((await cli.run(['audit', '--since', 'yesterday'])).code).toBe(2)
    })

    test('has the reason of a change', async () => {
      await cli.json('lanes', 'set', 'system', '--slots', '3', '--reason', 'incident 7')
      await cli.json('lanes', 'reset', 'system')
      const lines = await cli.json<{ action: string; reason: string | null }[]>('audit', '--action', 'lane.')
      expect(lines.map(({ action, reason }) => [action, reason])).toEqual([
        ['lane.reset', null],
        ['lane.change', 'incident 7'],
      ])
      const { stdout } = await cli.run(['audit', '--action', 'lane.'])
      expect(stdout).toMatch(/CHANGE +REASON\n/)
      expect(stdout).toMatch(/lane\.change .* incident 7\n/)
      const long = await cli.run(['lanes', 'reset', 'system', '--reason', 'x'.repeat(501)])
      expect([long.code, long.stderr]).toEqual([expect.any(Number), expect.stringContaining('500')])
      expect(long.code).not.toBe(0)
    })

    test('names who submitted a job by command, as the job itself does', async () => {
      await direct.write('sluice.yaml', 'tasks: { parked: { exec: [/bin/true] } }')
      const { id } = await direct.json<{ id: string }>('submit', 'parked', '--run-at', '1h')
      const user = `${userInfo().username}@${hostname()}`
      expect((await cli.run(['show', id])).stdout).toContain(` by ${user}\n`)
      expect(await cli.json('audit', '--target', `job ${id}`)).toMatchObject([
        { action: 'job.submit', actor: user, after: { task: 'parked' } },
      ])
    })
  })
})
