import { beforeEach, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
useCommitChecker(database)
const WORKER = 7

let classId = 0

beforeEach(async () => {
  await database.sql(
    `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks)
     values ($1, 'holder', 'here', 1, '0', 0, 1, '{claimed}') on conflict do nothing`,
    [WORKER],
  )
  await database.sql(`insert into sluice.lanes (name) values ('wide') on conflict do nothing`)
  await database.sql(
    `insert into sluice.holdings (worker_id, lane) values ($1, 'wide') on conflict do nothing`,
    [WORKER],
  )
  const [row] = await database.sql<{ id: number }>(
    `insert into sluice.classes (lane, task) values ('wide', 'claimed') on conflict do nothing returning id`,
  )
  classId ||= row!.id
  return async () => {
    await database.sql(
      `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state < 'completed'`,
    )
    await forgetJobs(database.sql)
  }
})

/** Jobs that one cycle gave the worker. */
async function claim(count: number, from = 0): Promise<{ id: string; seq: string }[]> {
  await database.sql(
    `insert into sluice.jobs (task, class_id) select 'claimed', $1 from generate_series(1, $2)`,
    [classId, count],
  )
  return database.sql(
    'select id, seq from sluice.start_jobs_v1($1, clock_timestamp(), $2, array(select ctid from sluice.queue)) order by id',
    [WORKER, from],
  )
}

async function running(): Promise<string[]> {
  const rows = await database.sql<{ id: string }>('select id from sluice.running order by id')
  return rows.map(({ id }) => id)
}

const fail = (id: string, seq: string) =>
  database.sql('select sluice.end_attempts_v1($1, $2) as ended', [
    WORKER,
    JSON.stringify([{ id: Number(id), seq: Number(seq), ending: 'failed', error: 'x' }]),
  ])
const finish = (...jobs: readonly { id: string; seq: string }[]) =>
  database.sql('select ended from sluice.finish_v1($1, clock_timestamp(), $2, $3, null, null)', [
    WORKER,
    jobs.map(({ seq }) => seq),
    jobs.map(({ id }) => id),
  ])

test('a claim lists at most 64 jobs', async () => {
  const jobs = await claim(130)
  const claims = await database.sql<{ seq: string; n: number }>(
    'select seq, cardinality(ids) as n from sluice.claims order by seq',
  )
  expect(claims.map(({ n }) => n)).toEqual([64, 64, 2])
  expect(new Set(jobs.map(({ seq }) => seq))).toEqual(new Set(claims.map(({ seq }) => seq)))
})

test('jobs leave their claim as they end, and the last one takes the claim along', async () => {
  const [first, second, third] = (await claim(3)) as [Job, Job, Job]
  expect(await finish(second)).toEqual([{ ended: 1 }])
  expect(await running()).toEqual([first.id, third.id])
  expect(await fail(first.id, first.seq)).toEqual([{ ended: 1 }])
  expect(await running()).toEqual([third.id])
  expect(await finish(third)).toEqual([{ ended: 1 }])
  expect(await database.sql('select 1 from sluice.claims')).toEqual([])
})

test('an ending that comes twice ends nothing, and the other jobs of its claim go on', async () => {
  const [first, second, third] = (await claim(3)) as [Job, Job, Job]
  await fail(first.id, first.seq)
  expect(await fail(first.id, first.seq)).toEqual([{ ended: 0 }])
  expect(await finish(first)).toEqual([{ ended: 0 }])
  expect(await running()).toEqual([second.id, third.id])
})

test('an ending under a claim that its job has left does not take the job off its present one', async () => {
  const [first, second] = (await claim(2, 5000)) as [Job, Job]
  expect(await finish({ id: first.id, seq: '1' }, second)).toEqual([{ ended: 1 }])
  expect(await running()).toEqual([first.id])
  expect(await fail(first.id, '1')).toEqual([{ ended: 0 }])
  expect(await running()).toEqual([first.id])
})

test.each<[string, (jobs: Job[]) => Job[]]>([
  ['in the order of their claims', (jobs) => jobs],
  ['in another order', (jobs) => jobs.toReversed()],
  [
    'from one claim to the next by turns',
    (jobs) => [...jobs.filter((_, i) => i % 2), ...jobs.filter((_, i) => i % 2 === 0)],
  ],
])('jobs of two claims that end together %s keep what each returned', async (_, order) => {
  const jobs = order(await claim(70))
  const results = JSON.stringify(jobs.map(({ id }) => `result of ${id}`))
  const ran = jobs.map(() => 0)
  const ended = await database.sql(
    'select ended from sluice.finish_v1($1, clock_timestamp(), $2, $3, $4, $5)',
    [WORKER, jobs.map(({ seq }) => seq), jobs.map(({ id }) => id), results, ran],
  )
  expect(ended).toEqual([{ ended: 70 }])
  expect(await database.sql('select 1 from sluice.claims')).toEqual([])
  const outcomes = await database.sql<{ id: string; result: string }>(
    'select id, result from sluice.outcomes order by id',
  )
  expect(outcomes).toEqual(
    jobs.map(({ id }) => ({ id, result: `result of ${id}` })).sort((a, b) => Number(a.id) - Number(b.id)),
  )
})

test('what was submitted is written once in the life of a job', async () => {
  const [row] = await claim(1)
  const { id } = row!
  let { seq } = row!
  const written = () => database.sql('select ctid::text, xmin::text from sluice.job_data where id = $1', [id])
  const first = await written()
  const again = async () => {
    const [next] = await database.sql<Job>(
      `select id, seq from sluice.start_jobs_v1($1, clock_timestamp(), $2, array(select ctid from sluice.queue where state = 'ready'))`,
      [WORKER, Number(seq) + 1],
    )
    seq = next!.seq
  }
  const end = (ending: object) =>
    database.sql('select sluice.end_attempts_v1($1, $2)', [
      WORKER,
      JSON.stringify([{ id: Number(id), seq: Number(seq), ...ending }]),
    ])

  await end({ ending: 'retry', error: 'x', delayMs: 0 })
  await again()
  await end({ ending: 'snoozed', delayMs: 3_600_000 })
  await database.sql(`update sluice.queue set ready_at = now() where id = $1`, [id])
  await database.sql('select sluice.promote_due_v1(1000)')
  await again()
  await database.sql(`update sluice.workers set seen_at = now() - interval '1 hour' where id = $1`, [WORKER])
  await database.sql('select sluice.end_lost_claims_v1($1, $2, $3)', [
    WORKER,
    [seq],
    'worker stopped answering',
  ])
  await again()
  expect(
    await database.sql('select attempt, failures, losses from sluice.running where id = $1', [id]),
  ).toEqual([{ attempt: 4, failures: 1, losses: 1 }])
  expect(await finish({ id, seq })).toEqual([{ ended: 1 }])
  expect(await written()).toEqual(first)
})

type Job = { readonly id: string; readonly seq: string }
