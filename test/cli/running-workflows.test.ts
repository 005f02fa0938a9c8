import { beforeAll, describe, expect, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'
import { Cli } from './cli.ts'

const gate = new Gate()
const step = task({
  name: 'step',
  retry: { attempts: 1 },
  run: async (input: { at: number; bad?: boolean }) => {
    if (input.bad === true) throw new Error('bad item')
    await gate.pass()
    return input.at
  },
})
const gated = task({ name: 'review', approval: true, run: (_: unknown) => null })
const far = task({ name: 'far', lane: 'narrow', run: (_: unknown) => null })
const SPREAD = {
  steps: { fan: { task: 'step', with_items: '${{ input.items }}', concurrency: 3, with: '${{ item }}' } },
}
const database = useDatabase()
const server = useServer(database, {
  tasks: [step, gated, far],
  lanes: { narrow: { slots: 1 }, default: { perWorker: null } },
  workflows: [
    { name: 'spread', definition: SPREAD },
    { name: 'release', definition: { steps: { sign: { steps: { review: { task: 'review' } } } } } },
    { name: 'distant', definition: { steps: { go: { task: 'far' } } } },
  ],
})
let key = ''
const direct = new Cli({ DATABASE_URL: database.url })
const remote = new Cli(() => ({
  DATABASE_URL: 'postgres://127.0.0.1:1/none',
  SLUICE_SERVER: server.url,
  SLUICE_KEY: key,
}))
const both = [
  ['the database', direct],
  ['a server', remote],
] as const

beforeAll(async () => {
  key = await server.keyOf('platform_admin', 'root')
  await server.app.work({ capacity: 8 })
})

async function run(cli: Cli, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli.run(args)
  expect([code, stderr]).toEqual([0, ''])
  return stdout
}

describe('a fan-out that cannot succeed any more', { timeout: 120_000 }, () => {
  let root = ''
  let fan = ''
  beforeAll(async () => {
    const items = [{ at: 0, bad: true }, ...Array.from({ length: 9 }, (_, at) => ({ at: at + 1 }))]
    root = (await server.app.submit('spread', { items })).id
    fan = await until(async () => {
      const found = (await server.app.tree(root)).children[0]
      return found?.counts?.failed === 1 ? found.id : undefined
    }, 'a child to fail')
  })

  test.each(both)('says so in tree, show and ps over %s', async (_, cli) => {
    const words = 'will fail: 1 of 10 children failed; all must complete'
    expect(await run(cli, 'tree', root)).toContain(words)
    expect(await run(cli, 'show', root)).toContain(words)
    expect(await run(cli, 'ps')).toContain(words)
  })

  test.each(both)('is listed with its steps by ps --steps over %s', async (_, cli) => {
    expect(await run(cli, 'ps', '--task', 'step')).toContain(
      '(steps of workflows are not listed: add --steps)\n',
    )
    const listed = await run(
      cli,
      'ps',
      '--steps',
      '--task',
      'step',
      '--lane',
      'default',
      '--status',
      'running',
    )
    expect(listed.match(/^ *\d+ +step +default +running /gm)).toHaveLength(3)
    expect(listed).toMatch(new RegExp(`^ *\\d+ +step .* ${root}$`, 'm'))
    expect(await run(cli, 'ps', '--steps')).toMatch(new RegExp(`^ *${root} +spread `, 'm'))
  })

  test('says so in the graph and in lists over HTTP', async () => {
    const willFail = '1 of 10 children failed; all must complete'
    const graph = (await server.call('GET', `/jobs/${root}/graph`, { key })).json()
    expect(graph).toMatchObject({ steps: [{ job: { counts: { willFail } } }] })
    const list = (await server.call('GET', '/jobs?status=running', { key })).json()
    expect(list).toMatchObject({ jobs: [{ id: root, below: { fanOut: { step: 'fan', willFail } } }] })
  })

  test.each(both)(
    'is shown as paused with a window of 0, and resumes at its former size over %s',
    async (_, cli) => {
      await server.app.resizeWindow(fan, 4)
      await run(cli, 'window', fan, '0')
      expect(await run(cli, 'tree', root)).toContain('paused (window was 4)')
      expect(await run(cli, 'ps')).toContain('paused')
      expect((await server.app.why(fan)).reason).toContain(`sluice window ${fan} resume`)
      expect(await run(cli, 'window', fan, 'resume')).toContain('window 0 (paused), now 4')
      expect((await server.app.tree(fan, { depth: 0 })).counts).not.toHaveProperty('resumesAt')
      // Where nothing is paused there is nothing to resume.
      expect(await run(cli, 'window', fan, 'resume')).toContain('window 4, now 4')
    },
  )

  test('opens on its steps, with its input bounded', async () => {
    const shown = await run(direct, 'show', root)
    expect(shown.indexOf('fan (job')).toBeLessThan(shown.indexOf('input'))
    expect(shown).toMatch(/\.\.\. \d+ characters in all; --json shows them/)
  })
})

describe('a workflow', { timeout: 120_000 }, () => {
  test.each(both)('says which step waits for approval over %s', async (_, cli) => {
    const { id } = await server.app.submit('release', null)
    const review = await until(async () => {
      const [asked] = await server.app.listJobs({ status: ['awaiting_approval'], children: true })
      return asked?.rootId === id ? asked.id : undefined
    }, 'the step')
    expect(await run(cli, 'ps')).toContain(`waits for approval of step sign/review (job ${review})`)
    const list = (await server.call('GET', '/jobs?status=running&task=release', { key })).json()
    expect(list).toMatchObject({
      jobs: [{ below: { waitsFor: { jobId: review, step: 'sign/review', status: 'awaiting_approval' } } }],
    })
    await server.app.cancel(id)
    // It ends with its steps, and the next case lists what runs.
    await expect(server.app.job(id).result()).rejects.toMatchObject({ code: 'JOB_CANCELLED' })
  })

  test('says why its step is queued, in lists and while somebody waits for it', async () => {
    await server.app.setLane('narrow', { enabled: false })
    const waiting = direct.start(['submit', 'distant', '--wait'])
    await until(() => waiting.stderr.includes('waiting for job'), 'the line')
    expect(waiting.stderr).toMatch(
      /\(running: it waits for its steps: 0 of 1 steps have ended; step go is queued/,
    )
    await until(
      async () => (await run(direct, 'ps')).includes('step go is queued: lane narrow is paused'),
      'the reason of the sample',
    )
    await server.app.setLane('narrow', { enabled: true })
    expect(await waiting.exited).toBe(0)
  })
})

test('the library lists the same as the server', async () => {
  const other = await sluice({ database: database.url, publish: false })
  try {
    const [job] = await other.listJobs({ status: ['running'], task: 'spread' })
    expect(job).toMatchObject({ below: { total: 1, waitsFor: { step: 'fan', status: 'running' } } })
  } finally {
    await other.close()
    gate.open()
  }
})
