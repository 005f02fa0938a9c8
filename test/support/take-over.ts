import { type Sluice, sluice } from '../../src/index.ts'
import type { Sql } from './database.ts'
import { readStart } from './state/jobs.ts'
import { readAgeMs, readLastHeartbeat } from './state/workers.ts'
import { until } from './until.ts'
import { STALE_MS, startWorker } from './worker-process.ts'

/** How long after the end of a dead worker's lease another worker may start its job at the latest. */
export const TAKE_OVER_MS = 2000

/**
 * Kills worker after worker under one job, each time with a single other one alive, and says for each how long after the end of the
 * lease the other began: negative would be before. Both times are the database's.
 */
export async function killInTurn(database: { url: string; sql: Sql }, kills: number): Promise<number[]> {
  const app: Sluice = await sluice({ database: database.url })
  const settings = { options: { database: database.url }, tasks: { act: { losses: kills } } }
  let runs = await startWorker(settings)
  const { id } = await app.submit('act', { gate: true })
  const lateMs: number[] = []
  for (let attempt = 1; attempt <= kills; attempt++) {
    await runs.started(id, attempt)
    const next = await startWorker(settings)
    // A process that has just started gives everybody a whole stale time to report.
    await until(
      async () => (await readAgeMs(database.sql, next.pid)) > 2 * STALE_MS,
      'the next worker to be of age',
    )
    await runs.kill()
    await next.started(id, attempt + 1)
    const lastBeat = await readLastHeartbeat(database.sql, runs.pid)
    lateMs.push((await readStart(database.sql, id)).getTime() - lastBeat.getTime() - STALE_MS)
    runs = next
  }
  runs.go(id)
  await app.job(id).result()
  await app.close()
  return lateMs
}
