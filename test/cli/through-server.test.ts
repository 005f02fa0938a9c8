import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { Cli, type Ran, type Running, type RunOptions } from './cli.ts'

const database = useDatabase()
const NOWHERE = 'postgres://127.0.0.1:1/none'
const direct = new Cli({ DATABASE_URL: database.url })
const remote = new Cli(() => ({ DATABASE_URL: NOWHERE, SLUICE_SERVER: url, SLUICE_KEY: admin }), direct)

let server: Running
let worker: Running
let url = ''
let admin = ''

// `hold` runs until the file it names exists.
const CONFIG = `
lanes:
  default: { perWorker: null, poll: 100ms }
tasks:
  echo: { exec: [/bin/sh, -c, 'echo said; cat > "$SLUICE_RESULT"'] }
  broken: { exec: [/bin/sh, -c, 'exit 7'], retry: { attempts: 1 } }
  hold: { exec: [/bin/sh, -c, 'read -r file; file=$(echo "$file" | tr -d "\\042"); echo begun; until [ -e "$file" ]; do sleep 0.02; done; echo gone on; echo 5 > "$SLUICE_RESULT"'] }
  parked: { exec: [/bin/true] }
workflows:
  both: { steps: { one: { task: echo, with: 1 }, two: { task: broken, needs: [one], with: 2 } } }
schedules:
  nightly: { task: parked, cron: "0 3 * * *" }
`

beforeAll(async () => {
  await direct.write('sluice.yaml', CONFIG)
  server = await startServer('0')
  url = String(JSON.parse(server.stdout).url)
  admin = await newKey('platform_admin')
  worker = direct.start(['worker', '--capacity', '0', '--tasks', 'echo,broken,hold'])
  await worker.says('ready to take jobs')
})

afterAll(async () => {
  await worker.end('SIGTERM')
  await server.end('SIGTERM')
})

/** A process of `sluice server`. */
async function startServer(port: string): Promise<Running> {
  const running = direct.start(['server', '--port', port, '--json'], { environment: { SLUICE_LOG: 'warn' } })
  await running.says(/"url"/)
  return running
}

async function newKey(role: string, name = role): Promise<string> {
  return (await direct.json<{ key: string }>('keys', 'create', name, '--role', role)).key
}

async function submit(...args: string[]): Promise<string> {
  return (await remote.json<{ id: string }>('submit', ...args)).id
}

async function inState(id: string, state: string): Promise<void> {
  await until(async () => {
    const rows = await database.sql<{ state: string }>('select state from sluice.jobs where id = $1', [id])
    return rows[0]?.state === state
  }, `job ${id} to be ${state}`)
}

/** What goes wrong, as a program sees it. */
async function failure(args: readonly string[], options: RunOptions = {}) {
  const { code, stdout, stderr } = await remote.run([...args, '--json'], options)
  expect(stdout).toBe('')
  const { error } = JSON.parse(stderr.trim().split('\n').at(-1)!) as {
    error: { code: string; message: string; hint?: string; details: Record<string, unknown> }
  }
  return { exit: code, ...error }
}

/** A server of our own making. */
async function pretend(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const made: Server = createServer(answer)
  made.listen(0, '127.0.0.1')
  await once(made, 'listening')
  onTestFinished(() => {
    made.closeAllConnections()
    made.close()
  })
  return `http://127.0.0.1:${(made.address() as AddressInfo).port}`
}

/** Where nobody listens any more. */
async function leftAddress(): Promise<string> {
  const made = createServer().listen(0, '127.0.0.1')
  await once(made, 'listening')
  const { port } = made.address() as AddressInfo
  made.close()
  return `http://127.0.0.1:${port}`
}

