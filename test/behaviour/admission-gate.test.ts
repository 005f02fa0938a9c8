import { expect, test } from 'vitest'
import { type SubmitOptions, toSubmission } from '../../src/app/submission.ts'
import { AdmissionGate } from '../../src/engine/submit/admission-gate.ts'
import type { Submission } from '../../src/engine/submit/submitter.ts'
import { SluiceError, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)
const idle = task({ name: 'idle', run: (_: unknown) => null })
const own = task({ name: 'own', keys: 'owner', run: (_: unknown) => null })

const plain: Submission = {
  fields: '{"task":"idle"}',
  isPlain: true,
  input: 'null',
  task: 'idle',
  needsSubmit: false,
}

function refusal(details: object): SluiceError {
  return new SluiceError('ADMISSION_REJECTED', 'no room; try again in 3 s', {
    details: { retryAfter: 3, drainRate: 10, ...details },
  })
}

/** A gate whose time the test makes, in front of something that counts how often it is asked. */
async function open() {
  const app = await apps.open({ tasks: [idle, own] })
  const clock = { now: 10_000 }
  const lines: [object, string][] = []
  const nothing = () => {}
  const log = {
    debug: nothing,
    info: nothing,
    error: nothing,
    warn: (...line: [object, string]) => void lines.push(line),
  }
  const gate = new AdmissionGate(app.services.calls, log, () => clock.now)
  const asked = { times: 0 }
  const refuse = (details: object) => async () => {
    asked.times++
    throw refusal(details)
  }
  const pass = (submissions: readonly Submission[], submit: () => Promise<unknown>) =>
    gate.pass(submissions, submit).catch((error: SluiceError) => error)
  return { app, gate, clock, asked, refuse, pass, lines }
}

test('a refusal answers others for 100 ms, then the database is asked again', async () => {
  const { clock, asked, refuse, pass } = await open()
  const full = refuse({ ceiling: 5, active: 5 })
  for (let n = 0; n < 3; n++) expect(await pass([plain], full)).toMatchObject({ code: 'ADMISSION_REJECTED' })
  expect(asked.times).toBe(1)
  clock.now += 101
  await pass([plain], full)
  expect(asked.times).toBe(2)
  clock.now += 101
  expect(await pass([plain], async () => 'in')).toBe('in')
})

test('a limit that rejects jobs writes one line to the log, and one a minute while it goes on', async () => {
  const { clock, refuse, pass, lines } = await open()
  const deep = refuse({ task: 'idle', maxQueued: 7, queued: 7 })
  await pass([plain], deep)
  await pass([plain, plain], deep)
  expect(lines).toEqual([
    [
      { task: 'idle', maxQueued: 7, queued: 7, rejected: 1 },
      'jobs rejected: too many jobs of the task are waiting',
    ],
  ])
  clock.now += 101
  await pass([plain], refuse({ ceiling: 5, active: 5 }))
  expect(lines[1]).toEqual([
    { ceiling: 5, active: 5, rejected: 1 },
    'jobs rejected: the ceiling on active jobs is reached',
  ])
  clock.now += 60_000
  await pass([plain], deep)
  expect(lines[2]).toMatchObject([{ task: 'idle', rejected: 3 }, expect.any(String)])
  expect(lines).toHaveLength(3)
})

test('a refusal of one kind says nothing of jobs of the other: those that start now, and those that start later', async () => {
  const { asked, refuse, pass, lines } = await open()
  const certain: Submission = { ...plain, later: 'certain' }
  const maybe: Submission = { ...plain, later: 'maybe' }
  await pass([plain], refuse({ ceiling: 5, active: 5 }))
  for (const each of [certain, maybe]) expect(await pass([each], async () => 'in')).toBe('in')
  const full = refuse({ maxScheduled: 9, scheduled: 9, requested: 1 })
  expect(await pass([certain], full)).toMatchObject({ details: { maxScheduled: 9, scheduled: 9 } })
  expect(lines.at(-1)).toEqual([
    { maxScheduled: 9, scheduled: 9, rejected: 1 },
    'jobs rejected: too many jobs are scheduled for later',
  ])
  asked.times = 0
  for (let n = 0; n < 3; n++)
    expect(await pass([certain], full)).toMatchObject({ code: 'ADMISSION_REJECTED' })
  expect(asked.times).toBe(0)
  // Its time may have come; and a job of another task may have to be approved, which makes it active.
  expect(await pass([maybe], async () => 'in')).toBe('in')
  expect(await pass([{ ...certain, task: 'other' }], async () => 'in')).toBe('in')
})

test('one asks again before the answer is too old, while the others are still refused', async () => {
  const { clock, asked, refuse, pass } = await open()
  const full = refuse({ ceiling: 5, active: 5 })
  await pass([plain], full)
  clock.now += 75
  await Promise.all(Array.from({ length: 20 }, () => pass([plain], full)))
  expect(asked.times).toBe(2)
  // What it was told counts for the next 100 ms.
  clock.now += 60
  await pass([plain], full)
  expect(asked.times).toBe(2)
})

