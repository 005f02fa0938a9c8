import { randomUUID } from 'node:crypto'
import { actInBulk, type BulkAction } from '../../src/engine/operate/bulk-actions.ts'
import { JobEvents } from '../../src/engine/streams/job-events.ts'
import type { StreamedEvent } from '../../src/engine/streams/job-feed.ts'
import { readErrorGroups } from '../../src/engine/views/error-groups.ts'
import { readLine, readPage } from '../../src/engine/views/job-list.ts'
import { readTimeline } from '../../src/engine/views/job-timeline.ts'
import { readWaterfall } from '../../src/engine/views/read-waterfall.ts'
import type { Sluice } from '../../src/index.ts'
import { START } from '../../src/model/stream-position.ts'
import type { Sql } from './database.ts'
import { repeated, settled } from './persistent-caller.ts'
import { plantDue } from './state/jobs.ts'
import { patiently } from './until.ts'

/**
 * Lists, what is done to whole lists, and streams, on an address where any statement may fail. What is repeated does no
 * harm, and a stream tells everything once.
 */
export async function liveLists(app: Sluice, sql: Sql, round: number): Promise<string[]> {
  return [...(await bulk(app, sql, `bulk-${round}`)), ...(await stream(app, round))]
}

async function bulk(app: Sluice, sql: Sql, tag: string): Promise<string[]> {
  const { db, calls } = app.services
  const jobs = await repeated('submitMany', () =>
    app.submitMany('plain', [{ n: 1 }, { n: 2 }], {
      each: (_, n) => ({ key: `${tag}-${n}` }),
      tags: [tag],
      runAt: '1h',
    }),
  )
  const act = (action: BulkAction, dryRun = false) => {
    const criteria = { tag, ...(action.action === 'retry' && { status: ['cancelled' as const] }) }
    return repeated(action.action, () => actInBulk(db, calls, action, criteria, { name: 'life' }, { dryRun }))
  }
  const violations: string[] = []
  const counted = await act({ action: 'cancel', reason: 'counted' }, true)
  if (counted.matched !== 2) violations.push(`a dry run of ${tag} found ${counted.matched}`)
  await act({ action: 'priority', priority: 3 })
  await repeated('readErrorGroups', () => readErrorGroups(calls, { limit: 5 }))
  await repeated('readPage of failures', () =>
    readPage(calls, { fingerprint: '0123456789ab' }, undefined, 10),
  )
  await repeated('readTimeline', () => readTimeline(calls, jobs[0]!.id))
  await repeated('readWaterfall', () => readWaterfall(calls, jobs[0]!.id))
  const page = await repeated('readPage', () => readPage(calls, { tag }, undefined, 10))
  await repeated('readLine', () => readLine(calls, { tag, waits: 'turn' }, undefined, 10))
  if (page.jobs.some(({ priority }) => priority !== 3)) violations.push(`${tag} was not reprioritised`)
  await act({ action: 'cancel', reason: 'in bulk' })
  const errors = await Promise.all(jobs.map(async (job) => (await settled(job)).error))
  if (errors.some((error) => error !== 'cancelled: in bulk'))
    violations.push(`${tag} ended with ${errors.join()}`)
  await act({ action: 'retry' })
  // They keep their time, which lies ahead, until it is made to come.
  const again = await repeated('listJobs', () => app.listJobs({ tag }))
  const states = again.map(({ state }) => state).join()
  if (states !== 'scheduled,scheduled') violations.push(`${tag} is ${states} though its time lies ahead`)
  for (const { id } of jobs) await plantDue(sql, id)
  await patiently(
    async () => (await repeated('listJobs', () => app.listJobs({ tag, status: ['completed'] }))).length === 2,
    `${tag} to run again`,
  )
  return violations
}

async function stream(app: Sluice, round: number): Promise<string[]> {
  const { db, listener } = app.services
  const nothing = () => {}
  const log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
  const events = new JobEvents(db, listener, randomUUID(), log)
  const told: StreamedEvent[] = []
  const sink = { ready: true, send: (event: StreamedEvent) => told.push(event), end: nothing }
  try {
    const job = await repeated('submit', () => app.submit('plain', { n: round }))
    events.open(job.id, { tree: false, logs: true, position: START }, sink)
    await patiently(() => told.at(-1)?.event === 'end', `the stream of job ${job.id} to end`)
  } finally {
    await events.close()
  }
  const lines = told.filter(({ event }) => event === 'log').map(({ data }) => JSON.parse(data).id)
  const violations: string[] = []
  if (new Set(lines).size !== lines.length) violations.push(`a stream told lines twice: ${lines.join()}`)
  if (!told.at(-1)!.data.includes('"completed"')) violations.push(`a stream ended with ${told.at(-1)!.data}`)
  return violations
}
