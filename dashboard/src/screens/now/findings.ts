import type { Now } from '../../../../src/client/index.ts'
import { count } from '../../parts/count.ts'

export interface Finding {
  readonly words: string
  readonly path: string
  readonly search?: Record<string, string>
}

/** What an operator should look at first, worst first; nothing when all is well. */
export function findingsOf(now: Now): Finding[] {
  const { admission, lanes, workers, devices } = now
  const waiting = lanes.reduce((sum, { depth }) => sum + depth, 0)
  const paused = lanes.filter(({ enabled, depth }) => !enabled && depth > 0)
  const asked = now.states.awaiting_approval + now.steps.awaiting_approval
  const lost = devices.filter(({ lostAt }) => lostAt !== null)
  return [
    ...(workers.live === 0 && waiting > 0
      ? [{ words: `No worker is alive, and ${count(waiting, 'job')} could start`, path: '/workers' }]
      : []),
    ...(admission.retryAfter !== null
      ? [
          {
            words: `New work is refused: the ceiling of ${admission.maxActive} is reached`,
            path: '/jobs',
            search: { tab: 'active' },
          },
        ]
      : []),
    ...lost.map(({ name, budget, host }) => ({
      words: `Device ${name} of ${budget}${host === null ? '' : ` on ${host}`} is gone`,
      path: '/gpu',
    })),
    ...(workers.silent > 0
      ? [{ words: `${count(workers.silent, 'worker')} not heard of for two heartbeats`, path: '/workers' }]
      : []),
    ...paused.map(({ name, depth }) => ({
      words: `Lane ${name} is paused while ${count(depth, 'job')} wait`,
      path: '/lanes',
      search: { lane: name },
    })),
    ...(asked > 0
      ? [
          {
            words: `${count(asked, 'job waits', 'jobs wait')} for approval`,
            path: '/approvals',
          },
        ]
      : []),
    ...(now.driftLastHour > 0
      ? [
          {
            words: `The reconciler put right ${count(now.driftLastHour, 'thing')} in the last hour`,
            path: '/recovery',
          },
        ]
      : []),
  ]
}
