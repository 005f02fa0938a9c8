import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Finding } from '../../src/engine/diagnosis/finding.ts'
import type { Lane, WorkerView } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { plantAssigned, plantHolder, plantRecall } from '../support/state/assigned.ts'
import { until } from '../support/until.ts'
import type { Running } from './cli.ts'
import { useWay, WAYS } from './ways.ts'

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase({ asMigrated: true })
  const { cli, direct } = useWay(way, database)
  let worker: Running

  beforeAll(async () => {
    await cli.write(
      'sluice.yaml',
      'lanes: { interactive: { tasks: [noop], slots: 3 } }\ntasks: { noop: { exec: [/bin/true] } }\n',
    )
    worker = direct.start(['worker', '--name', 'w1', '--capacity', '2'])
    await worker.says('ready to take jobs')
  })

  afterAll(async () => {
    await worker.end('SIGTERM')
  })

  async function lane(name: string): Promise<Lane & { waiting: number }> {
    return (await cli.json<(Lane & { waiting: number })[]>('lanes')).find((each) => each.name === name)!
  }

  describe('lanes', () => {
    test('are listed with what runs and waits in them', async () => {
      const { code, stdout } = await cli.run(['lanes'])
      expect(code).toBe(0)
      expect(stdout).toMatch(
        /^LANE +STATE +RUNNING +SLOTS +WAITING +OLDEST +PER WORKER +POLL +STALE +TASKS\n/,
      )
      expect(stdout).toMatch(/\ndefault +open +0 +none +0 +capacity +2s +15s\n/)
      expect(stdout).toMatch(/\ninteractive +open +0 +3 +0 +none +2s +15s +noop\n/)
    })

    test('jobs that are assigned to a worker have a column of their own and do not wait', async () => {
      await cli.run(['lanes', 'set', 'interactive', '--slots', '0'])
      const { id } = await cli.json<{ id: string }>('submit', 'noop')
      expect(await lane('interactive')).toMatchObject({ waiting: 1, assigned: 0 })
      const holder = await plantHolder(database.sql, 'w2', 'interactive')
      await plantAssigned(database.sql, holder, [id])

      expect(await lane('interactive')).toMatchObject({ running: 0, waiting: 0, assigned: 1 })
      const { stdout } = await cli.run(['lanes'])
      expect(stdout).toMatch(/^LANE +STATE +RUNNING +SLOTS +ASSIGNED +WAITING +OLDEST +PER WORKER /)
      expect(stdout).toMatch(/\ninteractive +closed +0 +0 +1 +0 +none /)

      await plantRecall(database.sql, holder)
      await database.sql('delete from sluice.holdings where worker_id = $1', [holder])
      await database.sql('delete from sluice.workers where id = $1', [holder])
      await cli.run(['lanes', 'reset', 'interactive'])
    })

    test('a change stays whatever files say, until it is reset', async () => {
      const changed = await cli.json<Lane>(
        'lanes',
        'set',
        'interactive',
        '--slots',
        'none',
        '--per-worker',
        'cores',
        '--poll',
        '500ms',
        '--stale',
        '20s',
        '--ageing',
        '10m',
        '--prefetch',
        'off',
      )
      expect(changed).toMatchObject({
        slots: null,
        perWorker: 0,
        pollMs: 500,
        staleMs: 20_000,
        ageingMs: 600_000,
        prefetch: 0,
      })
      // A program with the file starts: it leaves the operator's values alone.
      await direct.run(['submit', 'noop', '--wait'])
      expect(await lane('interactive')).toMatchObject({ slots: null, prefetch: 0 })

      const { stdout } = await cli.run(['lanes', 'reset', 'interactive'])
      expect(stdout).toMatch(/\nprefetch +1000\n(?:.+\n)+set by operator +nothing\n/)
      await direct.run(['submit', 'noop', '--wait'])
      expect(await lane('interactive')).toMatchObject({ slots: 3, prefetch: 1000, operatorSet: [] })
      await cli.run(['lanes', 'set', 'interactive', '--ageing', 'none', '--per-worker', 'none'])
    })

    test('prefetch is shown where it is not the default, as off when it is 0', async () => {
      const set = (value: string) => cli.run(['lanes', 'set', 'maintenance', '--prefetch', value])
      expect((await set('0')).stdout).toMatch(/\nprefetch +off\n(?:.+\n)+set by operator +prefetch\n/)
      const { stdout } = await cli.run(['lanes'])
      expect(stdout).toMatch(/^LANE .* PREFETCH +TASKS/)
      expect(stdout).toMatch(/\nmaintenance +open .* off +prefetch\n/)
      expect((await set('500')).stdout).toMatch(/\nprefetch +500\n/)
      for (const wrong of ['1001', 'none', '-1']) {
        const { code, stderr } = await set(wrong)
        expect([code, stderr]).toEqual([
          2,
          expect.stringContaining('Write a whole number from 0 to 1000, or off.'),
        ])
      }
      expect((await cli.run(['lanes', 'reset', 'maintenance'])).stdout).toMatch(/\nprefetch +1000\n/)
      expect((await cli.run(['lanes'])).stdout).not.toContain('PREFETCH')
    })

    test('reset without a name resets all that operators changed, and says what', async () => {
      await cli.run(['lanes', 'reset'])
      await cli.run(['lanes', 'set', 'system', '--slots', '4', '--poll', '0s'])
      await cli.run(['lanes', 'set', 'maintenance', '--slots', '5'])
      const { code, stdout } = await cli.run(['lanes', 'reset'])
      expect([code, stdout]).toEqual([0, 'lane maintenance: reset slots\nlane system: reset poll, slots\n'])
      expect(await lane('system')).toMatchObject({ slots: 1, pollMs: 30_000, operatorSet: [] })
      expect((await cli.run(['lanes', 'reset'])).stdout).toBe(
        'nothing to reset: no operator has changed a lane\n',
      )
      await cli.run(['lanes', 'set', 'system', '--slots', '4'])
      expect(await cli.json('lanes', 'reset')).toMatchObject([{ name: 'system', slots: 1, operatorSet: [] }])
      await cli.run(['lanes', 'set', 'interactive', '--ageing', 'none', '--per-worker', 'none'])
    })

    test('are created and deleted, and tasks moved between them, until reset', async () => {
      expect((await cli.run(['lanes', 'create', 'night', '--slots', '2'])).stdout).toMatch(
        /^lane +night\nstate +open\nslots +2\n/,
      )
      const moved = await cli.run(['lanes', 'move', 'noop', 'night'])
      expect([moved.code, moved.stdout]).toEqual([
        0,
        'task noop: moved to lane night; waiting jobs follow, running ones end where they run\n',
      ])
      // A program with the file starts: it leaves the task where the operator put it.
      await direct.run(['submit', 'noop', '--wait'])
      expect((await cli.run(['lanes'])).stdout).toMatch(
        /\ntask noop is in lane night, moved there by \S+; files and code say interactive\n$/,
      )
      expect((await direct.run(['doctor'])).stdout).toMatch(
        /task noop: lane is night, moved there by \S+ at \S+; files or code say interactive/,
      )
      // Deleting a lane may move it where the file says: no difference, so nothing is said.
      await cli.run(['lanes', 'create', 'dawn'])
      await cli.run(['lanes', 'move', 'noop', 'dawn'])
      await cli.run(['lanes', 'delete', 'dawn', '--move-to', 'interactive'])
      expect((await cli.run(['lanes'])).stdout).not.toContain('moved there')
      expect((await direct.run(['doctor'])).stdout).not.toContain('task noop')
      await cli.run(['lanes', 'move', 'noop', 'night'])
      const refused = await cli.run(['lanes', 'delete', 'night'])
      expect([refused.code, refused.stderr.includes('code:  LANE_IN_USE')]).toEqual([1, true])
      expect(refused.stderr).toContain('sluice lanes delete night --move-to LANE')
      expect(await cli.json('lanes', 'delete', 'night', '--move-to', 'system')).toEqual({
        lane: 'night',
        movedTo: 'system',
      })
      expect(await cli.json('tasks')).toContainEqual({
        name: 'noop',
        kind: 'task',
        lane: 'system',
        moved: true,
      })
      await cli.run(['lanes', 'delete', 'interactive', '--move-to', 'maintenance'])
      expect((await cli.run(['lanes'])).stdout).not.toMatch(/\ninteractive +open/)
      expect((await cli.run(['lanes', 'move', 'noop'])).stderr).toContain('give either a lane')
      expect((await cli.run(['lanes', 'move', 'nop', 'system'])).stderr).toContain(
        'task "nop" does not exist; did you mean noop?',
      )

      const { stdout } = await cli.run(['lanes', 'reset'])
      expect(stdout).toBe('lane interactive: reset, it exists again\ntask noop: back in lane interactive\n')
      expect(await lane('interactive')).toMatchObject({ slots: 3, tasks: ['noop'] })
      expect((await cli.run(['lanes', 'move', 'noop', 'maintenance'])).code).toBe(0)
      expect((await cli.run(['lanes', 'move', 'noop', '--reset'])).stdout).toBe(
        'task noop: back in lane interactive, as files and code say\n',
      )
    })

    test('drain stops a lane from starting jobs, and resume lets it start them again', async () => {
      const drained = await cli.run(['pause', 'interactive'])
      expect(drained.stdout).toBe(
        'lane interactive is paused: it starts no more jobs; nothing runs in it; sluice resume interactive resumes it\n',
      )
      const { id } = await cli.json<{ id: string }>('submit', 'noop')
      // A server tells what was last sampled.
      await until(async () => (await lane('interactive')).waiting === 1, 'the job to be seen waiting')
      expect(await lane('interactive')).toMatchObject({ enabled: false })
      expect(await cli.json('why', id)).toMatchObject({ reason: 'lane interactive is paused' })
      expect((await cli.run(['why', id])).stdout).toContain(
        'lane interactive is paused (sluice resume interactive resumes it)\n',
      )
      expect(await cli.json('resume', 'interactive')).toMatchObject({ name: 'interactive', enabled: true })
      await until(
        async () =>
          (await database.sql(`select 1 from sluice.jobs where id = $1 and state = 'completed'`, [id]))
            .length === 1,
        'the job to run',
      )
    })

    test('resume and drain of a number point to the job of that id', async () => {
      const { code, stderr } = await cli.run(['resume', '111'])
      expect([code, stderr]).toEqual([1, expect.stringContaining('lane "111" does not exist')])
      expect(stderr).toContain(
        'hint:  sluice resume takes the name of a lane. Run job 111 again with: sluice retry 111',
      )
      expect((await cli.run(['pause', '111'])).stderr).toContain('Cancel job 111 with: sluice cancel 111')
    })

    test('one with 0 slots is closed: a resume says that it still is, and doctor tells it once', async () => {
      expect((await cli.run(['lanes', 'set', 'interactive', '--slots', '0'])).stdout).toMatch(
        /\nstate +closed\n/,
      )
      expect((await cli.run(['lanes'])).stdout).toMatch(/\ninteractive +closed +0 +0 /)
      expect((await cli.run(['resume', 'interactive'])).stdout).toBe(
        'lane interactive is resumed: it still has 0 slots and starts no jobs; sluice lanes set interactive --slots NUMBER opens it\n',
      )
      const job = await direct.json<{ id: string }>('submit', 'noop')
      const told = async () =>
        (await direct.json<{ findings: Finding[] }>('doctor')).findings
          .filter(({ level, found }) => level !== 'ok' && !found.includes('the config says'))
          .map(({ check, found }) => `${check} ${found}`)
      expect(await told()).toEqual(['lane interactive is closed (0 slots) while 1 job waits'])
      await cli.run(['lanes', 'reset', 'interactive'])
      await cli.run(['pause', 'interactive'])
      const paused = await direct.json<{ id: string }>('submit', 'noop')
      expect(await told()).toEqual([
        expect.stringMatching(/^lane interactive is paused while \d jobs? waits?; paused by \S+$/),
      ])
      await cli.run(['lanes', 'reset', 'interactive'])
      for (const { id } of [job, paused])
        await until(
          async () => (await cli.json<{ status: string }>('show', id)).status === 'completed',
          'the jobs to run',
        )
    })

    test.each([['pause'], ['resume'], ['lanes', 'reset'], ['lanes', 'set', '--slots', '1']])(
      '%s of a lane that is not there tells which there are',
      async (...args) => {
        const { code, stderr } = await cli.run([...args, 'nowhere'])
        expect(code).toBe(1)
        expect(stderr).toContain(
          'lane "nowhere" does not exist; existing lanes: default, interactive, maintenance, system',
        )
        expect(stderr).toContain('code:  LANE_NOT_FOUND')
      },
    )
  })

  describe('workers', () => {
    test('are listed with what they run', async () => {
      expect((await cli.run(['workers'])).stdout).toMatch(
        /^NAME +STATE +RUNNING +LAST SEEN +UP +HOST +PID +VERSION +TASKS\nw1 +working +0 of 2 +\S+ ago +\S+ +\S+ +\d+ +\S+ +noop\n$/,
      )
      const [only] = await cli.json<WorkerView[]>('workers')
      expect(only).toMatchObject({
        name: 'w1',
        capacity: 2,
        draining: false,
        tasks: ['noop'],
        pid: worker.process.pid,
      })
    })

    test('drain keeps one from taking jobs, undrain lets it again', async () => {
      expect((await cli.run(['workers', 'drain', 'w1'])).stdout).toBe(
        'worker w1 finishes what it runs and takes nothing new\n',
      )
      expect((await cli.run(['workers'])).stdout).toMatch(/\nw1 +draining /)
      expect(await cli.json('workers', 'undrain', 'w1')).toEqual({ name: 'w1', draining: false, workers: 1 })
      expect(await cli.json<{ result: null }>('submit', 'noop', '--wait')).toMatchObject({
        status: 'completed',
      })
      const { code, stderr } = await cli.run(['workers', 'drain', 'w2'])
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining('no live worker is named "w2"; live workers: w1'),
      ])
    })
  })
})
