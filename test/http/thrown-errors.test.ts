import { execFileSync } from 'node:child_process'
import { mkdtempSync, realpathSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ErrorDetail } from '../../src/index.ts'
import { fail, remoteWorker, task } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

class CardError extends Error {
  readonly status = 402
}

const secret = `slk_${'q'.repeat(40)}`

const THROWN: Readonly<Record<string, () => unknown>> = {
  error: () => new CardError('declined', { cause: new TypeError('no such card', { cause: { bank: 7 } }) }),
  empty: () => new RangeError(''),
  object: () => ({ code: 'E_CARD', retry: () => {} }),
  several: () => new AggregateError([new Error('first'), 'second'], 'all failed'),
  verdict: () => fail('for good'),
  nothing: () => undefined,
  text: () => 'a text',
  huge: () => Object.assign(new Error('m\0'.repeat(20_000)), { body: 'é\ud800'.repeat(100_000) }),
  proxy: () =>
    new Proxy(new Error('x'), {
      get() {
        throw new Error('never')
      },
    }),
  secret: () => Object.assign(new Error(`401 for ${secret}`), { headers: { authorization: secret } }),
}

const once = { attempts: 1 }
const run = (what: string): void => {
  throw THROWN[what]!()
}
const inline = task({ name: 'inline', retry: once, run })
const remote = task({ name: 'remote', retry: once, run })
const again = task({ name: 'again', retry: { attempts: 2, delay: '1ms' }, run })

const later = task({ name: 'later', retry: { attempts: 2, delay: '1h' }, run })

/** Compiled with a source map, as a build step leaves it: 20 lines of types are gone from the JavaScript. */
const SOURCE = `${'interface Gone {}\n'.repeat(20)}class PaymentError extends Error { readonly code: number = 7 }
export const compiled = {
  name: 'compiled',
  run: (what: 'error' | 'object'): void => {
    if (what === 'object') throw { code: 'E_CARD', later: () => {} }
    throw new PaymentError('from the source', { cause: new TypeError('deeper') })
  },
}
`
const LINE = 26
const folder = mkdtempSync(join(realpathSync(tmpdir()), 'sluice-thrown-'))
writeFileSync(join(folder, 'pay.mts'), SOURCE)
execFileSync(fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url)), [
  ...[
    '--target',
    'es2022',
    '--module',
    'nodenext',
    '--inlineSourceMap',
    '--ignoreConfig',
    join(folder, 'pay.mts'),
  ],
])

const database = useDatabase()
const compiled = task({
  name: 'compiled',
  retry: once,
  execution: 'process',
  module: pathToFileURL(join(folder, 'pay.mjs')).href,
  run: (_: string): void => {},
})
const server = useServer(database, { tasks: [inline, remote, again, later, compiled] })
const cli = new Cli({ DATABASE_URL: database.url })
let key = ''
let stopRemote: (() => Promise<unknown>) | undefined

beforeAll(async () => {
  key = await server.keyOf('operator')
  await server.app.work({ name: 'here', tasks: ['inline', 'again', 'later', 'compiled'] })
  const worker = await remoteWorker({
    server: server.url,
    key: await server.keyOf('worker'),
    name: 'there',
    tasks: [remote],
  })
  stopRemote = () => worker.close()
})
afterAll(async () => {
  await stopRemote?.()
  await rm(folder, { recursive: true })
})

async function failed(
  of: typeof inline,
  what: string,
): Promise<{ id: string; error: string; detail: ErrorDetail }> {
  const { id } = await server.app.submit(of, what)
  await until(async () => (await server.app.getJob(id)).finishedAt !== null, `job ${id} to end`)
  const job = (await server.call('GET', `/jobs/${id}`, { key })).json<{
    error: string
    errorDetail: ErrorDetail
  }>()
  const answer = await server.call('GET', `/jobs/${id}/attempts`, { key })
  const { attempts } = answer.json<{ attempts: { detail: ErrorDetail }[] }>()
  expect(attempts.at(-1)!.detail).toEqual(job.errorDetail)
  return { id, error: job.error, detail: job.errorDetail }
}