test('a single job is refused without asking for as long, but for one that is sent to ask again', async () => {
  const { gate, clock, asked, refuse, pass } = await open()
  const full = refuse({ ceiling: 5, active: 5 })
  expect([gate.shut, gate.refuseOne()]).toEqual([false, undefined])
  await pass([plain], full)
  expect(gate.shut).toBe(true)
  expect(gate.refuseOne()).toMatchObject({ details: { ceiling: 5, active: 5, retryAfter: 1 } })

  clock.now += 75
  const answers = Array.from({ length: 20 }, () => gate.refuseOne())
  expect(answers.filter((each) => each === undefined)).toHaveLength(1)
  await pass([plain], full)
  expect(asked.times).toBe(2)
  expect(gate.refuseOne()).toBeDefined()
  clock.now += 101
  expect([gate.shut, gate.refuseOne()]).toEqual([false, undefined])
})

test('a bulk submission that was too large leaves the gate open for single jobs', async () => {
  const { gate, refuse, pass } = await open()
  await pass([plain, plain, plain], refuse({ ceiling: 5, active: 3 }))
  expect([gate.shut, gate.refuseOne()]).toEqual([false, undefined])
})

test('a bulk submission that was too large keeps nobody out for whom there is room', async () => {
  const { asked, refuse, pass } = await open()
  await pass(Array(10).fill(plain), refuse({ ceiling: 10, active: 7 }))
  expect(await pass([plain], async () => 'in')).toBe('in')
  expect(await pass(Array(4).fill(plain), async () => 'in')).toMatchObject({ code: 'ADMISSION_REJECTED' })
  expect(asked.times).toBe(1)
})

test('the depth of one task says nothing about others', async () => {
  const { refuse, pass } = await open()
  await pass([plain], refuse({ task: 'idle', maxQueued: 1, queued: 1 }))
  expect(await pass([plain], async () => 'in')).toMatchObject({ code: 'ADMISSION_REJECTED' })
  expect(await pass([{ ...plain, task: 'other' }], async () => 'in')).toBe('in')
})

test('a submission with a key passes if an active job has it, and only then', async () => {
  const { app, refuse, pass } = await open()
  await app.submit(idle, null, { key: 'held' })
  await pass([plain], refuse({ ceiling: 1, active: 1 }))
  const keyed = (key: string): Submission => ({ ...plain, key, needsSubmit: true })
  expect(await pass([keyed('held')], async () => 'attached')).toBe('attached')
  expect(await pass([keyed('free')], async () => 'in')).toMatchObject({ code: 'ADMISSION_REJECTED' })
})

test('where keys belong to owners, the job of somebody else with the key lets nobody pass', async () => {
  const { app, asked, refuse, pass } = await open()
  const submission = (owner: string) => toSubmission('own', null, { key: 'k' }, owner)
  await app.submit(own, null, { key: 'k', submittedBy: 'ann' })
  await pass([plain], refuse({ ceiling: 1, active: 1 }))
  expect(await pass([submission('ann')], async () => 'attached')).toBe('attached')
  expect(await pass([submission('bob')], async () => 'in')).toMatchObject({ code: 'ADMISSION_REJECTED' })
  expect(asked.times).toBe(1)
})

test('refusals of a thousand owners are remembered, each for its owner; of more, the oldest is forgotten', async () => {
  const { asked, refuse, pass } = await open()
  const of = (n: number) => [toSubmission('idle', null, {}, `owner-${n}`)]
  const full = (n: number) => refuse({ owner: `owner-${n}`, maxPerOwner: 1, owned: 1 })
  for (let n = 0; n <= 1000; n++) await pass(of(n), full(n))
  expect(asked.times).toBe(1001)
  expect(await pass(of(1), full(1))).toMatchObject({ details: { owner: 'owner-1' } })
  expect(await pass(of(2000), async () => 'in')).toBe('in')
  expect(asked.times).toBe(1001)
  expect(await pass(of(0), async () => 'in')).toBe('in')
})

test('a bulk submission passes for its keys, not for links to jobs it is submitted in place of', async () => {
  const { asked, refuse, pass } = await open()
  const full = refuse({ ceiling: 5, active: 5 })
  const bulk = (options: SubmitOptions) => [1, 2].map((n) => toSubmission('idle', n, options))
  await pass([plain], full)
  expect(await pass(bulk({ resubmitOf: '1' }), full)).toMatchObject({ code: 'ADMISSION_REJECTED' })
  expect(asked.times).toBe(1)
  await pass(bulk({ key: 'k' }), full)
  expect(asked.times).toBe(2)
})

test('spreads the retry times of rejected callers over the rate at which jobs end, within a minute', async () => {
  const { refuse, pass } = await open()
  const full = refuse({ ceiling: 5, active: 5 })
  const waits: number[] = []
  for (let n = 0; n < 700; n++) {
    const { details, message } = (await pass([plain], full)) as SluiceError
    waits.push(Number(details.retryAfter))
    expect(message).toBe(`no room; try again in ${details.retryAfter} s`)
  }
  expect([waits[0], waits[9], waits[10], waits[99], waits[100], waits[699]]).toEqual([1, 1, 2, 10, 11, 60])
})

test("uses the database's retry time when no job is known to end", async () => {
  const { refuse, pass } = await open()
  expect(await pass([plain], refuse({ ceiling: 5, active: 5, drainRate: 0, retryAfter: 5 }))).toMatchObject({
    details: { retryAfter: 5 },
  })
})
