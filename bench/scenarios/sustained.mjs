import { now } from '../harness/clock.mjs'
import { median } from '../harness/statistics.mjs'

const SLOTS = 100
const KEEP_WAITING = 50_000
const REFILL = 10_000

export const scenario = {
  name: 'sustained',
  title: 'Ten minutes at full speed with autovacuum on, a backlog of about 50,000 kept up',
  onRequest: '--sustained',
  metrics: [
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
    { name: 'lastOverFirst', label: 'last tenth / second tenth', better: 'higher' },
    { name: 'lowestTenth', label: 'slowest tenth, jobs/s', better: 'higher' },
  ],
  cases(scale) {
    const params = { seconds: scale.seconds(600), processes: 1, slots: SLOTS }
    return [
      { id: 'sluice', system: 'sluice', params: { ...params, limit: SLOTS }, once: true },
      { id: 'graphile-tuned', system: 'graphile-tuned', params, sweep: 'drain', once: true },
    ]
  },
  goals: [
    { metric: 'lastOverFirst', of: 'sluice', atLeast: 0.9 },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['graphile-tuned'] },
  ],
  /** Enqueueing shares the machine with the drain, so these rates are lower than those of `drain`. */
  async run(measurement, { seconds, processes, slots, limit = null }) {
    const system = await measurement.open({ limit })
    await system.setup()
    await system.bulkEnqueue(KEEP_WAITING)
    let enqueued = KEEP_WAITING
    const agents = await measurement.startAgents(processes, 'worker', { limit })
    await agents.askAll('work', { slots, lanes: 1, jobMs: 0 })
    await agents.untilFinished(1)
    const start = agents.firstAt
    while (now() < start + seconds * 1000) {
      await agents.untilFinished(Math.min(enqueued, enqueued - KEEP_WAITING + REFILL))
      await system.bulkEnqueue(REFILL)
      enqueued += REFILL
    }
    const tenths = ratesByTenth(agents.timeline, start, seconds)
    return {
      jobsPerSecond: median(tenths),
      lastOverFirst: tenths.at(-1) / tenths[1],
      lowestTenth: Math.min(...tenths.slice(1)),
      tenths,
      databaseMegabytes: await databaseMegabytes(measurement),
    }
  },
}

function ratesByTenth(timeline, start, seconds) {
  const lengthMs = seconds * 100
  const finishedAt = (at) => timeline.findLast((sample) => sample.at <= at)?.finished ?? 0
  return Array.from({ length: 10 }, (_, tenth) => {
    const from = start + tenth * lengthMs
    return ((finishedAt(from + lengthMs) - finishedAt(from)) / lengthMs) * 1000
  })
}

async function databaseMegabytes(measurement) {
  const [row] = await measurement.query('select pg_database_size($1)::float8 / 1048576 as mb', [
    measurement.database,
  ])
  return Math.round(row.mb)
}
