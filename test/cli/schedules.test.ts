import { beforeAll, describe, expect, test } from 'vitest'
import type { Firing, ScheduleView } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useWay, WAYS } from './ways.ts'

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase()
  const { cli, direct } = useWay(way, database)

  beforeAll(async () => {
    await cli.write(
      'sluice.yaml',
      `tasks: { noop: { exec: [/bin/true] } }
workflows: { chain: { steps: { one: { task: noop } } } }
schedules: { nightly: { workflow: chain, cron: "0 3 * * *", timezone: Europe/Berlin } }
`,
    )
    // Applies the file.
    await direct.run(['submit', 'noop'])
  })

  describe('schedules', () => {
    test('are listed, those of the config file too', async () => {
      const { code, stdout } = await cli.run(['schedules'])
      expect(code).toBe(0)
      expect(stdout).toMatch(/^SCHEDULE +STATE +RUNS +CRON +ZONE +NEXT\n/)
      expect(stdout).toMatch(/\nnightly +enabled +chain +0 3 \* \* \* +Europe\/Berlin +in \S+\n/)
    })

    test('are checked without a database, and shown with their next ticks', async () => {
      await cli.write(
        'new-year.yaml',
        'schedules: { party: { task: toast, cron: "0 0 1 1 *", timezone: Asia/Tokyo } }\n',
      )
      const { code, stdout, stderr } = await cli.run(['check', 'new-year.yaml'], {
        environment: { DATABASE_URL: 'postgres://127.0.0.1:1/none' },
      })
      expect(code).toBe(0)
      expect(stdout).toMatch(/\nparty +toast +0 0 1 1 \* +Asia\/Tokyo +(\d{4}-01-01 00:00(, )?){3}\n/)
      expect(stderr).toContain(
        'warning: schedule party: task toast is not here; another program must bring it',
      )
      expect(await cli.json('check', 'new-year.yaml')).toMatchObject({
        schedules: [{ name: 'party', task: 'toast', workflow: null, enabled: true }],
        warnings: [{ schedule: 'party' }],
      })
    })

    test('are added, changed, disabled, enabled and removed', { timeout: 120_000 }, async () => {
      const { code, stdout } = await cli.run([
        ...['schedules', 'create', 'often', '--task', 'noop', '--cron', '*/5 * * * *', '--input', '{"n":1}'],
        ...[
          '--key',
          'k',
          '--priority',
          '-4',
          '--lane',
          'system',
          '--tag',
          'a',
          '--tag',
          'b',
          '--deadline',
          '1h',
        ],
        ...['--overlap', 'skip', '--catch-up', '0', '--timezone', 'Asia/Kolkata', '--disabled'],
      ])
      expect(code).toBe(0)
      expect(stdout).toMatch(/^schedule +often\nstate +disabled\ntask +noop\ncron +\*\/5 \* \* \* \*\n/)
      expect(await cli.json<ScheduleView>('schedules', 'show', 'often')).toMatchObject({
        input: { n: 1 },
        key: 'k',
        priority: -4,
        lane: 'system',
        tags: ['a', 'b'],
        deadlineMs: 3_600_000,
        overlap: 'skip',
        catchUp: 0,
        timezone: 'Asia/Kolkata',
        enabled: false,
        declared: false,
      })
      expect(await cli.json('schedules', 'enable', 'often')).toMatchObject({ enabled: true })
      expect(await cli.json('schedules', 'set', 'often', '--key', 'none', '--cron', '@hourly')).toMatchObject(
        {
          key: null,
          cron: '@hourly',
        },
      )
      expect(await cli.json('schedules', 'disable', 'often')).toMatchObject({ enabled: false })
      expect((await cli.run(['schedules', 'delete', 'often'])).stdout).toBe('schedule often is deleted\n')
      expect(await cli.json<ScheduleView[]>('schedules')).toHaveLength(1)
    })

    test('an operator wins over the file until reset, and a removal says that the file brings it back', {
      timeout: 120_000,
    }, async () => {
      expect((await cli.run(['schedules', 'show', 'nightly'])).stdout).toMatch(
        /\nnext +\S+T0[12]:00:00\.000Z, \d{4}-\d\d-\d\d 03:00 in Europe\/Berlin\n/,
      )
      const disabled = await cli.run(['schedules', 'disable', 'nightly'])
      expect(disabled.stdout).toMatch(/\nnext +never: it is disabled\n/)
      await direct.run(['submit', 'noop'])
      const { stdout } = await cli.run(['schedules'])
      expect(stdout).toMatch(/\nnightly +disabled .* never +enabled\n/)
      expect(await cli.json('schedules', 'reset', 'nightly')).toMatchObject({
        enabled: true,
        operatorSet: [],
      })
      const { code, stderr } = await cli.run(['schedules', 'delete', 'nightly'])
      expect(code).toBe(0)
      expect(stderr).toContain('it comes back when that program starts')
      await direct.run(['submit', 'noop'])
      expect(await cli.json<ScheduleView[]>('schedules')).toMatchObject([{ name: 'nightly' }])
    })

    test('fire submits a job now and shows in the list of firings', async () => {
      const { id } = await cli.json<{ id: string }>('schedules', 'fire', 'nightly')
      const { firings } = await cli.json<{ firings: Firing[] }>('schedules', 'show', 'nightly')
      expect(firings).toMatchObject([{ jobId: id, skipped: null }])
      const { stdout } = await cli.run(['schedules', 'show', 'nightly'])
      expect(stdout).toMatch(new RegExp(`\\nTICK +JOB +WHY\\n\\S+ +${id} +asked for by `))
    })

    test.each([
      [['show', 'nightl'], 1, 'schedule "nightl" does not exist'],
      [['create', 'nightly', '--task', 'noop', '--cron', '@daily'], 1, 'schedule nightly already exists'],
      [['create', 'x', '--task', 'noop', '--cron', '0 99 * * *'], 2, 'Invalid value for hour: 99'],
      [['create', 'x', '--cron', '@daily'], 2, 'has neither task nor workflow'],
      [['create', 'x', '--task', 'noop', '--cron', '@daily', '--overlap', 'queue'], 2, 'allow or skip'],
      [['create', 'x', '--task', 'nop', '--cron', '@daily'], 1, 'did you mean noop?'],
      [['set', 'nightly'], 2, 'nothing to set'],
    ])('%j fails with a reason', async (args, exitCode, message) => {
      const { code, stderr } = await cli.run(['schedules', ...args])
      expect(stderr).toContain(message)
      expect(code).toBe(exitCode)
    })
  })
})
