import { expect, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
const commits = useCommitChecker(database)

const BUDGETS = { licences: 1, vram: { gpu0: '24GB' } } as const
const TASKS = {
  once: { uses: { licences: 1 }, onLost: 'fail' as const },
  again: { model: 'llm', uses: { vram: '20GB' } },
  other: { model: 'vision', uses: { vram: '20GB' } },
}

test('what a killed worker drew is given to others once its jobs are failed or back in line, not before', async () => {
  const app = await sluice({ database: database.url, ...SHORT_LEASES, budgets: BUDGETS })
  const start = (name: string) =>
    startWorker({
      options: { database: database.url, budgets: BUDGETS, lanes: { default: { perWorker: null } } },
      work: { name, capacity: 0 },
      tasks: TASKS,
    })
  try {
    const first = await start('first')
    const [held, kept] = [await app.submit('once', { gate: true }), await app.submit('again', { gate: true })]
    await first.started(held.id)
    await first.started(kept.id)
    const queued = await app.submit('once', {})
    const wanting = await app.submit('other', {})
    const second = await start('second')
    expect((await app.why(queued.id)).wait).toMatchObject({ kind: 'budget', budget: { budget: 'licences' } })
    expect((await app.why(wanting.id)).wait).toMatchObject({ kind: 'budget', budget: { heldBy: ['llm'] } })
    await first.kill()

    // It runs only where a second run does no harm.
    await expect(app.job(held.id).result()).rejects.toMatchObject({
      error: expect.stringMatching(/^lost: worker first stopped answering during attempt 1$/),
    })
    await app.job(queued.id).result()
    await second.started(kept.id, 2)
    second.go(kept.id)
    expect(await app.job(kept.id).result()).toMatchObject({ attempt: 2 })
    await app.job(wanting.id).result()
    const { budgets, violations } = await commits.catchUp()
    expect(violations).toEqual([])
    expect(budgets.seen.reservations).toBeGreaterThanOrEqual(5)
  } finally {
    await app.close()
  }
})

test('after everything was killed, queued jobs continue in order, and interrupted jobs are reported as such', async () => {
  const app = await sluice({ database: database.url, ...SHORT_LEASES, budgets: BUDGETS })
  const start = () =>
    startWorker({
      options: { database: database.url, budgets: BUDGETS },
      work: { name: 'the one', capacity: 1 },
      tasks: TASKS,
    })
  try {
    const first = await start()
    const running = await app.submit('once', { gate: true })
    await first.started(running.id)
    const queued = await app.submitMany('once', [{}, {}, {}])
    await first.kill()
    await start()
    await expect(app.job(running.id).result()).rejects.toMatchObject({
      error: expect.stringMatching(/^lost: interrupted by restart of worker the one during attempt 1$/),
    })
    await Promise.all(queued.map((job) => job.result()))
    const ended = await database.sql<{ id: string }>(
      `select id::text as id from sluice.jobs where id = any ($1) order by started_at, id`,
      [queued.map(({ id }) => id)],
    )
    expect(ended.map(({ id }) => id)).toEqual(queued.map(({ id }) => id))
    await until(
      async () =>
        (
          await database.sql(
            `select 1 from sluice.reservations r join sluice.jobs j on j.id = r.job_id where j.state = 'running'`,
          )
        ).length === 0,
      'nothing to be drawn',
    )
  } finally {
    await app.close()
  }
})
