import { expect, test, vi } from 'vitest'
import { Orchestration } from '../support/orchestrators.ts'
import { holdDuty, releaseDuty } from '../support/state/duties.ts'
import { jobsByLane } from '../support/state/lanes.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000 })

const READY = 1500
const SCHEDULED = 1500

test('the rest of a task’s waiting jobs is moved by another process when the first is killed half-way', async () => {
  const scene = await Orchestration.open([])
  const { app } = scene
  const { sql } = scene.database
  try {
    const worker = await scene.start()
    await app.createLane('night', { slots: 0 })
    await app.setLane('default', { slots: 0 })
    await app.submitMany('act', Array.from({ length: READY }))
    const later = new Date(Date.now() + 3_600_000)
    await app.submitMany('act', Array.from({ length: SCHEDULED }), { runAt: later })
    // Otherwise it might be killed in a look that found nothing to move.
    await holdDuty(sql, 'follow')
    await app.moveTask('act', 'night')
    const killed = scene.killAt(worker, 'after', ({ statement }) => statement === 'move_jobs_with_tasks')
    await releaseDuty(sql, 'follow')
    await killed
    const { default: left, night: moved } = await jobsByLane(sql, 'act')
    expect(left).toBeGreaterThan(0)
    expect(moved).toBeGreaterThan(0)
    expect(left! + moved!).toBe(READY + SCHEDULED)

    await scene.survive()
    await until(
      async () => (await jobsByLane(sql, 'act')).night === READY + SCHEDULED,
      'another process to go on',
      60_000,
    )
    expect(await jobsByLane(sql, 'act')).toEqual({ night: READY + SCHEDULED })
  } finally {
    await scene.close()
  }
})
