import { expect, onTestFinished, test, vi } from 'vitest'
import { Cli, type Running } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { EVERYTHING } from '../support/http-server.ts'
import { isAlive } from '../support/processes.ts'
import { plantResults } from '../support/state/jobs.ts'
import { endMoments, findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000 })

// 14 of 16 MB: more than may be read at once, and less than PostgreSQL itself refuses to put into one list.
const CHILDREN = 15
const database = useDatabase()
const cli = new Cli({
  DATABASE_URL: database.url,
  SLUICE_PORT: '0',
  SLUICE_LOG: 'warn',
  SLUICE_STALE: '10m',
  // The results of the fan-out are 214 MiB: a server that loads them dies.
  NODE_OPTIONS: '--max-old-space-size=128',
})
const CONFIG = `
tasks: { echo: { exec: [/bin/true] } }
workflows:
  wide:
    steps:
      fan: { task: echo, with_items: '\${{ range(${CHILDREN}) }}' }
      after: { task: echo, needs: [fan], with: '\${{ steps.fan.results }}' }
  beside:
    steps: { one: { task: echo }, two: { task: echo, needs: [one] } }
`

interface Job {
  readonly id: string
  readonly attempt: number
}

async function startServer(): Promise<{ process: Running; url: string }> {
  const process = cli.start(['server'])
  await process.says('listening on')
  return { process, url: /listening on (http:[^;\s]+)/.exec(process.stdout)![1]! }
}

test('results too large to be read fail their workflow on a server that was started again, and leave it alive', async () => {
  await cli.write('sluice.yaml', CONFIG)
  const first = await startServer()
  const admin = /admin key: (\S+)/.exec(first.process.stdout)![1]!
  let { url } = first
  async function call<T>(method: string, path: string, key: string, body?: object): Promise<T> {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return JSON.parse(text) as T
  }
  const submit = async (workflow: string) =>
    (await call<Job>('POST', '/jobs', admin, { workflow, input: null })).id
  const show = (id: string) => call<{ status: string; error: string | null }>('GET', `/jobs/${id}`, admin)

  const about = { name: 'by-hand', role: 'worker', runs: EVERYTHING }
  const { key: worker } = await call<{ key: string }>('POST', '/keys', admin, about)
  // A worker behind the server, so that nobody else decides what comes next.
  const body = { name: 'by-hand', capacity: 2 * CHILDREN, cores: 2, tasks: [{ name: 'echo' }] }
  const { id: workerId } = await call<Job>('POST', '/workers', worker, body)
  const cycle = async (ended: readonly Job[], running: readonly Job[]) => {
    const endings = ended.map(({ id, attempt }) => ({ id, attempt, ending: 'completed', result: '1' }))
    const held = running.map(({ id, attempt }) => ({ id, attempt }))
    const request = { ended: endings, running: held, free: 2 * CHILDREN - held.length, waitMs: 1000 }
    return (await call<{ jobs: Job[] }>('POST', `/workers/${workerId}/cycle`, worker, request)).jobs
  }

  const wide = await submit('wide')
  const children: Job[] = []
  await until(async () => {
    children.push(...(await cycle([], children)))
    return children.length === CHILDREN
  }, 'all children to be started')
  const last = children.pop()!
  await cycle(children, [last])
  await plantResults(database.sql, (await findStep(database.sql, wide, 'fan'))!, 16_000_000)
  await first.process.end('SIGKILL')

  const second = await startServer()
  onTestFinished(() => second.process.end('SIGTERM').then(() => {}))
  url = second.url
  await endMoments(database.sql)
  await cycle([last], [])
  const beside = await submit('beside')
  let running: Job[] = []
  await until(async () => {
    running = await cycle(running, [])
    return (await show(beside)).status === 'completed'
  }, 'the small workflow to complete')
  await until(async () => (await show(wide)).status === 'failed', 'the wide one to fail')
  expect((await show(wide)).error).toMatch(
    /^step after failed: steps\.fan\.results: it has 214 MiB as JSON, and what is read at once may have 64 MiB together/,
  )
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  expect(isAlive(second.process.process.pid!)).toBe(true)
})
