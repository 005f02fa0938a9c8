import { beforeAll, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { countTraces, plantEnd, plantTrace, readNotes } from '../support/state/traces.ts'

// What a worker that never tires may leave of one attempt.
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo], stale: '10m' })
let key = ''
let admin = ''
let worker = ''

interface Job {
  readonly id: string
  readonly attempt: number
}

beforeAll(async () => {
  key = await server.keyOf('worker')
  admin = await server.keyOf('platform_admin')
  const body = { name: 'w', capacity: 100, cores: 2, tasks: [{ name: 'echo' }] }
  worker = (await server.call('POST', '/workers', { key, body })).json<{ id: string }>().id
})

const held = new Map<string, Job>()

async function claimed(): Promise<Job> {
  await server.app.submit('echo', null)
  const body = { running: [...held.values()], free: 1, waitMs: 10_000 }
  const answer = await server.call('POST', `/workers/${worker}/cycle`, { key, body })
  const [given] = answer.json<{ jobs: Job[] }>().jobs
  const job = { id: given!.id, attempt: given!.attempt }
  held.set(job.id, job)
  return job
}

async function end(job: Job, ending: 'completed' | 'retry'): Promise<void> {
  held.delete(job.id)
  const body = {
    running: [...held.values()],
    free: 0,
    ended: [{ ...job, ending, ...(ending === 'retry' && { delayMs: 3_600_000 }) }],
  }
  const answer = await server.call('POST', `/workers/${worker}/cycle`, { key, body })
  expect(answer.status, answer.text).toBe(200)
}

const tell = (what: string, body: object) => server.call('POST', `/workers/${worker}/${what}`, { key, body })

async function log(job: Job, lines: readonly string[]): Promise<unknown> {
  const at = new Date().toISOString()
  const answer = await tell('logs', { lines: lines.map((line) => ({ ...job, at, level: 'info', line })) })
  expect(answer.status, answer.text).toBe(200)
  return answer.json().refused
}

async function logOf({ id }: Job): Promise<string[]> {
  return (await server.app.readLogs(id, '0', 20_000)).map(({ line }) => line)
}

const FULL = 'the log of this attempt is full; dropping further lines'
const some = (count: number, line = 'x') => Array.from({ length: count }, () => line)

describe('the log of an attempt', () => {
  test('keeps 10,000 lines, also of requests at the same time, and then says that it is full', async () => {
    const job = await claimed()
    await plantTrace(database.sql, job, { lines: 9_000 })
    await Promise.all([1, 2, 3].map(() => log(job, some(700))))
    const kept = await logOf(job)
    expect(kept).toHaveLength(1_001)
    expect(kept.filter((line) => line !== 'x')).toEqual([FULL])
    expect(await log(job, some(5))).toEqual([])
    expect(await logOf(job)).toHaveLength(1_001)
    await end(job, 'completed')
  })

  test('keeps 4 MiB, counted in bytes', async () => {
    const job = await claimed()
    // 8192 characters of three bytes each.
    const line = '€'.repeat(8192)
    for (let sent = 0; sent < 200; sent += 100) await log(job, some(100, line))
    const kept = await logOf(job)
    expect(kept.at(-1)).toBe(FULL)
    const bytes = kept.reduce((sum, each) => sum + Buffer.byteLength(each), 0)
    expect(bytes).toBeLessThanOrEqual(4 * 1024 * 1024 + FULL.length)
    expect(bytes).toBeGreaterThan(4 * 1024 * 1024 - Buffer.byteLength(line))
    await end(job, 'completed')
  })

  test.each(['completed', 'retry'] as const)(
    'takes lines for 10 s after it ended in %s, within the same bound',
    async (ending) => {
      const job = await claimed()
      await log(job, ['during'])
      await end(job, ending)
      expect(await log(job, ['after'])).toEqual([])
      await plantEnd(database.sql, job, 9)
      await plantTrace(database.sql, job, { lines: 10_000 })
      expect(await log(job, ['one more', 'and more'])).toEqual([])
      expect(await logOf(job)).toEqual(['during', 'after', FULL])
      await plantEnd(database.sql, job, 11)
      expect(await log(job, ['too late'])).toEqual([job.id])
      expect(await logOf(job)).toEqual(['during', 'after', FULL])
    },
  )
})