describe.each([
  ['inline', inline],
  ['over HTTP', remote],
])('an attempt that throws %s', (_, of) => {
  test('keeps class, message, properties, causes and the stack with the task’s frames marked', async () => {
    const { error, detail } = await failed(of, 'error')
    expect(error).toBe('declined (caused by no such card) (caused by {"bank":7})')
    expect(detail).toMatchObject({
      class: 'CardError',
      message: 'declined',
      properties: { status: 402 },
      cause: { class: 'TypeError', message: 'no such card', cause: { class: 'Object', value: { bank: 7 } } },
    })
    const own = detail.stack!.filter((frame) => frame.own === true)
    expect(own[0]!.line).toMatch(/thrown-errors\.test\.ts:\d+:\d+/)
    expect(detail.stack!.filter(({ line }) => /src\/worker|node:/.test(line)).some(({ own }) => own)).toBe(
      false,
    )
  })

  test.each([
    ['empty', /^RangeError without a message, thrown at /, { class: 'RangeError', message: '' }],
    ['object', /^{"code":"E_CARD","retry":"\[function retry\]"}$/, { value: { code: 'E_CARD' } }],
    ['several', /^all failed$/, { errors: [{ message: 'first' }, { class: 'string', message: 'second' }] }],
    ['verdict', /^for good$/, { message: 'for good' }],
    ['nothing', /^undefined$/, { class: 'undefined' }],
    ['text', /^a text$/, { class: 'string', message: 'a text' }],
    ['proxy', /cannot be read/, { class: 'Error' }],
  ])('keeps what there is to say of %s', async (what, error, detail) => {
    const kept = await failed(of, what)
    expect(kept.error).toMatch(error)
    expect(kept.detail).toMatchObject(detail)
  })

  test('keeps at most 16 kB, and nothing that cannot be stored', async () => {
    const { detail } = await failed(of, 'huge')
    expect(Buffer.byteLength(JSON.stringify(detail))).toBeLessThanOrEqual(16_384)
    expect(detail).toMatchObject({ class: 'Error', cut: true })
    expect(detail.stack!.some(({ own }) => own)).toBe(true)
  })

  test('keeps no key of Sluice', async () => {
    const { error, detail } = await failed(of, 'secret')
    expect(error).toBe('401 for slk_***')
    expect(detail).toMatchObject({ properties: { headers: { authorization: 'slk_***' } } })
    expect(JSON.stringify(detail)).not.toContain('slk_q')
  })
})

describe('a pool process', () => {
  test('keeps the class and the line of the source that the task was compiled from', {
    timeout: 240_000,
  }, async () => {
    const { detail } = await failed(compiled, 'error')
    expect(detail).toMatchObject({
      class: 'PaymentError',
      properties: { code: 7 },
      cause: { class: 'TypeError', message: 'deeper' },
    })
    expect(detail.stack![0]).toEqual({ line: expect.stringContaining(`pay.mts:${LINE}:`), own: true })
    const object = await failed(compiled, 'object')
    expect(object.detail.value).toEqual({ code: 'E_CARD', later: '[function later]' })
  })
})

test('each attempt keeps its own, and the stream of a job tells the one that its error is about', async () => {
  const { id } = await server.app.submit(again, 'error')
  const reader = new EventReader(server.url, `/jobs/${id}/stream`, key)
  await until(() => reader.last?.event === 'end', 'the stream to end')
  const told = reader.events.filter(({ event }) => event === 'state').at(-1)!.data
  expect(told).toMatchObject({ status: 'failed', errorDetail: { class: 'CardError' } })
  reader.close()
  const attempts = await server.app.listAttempts(id)
  expect(attempts.map(({ detail }) => detail?.class)).toEqual(['CardError', 'CardError'])
  const list = (await server.call('GET', '/jobs?limit=1', { key })).json<{ jobs: object[] }>()
  expect(list.jobs[0]).not.toHaveProperty('errorDetail')
})

