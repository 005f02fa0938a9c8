import { now, pause } from '../harness/clock.mjs'
import { percentile } from '../harness/statistics.mjs'

const WORKERS = 8
/** Long enough for the workers to have heard of each other, and for the first heartbeats. */
const SETTLE_MS = 2500

/**
 * Fill order: where load goes that the first workers can carry, and that nothing waits for it. Workers of a fleet are
 * processes of their own, started one after the other, so their order is known.
 */
export const scenario = {
  name: 'fleet',
  title: 'Fill order: 8 workers, filled one after the other',
  metrics: [
    { name: 'firstThree', label: 'by the first 3, %', better: 'higher' },
    { name: 'lastFour', label: 'by the last 4, jobs', better: 'lower' },
    { name: 'p50', label: 'start p50 ms', better: 'lower' },
    { name: 'p99', label: 'start p99 ms', better: 'lower' },
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
  ],
  cases(scale) {
    const loop = { kind: 'loop', inFlight: 3, jobMs: 20, seconds: scale.seconds(15), workers: WORKERS }
    const idle = { kind: 'idle', count: scale(300, 40), gapMs: 50 }
    const full = { kind: 'full', n: scale(60_000), slots: 10, workers: WORKERS }
    const busy = { kind: 'loop', inFlight: 16, jobMs: 0, seconds: scale.seconds(10), workers: WORKERS }
    return [
      one('3 in flight, filled', loop, 'fill'),
      one('3 in flight, not ordered', loop, 'spread'),
      one('idle fleet of 1', { ...idle, workers: 1 }, 'fill'),
      one('idle fleet of 8', { ...idle, workers: WORKERS }, 'fill'),
      one('idle fleet of 8, not ordered', { ...idle, workers: WORKERS }, 'spread'),
      one('backlog, filled', full, 'fill'),
      one('backlog, not ordered', full, 'spread'),
      one('16 in flight, filled', busy, 'fill'),
      one('16 in flight, not ordered', busy, 'spread'),
    ]
  },
  goals: [
    { metric: 'p50', of: 'idle fleet of 8', against: ['idle fleet of 1'], atMost: 1.2 },
    { metric: 'p99', of: 'idle fleet of 8', against: ['idle fleet of 1'], atMost: 1.2 },
    { metric: 'jobsPerSecond', of: 'backlog, filled', against: ['backlog, not ordered'], atLeast: 0.95 },
    {
      metric: 'jobsPerSecond',
      of: '16 in flight, filled',
      against: ['16 in flight, not ordered'],
      atLeast: 0.95,
    },
  ],
  async run(measurement, params) {
    const { kind, placement, workers: count } = params
    const slots = params.slots ?? 1
    const options = { limit: null, placement }
    const system = await measurement.open(options)
    await system.setup()
    if (kind === 'full') {
      await system.bulkEnqueue(params.n)
      await measurement.checkpoint()
    }
    const workers = []
    const work = { slots, lanes: 1, jobMs: params.jobMs ?? 0 }
    for (let each = 0; each < count; each++) {
      const agent = await measurement.startAgents(1, 'worker', options)
      if (kind !== 'full') await agent.askAll('work', work)
      workers.push(agent)
    }
    const total = () => workers.reduce((sum, agent) => sum + agent.finished, 0)
    switch (kind) {
      case 'idle':
        return idle(measurement, params, options, workers, total)
      case 'loop':
        return loop(measurement, params, options, workers, total)
      default: {
        const startedAt = now()
        await Promise.all(workers.map((agent) => agent.askAll('work', work)))
        while (total() < params.n) await pause(2)
        await measurement.untilDurable(system)
        const firstAt = Math.min(...workers.map((agent) => agent.firstAt ?? Number.POSITIVE_INFINITY))
        return {
          jobsPerSecond: (params.n / (now() - firstAt)) * 1000,
          startUpMs: firstAt - startedAt,
          ranTwice: total() - params.n,
        }
      }
    }
  },
}

function one(id, params, placement) {
  return { id, system: 'sluice', params: { ...params, placement } }
}

/** One job at a time. */
async function idle(measurement, { count, gapMs }, options, workers, total) {
  const warmUp = 20
  const producer = await measurement.startAgents(1, 'producer', options)
  await pause(SETTLE_MS)
  await producer.askAll('probe', { count, warmUp, gapMs })
  while (total() < warmUp + count) await pause(5)
  const delays = (await Promise.all(workers.map((agent) => agent.askAll('startDelays')))).flat(2)
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99), jobs: delays.length }
}

/** As many jobs as said are under way at any time: a new one is submitted when one has ended. */
async function loop(measurement, { inFlight, seconds }, options, workers, total) {
  const producer = await measurement.startAgents(1, 'producer', options)
  await pause(SETTLE_MS)
  await producer.askAll('keepInFlight', { inFlight, seconds: 2, warm: true })
  const before = workers.map((agent) => agent.finished)
  const startedAt = now()
  const [done] = await producer.askAll('keepInFlight', { inFlight, seconds, warm: false })
  const endedAt = now()
  await pause(200)
  const each = workers.map((agent, index) => agent.finished - before[index])
  const sum = total() - before.reduce((all, finished) => all + finished, 0)
  const of = (from, to) => each.slice(from, to).reduce((all, finished) => all + finished, 0)
  const delays = (await Promise.all(workers.map((agent) => agent.askAll('startDelays')))).flat(2)
  return {
    firstThree: (100 * of(0, 3)) / sum,
    lastFour: of(4, 8),
    p50: percentile(delays, 0.5),
    p99: percentile(delays, 0.99),
    jobsPerSecond: (done / (endedAt - startedAt)) * 1000,
    each: each.join(' '),
  }
}
