import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { task } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { startRequestProxy } from '../support/request-proxy.ts'
import { someCases } from '../support/some-cases.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000 })

const database = useDatabase()
const cli = new Cli({ SLUICE_PORT: '0', SLUICE_LOG: 'warn' })
const broken = { is: true }
const flaky = task({
  name: 'flaky',
  retry: { attempts: 1 },
  run: () => {
    if (broken.is) throw new Error('not yet')
    return 'done'
  },
})
const guarded = task({ name: 'guarded', approval: true, run: () => 'ran' })
const idle = task({ name: 'idle', lane: 'closed', run: () => 'never' })
const survivor = useServer(database, {
  tasks: [flaky, guarded, idle],
  lanes: { closed: { slots: 1, enabled: false } },
})

interface Kind {
  readonly method: 'POST' | 'DELETE' | 'PUT'
  /** Sets the scene, and gives the request. */
  prepare(): Promise<{ path: string; body?: unknown }>
  /** How the audit calls it: it has one line of it. */
  readonly action: string
  /** What must be true once it was done exactly once. */
  settled(answer: Record<string, unknown>): Promise<void>
}

async function count(where: string, values: unknown[] = []): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.jobs where ${where}`,
    values,
  )
  return row!.n
}

let unique = 0
const mark = () => `mark ${++unique}`
const KINDS: Readonly<Record<string, () => Kind>> = {
  'a submission': () => {
    const input = mark()
    return {
      method: 'POST',
      prepare: async () => ({ path: '/jobs', body: { task: 'idle', input } }),
      action: 'job.submit',
      settled: async () => expect(await count('input = to_jsonb($1::text)', [input])).toBe(1),
    }
  },
  'many submissions': () => {
    const input = mark()
    const one = { task: 'idle', input }
    return {
      method: 'POST',
      prepare: async () => ({ path: '/jobs/bulk', body: { jobs: [one, one, one] } }),
      action: 'job.submit',
      settled: async () => expect(await count('input = to_jsonb($1::text)', [input])).toBe(3),
    }
  },
  'an approval': () => ({
    method: 'POST',
    prepare: async () => {
      const { id } = await survivor.app.submit(guarded, undefined, { runAt: '1h' })
      return { path: `/jobs/${id}/approve`, body: {} }
    },
    action: 'job.approve',
    settled: async ({ id }) => expect((await survivor.app.getJob(String(id))).status).toBe('queued'),
  }),
  'a rejection': () => ({
    method: 'POST',
    prepare: async () => {
      const { id } = await survivor.app.submit(guarded, undefined)
      return { path: `/jobs/${id}/reject`, body: { comment: 'no' } }
    },
    action: 'job.reject',
    settled: async ({ id }) => expect((await survivor.app.getJob(String(id))).error).toBe('rejected: no'),
  }),
  'a retry': () => ({
    method: 'POST',
    prepare: async () => {
      broken.is = true
      await survivor.app.work({ tasks: ['flaky'] })
      const job = await survivor.app.submit(flaky, undefined)
      await expect(job.result()).rejects.toThrow('not yet')
      await survivor.app.stopWorking()
      return { path: `/jobs/${job.id}/retry`, body: {} }
    },
    action: 'job.retry',
    settled: async ({ root }) => {
      const job = await survivor.app.getJob(String(root))
      expect(job).toMatchObject({ status: 'queued', attempt: 1 })
    },
  }),
  'a cancel': () => ({
    method: 'DELETE',
    prepare: async () => ({ path: `/jobs/${(await survivor.app.submit(idle, undefined)).id}` }),
    action: 'job.cancel',
    settled: async ({ id }) => expect((await survivor.app.getJob(String(id))).status).toBe('cancelled'),
  }),
  'a result that is wanted': () => {
    const key = mark()
    return {
      method: 'PUT',
      prepare: async () => ({ path: `/results/idle/${encodeURIComponent(key)}`, body: { input: 1 } }),
      action: 'job.submit',
      settled: async () => expect(await count('key = $1', [key])).toBe(1),
    }
  },
}

for (const [name, make] of Object.entries(KINDS)) {
  for (const when of someCases(['before', 'after'] as const, 1)) {
    test(`kill -9 of a server ${when} it has stored ${name}: the client asks another one again, and it is done once`, async () => {
      const { method, prepare, action, settled } = make()
      const key = await survivor.keyOf('platform_admin')
      const { path, body } = await prepare()
      const proxy = await startRequestProxy(database.url)
      const victim = cli.start(['server'], { environment: { DATABASE_URL: proxy.url } })
      await victim.says('listening on')
      const [, url] = /listening on (http:\/\/[^;\s]+)/.exec(victim.stdout)!
      const audited = async () => {
        const [row] = await database.sql<{ n: number }>(
          'select count(*)::integer as n from sluice.audit where action = $1 and refused is null',
          [action],
        )
        return row!.n
      }
      const before = await audited()
      const headers = {
        authorization: `Bearer ${key}`,
        'idempotency-key': randomUUID(),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      }
      const send = (to: string) =>
        fetch(`${to}/api/v1${path}`, {
          method,
          headers,
          ...(body !== undefined && { body: JSON.stringify(body) }),
        })
      // Not one of the server's own: the commit of the transaction that remembers the key, or the one statement of a PUT.
      const isDecisive = ({ sql, statement }: { sql: string; statement: string }) =>
        sql === 'commit' || statement === 'submit_jobs'
      const begun = method === 'PUT' ? undefined : proxy.hold(({ sql }) => sql.includes('sluice.idempotency'))
      const early = method === 'PUT' ? proxy.hold(isDecisive) : undefined
      const lost = send(url!).then(
        (answer) => answer.status,
        () => 'lost',
      )
      const heard = begun?.then((request) => {
        const next = proxy.hold(isDecisive)
        request.pass()
        return next
      })
      const held = await Promise.race([
        (heard ?? early)!,
        lost.then((status) => {
          throw new Error(`the request was answered with ${status}`)
        }),
      ])
      if (when === 'after') expect(await held.deliver()).toBe(true)
      await victim.end('SIGKILL')
      held.close()
      expect(await lost).toBe('lost')
      await proxy.close()

      const again = await until(async () => {
        const answer = await send(survivor.url)
        // The dead server's transaction may not have ended yet.
        return answer.status === 409 ? undefined : answer
      }, 'the other server to answer')
      expect([200, 202]).toContain(again.status)
      await settled((await again.json()) as Record<string, unknown>)
      expect((await audited()) - before).toBe(1)
      const once = await send(survivor.url)
      expect(once.status).toBe(again.status)
      expect((await audited()) - before).toBe(1)
    })
  }
}
