import { expect, test, vi } from 'vitest'
import { Orchestration } from '../support/orchestrators.ts'
import { holdDuty, releaseDuty } from '../support/state/duties.ts'
import { activeByPriority, isPriorityPending } from '../support/state/priorities.ts'
import { countStates, findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000 })

const ITEMS = 3500
const WIDE = {
  steps: { all: { task: 'act', with_items: '${{ range(input.n) }}', concurrency: 1, with: { gate: true } } },
}

test('the rest of a workflow is reprioritised by another process when the first is killed half-way', async () => {
  const scene = await Orchestration.open([{ name: 'wide', definition: WIDE }])
  const { app } = scene
  const { sql } = scene.database
  try {
    const worker = await scene.start()
    const job = await app.submit('wide', { n: ITEMS })
    const fan = await until(() => findStep(sql, job.id, 'all'), 'the fan-out')
    await app.resizeWindow(fan, 0)
    await until(
      async () =>
        Object.values(await countStates(sql, job.id, 'composite is null')).reduce((a, b) => a + b, 0) ===
        ITEMS,
      'every item to be a job',
      60_000,
    )
    // Otherwise it might be killed in a look that found nothing to spread.
    await holdDuty(sql, 'follow')
    await app.reprioritise(job.id, 9)
    const killed = scene.killAt(worker, 'after', ({ statement }) => statement === 'spread_priority')
    await releaseDuty(sql, 'follow')
    await killed
    const { 0: old, 9: changed } = await activeByPriority(sql, job.id)
    expect(old).toBeGreaterThan(1000)
    expect(changed).toBeGreaterThan(1000)

    await scene.survive()
    await until(async () => !(await isPriorityPending(sql)), 'another process to go on', 60_000)
    expect(await activeByPriority(sql, job.id)).toEqual({ 9: old! + changed! })
    await app.cancel(job.id)
    await until(async () => (await app.getJob(job.id)).finishedAt !== null, 'the workflow to end', 60_000)
  } finally {
    await scene.close()
  }
})
