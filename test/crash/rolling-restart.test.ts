import { expect, test } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import { sluice, task } from '../../src/index.ts'
import { Cli, type Running } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { until, untilNoneLeft } from '../support/until.ts'

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_LOG: 'info' })

const CLIENTS = 12
const RESTARTS = 3

interface Standing {
  readonly running: Running
  readonly url: string
}

async function start(): Promise<Standing> {
  const running = cli.start(['server', '--port', '0', '--json', '--notice', '200ms'])
  await until(() => running.stdout.includes('\n'), 'the server to say where it is', 60_000)
  return { running, url: (JSON.parse(running.stdout) as { url: string }).url }
}

/** Submits until it is told to stop: to whichever server takes it, the same request with the same Idempotency-Key. */
async function client(
  name: string,
  key: string,
  servers: () => readonly Standing[],
  stop: AbortSignal,
  accepted: Map<string, string>,
): Promise<void> {
  for (let n = 0; !stop.aborted; n++) {
    const input = `${name}-${n}`
    for (let tries = 0; ; tries++) {
      const there = servers()
      const { url } = there[tries % there.length]!
      try {
        const answer = await fetch(`${url}/api/v1/jobs`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${key}`,
            'content-type': 'application/json',
            'idempotency-key': input,
          },
          body: JSON.stringify({ task: 'count', input }),
          signal: AbortSignal.timeout(10_000),
        })
        const body = (await answer.json()) as { id: string; code?: string }
        if (answer.status === 202) {
          accepted.set(input, body.id)
          break
        }
        // What a client may be told while a server stops. Anything else is a fault.
        if (answer.status !== 503 && answer.status !== 409) throw new Unexpected(JSON.stringify(body))
      } catch (error) {
        if (error instanceof Unexpected || tries > 200) throw error
      }
    }
  }
}

class Unexpected extends Error {}

test('two servers are restarted in turn under load, and every accepted job is done once', {
  timeout: 240_000,
}, async () => {
  const ran = new Map<string, number>()
  const count = task({
    name: 'count',
    run: (input: string) => {
      ran.set(input, (ran.get(input) ?? 0) + 1)
    },
  })
  const app = await sluice({ database: database.url, tasks: [count] })
  await app.setAdmission({ maxActive: null })
  const author = authorOfDatabase('test')
  const wanted = { name: 'load', role: 'submitter' }
  const { key } = await transactWithRetries(app.services.db, (tx) => createKey(tx, wanted, author))
  await app.work({ capacity: 20 })
  let standing = [await start(), await start()]
  const stop = new AbortController()
  const accepted = new Map<string, string>()
  const clients = Array.from({ length: CLIENTS }, (_, n) =>
    client(`c${n}`, key, () => standing, stop.signal, accepted),
  )
  const failed = Promise.all(clients)
  failed.catch(() => stop.abort())
  try {
    for (let n = 0; n < RESTARTS && !stop.signal.aborted; n++) {
      const before = accepted.size
      await until(() => stop.signal.aborted || accepted.size > before + 100, 'submissions to flow', 60_000)
      const [eldest, other] = standing as [Standing, Standing]
      // The new one first, then the old one is told to go: as a balancer would see it.
      const young = await start()
      standing = [other, young]
      expect(await eldest.running.end('SIGTERM'), eldest.running.stderr.slice(-2000)).toBe(0)
    }
  } finally {
    stop.abort()
  }
  await failed
  await untilNoneLeft(async () => {
    const [row] = await database.sql<{ left: number }>(
      `select count(*)::integer as left from sluice.jobs where state < 'completed'`,
    )
    return row!.left
  }, 'every job to end')
  const [row] = await database.sql<{ jobs: number; completed: number }>(
    `select count(*)::integer as jobs, (count(*) filter (where state = 'completed'))::integer as completed from sluice.jobs`,
  )
  expect(row).toEqual({ jobs: accepted.size, completed: accepted.size })
  expect(new Set(accepted.values()).size).toBe(accepted.size)
  expect([...ran].filter(([input, times]) => times !== 1 || !accepted.has(input))).toEqual([])
  expect(ran.size).toBe(accepted.size)
  for (const { running } of standing) expect(await running.end('SIGTERM')).toBe(0)
  await app.close()
})
