import { createHash } from 'node:crypto'
import { ownersOf } from '../../src/engine/operate/job-control.ts'
import { ensureResult, findEnsured } from '../../src/engine/submit/ensure-result.ts'
import { answerOnce } from '../../src/engine/submit/idempotency.ts'
import { hasCode, type Sluice, SluiceError } from '../../src/index.ts'
import type { Sql } from './database.ts'
import { repeated } from './persistent-caller.ts'
import { patiently } from './until.ts'

/**
 * Limits that are set and undone, results that are made once and requests that are repeated, on an address where any
 * statement may fail.
 *
 * @param sql Straight to the server, past every fault.
 */
export async function liveAdmission(app: Sluice, sql: Sql, round: number): Promise<string[]> {
  const found = [await limits(app), await result(app, sql, round), await request(app, sql, round)]
  return found.flat()
}

/** Too high to refuse anything: what else goes on here must not be disturbed. */
async function limits(app: Sluice): Promise<string[]> {
  await repeated('setAdmission', () => app.setAdmission({ maxActive: 100_000, maxQueued: { held: 50_000 } }))
  const { maxActive, active } = await repeated('admission', () => app.admission())
  await repeated('resetAdmission', () => app.resetAdmission())
  return maxActive === 100_000 && active !== null ? [] : [`the ceiling is ${maxActive}, active are ${active}`]
}

/** Though it is asked for again and again, one job makes it. */
async function result(app: Sluice, sql: Sql, round: number): Promise<string[]> {
  const { db, submitter, gate, calls } = app.services
  const wanted = { name: 'plain', key: `ensured-${round}`, owner: undefined, caller: 'life' }
  const input = { n: round }
  const submission = await app.services.toSubmission(wanted.name, input, { key: wanted.key }, 'life')
  const parts = { submitter, gate }
  const ensured = await patiently(
    () =>
      repeated('ensureResult', async () => {
        const answer = await ensureResult(db, wanted, JSON.stringify(input), submission, parts)
        return answer.done ? answer : undefined
      }),
    `a result for ${wanted.key}`,
  )
  const seen = await repeated('findEnsured', () => findEnsured(calls, wanted))
  const jobs = await sql('select 1 from sluice.jobs where key = $1', [wanted.key])
  const owners = await repeated('ownersOf', () => ownersOf(calls, [ensured.jobId]))
  const details = { ceiling: 1, active: 1, retryAfter: 1, drainRate: 1 }
  const refuse = () => Promise.reject(new SluiceError('ADMISSION_REJECTED', 'try again in 1 s', { details }))
  const refusals = await repeated('a submission at the ceiling', async () => {
    const codes: string[] = []
    for (let n = 0; n < 2; n++)
      await parts.gate.pass([submission], refuse).catch((error) => codes.push(error.code))
    if (codes.includes('DATABASE_UNAVAILABLE')) throw new SluiceError('DATABASE_UNAVAILABLE', 'once more')
    return codes
  })
  return [
    ...(seen.jobId === ensured.jobId ? [] : [`job ${ensured.jobId} made the result, ${seen.jobId} is found`]),
    ...(owners.get(ensured.jobId) === 'life' ? [] : [`job ${ensured.jobId} has no owner`]),
    ...(jobs.length === 1 ? [] : [`${jobs.length} jobs made one result`]),
    ...(refusals.join() === 'ADMISSION_REJECTED,ADMISSION_REJECTED' ? [] : [`refused with ${refusals}`]),
  ]
}

/** Repeated as long as its answer is lost, it is carried out once. */
async function request(app: Sluice, sql: Sql, round: number): Promise<string[]> {
  const { db, submitter } = app.services
  const tag = `once-${round}`
  const submission = await app.services.toSubmission('plain', { n: 0 }, { tags: [tag] }, 'life')
  const asked = { owner: 'life', key: tag, hash: createHash('sha256').update(tag).digest() }
  const ask = () =>
    patiently(
      () =>
        repeated('a request with a key', () =>
          answerOnce(db, asked, async (tx) => (await submitter.submitIn(tx, [submission]))[0]!),
        ).catch((error) => {
          // The server has not noticed yet that whoever asked before has gone.
          if (!hasCode(error.cause, 'IDEMPOTENCY_CONFLICT')) throw error
          return undefined
        }),
      `the answer to ${tag}`,
    )
  const answers = [await ask(), await ask()]
  const jobs = await sql<{ id: string }>('select id from sluice.jobs where tags = $1', [[tag]])
  return jobs.length === 1 && answers.every(({ answer }) => answer.id === jobs[0]!.id)
    ? []
    : [`answered ${JSON.stringify(answers)}, stored ${JSON.stringify(jobs)}`]
}
