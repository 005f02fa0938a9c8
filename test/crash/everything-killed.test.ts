import { expect, test } from 'vitest'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import { sluice } from '../../src/index.ts'
import { endAll, query, temporaryFolder } from '../support/embedded.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { WatchedCommits } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const JOBS = 300
const LANES = { narrow: { slots: 3, poll: 200 } }

async function ended(url: string): Promise<number> {
  const [row] = await query<{ n: number }>(
    url,
    `select count(*)::integer as n from sluice.jobs where state >= 'completed'`,
  )
  return row!.n
}

test('workers, database and its keeper killed at once, twice: after a start all goes on by itself', async () => {
  const folder = await temporaryFolder()
  const embedded = await openEmbedded({ dataFolder: folder })
  // The workers start the server from now on; this way it keeps what logical decoding needs.
  await query(embedded.url, `alter system set wal_level = 'logical'`)
  await embedded.release()
  const app = await sluice({ dataFolder: folder, ...SHORT_LEASES, lanes: LANES })
  const commits = await WatchedCommits.open(app.databaseUrl)
  const start = () =>
    startWorker({
      options: { dataFolder: folder, lanes: LANES },
      work: { capacity: 2 },
      tasks: { act: { lane: 'narrow' } },
    })
  let workers: WorkerProcess[] = [await start(), await start()]
  const url = await workers[0]!.ready()
  const jobs = await app.submitMany(
    'act',
    Array.from({ length: JOBS }, (_, n) => ({ sleepMs: n % 10 })),
  )
  // This process takes no part in what follows, or it would bring the database back.
  await app.close()

  for (const enough of [JOBS / 6, JOBS / 3]) {
    await until(async () => (await ended(url)) > enough, `${enough} jobs to end`)
    await Promise.all([...workers.map((worker) => worker.kill()), endAll(folder)])
    workers = [await start(), await start()]
  }
  await untilNoneLeft(async () => JOBS - (await ended(url)), 'the rest to be done')
  const rows = await query<{ id: string; state: string }>(
    url,
    'select id, state from sluice.jobs order by id',
  )
  expect(rows).toEqual(jobs.map(({ id }) => ({ id, state: 'completed' })))
  await until(
    async () => (await query(url, 'select 1 from sluice.holdings where slots > 0')).length === 0,
    'nobody to hold a slot',
  )

  const { violations, seen } = await commits.catchUp()
  expect(violations).toEqual([])
  expect(seen.outcomes).toBe(JOBS)
  await commits.close()
  for (const worker of workers) await worker.close()
})
