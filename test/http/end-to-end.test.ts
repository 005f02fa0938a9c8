import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cli, type Running } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const commits = useCommitChecker(database)
const cli = new Cli({ SLUICE_PORT: '0', SLUICE_LOG: 'warn' })
const CEILING = 15

// A job ends once three have begun: three workers with one slot each must run at the same time.
const PROGRAM = `#!/bin/sh
: > "$STARTED/$SLUICE_JOB_ID"
while [ "$(ls "$STARTED" | wc -l)" -lt 3 ]; do sleep 0.02; done
cat > "$SLUICE_RESULT"
`
const CONFIG = `
heartbeat: 200ms
stale: 1s
admission: { maxActive: ${CEILING} }
lanes: { work: { tasks: [work], slots: none, perWorker: none } }
tasks: { work: { exec: [./work.sh], env: { STARTED: ./started } } }
`

let server: { url: string; key: string; process: Running }

beforeAll(async () => {
  await cli.write('work.sh', PROGRAM)
  await chmod(join(cli.folder, 'work.sh'), 0o755)
  await cli.write('sluice.yaml', CONFIG.replace('./started', join(cli.folder, 'started')))
  await mkdir(join(cli.folder, 'started'))
  server = await startServer()
})
afterAll(() => server.process.end('SIGKILL'))

const environment = () => ({ DATABASE_URL: database.url })

async function startServer(key?: string): Promise<typeof server> {
  const process = cli.start(['server'], { environment: environment() })
  await process.says('listening on')
  const [, url] = /listening on (http:\/\/[^;\s]+)/.exec(process.stdout)!
  return { url: url!, key: key ?? /admin key: (slk_[\w-]{43})/.exec(process.stdout)![1]!, process }
}

function startWorkers(count: number): Running[] {
  return Array.from({ length: count }, (_, n) =>
    cli.start(['worker', '--capacity', '1', '--name', `worker-${n}`], { environment: environment() }),
  )
}

function call(method: string, path: string, body?: unknown): Promise<Response> {
  return fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${server.key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
}

const submit = (n: number) => call('POST', '/jobs', { task: 'work', input: { n }, key: `key ${n}` })

async function countStates(): Promise<Record<string, number>> {
  const rows = await database.sql<{ state: string; n: number }>(
    'select state, count(*)::integer as n from sluice.jobs group by state',
  )
  return Object.fromEntries(rows.map(({ state, n }) => [state, n]))
}

test('what may enter is bounded, waits while nobody works, and drains through three workers without a failure', {
  timeout: 120_000,
}, async () => {
  for (let n = 0; n < CEILING; n++) expect((await submit(n)).status).toBe(202)

  const refused = await submit(CEILING)
  expect(refused.status).toBe(429)
  expect(refused.headers.get('content-type')).toContain('application/problem+json')
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(await refused.json()).toMatchObject({
    code: 'ADMISSION_REJECTED',
    ceiling: CEILING,
    active: CEILING,
    retryAfter: Number(refused.headers.get('retry-after')),
  })
  const attached = await submit(3)
  expect([attached.status, await attached.json()]).toMatchObject([200, { attached: true }])
  const listed = await call('GET', '/jobs?status=queued')
  expect(((await listed.json()) as { jobs: unknown[] }).jobs).toHaveLength(CEILING)
  expect(await countStates()).toEqual({ ready: CEILING })

  const workers = startWorkers(3)
  await untilNoneLeft(async () => CEILING - ((await countStates()).completed ?? 0), 'all to be done')
  expect(await countStates()).toEqual({ completed: CEILING })
  const checker = await commits.catchUp()
  expect(checker.violations).toEqual([])
  expect(checker.peak.get('work')).toBe(3)
  expect((await submit(CEILING)).status).toBe(202)
  await until(async () => (await countStates()).completed === CEILING + 1, 'the one that came again')
  for (const worker of workers) await worker.end('SIGTERM')
})

test('what dead workers left behind is done after a boot, with no request', {
  timeout: 120_000,
}, async () => {
  for (const n of [100, 101, 102]) expect((await submit(n)).status).toBe(202)
  await server.process.end('SIGKILL')
  await plantOrphans()
  const { key } = server
  server = await startServer(key)
  const [worker] = startWorkers(1)
  await until(async () => (await countStates()).completed === CEILING + 4, 'the orphans to be done', 60_000)
  const rows = await database.sql<{ attempt: number; losses: number }>(
    `select attempt, losses from sluice.jobs where input ->> 'n' in ('100', '101')`,
  )
  expect(rows).toEqual([
    { attempt: 2, losses: 1 },
    { attempt: 2, losses: 1 },
  ])
  await worker!.end('SIGTERM')
})

/** Two of the waiting jobs run under a worker that has been silent for an hour. */
async function plantOrphans(): Promise<void> {
  const [worker] = await database.sql<{ id: string }>(
    `select sluice.register_worker_v1('dead', 'host', 1, '0', 0, 1, '{work}') as id`,
  )
  await database.sql('select sluice.resync_v1($1)', [worker!.id])
  await database.sql(
    `with orphans as (
       update sluice.jobs set state = 'running', worker_id = $1, attempt = 1, started_at = clock_timestamp() - interval '1 hour'
        where state = 'ready' and input ->> 'n' in ('100', '101')
     ) update sluice.workers set seen_at = clock_timestamp() - interval '1 hour' where id = $1`,
    [worker!.id],
  )
}