test('a cancel after a failure is not explained by the failure', async () => {
  const { id } = await server.app.submit(later, 'error')
  await until(async () => (await server.app.getJob(id)).failures === 1, 'the first try to fail')
  expect((await server.app.getJob(id)).errorDetail).toMatchObject({ class: 'CardError' })
  await server.app.cancel(id)
  expect((await server.app.getJob(id)).errorDetail).toBeNull()
  expect((await server.app.listAttempts(id))[0]!.detail).toMatchObject({ class: 'CardError' })
})

test('sluice show prints the stack with the task’s frames marked, the causes and the content', async () => {
  const { id } = await failed(inline, 'error')
  const shown = (await cli.run(['show', id])).stdout
  expect(shown).toMatch(/^ {2}CardError: declined$/m)
  expect(shown).toMatch(/^ {2}> at .*thrown-errors\.test\.ts:\d+:\d+/m)
  expect(shown).toMatch(/^ {4}with \{"status":402\}$/m)
  expect(shown).toMatch(/^ {2}caused by:\n {4}TypeError: no such card$/m)
  const json = await cli.json<{ errorDetail: ErrorDetail }>('show', id)
  expect(json.errorDetail.class).toBe('CardError')
})

test('a worker of the command line keeps the line of the source', { timeout: 120_000 }, async () => {
  const index = new URL('../../dist/index.js', import.meta.url).href
  await cli.write(
    'sluice.config.mjs',
    `import { task } from ${JSON.stringify(index)}
     import { compiled } from ${JSON.stringify(pathToFileURL(join(folder, 'pay.mjs')).href)}
     export const tasks = [task({ ...compiled, name: 'elsewhere', retry: { attempts: 1 } })]`,
  )
  const worker = cli.start(['worker'])
  await until(
    async () => (await server.app.listTasks()).some(({ name }) => name === 'elsewhere'),
    'its task to be known',
    60_000,
  )
  const { id } = await server.app.submit('elsewhere', 'error')
  await until(async () => (await server.app.getJob(id)).finishedAt !== null, 'the job to end', 60_000)
  await worker.end('SIGTERM')
  const { errorDetail } = await server.app.getJob(id)
  expect(errorDetail!.stack![0]).toEqual({ line: expect.stringContaining(`pay.mts:${LINE}:`), own: true })
})

test('a worker in another language may tell a detail of its own, which is bounded', async () => {
  const by = await server.keyOf('worker')
  const { id } = (
    await server.call('POST', '/workers', {
      key: by,
      body: { name: 'python', capacity: 1, cores: 1, tasks: [{ name: 'snake' }] },
    })
  ).json<{ id: string }>()
  const job = (await server.call('POST', '/jobs', { key, body: { task: 'snake' } })).json<{ id: string }>()
  const cycle = (body: object) =>
    server.call('POST', `/workers/${id}/cycle`, { key: by, body: { running: [], free: 1, ...body } })
  let given: { id: string; attempt: number }[] = []
  await until(async () => {
    given = (await cycle({ waitMs: 1000 })).json<{ jobs: typeof given }>().jobs
    return given.length > 0
  }, 'the job to be given to it')
  const detail = {
    class: 'ValueError',
    message: 'bad',
    stack: ['File "a.py", line 3'],
    value: 'x'.repeat(50_000),
  }
  const ended = [{ id: given[0]!.id, attempt: given[0]!.attempt, ending: 'failed', error: 'bad', detail }]
  expect((await cycle({ ended, free: 0 })).status).toBe(200)
  const kept = (await server.app.getJob(job.id)).errorDetail!
  expect(kept).toMatchObject({ class: 'ValueError', stack: [{ line: 'File "a.py", line 3' }] })
  expect(Buffer.byteLength(JSON.stringify(kept))).toBeLessThanOrEqual(16_384)
  await server.call('POST', `/workers/${id}/close`, { key: by, body: {} })
})
