import { describe, expect, test } from 'vitest'
import type { Admission } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useWay, WAYS } from './ways.ts'

describe.each(WAYS)('over %s', (way) => {
  const { cli, direct } = useWay(way, useDatabase())

  test('sluice admission shows the limits, changes them, and goes back to what the file says', async () => {
    expect((await cli.run(['admission'])).stdout).toMatch(
      /^active +no ceiling\nscheduled +no limit\nstart deadline +none\nset by operator +nothing\n$/,
    )
    await cli.write(
      'sluice.yaml',
      'admission: { maxActive: 5, maxQueued: { noop: 2 } }\ntasks: { noop: { exec: [/bin/true] } }\n',
    )
    // The first applies the file.
    for (const each of [direct, cli]) await each.json('submit', 'noop')
    const refused = await cli.run(['submit', 'noop'])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain(
      '2 of at most 2 jobs of noop wait, so one more cannot be admitted; try again in',
    )
    expect(refused.stderr).toContain('hint:  nothing was stored; sluice admission shows the limits')

    const changed = await cli.json<Admission>(
      'admission',
      '--max-active',
      '9',
      '--max-queued',
      'noop=none',
      '--max-queued',
      'other=3',
    )
    expect(changed).toMatchObject({
      maxActive: 9,
      maxQueued: { other: 3 },
      active: 2,
      operatorSet: ['maxActive', 'maxQueued.noop', 'maxQueued.other'],
    })
    const { stdout } = await cli.run(['admission'])
    expect(stdout).toMatch(
      /^active +2 of at most 9\nscheduled +0 of at most 100000\nwaiting other +0 of at most 3\nended +\d+\.\d in a second\n/,
    )
    expect(await cli.json<Admission>('submit', 'noop')).toBeDefined()
    expect(await cli.json<Admission>('admission', 'reset')).toMatchObject({
      maxActive: 5,
      maxQueued: { noop: 2 },
      operatorSet: [],
    })
  })

  test('sluice admission --deadline changes the start deadline of jobs that say nothing, and reset undoes it', async () => {
    const changed = await cli.json<Admission>('admission', '--deadline', '90m', '--max-queued', 'noop=none')
    expect(changed).toMatchObject({
      deadlineMs: 5_400_000,
      operatorSet: ['deadline', 'maxQueued.noop'],
      defaultSet: [],
    })
    expect((await cli.run(['admission'])).stdout).toMatch(/^start deadline +1h30m, unless/m)
    const { id } = await cli.json<{ id: string }>('submit', 'noop')
    const { id: patient } = await cli.json<{ id: string }>('submit', 'noop', '--deadline', 'none')
    const job = await cli.json<Record<'readyAt' | 'deadlineAt', string>>('show', id)
    expect(Date.parse(job.deadlineAt) - Date.parse(job.readyAt)).toBe(5_400_000)
    expect(await cli.json('show', patient)).toMatchObject({ deadlineAt: null })

    expect(await cli.json<Admission>('admission', '--deadline', 'none')).toMatchObject({ deadlineMs: null })
    expect(await cli.json<Admission>('admission', 'reset')).toMatchObject({
      deadlineMs: null,
      operatorSet: [],
    })
  })

  test('sluice admission --max-per-owner bounds what one owner has, and shows who has the most', async () => {
    const limits = ['--max-active', '50', '--max-per-owner', '1', '--max-queued', 'noop=none']
    // Of the tests before this one the owner has more.
    const changed = await cli.json<Admission>('admission', ...limits)
    expect(changed).toMatchObject({ maxPerOwner: 1, operatorSet: expect.arrayContaining(['maxPerOwner']) })
    const refused = await cli.run(['submit', 'noop'])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(
      /has \d+ of at most 1 jobs that have not ended, so one more cannot be admitted/,
    )
    await cli.json('admission', '--max-per-owner', '20')
    await cli.json('submit', 'noop')
    expect((await cli.run(['admission'])).stdout).toMatch(
      /^of one owner +at most 20\njobs of \S+ +\d+ of at most 20$/m,
    )
    expect(await cli.json<Admission>('admission', 'reset')).toMatchObject({ maxPerOwner: null, owners: null })
  })

  test('sluice admission --max-scheduled bounds jobs for later, which leave room for those that start now', async () => {
    const limits = ['--max-active', '50', '--max-scheduled', '1', '--max-queued', 'noop=none']
    expect(await cli.json<Admission>('admission', ...limits)).toMatchObject({
      maxScheduled: 1,
      scheduled: 0,
      operatorSet: ['maxActive', 'maxQueued.noop', 'maxScheduled'],
    })
    const { id } = await cli.json<{ id: string }>('submit', 'noop', '--run-at', '1d')
    const refused = await cli.run(['submit', 'noop', '--run-at', '1d'])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain(
      '1 of at most 1 jobs are scheduled for later, so one more cannot be admitted',
    )
    expect(await cli.json('submit', 'noop')).toBeDefined()
    expect((await cli.run(['admission'])).stdout).toMatch(/^scheduled +1 of at most 1$/m)
    await cli.run(['cancel', id])
    expect(await cli.json('submit', 'noop', '--run-at', '1d')).toBeDefined()
    expect(await cli.json<Admission>('admission', '--max-scheduled', 'none')).toMatchObject({
      maxScheduled: null,
      scheduled: null,
    })
    await cli.run(['admission', 'reset'])
  })

  test.each([
    [['--max-scheduled', '0'], 'whole number from 1 to 2147483647, or none'],
    [['--deadline', '0s'], 'a duration above 0 and up to 36500d'],
    [['--max-active', '0'], 'whole number from 1 to 2147483647, or none'],
    [['--max-queued', 'noop'], 'such as resize=500'],
    [['--max-queued', 'noop=0'], 'such as resize=500'],
  ])('sluice admission %j is a mistake, and the text says what would be right', async (args, text) => {
    const { code, stderr } = await cli.run(['admission', ...args])
    expect([code, stderr]).toEqual([2, expect.stringContaining(text)])
  })
})