describe('steps', () => {
  test('are 10,000 of an attempt, and a line in its log says that there were more', async () => {
    const job = await claimed()
    const save = (name: string) => tell('steps/save', { ...job, name, result: '1' })
    expect((await save('first')).status).toBe(200)
    await plantTrace(database.sql, job, { steps: 9_999 })
    expect((await save('last')).status).toBe(200)
    for (const name of ['one more', 'and more']) {
      const answer = await save(name)
      expect([answer.status, answer.json()]).toMatchObject([422, { code: 'STEPS_FULL' }])
    }
    // What is stored is still given back.
    expect((await save('first')).json()).toEqual({ result: '1' })
    expect(await logOf(job)).toEqual([expect.stringContaining('has stored 10,000 steps')])
    expect(await countTraces(database.sql, job)).toMatchObject({ steps: 2 })
    await end(job, 'completed')
  })

  test('are 256 MiB of an attempt', async () => {
    const job = await claimed()
    await plantTrace(database.sql, job, { stepBytes: 256 * 1024 * 1024 - 8 })
    const save = (name: string, result: string) => tell('steps/save', { ...job, name, result })
    expect((await save('small', '1')).status).toBe(200)
    expect((await save('large', '1234')).json()).toMatchObject({ code: 'STEPS_FULL' })
    await end(job, 'completed')
  })
})

describe('progress and checkpoints', () => {
  test('leave one note of a job, with 1,000 characters of the last message', async () => {
    const job = await claimed()
    const message = '€'.repeat(100_000)
    const notes = Array.from({ length: 100 }, (_, n) => ({ ...job, progress: n / 100, message: `at ${n}` }))
    for (let n = 0; n < 3; n++)
      expect((await tell('progress', { notes })).json()).toEqual({ done: true, refused: [] })
    const last = await tell('progress', { notes: [{ ...job, progress: 0.5, message }] })
    expect(last.json()).toEqual({ done: true, refused: [] })
    expect((await tell('checkpoint/save', { ...job, value: '{"at":1}' })).status).toBe(200)
    expect(await readNotes(database.sql, job.id)).toEqual([
      { progress: 0.5, characters: 1000, checkpoint: '{"at": 1}'.length },
    ])
    expect((await server.app.getJob(job.id)).message).toBe('€'.repeat(1000))
    await end(job, 'completed')
  })

  test('a checkpoint of more than 16 MiB is refused, counted in bytes, and the one before it stays', async () => {
    const job = await claimed()
    const save = (bytes: number) =>
      tell('checkpoint/save', { ...job, value: JSON.stringify('é'.repeat((bytes - 2) / 2)) })
    const most = 16 * 1024 * 1024
    expect((await save(most)).status).toBe(200)
    const refused = await save(most + 2)
    expect([refused.status, refused.json()]).toMatchObject([
      400,
      { code: 'NOT_STORABLE', detail: expect.stringContaining('more than 16777216 bytes') },
    ])
    expect(await readNotes(database.sql, job.id)).toMatchObject([{ checkpoint: most }])
    await end(job, 'completed')
  })
})

test.each(['completed', 'retry'] as const)(
  'steps, notes and progress are refused once the attempt ended in %s',
  async (ending) => {
    const job = await claimed()
    const note = { notes: [{ ...job, progress: 0.5, message: 'half' }] }
    expect((await tell('progress', note)).json()).toEqual({ done: true, refused: [] })
    await end(job, ending)
    expect((await tell('progress', note)).json()).toEqual({ done: false, refused: [job.id] })
    for (const [what, body] of [
      ['steps/save', { ...job, name: 'late', result: '1' }],
      ['checkpoint/save', { ...job, value: '1' }],
    ] as const) {
      const answer = await tell(what, body)
      expect([what, answer.status, answer.json()]).toMatchObject([what, 409, { code: 'LEASE_LOST' }])
    }
    expect(await countTraces(database.sql, job)).toMatchObject({ steps: 0 })
    const read = await server.call('GET', `/jobs/${job.id}`, { key: admin })
    expect(read.status).toBe(200)
  },
)