describe('--json is the same over a server and over the database:', () => {
  const ids = { tree: '', failed: '', waiting: '' }

  beforeAll(async () => {
    const { stdout } = await remote.run(['submit', 'both', '--wait', '--json'])
    ids.tree = (JSON.parse(stdout) as { id: string }).id
    ids.failed = await submit('broken', '--input', '{"at":"2031-05-01T08:00:00Z"}', '--tag', 'x')
    ids.waiting = await submit('parked', '--run-at', '1h', '--key', 'k', '--priority', '-2')
    await inState(ids.failed, 'failed')
    await remote.json('lanes', 'set', 'system', '--ageing', '5m')
    await remote.json('schedules', 'fire', 'nightly')
  })

  /** Moves on by itself, or tells which of the two asked. */
  const FLEETING = /^(silentMs|seenAt|lastUsedAt|drainRate|estimateSeconds)$/

  function settled(value: unknown): unknown {
    return JSON.parse(
      JSON.stringify(value, (name, field) => {
        // Of a problem, `status` is that of HTTP; the message tells the job's.
        if (name === 'details') return { ...field, status: undefined }
        return FLEETING.test(name) ? undefined : field
      }),
    )
  }

  test.each([
    ['ps', '--all'],
    ['ps', '--status', 'failed', '--tag', 'x'],
    ['show', 'failed'],
    ['show', 'tree'],
    ['tree', 'tree'],
    ['trace', 'tree'],
    ['why', 'waiting'],
    ['errors', '--since', '1h'],
    ['lanes'],
    ['admission'],
    ['workers'],
    ['schedules'],
    ['schedules', 'show', 'nightly'],
    ['keys'],
    ['roles'],
    ['audit', '--action', 'lane.'],
    ['cancel', '999999', 'failed'],
    ['retry', 'tree'],
  ])('sluice %s %s', async (...args) => {
    const named = args.map((each) => (Object.hasOwn(ids, each) ? ids[each as keyof typeof ids] : each))
    const told = ({ code, stdout, stderr }: Ran) => ({
      code,
      // Only who has the database is told its name.
      told: settled(JSON.parse((stdout || stderr).replaceAll(/ in database \S+ on [^"\s]+/g, ''))),
    })
    // Queues are sampled now and then: asked again when that fell between the two.
    await vi.waitFor(async () => {
      const here = await direct.run([...named, '--json'])
      const there = await remote.run([...named, '--json'])
      expect(told(there)).toEqual(told(here))
    }, 10_000)
  })

  test('logs, line by line', async () => {
    const id = await submit('echo', '--input', '1')
    await inState(id, 'completed')
    const plain = await direct.run(['logs', id, '--json'])
    expect(plain.stdout).toContain('"line":"said"')
    expect(await remote.run(['logs', id, '--json'])).toEqual(plain)
    expect(await remote.run(['logs', '-f', id, '--json'])).toEqual(plain)
  })
})

describe('a server that cannot be spoken to:', () => {
  test('without a key nothing is asked', async () => {
    expect(await failure(['ps'], { environment: { SLUICE_KEY: '' } })).toMatchObject({
      exit: 2,
      code: 'INVALID_ARGUMENT',
      message: 'a server requires an API key',
      hint: expect.stringContaining('SLUICE_KEY'),
    })
  })

  test('a key that nobody has is refused as the server says', async () => {
    const secret = `slk_${'B'.repeat(43)}`
    const found = await failure(['ps'], { environment: { SLUICE_KEY: secret } })
    expect(found).toMatchObject({
      exit: 1,
      code: 'UNAUTHENTICATED',
      message: expect.stringContaining('unknown, expired or revoked'),
    })
    expect(JSON.stringify(found)).not.toContain(secret)
    // Concerns all jobs that were named, and is told once.
    const { code, stderr } = await remote.run(['cancel', '1', '2'], { environment: { SLUICE_KEY: secret } })
    expect([code, stderr.match(/UNAUTHENTICATED/g)]).toEqual([1, ['UNAUTHENTICATED']])
  })

  test('a role that may not is refused with what is missing', async () => {
    const key = await newKey('viewer')
    expect((await remote.run(['ps'], { environment: { SLUICE_KEY: key } })).code).toBe(0)
    expect(
      await failure(['lanes', 'set', 'system', '--slots', '3'], { environment: { SLUICE_KEY: key } }),
    ).toMatchObject({
      exit: 1,
      code: 'FORBIDDEN',
      message: expect.stringContaining('workers:manage'),
      details: { needs: ['workers:manage'] },
    })
  })

  test('nobody there', async () => {
    const gone = await leftAddress()
    expect(await failure(['ps', '--server', gone])).toMatchObject({
      exit: 3,
      code: 'SERVER_UNAVAILABLE',
      message: `the server at ${gone} cannot be reached: ECONNREFUSED`,
    })
  })

  test.each<[string, (response: ServerResponse) => void, string]>([
    ['a page', (response) => response.end('<html>hello</html>'), 'is not a Sluice server; check the address'],
    ['other JSON', (response) => response.writeHead(404).end('{"error":"x"}'), 'is not a Sluice server'],
    [
      'a redirect',
      (response) =>
        response.writeHead(301, { location: 'https://sluice.example.com/api/v1/jobs?limit=51' }).end(),
      'redirects; use the address https://sluice.example.com',
    ],
    ['a proxy', (response) => response.writeHead(502).end('bad gateway'), 'responds with status 502'],
  ])('%s in place of a server of Sluice', async (_, answer, message) => {
    const stranger = await pretend((_request, response) => answer(response))
    expect(await failure(['ps', '--server', stranger])).toMatchObject({
      exit: 3,
      code: 'SERVER_UNAVAILABLE',
      message: expect.stringContaining(message),
    })
  })

  test('an address that is none', async () => {
    for (const server of ['sluice.example.com', 'ftp://x', 'http://ann:secret@x']) {
      const found = await failure(['ps', '--server', server])
      expect(found).toMatchObject({ exit: 2, code: 'INVALID_ARGUMENT' })
      expect(JSON.stringify(found)).not.toContain('secret')
    }
  })

  test('what the server cannot do keeps its code, and the id under which its log has the cause', async () => {
    const problem = (status: number, code: string) => async () =>
      pretend((_, response) =>
        response
          .writeHead(status, { 'content-type': 'application/problem+json', 'retry-after': '7' })
          .end(JSON.stringify({ title: 'x', status, code, detail: 'not now', requestId: 'req-9', limit: 3 })),
      )
    expect(await failure(['ps', '--server', await problem(500, 'INTERNAL')()])).toMatchObject({
      exit: 1,
      code: 'INTERNAL',
      message: 'not now: req-9',
    })
    expect(await failure(['ps', '--server', await problem(503, 'DATABASE_UNAVAILABLE')()])).toMatchObject({
      exit: 3,
      code: 'DATABASE_UNAVAILABLE',
      hint: expect.stringContaining('it is the server'),
    })
    expect(await failure(['ps', '--server', await problem(429, 'TOO_MANY_FAILURES')()])).toMatchObject({
      exit: 1,
      code: 'TOO_MANY_FAILURES',
      details: { retryAfter: 7, limit: 3 },
    })
    // Of a newer server.
    expect(await failure(['ps', '--server', await problem(409, 'MOON_IS_FULL')()])).toMatchObject({
      exit: 2,
      message: 'not now (MOON_IS_FULL)',
    })
  })
})

describe('which one is spoken to', () => {
  test('an option of the command wins over the environment, also before a subcommand', async () => {
    const elsewhere = { environment: { SLUICE_SERVER: 'http://127.0.0.1:1', SLUICE_KEY: 'slk_wrong' } }
    for (const args of [
      ['ps', '--server', url],
      ['lanes', '--server', url, '--api-key', admin],
      ['lanes', 'reset', 'system', '--server', url, '--api-key', admin],
      ['lanes', '--server', url, '--api-key', admin, 'reset', 'system'],
    ]) {
      const environment = args.includes('--api-key')
        ? elsewhere.environment
        : { ...elsewhere.environment, SLUICE_KEY: admin }
      const { code, stderr } = await remote.run(args, { environment })
      expect([args, code, stderr]).toEqual([args, 0, ''])
    }
  })

  test('an empty SLUICE_SERVER is none', async () => {
    const environment = { SLUICE_SERVER: '', DATABASE_URL: database.url }
    expect((await remote.run(['ps', '--all'], { environment })).code).toBe(0)
  })

  test('--key is the key of a job', async () => {
    const id = await submit('parked', '--key', 'mine')
    expect(await remote.json<object[]>('ps', '--key', 'mine')).toMatchObject([{ id, key: 'mine' }])
  })

  test('a key on the command line does not stay in the list of processes', async () => {
    const id = await submit('hold', '--input', JSON.stringify(`${direct.folder}/never-shown`))
    const following = remote.start(['logs', '-f', id, '--api-key', admin], {
      environment: { SLUICE_KEY: '' },
    })
    await following.says('begun')
    expect(readFileSync(`/proc/${following.process.pid}/cmdline`, 'utf8')).not.toContain(admin)
    await following.end('SIGINT')
    await remote.run(['cancel', id])
  })

  test.each(['migrate', 'doctor'])('%s needs the database, and says so', async (name) => {
    for (const [args, environment] of [
      [[name], { SLUICE_SERVER: url }],
      [[name, '--server', url], { SLUICE_SERVER: '' }],
    ] as const) {
      expect(await failure(args, { environment })).toMatchObject({
        exit: 2,
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(
          new RegExp(`^sluice ${name} needs the database itself, and .* names a server$`),
        ),
      })
    }
  })

  test('check works here, whatever is named', async () => {
    expect((await remote.run(['check'], { environment: { SLUICE_SERVER: 'http://127.0.0.1:1' } })).code).toBe(
      0,
    )
  })
})

test('submit leaves the config to the server, even a broken one', async () => {
  await direct.write('broken.yaml', 'tasks: [')
  expect((await remote.run(['submit', 'echo', '--config', 'broken.yaml'])).code).toBe(0)
})

test('an input that is larger than a server takes is refused with its code', async () => {
  await direct.write('large.json', JSON.stringify('x'.repeat(3 * 1024 * 1024)))
  expect(await failure(['submit', 'echo', '--input', '@large.json'])).toMatchObject({
    exit: 1,
    code: 'PAYLOAD_TOO_LARGE',
  })
})

test('at the ceiling submit fails with the words of the server and when to come back', async () => {
  await remote.json('admission', '--max-queued', 'parked=1')
  onTestFinished(async () => void (await remote.json('admission', 'reset')))
  await remote.run(['submit', 'parked'])
  const found = await failure(['submit', 'parked', '--wait'])
  expect(found).toMatchObject({
    exit: 1,
    code: 'ADMISSION_REJECTED',
    message: expect.stringContaining('of parked wait'),
    details: { retryAfter: expect.any(Number) },
  })
})

test('attaching to a job of somebody else tells its id and no more', async () => {
  const id = await submit('parked', '--key', 'shared', '--run-at', '1h')
  const key = await newKey('submitter')
  const options = { environment: { SLUICE_KEY: key } }
  const { code, stdout } = await remote.run(
    ['submit', 'parked', '--key', 'shared', '--run-at', '1h'],
    options,
  )
  expect([code, stdout]).toEqual([
    0,
    `job ${id} has this key already, but is not yours to read; attached to it\n`,
  ])
  const waited = await remote.run(
    ['submit', 'parked', '--key', 'shared', '--run-at', '1h', '--wait'],
    options,
  )
  expect(waited.code).toBe(1)
  expect(waited.stderr).toContain(`job ${id} already has this key and belongs to another owner`)
  expect(waited.stderr).toContain('hint:  Submit again when the key is free')
})

test('waiting and following go on where they were when a server is killed and started again', {
  timeout: 120_000,
}, async () => {
  const file = `${direct.folder}/go-on`
  const waiting = remote.start([
    'submit',
    'hold',
    '--input',
    JSON.stringify(file),
    '--key',
    'restart',
    '--wait',
  ])
  const [job] = await until(async () => {
    const rows = await database.sql<{ id: string }>(
      `select id from sluice.jobs where key = 'restart' and state = 'running'`,
    )
    return rows.length === 0 ? undefined : rows
  }, 'the job to run')
  const following = remote.start(['logs', '-f', job!.id])
  await following.says('begun')

  await server.end('SIGKILL')
  await direct.write('go-on', '')
  await inState(job!.id, 'completed')
  server = await startServer(new URL(url).port)

  expect(await waiting.exited).toBe(0)
  expect([waiting.stdout, waiting.stderr]).toEqual(['5\n', expect.not.stringContaining('error')])
  expect(await following.exited).toBe(0)
  expect(following.stdout.match(/begun|gone on/g)).toEqual(['begun', 'gone on'])
})

test('a waiting client is asked to retry later, and does', async () => {
  const asked: number[] = []
  const busy = await pretend((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://x')
    const json = (body: object) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    if (request.method === 'POST') json({ id: '7', attached: false })
    else if (!pathname.endsWith('/stream')) json({ id: '7', status: 'completed', result: 'done' })
    else if (asked.push(performance.now()) === 1)
      response
        .writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '1' })
        .end(JSON.stringify({ code: 'TOO_MANY_FAILURES', detail: 'later', status: 429 }))
    else
      response
        .setHeader('content-type', 'text/event-stream')
        .end('event: end\nid: 1~~end\ndata: {"id":"7","status":"completed","error":null}\n\n')
  })
  const { code, stdout } = await remote.run(['submit', 'echo', '--wait', '--server', busy])
  expect([code, stdout]).toEqual([0, '"done"\n'])
  expect(asked).toHaveLength(2)
  expect(asked[1]! - asked[0]!).toBeGreaterThan(990)
})

test('a key that is revoked ends the following with the code', async () => {
  const { key, id: keyId } = await direct.json<{ key: string; id: string }>(
    'keys',
    'create',
    'leaving',
    '--role',
    'operator',
  )
  const id = await submit('hold', '--input', JSON.stringify(`${direct.folder}/never`))
  const following = remote.start(['logs', '-f', id], { environment: { SLUICE_KEY: key } })
  await following.says('begun')
  await remote.json('keys', 'delete', keyId)
  expect(await following.exited).toBe(1)
  expect(following.stderr).toContain('code:  UNAUTHENTICATED')
  await remote.run(['cancel', id])
})
