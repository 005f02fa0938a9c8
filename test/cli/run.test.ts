import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { continueRun } from '../../src/cli/run/continue-run.ts'
import { type JobView, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { lockComposite, lockJob } from '../support/state/priorities.ts'
import { countLockWaiters } from '../support/state/tables.ts'
import { until } from '../support/until.ts'
import { Cli, MAIN, type Running } from './cli.ts'

// Processes start slowly where others keep the machine busy.
vi.setConfig({ testTimeout: 120_000 })

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url })

interface Outcome {
  readonly id: string
  readonly workflow: string
  readonly status: string
  readonly result?: unknown
  readonly error?: string
  readonly steps: Record<string, Record<string, unknown>>
}

/** Programs that say in a file what they did. */
const TASKS = `
heartbeat: 200ms
stale: 700ms
grace: 20s
lanes:
  wide: { tasks: [hold, stubborn], slots: 8 }
tasks:
  split: { exec: [node, -e, "done({ parts: [1, 2, 3, 4, 5] })"] }
  double: { exec: [node, -e, "done(input().n * 2)"] }
  refuse: { exec: [sh, -c, "echo it is broken >&2; exit 7"], retry: { attempts: 1 } }
  note: { exec: [sh, -c, 'cat >> "$NOTES"; echo >> "$NOTES"'] }
  hold: { exec: [sh, -c, 'echo held >> "$NOTES"; test -e "$OPEN" || exec sleep 600'] }
  openable: { exec: [sh, -c, 'test -e "$OPEN"'], retry: { attempts: 1 } }
  stubborn: { exec: [sh, -c, 'trap "" TERM; echo held >> "$NOTES"; until test -e "$OPEN"; do sleep 0.1; done'] }
`

const HELPERS = `
const fs = require('fs')
globalThis.input = () => JSON.parse(fs.readFileSync(0, 'utf8'))
globalThis.done = (result) => fs.writeFileSync(process.env.SLUICE_RESULT, JSON.stringify(result))
`

beforeAll(async () => {
  await cli.write('helpers.cjs', HELPERS)
})

let files = 0

/** A workflow file of its own, and what its programs leave behind. */
async function fileWith(workflows: string): Promise<{
  readonly name: string
  readonly environment: Record<string, string>
  notes(): Promise<string[]>
  open(): Promise<void>
}> {
  const number = ++files
  const [notes, open] = [join(cli.folder, `notes-${number}`), join(cli.folder, `open-${number}`)]
  await cli.write(`flow-${number}.yaml`, `${TASKS}workflows:\n${workflows}`)
  await writeFile(notes, '')
  return {
    name: `flow-${number}.yaml`,
    environment: {
      NOTES: notes,
      OPEN: open,
      NODE_OPTIONS: `--require ${join(cli.folder, 'helpers.cjs')}`,
    },
    notes: async () => (await readFile(notes, 'utf8')).split('\n').filter((line) => line !== ''),
    open: () => writeFile(open, ''),
  }
}

type Flow = Awaited<ReturnType<typeof fileWith>>

async function run(flow: Flow, ...options: string[]) {
  return cli.run(['run', flow.name, ...options], { environment: flow.environment })
}

function start(flow: Flow, ...options: string[]): Running {
  return cli.start(['run', flow.name, ...options], { environment: flow.environment })
}

async function held(flow: Flow, times = 1): Promise<void> {
  await until(
    async () => (await flow.notes()).filter((line) => line === 'held').length >= times,
    `${times} held`,
    60_000,
  )
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(database.directUrl)
  await client.connect()
  return client
}

async function waitingForLock(sessions: number): Promise<void> {
  await until(
    async () => (await countLockWaiters(database.sql)) === sessions,
    `${sessions} sessions to wait for a lock`,
  )
}

