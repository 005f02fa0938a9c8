import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type SpanContext, trace } from '@opentelemetry/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'
import { type EndedSpan, forgetTracing, setUpTracing } from '../support/tracer.mjs'
import { until } from '../support/until.ts'

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const WORKER = fileURLToPath(new URL('../support/programs/traced-worker.mjs', import.meta.url))
const REMOTE_WORKER = fileURLToPath(new URL('../support/programs/traced-remote-worker.mjs', import.meta.url))
const UNTRACED = fileURLToPath(new URL('../support/programs/untraced.mjs', import.meta.url))
const PRODUCER = 3
const CONSUMER = 4
const FAILED = 2

const database = useDatabase()
let app: Sluice
/** Spans of the worker's process. */
const remote: EndedSpan[] = []
/** Spans of this one. */
let local: EndedSpan[] = []
let worker: ChildProcess
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-traced-'))
  await writeFile(
    join(folder, 'sluice.yaml'),
    `tasks: { variables: { exec: [/bin/sh, -c, 'echo "\\"$TRACEPARENT $TRACESTATE\\"" > "$SLUICE_RESULT"'] } }
workflows: { chain: { steps: { first: { task: inline }, all: { task: inline, needs: [first], with_items: [1, 2] } } } }
`,
  )
  worker = fork(WORKER, [database.url, folder])
  worker.on('message', (message) => {
    if (typeof message === 'object') remote.push(message as EndedSpan)
  })
  await once(worker, 'message')
  local = setUpTracing().ended
  app = await sluice({ database: database.url })
})

afterAll(async () => {
  forgetTracing()
  await app.close()
  worker.send('close')
  await once(worker, 'exit')
  await rm(folder, { recursive: true })
})

/** Submits inside a span of the user's. */
async function underSpan<T>(work: (span: SpanContext) => Promise<T>): Promise<T> {
  return trace.getTracer('user').startActiveSpan('request', async (span) => {
    try {
      return await work(span.spanContext())
    } finally {
      span.end()
    }
  })
}

async function attemptsOf(id: string, count: number): Promise<EndedSpan[]> {
  return until(() => {
    const found = remote.filter(
      ({ name, attributes }) => name.startsWith('sluice.attempt') && attributes['sluice.job.id'] === id,
    )
    return found.length >= count && found
  }, `${count} attempts of job ${id} to be traced`)
}

function submitSpan(traceId: string): EndedSpan {
  const found = local.filter((span) => span.traceId === traceId && span.name.startsWith('sluice.submit'))
  expect(found).toHaveLength(1)
  return found[0]!
}

async function traceOf(id: string): Promise<string | null> {
  return (
    await database.sql<{ trace: string | null }>('select trace from sluice.jobs where id = $1', [id])
  )[0]!.trace
}

describe('a trace', () => {
  test('leads from a request over its submission to the attempt in another process, and into the task', async () => {
    await underSpan(async (request) => {
      const job = await app.submit('inline', null)
      const active = (await job.result()) as SpanContext
      const submitted = submitSpan(request.traceId)
      expect(submitted).toMatchObject({
        library: 'sluice',
        name: 'sluice.submit inline',
        kind: PRODUCER,
        parentSpanId: request.spanId,
        attributes: { 'sluice.task': 'inline' },
        status: { code: 0 },
      })
      const [attempt] = await attemptsOf(job.id, 1)
      expect(attempt).toEqual({
        library: 'sluice',
        name: 'sluice.attempt inline',
        kind: CONSUMER,
        traceId: request.traceId,
        spanId: active.spanId,
        parentSpanId: submitted.spanId,
        status: { code: 0 },
        attributes: {
          'sluice.job.id': job.id,
          'sluice.task': 'inline',
          'sluice.lane': 'default',
          'sluice.attempt': 1,
          'sluice.outcome': 'completed',
        },
      })
      const inner = remote.find(({ name, traceId }) => name === 'inner' && traceId === request.traceId)
      expect(inner).toMatchObject({ parentSpanId: attempt!.spanId })
    })
  })

  test('has every attempt of a job, with how each ended', async () => {
    await underSpan(async () => {
      const again = await app.submit('inline', { fail: 1 })
      await again.result()
      const failed = await app.submit('inline', { fail: 9 })
      await expect(failed.result()).rejects.toThrow('failed on purpose')
      const outcomes = async (id: string) =>
        (await attemptsOf(id, 2)).map(({ attributes, status }) => [
          attributes['sluice.attempt'],
          attributes['sluice.outcome'],
          status.code,
        ])
      expect(await outcomes(again.id)).toEqual([
        [1, 'retry', FAILED],
        [2, 'completed', 0],
      ])
      expect(await outcomes(failed.id)).toEqual([
        [1, 'retry', FAILED],
        [2, 'failed', FAILED],
      ])
    })
  })

  test('has the children of a workflow, each below the submission', async () => {
    await underSpan(async (request) => {
      const job = await app.submit('chain', null)
      await job.result()
      const attempts = await until(() => {
        const found = remote.filter(
          ({ traceId, name }) => traceId === request.traceId && name === 'sluice.attempt inline',
        )
        return found.length === 3 && found
      }, 'three attempts to be traced')
      const { spanId } = submitSpan(request.traceId)
      expect(attempts.map(({ parentSpanId }) => parentSpanId)).toEqual([spanId, spanId, spanId])
    })
  })

  test('reaches tasks in pool processes and programs', async () => {
    await underSpan(async (request) => {
      const pooled = await app.submit('pooled', null)
      const active = (await pooled.result()) as SpanContext
      const [attempt] = await attemptsOf(pooled.id, 1)
      expect(active).toMatchObject({ traceId: request.traceId, spanId: attempt!.spanId })

      const program = await app.submit('variables', null)
      const [parent] = ((await program.result()) as string).split(' ')
      const [second] = await attemptsOf(program.id, 1)
      expect(parent).toBe(`00-${request.traceId}-${second!.spanId}-01`)
    })
  })

  test('of a bulk submission has one span for all, which tells when it was refused', async () => {
    await underSpan(async (request) => {
      const jobs = await app.submitMany('inline', [null, null, null])
      const { spanId } = submitSpan(request.traceId)
      for (const job of jobs) {
        expect(await traceOf(job.id)).toBe(`00-${request.traceId}-${spanId}-01`)
        await job.result()
      }
    })
    await underSpan(async (request) => {
      await expect(app.submitMany('nobody', [1])).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' })
      expect(submitSpan(request.traceId)).toMatchObject({
        status: { code: FAILED, message: "no task named 'nobody'" },
      })
    })
  })

  test('begins with the submission where no span is active, and with the attempt where nothing was kept', async () => {
    const job = await app.submit('inline', null)
    await job.result()
    const [attempt] = await attemptsOf(job.id, 1)
    expect(submitSpan(attempt!.traceId)).toMatchObject({ spanId: attempt!.parentSpanId })

    const [row] = await database.sql<{ id: string }>(`select sluice.submit('inline') as id`)
    expect(await traceOf(row!.id)).toBeNull()
    const [alone] = await attemptsOf(row!.id, 1)
    expect(alone!.parentSpanId).toBeUndefined()
  })

  test('keeps the tracestate, and passes over a text that is not in order', async () => {
    const job = await app.submit('variables', null, { runAt: '1h' })
    await database.sql('update sluice.jobs set trace = $2, ready_at = now() where id = $1', [
      job.id,
      `${PARENT} a=1,b=2`,
    ])
    expect(await job.result()).toMatch(/^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01 a=1,b=2$/)

    const odd = await app.submit('inline', null, { runAt: '1h' })
    await database.sql(`update sluice.jobs set trace = 'nonsense', ready_at = now() where id = $1`, [odd.id])
    await odd.result()
    const [attempt] = await attemptsOf(odd.id, 1)
    expect(attempt!.parentSpanId).toBeUndefined()
  })
})

