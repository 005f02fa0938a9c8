import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BudgetsView, BudgetView } from '../../src/index.ts'
import { BUDGET_FIELDS } from '../../src/model/fields/budget.ts'
import { useDatabase } from '../support/database.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import type { Running } from './cli.ts'
import { useWay, WAYS } from './ways.ts'

const GB = 1024 ** 3
const GPU = `${hostname()}/card0`

// `chat` and `draw` run until a file named `go` exists.
const HOLD = `exec: [/bin/sh, -c, 'echo begun; until [ -e "$GO" ]; do sleep 0.02; done']`
const CONFIG = (folder: string) => `
lanes:
  default: { perWorker: null, poll: 100ms }
budgets:
  vram: { card0: 24GB, safety: 1GB }
  licences: 2
models:
  llama: { load: 4s }
tasks:
  chat: { ${HOLD}, env: { GO: ${folder}/go }, model: llama, uses: { vram: 16GB } }
  draw: { ${HOLD}, env: { GO: ${folder}/go }, model: flux, uses: { vram: 12GB }, perJob: { vram: 1GB } }
  scan: { exec: [/bin/true], uses: { licences: 1 } }
`

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase()
  const { cli, direct } = useWay(way, database)
  let worker: Running

  beforeAll(async () => {
    await cli.write('sluice.yaml', CONFIG(cli.folder))
  })

  afterAll(async () => {
    await worker?.end('SIGTERM')
  })

  test('without budgets, both say how there could be some', async () => {
    for (const command of ['devices', 'budgets']) {
      const { code, stdout } = await cli.run([command])
      expect([code, stdout]).toEqual([
        0,
        expect.stringContaining('there are no budgets; a config file names them'),
      ])
    }
    expect(await cli.json('devices')).toEqual({ budgets: [], models: [], queues: [] })
    expect(await cli.json('budgets')).toEqual([])
  })

  test('devices shows devices, what is on them, what waits, and what comes next and why', {
    timeout: 90_000,
  }, async () => {
    worker = direct.start(['worker', '--name', 'w1', '--capacity', '0'])
    await worker.says('ready to take jobs')
    // It offers its devices with its first heartbeat.
    const idle = await until(async () => {
      const { stdout } = await cli.run(['devices'])
      return stdout.includes('offered by') && stdout
    }, 'the worker to offer its devices')
    expect(idle).toContain(`vram on ${GPU}  offered by w1\n  held      ${'░'.repeat(24)}  0 of 24GB\n`)
    expect(idle).toContain('no jobs are waiting\n')

    await cli.json('submit', 'chat')
    await until(
      async () => (await database.sql(`select 1 from sluice.jobs where state = 'running'`)).length === 1,
      'the first job to run',
    )
    await cli.json('submit', 'chat')
    await cli.json('submit', 'draw')
    const view = await until(async () => {
      const found = await cli.json<BudgetsView>('devices')
      const copy = found.budgets.find(({ name }) => name === 'vram')!.devices[0]!.copies[0]
      return copy?.state === 'loaded' ? found : undefined
    }, 'the model to be loaded')
    expect(view.budgets.find(({ name }) => name === 'vram')!.devices[0]).toMatchObject({
      key: GPU,
      held: 16 * GB,
      capacity: 24 * GB,
      workers: ['w1'],
      copies: [{ model: 'llama', worker: 'w1', running: 1 }],
      next: [
        { task: 'chat', model: 'llama', why: 'parallel' },
        { task: 'draw', model: 'flux', why: 'held' },
      ],
    })

    const { stdout } = await cli.run(['devices'])
    expect(stdout).toMatch(/^licences\n {2}held {6}░{24} {2}0 of 2\n\n/)
    expect(stdout).toContain(
      `  held      ${'█'.repeat(16)}${'░'.repeat(8)}  16GB of 24GB, 16GB of it by models\n`,
    )
    expect(stdout).toMatch(/\n {2}loaded {4}llama {2}16GB, 1 job, for \S+, worker w1\n/)
    expect(stdout).toContain('\n  next      llama  as its jobs end: it serves as many as it may\n')
    expect(stdout).toMatch(
      /\n {12}flux {3}needs 13GB, 8GB is free; llama holds the rest; estimated start in \S+\n/,
    )
    expect(stdout).toMatch(
      / flux needs 13GB of vram on \S+, where 8GB is free; llama holds the rest; estimated start \S+/,
    )
    expect(stdout).toMatch(/\nMODEL +WAITING +OLDEST +RUNNING +COPIES +LOAD +JOB +LOADS +SWAPS AVOIDED\n/)
    expect(stdout).toMatch(/\nflux +1 +\S+ +0 +0 +0 +0\n/)
    expect(stdout).toMatch(/\nllama +1 +\S+ +1 +1 +4\.0s +1 +0\n/)
    expect(stdout).toMatch(/\nTASK +MODEL +WAITING +OLDEST +BLOCKED BY\n/)
    expect(stdout).toMatch(
      /\n1 load so far; 0 jobs served without the swap that strict order would have made first\n$/,
    )
  })

  test('budgets are listed, changed, and reset', { timeout: 90_000 }, async () => {
    const { stdout } = await cli.run(['budgets'])
    expect(stdout).toMatch(/^BUDGET +DEVICE +HELD +CAPACITY +AVAILABLE +SAFETY +QUANTUM +MAX WAIT\n/)
    expect(stdout).toMatch(/\nlicences +0 +2 +2 +12 +\S+\n/)
    expect(stdout).toMatch(/\nvram +\S+\/card0 +16GB +24GB +8GB +1GB +12 +\S+\n/)

    const changed = await cli.json<BudgetView>(
      'budgets',
      'set',
      'vram',
      '--limit',
      'card0=20GB',
      '--safety',
      '2GB',
      '--quantum',
      '4.5',
      '--max-wait',
      '90s',
    )
    expect(changed).toMatchObject({ safety: 2 * GB, quantum: 4.5, maxWaitMs: 90_000 })
    expect(changed.devices[0]).toMatchObject({ limit: 20 * GB, capacity: 20 * GB, total: 24 * GB })
    expect((await cli.run(['devices'])).stdout).toContain(
      "16GB of 20GB, 16GB of it by models (an operator's limit; it has 24GB)\n",
    )
    expect((await cli.run(['budgets'])).stdout).toMatch(/ maxWait quantum safety limit\n/)
    const unlimited = await cli.json<BudgetView>('budgets', 'set', 'vram', '--limit', `${GPU}=none`)
    expect(unlimited.devices[0]).toMatchObject({ limit: null, capacity: 24 * GB })

    const set = await cli.run(['budgets', 'set', 'licences', '--capacity', '5'])
    expect(set.stdout).toMatch(/^budget +licences\ncapacity +5\n/)
    expect(set.stdout).toMatch(/\nset by operator +capacity\n$/)
    // A program with the file leaves it alone.
    await direct.run(['submit', 'scan', '--wait'])
    expect((await cli.json<BudgetView[]>('budgets'))[0]).toMatchObject({
      capacity: 5,
      operatorSet: ['capacity'],
    })
    await database.sql(`insert into sluice.budgets (name, kind) values ('forgotten', 'shared')`)
    expect((await cli.run(['budgets', 'delete', 'forgotten'])).stdout).toBe('budget forgotten is deleted\n')
    const reset = await cli.run(['budgets', 'reset', 'licences'])
    expect(reset.stdout).toMatch(/\ncapacity +2\n[\s\S]*\nset by operator +nothing\n$/)
    expect(await cli.json('budgets', 'reset', 'vram')).toMatchObject({
      safety: GB,
      quantum: BUDGET_FIELDS.quantum.default,
      operatorSet: [],
    })
    // Whichever way they came.
    const lines = await database.sql<{ line: string }>(
      `select action || ' of ' || target as line from sluice.audit where action like 'budget.%' and refused is null order by id`,
    )
    expect(lines.map(({ line }) => line)).toEqual([
      'budget.change of budget vram',
      'budget.change of budget vram',
      'budget.change of budget licences',
      'budget.delete of budget forgotten',
      'budget.reset of budget licences',
      'budget.reset of budget vram',
    ])
  })

  test.each<[string, string[], number, string]>([
    [
      'a budget that is not there',
      ['set', 'seats', '--capacity', '1'],
      1,
      'budget "seats" does not exist; existing budgets: licences, vram',
    ],
    ['nothing to set', ['set', 'vram'], 2, 'nothing to set: give --capacity, --limit'],
    ['no amount', ['set', 'licences', '--capacity', 'lots'], 2, 'Write a number of at least 0'],
    [
      'no device',
      ['set', 'vram', '--limit', 'card9=1GB'],
      2,
      '"card9" must be the key or the name of a device of budget vram',
    ],
    ['a limit without an amount', ['set', 'vram', '--limit', 'card0'], 2, 'such as gpu0=20GB'],
    [
      'a capacity of devices',
      ['set', 'vram', '--capacity', '3GB'],
      2,
      'capacity: budget vram is counted per device',
    ],
    ['a reset of one that is not there', ['reset', 'seats'], 1, 'budget "seats" does not exist'],
    ['to delete one in use', ['delete', 'vram'], 1, 'budget vram cannot be deleted: used by chat, draw'],
  ])('budgets: %s is refused', async (_, args, exit, message) => {
    const { code, stderr } = await cli.run(['budgets', ...args])
    expect([code, stderr]).toEqual([exit, expect.stringContaining(message)])
  })

  test('a worker that leaves takes its models with it; what waited runs when it may', async () => {
    await cli.write('go', '')
    expect(existsSync(join(cli.folder, 'go'))).toBe(true)
    await untilNoneLeft(
      async () => (await database.sql(`select 1 from sluice.jobs where state < 'completed'`)).length,
      'all jobs to end',
    )
    await worker.end('SIGTERM')
    const { stdout } = await cli.run(['devices'])
    expect(stdout).toContain(
      `vram on ${GPU}  no live worker offers it\n  held      ${'░'.repeat(24)}  0 of 24GB\n`,
    )
    expect(stdout).toMatch(/\nflux +0 +0 +0 .* 1 +0\n/)
  })
})