/** How many jobs of a run are in which state, its root included. */
async function statesOf(root: string): Promise<Record<string, number>> {
  const rows = await database.sql<{ state: string; count: number }>(
    `select state::text, count(*)::integer as count from sluice.jobs
      where superseded_at is null and (id = $1 or root_id = $1) group by 1`,
    [root],
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

const DOUBLING = `
  doubling:
    steps:
      split: { task: split }
      double: { task: double, needs: [split], with_items: "\${{ steps.split.result.parts }}", concurrency: 2, with: { n: "\${{ item }}" } }
      rescue: { task: note, needs: [double], on: failure }
    output: { doubled: "\${{ steps.double.results }}" }
`

describe('a run', () => {
  test('goes to its end, tells in lines what happens, prints the result and exits with 0', async () => {
    const { code, stdout, stderr } = await run(await fileWith(DOUBLING))
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).not.toContain('\u001b')
    expect(stdout).toMatch(/^ +0\.0s {2}doubling started \(job \d+\)$/m)
    expect(stdout).toMatch(/^ +\d+\.\ds {2}split completed in [\d.]+m?s$/m)
    expect(stdout).toMatch(/^ +\d+\.\ds {2}double completed in .*: 5 of 5$/m)
    expect(stdout).toMatch(/^ +\d+\.\ds {2}rescue skipped$/m)
    const [, result] = /^doubling completed in .* \(job \d+\)\n([\s\S]*)$/m.exec(stdout)!
    expect(JSON.parse(result!)).toEqual({ doubled: [2, 4, 6, 8, 10] })
  })

  test('with --json prints one object: id, status, result, and the steps by name', async () => {
    const { code, stdout, stderr } = await run(await fileWith(DOUBLING), '--json')
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.trim().split('\n')).toHaveLength(1)
    const outcome = JSON.parse(stdout) as Outcome
    expect(outcome).toMatchObject({
      workflow: 'doubling',
      status: 'completed',
      result: { doubled: [2, 4, 6, 8, 10] },
      steps: {
        split: { status: 'completed', result: { parts: [1, 2, 3, 4, 5] } },
        double: { status: 'completed', results: [2, 4, 6, 8, 10], counts: { total: 5, completed: 5 } },
        rescue: { status: 'skipped' },
      },
    })
    expect(await cli.json('show', outcome.id)).toMatchObject({ status: 'completed', task: 'doubling' })
  })

  test('that fails tells which step and why, and exits with 1', async () => {
    const flow = await fileWith(`
  fragile:
    steps:
      inner: { steps: { bad: { task: refuse } } }
      after: { task: note, needs: [inner] }
`)
    const { code, stdout, stderr } = await run(flow)
    expect(code).toBe(1)
    expect(stdout).toMatch(/^ +\d+\.\ds {2}inner\.bad failed .*exited with code 7: it is broken$/m)
    expect(stderr).toMatch(/^error: fragile failed \(job \d+\): /m)
    expect(stderr).toContain('code:  JOB_FAILED')
    const json = await run(flow, '--json')
    expect([json.code, json.stderr]).toEqual([1, ''])
    expect(JSON.parse(json.stdout)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('inner'),
      steps: { inner: { status: 'failed', steps: { bad: { status: 'failed' } } } },
    })
  })

  test('takes its input from --input, from a file or from the standard input', async () => {
    const flow = await fileWith(`
  echo:
    steps: { double: { task: double, with: { n: "\${{ input.n }}" } } }
    output: "\${{ steps.double.result }}"
`)
    await cli.write('input.json', '{ "n": 21 }')
    expect(JSON.parse((await run(flow, '--json', '--input', '{"n":4}')).stdout)).toMatchObject({ result: 8 })
    expect(JSON.parse((await run(flow, '--json', '--input', '@input.json')).stdout).result).toBe(42)
    const piped = await cli.run(['run', flow.name, '--json', '--input', '-'], {
      environment: flow.environment,
      input: '{"n":5}',
    })
    expect(JSON.parse(piped.stdout)).toMatchObject({ result: 10 })
  })

  test('asks which workflow where a file has several, and takes the one that is named', async () => {
    const flow = await fileWith(`
  one: { steps: { only: { task: note, with: 1 } } }
  two: { steps: { only: { task: note, with: 2 } } }
`)
    const unsaid = await run(flow)
    expect(unsaid.code).toBe(2)
    expect(unsaid.stderr).toContain('has 2 workflows: one, two')
    expect(unsaid.stderr).toContain('hint:  choose one: --workflow one')
    expect((await run(flow, '--workflow', 'tow')).stderr).toContain('did you mean two?')
    expect(JSON.parse((await run(flow, '--workflow', 'two', '--json')).stdout)).toMatchObject({
      workflow: 'two',
      status: 'completed',
    })
    expect(await flow.notes()).toEqual(['2'])
  })

  test('does not begin when a program it needs is not there', async () => {
    await cli.write(
      'missing.yaml',
      'tasks: { gone: { exec: [./no-such-program] } }\nworkflows: { it: { steps: { only: { task: gone } } } }\n',
    )
    const { code, stderr } = await cli.run(['run', 'missing.yaml'])
    expect(code).toBe(2)
    expect(stderr).toContain('missing.yaml:1:24: tasks.gone.exec: ')
    expect(await cli.json('ps', '--all', '--task', 'it')).toEqual([])
  })

  test('of a file without a workflow, or of no file, is refused', async () => {
    await cli.write('tasks-only.yaml', 'tasks: { a: { exec: [cat] } }\n')
    expect(await cli.run(['run', 'tasks-only.yaml'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('has no workflow to run'),
    })
    expect(await cli.run(['run'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('name the file to run'),
    })
  })
})

const HOLDING = (task: string) => `
  holding:
    steps:
      first: { task: note, with: first }
      many: { task: ${task}, needs: [first], with_items: [1, 2, 3, 4, 5, 6], concurrency: 2 }
      last: { task: note, needs: [many], with: last }
`

describe('Ctrl-C', () => {
  test('stops what runs, cancels everything below, and exits with 130', async () => {
    const flow = await fileWith(HOLDING('hold'))
    const running = start(flow)
    await held(flow, 2)
    expect(await running.end('SIGINT')).toBe(130)
    const [, id] = /holding was interrupted and is cancelled \(job (\d+)\)/.exec(running.stderr)!
    expect(await statesOf(id!)).toEqual({ cancelled: 8, completed: 1 })
    const [job] = await cli.json<JobView[]>('ps', '--all', '--task', 'holding')
    expect(job).toMatchObject({ id, status: 'cancelled', error: 'cancelled: interrupted' })
    const [holdings] = await database.sql<{ count: number }>(
      'select count(*)::integer as count from sluice.holdings where slots > 0',
    )
    expect(holdings!.count).toBe(0)
    const [, command] = /\(job \d+\); to continue: .* (run \S+ --resume \d+)$/m.exec(running.stderr)!
    expect(command).toBe(`run ${flow.name} --resume ${id}`)

    await flow.open()
    const resumed = await run(flow, '--resume')
    expect([resumed.code, resumed.stderr]).toEqual([0, ''])
    expect(resumed.stdout).toContain(`holding goes on (job ${id})`)
    expect(resumed.stdout).toContain('it was cancelled: steps that did not complete run again')
    expect(resumed.stdout).toMatch(/^holding completed in /m)
    const notes = await flow.notes()
    expect(notes.filter((line) => line === '"first"')).toHaveLength(1)
    expect(notes.at(-1)).toBe('"last"')
  })

  test('with --json, still reports the outcome', async () => {
    const flow = await fileWith(HOLDING('hold'))
    const running = start(flow, '--json')
    await held(flow, 2)
    expect(await running.end('SIGINT')).toBe(130)
    expect(JSON.parse(running.stdout)).toMatchObject({
      status: 'cancelled',
      steps: { first: { status: 'completed' }, many: { status: 'cancelled' } },
    })
  })

  test('twice leaves the run as it is, and --resume goes on with what had not ended', async () => {
    const flow = await fileWith(HOLDING('stubborn'))
    const running = start(flow)
    await held(flow, 2)
    // The programs do not hear the first: what runs is being stopped until the second.
    running.signal('SIGINT')
    await running.says('once more to leave it as it is')
    expect(await running.end('SIGINT')).toBe(130)
    const [, id] = /to continue: .* run flow-\d+\.yaml --resume (\d+)$/m.exec(running.stderr)!
    const { running: active, cancelled } = await statesOf(id!)
    expect([active! > 0, cancelled]).toEqual([true, undefined])

    await flow.open()
    const resumed = await run(flow, '--resume', '--json')
    expect([resumed.code, resumed.stderr]).toEqual([0, ''])
    expect(JSON.parse(resumed.stdout)).toMatchObject({ id, status: 'completed' })
    const notes = await flow.notes()
    expect(notes.filter((line) => line === '"first"')).toHaveLength(1)
    expect(notes.at(-1)).toBe('"last"')
  })
})

describe('--resume', () => {
  test('goes on after kill -9 and keeps the steps that had finished', async () => {
    const flow = await fileWith(HOLDING('hold'))
    const running = start(flow)
    await held(flow, 2)
    running.process.kill('SIGKILL')
    await running.exited
    await flow.open()
    const resumed = start(flow, '--resume')
    expect(await resumed.exited).toBe(0)
    expect(resumed.stdout).toMatch(/holding goes on \(job \d+\)/)
    expect(resumed.stdout).toMatch(/^holding completed in /m)
    const notes = await flow.notes()
    expect(notes.filter((line) => line === '"first"')).toHaveLength(1)
    // The two that were lost ran again, the others once.
    expect(notes.filter((line) => line === 'held')).toHaveLength(8)
    expect(notes.filter((line) => line === '"last"')).toHaveLength(1)
  })

  test('given twice at once continues the run once, and the later command follows it', async () => {
    const flow = await fileWith(HOLDING('openable'))
    const [, id] = /run \S+ --resume (\d+)$/m.exec((await run(flow)).stderr)!
    await flow.open()
    const [gate, other] = [await connect(), await connect()]
    try {
      // Both have found the failed run and wait; then both find it busy, until nobody holds it any more.
      await lockComposite(gate, id!)
      await lockJob(other, id!)
      const both = [start(flow, '--resume'), start(flow, '--resume', id!)]
      await waitingForLock(2)
      await gate.query('commit')
      await waitingForLock(0)
      await other.query('commit')
      const codes = await Promise.all(both.map((each) => each.exited))
      expect(codes, both.map(({ stdout, stderr }) => stdout + stderr).join('\n')).toEqual([0, 0])
      const said = both.map(({ stdout }) => stdout)
      expect(said.filter((text) => text.includes('it had failed: steps that did not'))).toHaveLength(1)
      for (const text of said) expect(text).toMatch(/^holding completed in /m)
    } finally {
      await Promise.all([gate.end(), other.end()])
    }
    expect((await flow.notes()).filter((line) => line === '"last"')).toHaveLength(1)
  })

  test('follows a run that another command has resumed and completed in the meantime', async () => {
    const flow = await fileWith('  single: { steps: { only: { task: openable } } }\n')
    const [, id] = /run \S+ --resume (\d+)$/m.exec((await run(flow)).stderr)!
    await flow.open()
    expect((await run(flow, '--resume')).code).toBe(0)
    const app = await sluice({ database: database.url })
    try {
      // What a command does that found the run when it had failed, and was slow from there on.
      expect(await continueRun(app, id!)).toBe(false)
      expect(await app.getJob(id!)).toMatchObject({ status: 'completed' })
    } finally {
      await app.close()
    }
  })

  test('continues a failed run with the command that the failure printed', async () => {
    const flow = await fileWith(HOLDING('openable'))
    const failed = await run(flow)
    expect(failed.code).toBe(1)
    const [, id] = /run \S+ --resume (\d+)$/m.exec(failed.stderr)!
    expect(failed.stderr).toMatch(new RegExp(`: .* run ${flow.name} --resume ${id}$`, 'm'))

    await flow.open()
    const resumed = await run(flow, '--resume')
    expect([resumed.code, resumed.stderr]).toEqual([0, ''])
    expect(resumed.stdout).toContain('it had failed: steps that did not complete run again')
    expect(resumed.stdout).toMatch(/^holding completed in /m)
    const notes = await flow.notes()
    expect(notes.filter((line) => line === '"first"')).toHaveLength(1)
    expect(notes.at(-1)).toBe('"last"')
  })

  test('needs the id of a run that somebody cancelled', async () => {
    const flow = await fileWith(HOLDING('hold'))
    const running = start(flow)
    await held(flow, 2)
    const [root] = await cli.json<JobView[]>('ps', '--task', 'holding')
    await cli.run(['cancel', root!.id, '--reason', 'not today'])
    expect(await running.exited).toBe(1)
    expect((await run(flow, '--resume')).stderr).toContain(
      `hint:  the last one, job ${root!.id}, is cancelled; --resume ${root!.id} continues it`,
    )
    await flow.open()
    expect((await run(flow, '--resume', root!.id)).code).toBe(0)
  })

  test('says so when nothing can be resumed, or the job is another one', async () => {
    const flow = await fileWith('  quick: { steps: { only: { task: note, with: 1 } } }\n')
    expect(await run(flow, '--resume')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no run of quick can be resumed'),
    })
    const { id } = JSON.parse((await run(flow, '--json')).stdout) as Outcome
    const ended = await run(flow, '--resume', id)
    expect([ended.code, ended.stderr]).toEqual([
      1,
      expect.stringContaining(`job ${id} has completed: there is nothing to resume`),
    ])
    const [child] = await database.sql<{ id: string }>('select id from sluice.jobs where parent_id = $1', [
      id,
    ])
    expect((await run(flow, '--resume', child!.id)).stderr).toContain(`it belongs to job ${id}`)
    expect((await run(flow, '--resume', id, '--input', '1')).code).toBe(2)
  })
})