describe('over HTTP', () => {
  test('a job belongs to the trace that its request names; what is not in order is passed over', async () => {
    const server = await startTestServer(database.url)
    try {
      const key = await server.keyOf('submitter')
      const submit = async (headers: Record<string, string>) => {
        const answer = await server.call('POST', '/jobs', { key, body: { task: 'inline' }, headers })
        expect(answer.status, answer.text).toBe(202)
        return answer.json<{ id: string }>().id
      }
      const id = await submit({ traceparent: PARENT, tracestate: 'vendor=1' })
      expect(await traceOf(id)).toBe(`${PARENT} vendor=1`)
      const [attempt] = await attemptsOf(id, 1)
      expect(attempt).toMatchObject({
        traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
        parentSpanId: '00f067aa0ba902b7',
      })
      // A later version may have more in it; what this one knows counts.
      const later = await submit({ traceparent: `01${PARENT.slice(2)}-more` })
      expect(await traceOf(later)).toBe(PARENT)
      expect(await traceOf(await submit({}))).toBeNull()
      for (const traceparent of [
        'nonsense',
        `${PARENT}-more`,
        `ff${PARENT.slice(2)}`,
        '00-00000000000000000000000000000000-00f067aa0ba902b7-01',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01',
        PARENT.toUpperCase(),
        `${PARENT}, ${PARENT}`,
      ])
        expect([traceparent, await traceOf(await submit({ traceparent }))]).toEqual([traceparent, null])
      const long = await submit({ traceparent: PARENT, tracestate: `a=${'x'.repeat(600)}` })
      expect(await traceOf(long)).toBe(PARENT)
    } finally {
      await server.stop()
    }
  })
})

describe('a worker that gets its jobs from a server', () => {
  test('traces its attempts below the submission too', async () => {
    const server = await startTestServer(database.url)
    const program = fork(REMOTE_WORKER, [server.url, await server.keyOf('worker')])
    try {
      program.on('message', (message) => {
        if (typeof message === 'object') remote.push(message as EndedSpan)
      })
      await once(program, 'message')
      await underSpan(async (request) => {
        const job = await app.submit('faraway', null)
        expect(await job.result()).toBe('done')
        const [attempt] = await attemptsOf(job.id, 1)
        expect(attempt).toMatchObject({
          traceId: request.traceId,
          parentSpanId: submitSpan(request.traceId).spanId,
          attributes: { 'sluice.outcome': 'completed' },
        })
      })
    } finally {
      program.send('close')
      await once(program, 'exit')
      await server.stop()
    }
  })
})

describe('where nothing is set up', () => {
  test('nothing is kept, and the API is not even loaded', async () => {
    const ran = spawnSync(process.execPath, [UNTRACED, database.url], { encoding: 'utf8' })
    expect(ran.stderr).toBe('')
    const { id, loaded } = JSON.parse(ran.stdout)
    expect(loaded).toEqual([])
    expect(await traceOf(id)).toBeNull()
  })
})
