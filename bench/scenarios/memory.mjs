import { drain } from '../harness/drain.mjs'
import { median } from '../harness/statistics.mjs'

const SLOTS = 100
const MB = 1024 * 1024

export const scenario = {
  name: 'memory',
  title: 'Resident memory of a worker process between 10,000 and 1,000,000 jobs',
  metrics: [
    { name: 'early', label: 'RSS after 10,000, MB', better: 'lower' },
    { name: 'late', label: 'RSS after 1,000,000, MB', better: 'lower' },
    { name: 'growth', label: 'late / early', better: 'lower' },
  ],
  cases(scale) {
    const n = scale(1_000_000)
    const early = scale(10_000)
    return ['sluice', 'graphile-tuned', 'pgboss'].map((system) => ({
      id: system,
      system,
      sweep: 'drain',
      fixture: `waiting-${n}`,
      params: {
        n,
        early,
        processes: 1,
        slots: SLOTS,
        waiting: true,
        limit: system === 'sluice' ? SLOTS : null,
      },
    }))
  },
  // "Flat" is read as: not a fifth more.
  goals: [{ metric: 'growth', of: 'sluice', atMost: 1.2 }],
  async prepare(measurement, { n, limit }) {
    const system = await measurement.open({ limit })
    await system.setup()
    await system.bulkEnqueue(n)
  },
  /** Medians over a stretch, because a single reading depends on when the last collection ran. */
  async run(measurement, params) {
    const { agents, figures } = await drain(measurement, params)
    const { n, early } = params
    const between = (from, to) =>
      median(agents.timeline.filter((s) => s.finished >= from && s.finished <= to).map((s) => s.rss / MB))
    const [first, last] = [between(early, 5 * early), between(n - 4 * early, n)]
    return {
      ...figures,
      early: first,
      late: last,
      growth: last / first,
      peak: Math.max(...agents.timeline.map((sample) => sample.rss / MB)),
    }
  },
}
