import { beforeAll, describe, expect, test, vi } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { expectGone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Cli, type Running } from './cli.ts'

// A dead worker is noticed after 15 s, and the pool starts two processes.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const database = useDatabase()
const cli = new Cli(() => ({ DATABASE_URL: database.url, SLUICE_LOG: 'error' }))

interface Job {
  readonly id: string
  readonly status: string
  readonly task: string
}

describe('the system of sluice up --tour has', () => {
  let up: Running

  beforeAll(async () => {
    up = cli.start(['up', '--tour', '--port', '0'])
    await up.says('tour: workflows')
  })

  /** Asks again until a list has what is looked for. */
  function first<T>(args: readonly string[], wanted: (one: T) => boolean, what: string): Promise<T> {
    const look = async () => {
      const listed = await cli.json<T[] | { groups: T[] }>(...args)
      return (Array.isArray(listed) ? listed : listed.groups).find(wanted)
    }
    return until(look, what, 60_000)
  }

  const jobs = (task: string, status: string) => ['ps', '--task', task, '--status', status]

  test('a workflow whose fan-out has a window, and children that wait behind it', async () => {
    const { id } = await first<Job>(jobs('tour.import-catalogue', 'running'), () => true, 'the workflow')
    interface Node {
      readonly kind: string
      readonly fanOut?: { readonly window: number | null; readonly counts: Readonly<Record<string, number>> }
      readonly children?: readonly Node[]
    }
    const fanOut = await until(async () => {
      const found = JSON.stringify(await cli.json<Node>('tree', id))
      return found.includes('"window":6') ? found : undefined
    }, 'its fan-out')
    expect(fanOut).toContain('index')
  })

  test('a failure deep in a workflow, which a trace leads to, and a group of equal failures', async () => {
    const { id } = await first<Job>(jobs('tour.close-day', 'failed'), () => true, 'the workflow to fail')
    const { stdout } = await cli.run(['trace', id])
    expect(stdout).toContain('tour.charge-card')
    expect(stdout).toContain('HTTP 402 from the bank')
    const group = await first<{ tasks: string[]; count: number }>(
      ['errors'],
      ({ tasks }) => tasks.includes('tour.read-invoice'),
      'the failures of a plain job',
    )
    expect(group.count).toBe(3)
  })

  test('a job that waits for approval and says what is approved', async () => {
    const { id } = await first<Job>(jobs('tour.deploy', 'awaiting_approval'), () => true, 'the approval')
    expect(await cli.json('show', id)).toMatchObject({ input: { service: 'shop', version: '2.4.0' } })
  })

  test('schedules', async () => {
    const names = (await cli.json<{ name: string }[]>('schedules')).map(({ name }) => name)
    expect(names).toEqual(['tour-nightly-import', 'tour-report'])
  })

  test('a budget with models on a device whose name says that it is simulated', async () => {
    interface Budget {
      readonly name: string
      readonly devices: readonly {
        readonly key: string
        readonly copies: readonly { readonly model: string }[]
      }[]
    }
    const budget = await first<Budget>(
      ['budgets'],
      ({ devices }) => devices.some(({ copies }) => copies.length > 0),
      'a loaded model',
    )
    expect(budget.name).toBe('tour-vram')
    expect(budget.devices.map(({ key }) => key)).toEqual([expect.stringContaining('simulated-gpu')])
  })

  test('an overloaded lane', async () => {
    const lane = await first<{ name: string; waiting: number }>(
      ['lanes'],
      ({ name, waiting }) => name === 'tour-encoding' && waiting > 30,
      'the backlog',
    )
    const { id } = await first<Job>(jobs('tour.encode-video', 'queued'), () => true, 'a job of it')
    expect((await cli.run(['why', id])).stdout).toContain(`lane ${lane.name} is full`)
  })

  test('a pool that started a worker, and a recovery from the death of its first one', async () => {
    await first<{ name: string; arrived: number }>(['pools'], ({ arrived }) => arrived > 1, 'a second worker')
    const lost = await first<Job & { attempt: number }>(
      ['ps', '--all', '--task', 'tour.thumbnail', '--status', 'completed'],
      ({ attempt }) => attempt > 1,
      'a job that was taken over',
    )
    const { attempts } = await cli.json<{ attempts: { ending: string }[] }>('show', lost.id)
    expect(attempts.map(({ ending }) => ending)).toEqual(['lost', 'completed'])
  })

  test.each([
    'ps',
    'tasks',
    'lanes',
    'workers',
    'pools',
    'budgets',
    'schedules',
    'errors',
    'keys',
    'roles',
    'audit',
  ])('something to list for sluice %s', async (command) => {
    expect(await first<unknown>([command], () => true, `sluice ${command}`)).toBeDefined()
  })

  test.each(['status', 'devices', 'fleet', 'admission'])(
    'something to show for sluice %s',
    async (command) => {
      const { code, stdout } = await cli.run([command, '--json'])
      expect(code).toBe(0)
      expect(stdout).toContain(
        command === 'devices' ? 'simulated-gpu' : command === 'fleet' ? 'tour-burst' : '{',
      )
    },
  )

  test('a stop that leaves no process behind, and no schedule whose task nobody runs', async () => {
    const pids = (await cli.json<{ pid: number }[]>('workers')).map(({ pid }) => pid)
    expect(await up.end('SIGINT')).toBe(0)
    await expectGone(...pids)
    expect(await cli.json('schedules')).toEqual([])
  })
})
