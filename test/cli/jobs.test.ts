import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JobView } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import type { Running } from './cli.ts'
import { useWay, WAYS } from './ways.ts'

// `hold` runs until the file it names exists.
const CONFIG = `
lanes:
  interactive: { slots: 2, poll: 100ms }
  parked: { tasks: [parked], slots: 1 }
tasks:
  echo: { lane: interactive, exec: [/bin/sh, -c, 'echo to stdout; echo "::progress 0.5 half"; echo to stderr >&2; cat > "$SLUICE_RESULT"'] }
  broken: { lane: interactive, exec: [/bin/sh, -c, 'echo no luck; exit 7'], retry: { attempts: 1 } }
  hold: { exec: [/bin/sh, -c, 'read -r file; file=$(echo "$file" | tr -d "\\042"); echo waiting; until [ -e "$file" ]; do sleep 0.02; done; echo gone on'] }
  careful: { lane: interactive, exec: [/bin/true], approval: true }
  parked: { exec: [/bin/true] }
`

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase()
  const { cli, direct } = useWay(way, database)

  let worker: Running

  beforeAll(async () => {
    await cli.write('sluice.yaml', CONFIG)
    worker = direct.start([
      'worker',
      '--capacity',
      '4',
      '--name',
      'w1',
      '--tasks',
      'echo,broken,hold,careful',
    ])
    await worker.says('ready to take jobs')
  })

  afterAll(async () => {
    expect(await worker.end('SIGTERM')).toBe(0)
  })

  async function submit(...args: string[]): Promise<string> {
    const { id } = await cli.json<{ id: string }>('submit', ...args)
    return id
  }

  interface JobRow {
    readonly state: string
    readonly error: string | null
    readonly priority: number
    readonly attempt: number
  }

  async function row(id: string): Promise<JobRow> {
    const [found] = await database.sql<JobRow & Record<string, unknown>>(
      'select * from sluice.jobs where id = $1',
      [id],
    )
    return found!
  }

  async function inState(id: string, state: string): Promise<void> {
    await until(async () => (await row(id)).state === state, `job ${id} to be ${state}`)
  }

  describe('submit', () => {
    test('stores a job and says so; --wait prints its result', async () => {
      const { code, stdout } = await cli.run(['submit', 'echo', '--input', '{"a":[1,null,"ü"]}', '--wait'])
      expect([code, JSON.parse(stdout)]).toEqual([0, { a: [1, null, 'ü'] }])
    })

    test('takes its input from a file and from the standard input', async () => {
      await cli.write('input.json', '{"from":"a file"}')
      const file = await cli.run(['submit', 'echo', '--input', '@input.json', '--wait'])
      expect(JSON.parse(file.stdout)).toEqual({ from: 'a file' })
      const stdin = await cli.run(['submit', 'echo', '--input', '-', '--wait', '--json'], {
        input: '["stdin"]',
      })
      expect(JSON.parse(stdin.stdout)).toMatchObject({
        status: 'completed',
        attached: false,
        result: ['stdin'],
      })
    })

    test('--wait says that it waits when that takes its time, and for what', async () => {
      const running = cli.start(['submit', 'parked', '--wait', '--run-at', '1h'])
      await running.says(
        /^waiting for job (\d+) \(queued: .+\); sluice show \1 tells how it is, sluice why \1 what it waits for$/m,
      )
      expect(running.stdout).toBe('')
      await running.end('SIGINT')
    })

    test('--wait on a job that fails exits with 1 and tells the error', async () => {
      const text = await cli.run(['submit', 'broken', '--wait'])
      expect([text.code, text.stdout]).toEqual([1, ''])
      expect(text.stderr).toMatch(/^error: job \d+ failed: .*code 7/)
      expect(text.stderr).toMatch(/^code: {2}JOB_FAILED\nhint: {2}sluice show \d+; sluice logs \d+$/m)
      const json = await cli.run(['submit', 'broken', '--wait', '--json'])
      expect([json.code, JSON.parse(json.stdout)]).toMatchObject([1, { status: 'failed', error: /code 7/ }])
    })

    test('says when a job is scheduled for, and so do lists', async () => {
      const at = '2100-01-02T03:04:05.000Z'
      const { stdout } = await cli.run(['submit', 'parked', '--run-at', at, '--tag', 'far'])
      const [, id] = new RegExp(`^job (\\d+) is scheduled for ${at}\n$`).exec(stdout)!
      const listed = await cli.run(['ps', '--tag', 'far'])
      expect(listed.stdout).toMatch(new RegExp(`\n *${id} +parked +parked +scheduled +.* due in `))
    })

    test('suggests a lane that is near a misspelled one', async () => {
      const refused = await cli.run(['submit', 'parked', '--lane', 'interctive'])
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringMatching(/LANE_NOT_FOUND\nhint: {2}did you mean interactive\?/),
      ])
      const lane = await cli.run(['lanes', 'set', 'interctive', '--slots', '3'])
      expect(lane.stderr).toContain('lane "interctive" does not exist; did you mean interactive?')
    })

    test('keeps every option with the job', async () => {
      const id = await submit(
        'parked',
        '--input',
        '5',
        '--key',
        'k1',
        '--priority',
        '-3',
        '--run-at',
        '2100-01-02T03:04:05Z',
        '--deadline',
        '2h',
        '--tag',
        'a',
        '--tag',
        'b c',
      )
      expect(await cli.json('show', id)).toMatchObject({
        task: 'parked',
        lane: 'parked',
        status: 'queued',
        state: 'scheduled',
        input: 5,
        key: 'k1',
        priority: -3,
        tags: ['a', 'b c'],
        readyAt: '2100-01-02T03:04:05.000Z',
        deadlineAt: '2100-01-02T05:04:05.000Z',
        attempts: [],
      })
    })

    test('a key attaches to the active job, and another input is refused', async () => {
      const first = await submit(
        'parked',
        '--input',
        '1',
        '--key',
        'k2',
        '--lane',
        'system',
        '--run-at',
        '1h',
      )
      expect(await cli.json('submit', 'parked', '--input', '1', '--key', 'k2')).toEqual({
        id: first,
        attached: true,
        status: 'queued',
      })
      const { code, stderr } = await cli.run(['submit', 'parked', '--input', '2', '--key', 'k2'])
      expect(code).toBe(1)
      expect(stderr).toContain('code:  KEY_CONFLICT')
    })

    test('an unknown task is refused with the one that was meant', async () => {
      const { code, stderr } = await cli.run(['submit', 'eco'])
      expect(code).toBe(1)
      expect(stderr).toContain('code:  TASK_NOT_FOUND\nhint:  did you mean echo?')
    })

    test('Ctrl-C ends the waiting with 130; the job goes on', async () => {
      const file = `${cli.folder}/go-1`
      const waiting = cli.start([
        'submit',
        'hold',
        '--input',
        JSON.stringify(file),
        '--key',
        'ctrl-c',
        '--wait',
      ])
      await until(
        async () =>
          (await database.sql(`select 1 from sluice.jobs where key = 'ctrl-c' and state = 'running'`))
            .length === 1,
        'the job to run',
      )
      // It takes signals from the moment it waits; before that they end it too, without the words.
      await until(
        async () =>
          (await database.sql('select 1 from sluice.waiters where until > clock_timestamp()')).length > 0,
        'the command to wait',
      )
      expect(await waiting.end('SIGINT')).toBe(130)
      expect(waiting.stderr).toMatch(/no longer waiting; job \d+ goes on/)
      await cli.write('go-1', '')
      const [{ id }] = (await database.sql<{ id: string }>(
        `select id from sluice.jobs where key = 'ctrl-c'`,
      )) as [{ id: string }]
      await inState(id, 'completed')
    })
  })

  describe('ps', () => {
    test('lists active jobs for people, finished ones too with --all, and filters', async () => {
      const waiting = await submit('parked', '--tag', 'ps-test', '--priority', '4')
      const done = await submit('echo', '--tag', 'ps-test', '--input', '1')
      await inState(done, 'completed')
      const active = await cli.run(['ps', '--tag', 'ps-test'])
      expect(active.stdout).toMatch(
        new RegExp(
          `^ *ID +TASK +LANE +STATUS +PRIO +AGE +TAGS\n *${waiting} +parked +parked +queued +4 +\\d+\\S+ +ps-test\n$`,
        ),
      )
      const all = await cli.json<JobView[]>('ps', '--all', '--tag', 'ps-test')
      expect(all.map(({ id, status }) => [id, status])).toEqual([
        [done, 'completed'],
        [waiting, 'queued'],
      ])
      const page = await cli.json<JobView[]>(
        'ps',
        '--all',
        '--tag',
        'ps-test',
        '--before',
        done,
        '--limit',
        '1',
      )
      expect(page.map(({ id }) => id)).toEqual([waiting])
      const completed = await cli.json<JobView[]>(
        'ps',
        '--status',
        'completed,failed',
        '--tag',
        'ps-test',
        '--task',
        'echo',
      )
      expect(completed.map(({ id }) => id)).toEqual([done])
    })

    test('says so when there is nothing', async () => {
      const { stdout } = await cli.run(['ps', '--lane', 'maintenance'])
      const { host, pathname } = new URL(database.url)
      const place = way === 'a server' ? ['the server at http://127.0.0.1:'] : [host, pathname.slice(1)]
      for (const part of [
        'no job is waiting or running in ',
        ...place,
        '; --all shows finished ones (steps of workflows are not listed: add --steps)\n',
      ])
        expect(stdout).toContain(part)
      expect(await cli.json('ps', '--lane', 'maintenance')).toEqual([])
      const misspelled = await cli.run(['ps', '--lane', 'parkd', '--task', 'ecko'])
      expect(misspelled.code).toBe(0)
      expect(misspelled.stdout).not.toContain('--steps')
      expect(misspelled.stderr).toBe(
        'warning: task "ecko" does not exist; did you mean echo?\nwarning: lane "parkd" does not exist; did you mean parked?\n',
      )
    })
  })

  describe('one job', () => {
    test('show tells everything about it, and nothing of a job that is not there', async () => {
      const id = await submit('broken', '--input', '{"n":1}', '--key', 'show-me')
      await inState(id, 'failed')
      const { stdout } = await cli.run(['show', id])
      expect(stdout).toMatch(new RegExp(`^job +${id}\ntask +broken\nlane +interactive\nstatus +failed\n`))
      expect(stdout).toMatch(/\nkey +show-me\n[\s\S]*\ninput +{"n":1}\nerror +.*code 7/)
      expect(stdout).toMatch(/\nATTEMPT +ENDING +STARTED +RAN +WORKER +ERROR\n +1 +failed /)
      const missing = await cli.run(['show', '999999999', '--json'])
      expect(missing.code).toBe(1)
      expect(JSON.parse(missing.stderr).error).toMatchObject({
        code: 'JOB_NOT_FOUND',
        details: { jobId: '999999999' },
      })
    })

    test('show says how each attempt ended, also those after which the job was run again', async () => {
      const id = await submit('echo', '--input', '1')
      await inState(id, 'completed')
      await cli.run(['retry', id])
      await until(async () => (await row(id)).attempt === 2, 'the second attempt to start')
      await inState(id, 'completed')
      const { stdout } = await cli.run(['show', id])
      expect(stdout).toMatch(/\nATTEMPT +ENDING [^\n]*\n +1 +completed [^\n]*\n +2 +completed /)
      expect(stdout).not.toContain('rerun')
    })

    test('why tells what it waits for', async () => {
      const id = await submit('parked')
      expect((await cli.run(['why', id])).stdout).toContain(
        `job ${id} (parked) is queued: no worker runs task parked\n`,
      )
      expect(await cli.json('why', id)).toMatchObject({
        id,
        status: 'queued',
        reason: 'no worker runs task parked',
      })
    })

    test('logs prints its lines, as text and as an object per line', async () => {
      const id = await submit('echo', '--input', '1')
      await inState(id, 'completed')
      const { stdout } = await cli.run(['logs', id])
      expect(stdout).toMatch(/^\d{4}-\S+Z info {2}to stdout$/m)
      const lines = (await cli.run(['logs', id, '--json'])).stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      expect(lines).toContainEqual(expect.objectContaining({ attempt: 1, line: 'to stderr' }))
    })

    test('logs of a job that has said nothing say so, beside the log', async () => {
      const id = await submit('parked')
      expect(await cli.run(['logs', id])).toEqual({
        code: 0,
        stdout: '',
        stderr: `no lines: job ${id} (parked) is queued\n`,
      })
      expect(await cli.run(['logs', id, '--json'])).toEqual({ code: 0, stdout: '', stderr: '' })
    })

    test('logs -f goes on until the job has ended, or until Ctrl-C', async () => {
      const id = await submit('hold', '--input', JSON.stringify(`${cli.folder}/go-2`))
      const following = cli.start(['logs', '-f', id])
      await following.says('waiting')
      const impatient = cli.start(['logs', '-f', id])
      await impatient.says('waiting')
      expect(await impatient.end('SIGINT')).toBe(130)
      await cli.write('go-2', '')
      expect(await following.exited).toBe(0)
      expect(following.stdout).toContain('gone on')
    })

    test('kill cancels one that waits and stops one that runs', async () => {
      const waiting = await submit('parked')
      const running = await submit('hold', '--input', JSON.stringify(`${cli.folder}/never`))
      await inState(running, 'running')
      const { code, stdout, stderr } = await cli.run([
        'cancel',
        waiting,
        '99999999',
        running,
        '--reason',
        'enough',
      ])
      expect(code).toBe(1)
      expect(stdout).toBe(`job ${waiting}: cancelled\njob ${running}: asked to stop\n`)
      expect(stderr).toMatch(/job 99999999 does not exist( in database \S+ on \S+)? \(JOB_NOT_FOUND\)/)
      expect((await row(waiting)).error).toBe('cancelled: enough')
      await inState(running, 'cancelled')
      const again = await cli.run(['cancel', waiting, '--json'])
      expect([again.code, JSON.parse(again.stdout)]).toMatchObject([
        1,
        [{ id: waiting, error: { code: 'ILLEGAL_TRANSITION' } }],
      ])
    })

    test('nice changes the priority of one that waits, also to a negative one', async () => {
      const id = await submit('parked')
      expect((await cli.run(['priority', id, '-5'])).stdout).toBe(`job ${id}: has priority -5\n`)
      expect((await row(id)).priority).toBe(-5)
    })

    test('ps shows how long a job ran only while it runs or once it has ended', async () => {
      const id = await submit('careful', '--tag', 'ran-test')
      await cli.run(['approve', id])
      await inState(id, 'completed')
      expect((await cli.run(['ps', '--all', '--tag', 'ran-test'])).stdout).toContain(' RAN ')
      await cli.run(['retry', id])
      await inState(id, 'awaiting_approval')
      const { stdout } = await cli.run(['ps', '--tag', 'ran-test'])
      expect(stdout).toMatch(new RegExp(` *${id} +careful +interactive +awaiting_approval `))
      expect(stdout).not.toContain(' RAN ')
      await cli.run(['reject', id])
    })

    test('approve lets it run, reject ends it with the comment', async () => {
      const text = await cli.run(['submit', 'careful'])
      const first = /^job (\d+) waits for approval by somebody else: sluice approve \1\n$/.exec(
        text.stdout,
      )![1]!
      const second = await submit('careful')
      expect((await cli.run(['approve', first])).stdout).toBe(`job ${first}: approved\n`)
      await inState(first, 'completed')
      expect(await cli.json('reject', second, '--comment', 'not today')).toEqual([
        { id: second, status: 'cancelled' },
      ])
      expect((await row(second)).error).toContain('rejected: not today')
      expect((await cli.run(['show', first])).stdout).toMatch(/^approved by /m)
      const shown = (await cli.run(['show', second])).stdout
      expect(shown).toMatch(/^rejected by /m)
      expect(shown).not.toContain('approved by')
    })

    test('retry puts a finished one back in the queue, rm deletes it', async () => {
      const id = await submit('broken')
      await inState(id, 'failed')
      expect((await cli.run(['retry', id])).stdout).toBe(`job ${id}: queued again\n`)
      await until(async () => (await row(id)).attempt === 2, 'the second attempt')
      await inState(id, 'failed')
      expect(await cli.json('rm', id)).toEqual([{ id, deleted: true }])
      expect((await cli.run(['rm', id])).code).toBe(1)
    })

    test('kill never deletes one that has ended, and rm never cancels one that has not', async () => {
      const waiting = await submit('parked')
      const refused = await cli.run(['rm', waiting, '--json'])
      expect([refused.code, JSON.parse(refused.stdout)]).toMatchObject([
        1,
        [{ id: waiting, error: { code: 'ILLEGAL_TRANSITION' } }],
      ])
      expect((await row(waiting)).state).toBe('ready')
      await cli.run(['cancel', waiting])
      expect((await cli.run(['cancel', waiting])).stderr).toContain('ILLEGAL_TRANSITION')
      expect((await row(waiting)).state).toBe('cancelled')
    })
  })
})
