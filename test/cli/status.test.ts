import { beforeAll, describe, expect, test } from 'vitest'
import type { World } from '../../src/cli/command.ts'
import type { Output } from '../../src/cli/output/output.ts'
import { runProgram } from '../../src/cli/program.ts'
import { type Now, task } from '../../src/index.ts'
import { VERSION } from '../../src/version.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useWay, WAYS } from './ways.ts'

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase()
  const { cli, direct } = useWay(way, database)

  beforeAll(async () => {
    await cli.write(
      'sluice.yaml',
      'lanes: { shut: { slots: 0, tasks: [noop] } }\ntasks: { noop: { exec: [/bin/true] } }\n',
    )
    await direct.run(['submit', 'noop'])
    await direct.run(['submit', 'noop', '--run-at', '1h'])
  })

  test('status shows jobs, workers, busy lanes and what needs attention', async () => {
    const { code, stdout } = await cli.run(['status'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^jobs +1 queued, 1 scheduled\n/)
    expect(stdout).toMatch(/\nfailed +0 in the last minute, 0 in the last hour\n/)
    expect(stdout).toMatch(/\nworkers +none; start one with: sluice worker\n/)
    expect(stdout).toMatch(/\nLANE +STATE +RUNNING +SLOTS +WAITING +OLDEST.*\nshut +closed +0 +0 +1 /)
    expect(stdout).toMatch(/\nand \d+ idle lanes\n/)
    expect(stdout).toMatch(/\n(problem|warning): .*\n/)
  })

  test('status --json is the snapshot', async () => {
    const snapshot = await cli.json<Now>('status')
    expect(snapshot.states).toEqual({
      running: 0,
      queued: 1,
      scheduled: 1,
      retrying: 0,
      awaiting_approval: 0,
    })
    expect(snapshot.workers).toMatchObject({ live: 0 })
    expect(snapshot.findings.length).toBeGreaterThan(0)
  })

  test.each([['top'], ['ps', '--watch']])('%s %s needs a terminal, and says so', async (...args) => {
    const { code, stdout, stderr } = await cli.run(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain('refreshes a terminal, and the output is not one')
  })
})

describe('on a terminal', () => {
  const database = useDatabase()
  const apps = useApps(database)

  /** A terminal of 80 columns and some rows that a test can read. */
  class Terminal implements Output {
    text = ''
    readonly isTerminal = true
    readonly hasColour = false
    readonly columns = 80
    readonly rows: number

    constructor(rows: number) {
      this.rows = rows
    }

    write(text: string): void {
      this.text += text
    }

    line(text = ''): void {
      this.write(`${text}\n`)
    }

    onResize(): () => void {
      return () => {}
    }

    /** The lines of the last frame. */
    get frame(): string[] {
      const last = this.text.split('\u001b[?2026h').at(-1)!
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the codes of a terminal
      return last.replace(/\u001b\[[?0-9]*[A-Za-z]|\r/g, '').split('\n')
    }
  }

  async function shown(args: readonly string[], rows: number, system: object) {
    const out = new Terminal(rows)
    const stop = new AbortController()
    const world = {
      out,
      err: out,
      environment: { DATABASE_URL: database.url },
      folder: '.',
      now: () => new Date(),
      interrupts: { take: () => ({ soon: stop.signal, now: stop.signal }) },
      open: async () => system,
    }
    const ended = runProgram(args, world as unknown as World)
    const end = () => {
      stop.abort()
      return ended
    }
    return { out, end }
  }

  test('ps --watch follows what happens, and top shows it below the status', {
    timeout: 60_000,
  }, async () => {
    const noop = task({ name: 'noop', run: () => null })
    const app = await apps.open({ tasks: [noop] })
    const system = {
      address: 'here',
      listJobs: (filter: object) => app.listJobs(filter),
      listTasks: () => app.listTasks(),
      listLanes: () => app.listLanes(),
      snapshot: () => app.snapshot(),
      close: async () => {},
    }
    const watched = await shown(['ps', '--watch'], 24, system)
    await until(async () => watched.out.frame[0]!.startsWith('no job is waiting'), 'the empty list')
    const { id } = await app.submit(noop, undefined)
    await until(
      async () => watched.out.frame.some((line) => line.trimStart().startsWith(`${id} `)),
      'the job',
    )
    expect(await watched.end()).toBe(0)
    expect(watched.out.text.endsWith('\u001b[?25h')).toBe(true)

    const top = await shown(['top'], 6, system)
    await until(async () => top.out.frame.length > 3, 'the first view')
    expect(top.out.frame[0]).toMatch(/^sluice top {2}here {2}\d{4}-/)
    // Five lines and the end of the last one: the terminal does not scroll.
    expect(top.out.frame).toHaveLength(6)
    expect(top.out.frame[4]).toMatch(/^and \d+ more lines$/)
    expect(await top.end()).toBe(0)
  })

  test('a view that fails later stays, with the error below it', async () => {
    let calls = 0
    const system = {
      address: 'here',
      listJobs: async () => {
        // A view asks for what runs, and for what else has not ended.
        if (++calls > 2) throw new Error('the database is away')
        return []
      },
      close: async () => {},
    }
    const watched = await shown(['ps', '--watch'], 24, system)
    await until(async () => watched.out.frame.includes('the database is away'), 'the error')
    expect(watched.out.frame[0]).toMatch(/^no job is waiting/)
    expect(await watched.end()).toBe(0)
  })
})

test('version prints that of the package and of Node', async () => {
  const lines: string[] = []
  const out = {
    write: () => {},
    line: (text = '') => void lines.push(text),
    isTerminal: false,
    hasColour: false,
  }
  expect(await runProgram(['version'], { out, err: out, environment: {} } as unknown as World)).toBe(0)
  expect(lines[0]).toBe(`sluice    ${VERSION}`)
  expect(lines[1]).toBe(`node      ${process.versions.node}`)
})
