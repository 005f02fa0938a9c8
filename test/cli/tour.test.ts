import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { JobView } from '../../src/index.ts'
import { endAll, processesOf } from '../support/embedded.ts'
import { Cli, MAIN, type Running } from './cli.ts'

// Making a database and stopping it takes seconds where others keep the machine busy.
vi.setConfig({ testTimeout: 120_000 })

// A database of its own in a data folder of its own, so that whatever is left behind can be seen.
let data = ''
const environment = { DATABASE_URL: '' }
const cli = new Cli(environment)

beforeAll(async () => {
  data = await mkdtemp(join(await realpath(tmpdir()), 'sluice-tour-'))
  Object.assign(environment, { SLUICE_DATA: data })
})

afterAll(async () => {
  await endAll(data)
  await rm(data, { recursive: true, force: true })
})

interface Summary {
  readonly jobs: number
  readonly earlier: number
  readonly continued: number
  readonly lanes: readonly { name: string; slots: number; most: number; completed: number }[]
  readonly stories: { readonly attached?: string; readonly flaky?: string; readonly retried?: string }
}

/** At this speed it takes more than two seconds on any machine: long enough to be interrupted, and for a line of status. */
function tour(...options: string[]): Running {
  return cli.start(['tour', '--speed', '4', ...options])
}

async function interrupted(running: Running): Promise<void> {
  expect(await running.end('SIGINT')).toBe(130)
  expect(await processesOf(data), 'processes left behind').toEqual([])
}

test('Ctrl-C while PostgreSQL is being made leaves nothing behind', async () => {
  const running = tour()
  await running.says('starting the embedded PostgreSQL')
  await interrupted(running)
  expect(running.stderr).toContain('stopped; nothing had begun')
})

test('Ctrl-C at any moment leaves nothing behind, and the next tour goes on with what was queued', async () => {
  const first = tour()
  await first.says('was submitted twice with one key')
  await interrupted(first)
  expect(first.stderr).toMatch(/stopped; \d+ jobs left in the database/)

  const second = tour()
  await second.says(/continuing with \d+ jobs queued earlier/)
  await second.says('next try in 1 s')
  await interrupted(second)

  const third = tour('--json')
  expect(await third.exited).toBe(0)
  const summary = JSON.parse(third.stdout) as Summary
  expect(summary.continued).toBeGreaterThan(0)
  expect(summary.jobs + summary.earlier).toBe(289)
  expect(summary.lanes.reduce((sum, lane) => sum + lane.completed, 0)).toBe(289)
  expect(await processesOf(data)).toEqual([])
})

test('without a terminal it prints lines: what happens, a summary, the next steps; everything it tells is so', async () => {
  const running = tour()
  expect(await running.exited).toBe(0)
  const { stdout, stderr } = running
  expect(stderr).toBe('')
  expect(stdout).not.toContain('\u001b')
  expect(stdout).toMatch(
    /^ +\d\.\ds \d+ of 289 done; interactive \d of 4, \d+ waiting; maintenance \d of 2, \d+ waiting; /m,
  )
  expect(stdout).toMatch(/^289 jobs in \d+\.\d seconds; no lane was ever over its limit:$/m)
  expect(stdout).toMatch(/^interactive +4 +4 +241\nmaintenance +2 +2 +37\nsystem +1 +1 +11$/m)
  expect(stdout).toContain('...----=======+***%@@@@@@@@%@@@@@@@@@@@@@@@@@@@@@%*==-------')

  const [, flaky] = /^Job (\d+) failed twice and succeeded at its third attempt\.$/m.exec(stdout)!
  const shown = await cli.json<JobView & { attempts: { ending: string }[] }>('show', flaky!)
  expect(shown.attempts.map(({ ending }) => ending)).toEqual(['failed', 'failed', 'completed'])
  const [, retried] = /^Job (\d+) failed for good; an operator's retry made it succeed\.$/m.exec(stdout)!
  const again = await cli.json<JobView & { attempts: { ending: string }[] }>('show', retried!)
  expect(again.attempts.map(({ ending }) => ending)).toEqual(['rerun', 'completed'])
  const [, attached] = /^Job (\d+) was submitted twice with one key/m.exec(stdout)!
  expect(await cli.json<JobView & Record<string, unknown>>('show', attached!)).toMatchObject({
    task: 'tour.report',
    attempt: 1,
  })
  expect(await processesOf(data)).toEqual([])
})

test.runIf(process.platform === 'linux')(
  'on a terminal it draws over itself, tells the rest below, and gives the cursor back',
  async () => {
    // `script` is on every Debian and gives the program a terminal.
    const command = `stty rows 30 cols 90; '${process.execPath}' '${MAIN}' tour --speed 8`
    const { stdout, code } = await runInTerminal(command)
    expect(code).toBe(0)
    const codes = stdout.split('\u001b[').slice(1)
    expect(codes.filter((code) => code.startsWith('?25l'))).toHaveLength(1)
    expect(codes.filter((code) => code.startsWith('?25h'))).toHaveLength(1)
    // The frame is as high from the first to the last.
    const heights = codes.flatMap((code) => /^(\d+)A\r/.exec(code)?.[1] ?? [])
    expect(heights.length).toBeGreaterThan(5)
    expect(new Set(heights).size).toBe(1)
    const below = stdout.slice(stdout.lastIndexOf('\u001b[?25h'))
    expect(below).toContain('289 jobs in ')
    expect(await processesOf(data)).toEqual([])
  },
)

async function runInTerminal(command: string): Promise<{ stdout: string; code: number | null }> {
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: cli.folder,
    env: { ...process.env, ...environment, TERM: 'xterm' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { stdout, code }
}