describe('a window', () => {
  test('is resized while it runs; what has none says so', async () => {
    const flow = await fileWith(HOLDING('hold'))
    const running = start(flow)
    await held(flow, 2)
    const [root] = await cli.json<JobView[]>('ps', '--task', 'holding')
    const [fanOut] = await database.sql<{ id: string }>(
      `select id from sluice.jobs where parent_id = $1 and composite = 'fanout'`,
      [root!.id],
    )
    expect(await cli.run(['window', fanOut!.id, '4'])).toMatchObject({
      code: 0,
      stdout: `job ${fanOut!.id}: window 2, now 4\n`,
    })
    await held(flow, 4)
    expect(await cli.json('window', fanOut!.id, '0')).toEqual([{ id: fanOut!.id, before: 4, after: 0 }])
    const none = await cli.run(['window', root!.id, '3'])
    expect(none.code).toBe(1)
    expect(none.stderr).toContain(
      `job ${root!.id} is a workflow and has no window; fan-outs have: many is job ${fanOut!.id} (NO_WINDOW)`,
    )
    expect((await cli.run(['window', fanOut!.id, '-1'])).code).toBe(2)
    expect(await running.end('SIGINT')).toBe(130)
    expect((await cli.run(['window', fanOut!.id, '3'])).stderr).toContain('(ILLEGAL_TRANSITION)')
  })
})

describe('submit', () => {
  test('takes the name of a workflow, and --wait waits for its end', async () => {
    const flow = await fileWith(DOUBLING)
    const { environment } = flow
    const worker = cli.start(['worker', '--config', flow.name, '--capacity', '0'], { environment })
    await worker.says('ready to take jobs')
    const { code, stdout } = await cli.run(['submit', 'doubling', '--wait', '--config', flow.name], {
      environment,
    })
    expect([code, JSON.parse(stdout)]).toEqual([0, { doubled: [2, 4, 6, 8, 10] }])
    const wrong = await cli.run(['submit', 'doublin', '--config', flow.name], { environment })
    expect(wrong.stderr).toContain('did you mean doubling?')
    expect(await worker.end('SIGTERM')).toBe(0)
  })
})

test.runIf(process.platform === 'linux')(
  'on a terminal it draws the tree over itself, and gives the cursor back',
  async () => {
    const flow = await fileWith(DOUBLING)
    const command = `stty rows 30 cols 90; '${process.execPath}' '${MAIN}' run ${flow.name}`
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: cli.folder,
      env: { ...process.env, ...flow.environment, DATABASE_URL: database.url, TERM: 'xterm' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let stdout = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    expect((await once(child, 'close'))[0]).toBe(0)
    const codes = stdout.split('\u001b[').slice(1)
    expect(codes.filter((code) => code.startsWith('?25l'))).toHaveLength(1)
    expect(codes.filter((code) => code.startsWith('?25h'))).toHaveLength(1)
    const last = stdout.slice(stdout.lastIndexOf('\u001b[?2026h'), stdout.lastIndexOf('\u001b[?25h'))
    expect(last).toContain('3 of 3 steps')
    expect(last).toContain('5 of 5')
    expect(stdout.slice(stdout.lastIndexOf('\u001b[?25h'))).toContain('doubling completed')
  },
)
