import { now, pause } from '../harness/clock.mjs'
import { percentile } from '../harness/statistics.mjs'

const OFF = { prefetch: 0 }

export const scenario = {
  name: 'prefetch',
  title: 'What prefetch costs others: an urgent job behind a backlog, and long jobs on four workers',
  metrics: [
    { name: 'p50', label: 'urgent job starts, p50 ms', better: 'lower' },
    { name: 'p99', label: 'urgent job starts, p99 ms', unit: 'ms', better: 'lower' },
    { name: 'seconds', label: '300 jobs of 100 ms, seconds', better: 'lower' },
  ],
  cases(scale) {
    const urgent = {
      kind: 'urgent',
      processes: 1,
      slots: 100,
      limit: 100,
      n: scale(400_000),
      probes: scale(300, 20),
    }
    const other = { ...urgent, urgentTask: true }
    const long = { kind: 'long', processes: 4, slots: 25, limit: 100, n: 300, jobMs: 100 }
    return [
      { id: 'urgent', label: 'urgent job, prefetch on', system: 'sluice', params: urgent },
      {
        id: 'urgent, off',
        label: 'urgent job, prefetch off',
        system: 'sluice',
        params: { ...urgent, ...OFF },
      },
      { id: 'other task', label: 'urgent job of another task, prefetch on', system: 'sluice', params: other },
      {
        id: 'other task, off',
        label: 'urgent job of another task, prefetch off',
        system: 'sluice',
        params: { ...other, ...OFF },
      },
      { id: 'long', label: 'long jobs, prefetch on', system: 'sluice', params: long },
      { id: 'long, off', label: 'long jobs, prefetch off', system: 'sluice', params: { ...long, ...OFF } },
    ]
  },
  goals: [
    {
      metric: 'p99',
      of: 'urgent',
      against: ['urgent, off'],
      atMostMore: 30,
      row: 'Time to start an urgent job behind a backlog, p99',
      beside: 'Sluice, prefetch off',
    },
    {
      metric: 'p99',
      of: 'other task',
      against: ['other task, off'],
      atMostMore: 30,
      row: 'Time to start an urgent job of another task behind a backlog, p99',
      beside: 'Sluice, prefetch off',
    },
    {
      metric: 'seconds',
      of: 'long',
      against: ['long, off'],
      atMost: 1.05,
      row: 'Time until 300 jobs of 100 ms on 4 workers have ended',
      beside: 'Sluice, prefetch off',
    },
  ],
  run: (measurement, params) =>
    params.kind === 'urgent' ? runUrgent(measurement, params) : runLong(measurement, params),
}

/** While a backlog of jobs that take no time is drained, jobs of higher priority are submitted one by one. */
async function runUrgent(measurement, { processes, slots, limit, prefetch, urgentTask, n, probes }) {
  const options = { limit, prefetch, urgentTask }
  const system = await measurement.open(options)
  await system.setup()
  await system.bulkEnqueue(n)
  await measurement.checkpoint()
  const workers = await measurement.startAgents(processes, 'worker', options)
  await workers.askAll('work', { slots, lanes: 1, jobMs: 0 })
  await workers.untilFinished(n / 20)
  for (let i = 0; i < probes && workers.finished < n; i++) {
    await system.enqueueUrgent({ t: now() })
    await pause(5)
  }
  await workers.untilFinished(n)
  const delays = (await workers.askAll('startDelays')).flat()
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99), jobs: delays.length }
}

async function runLong(measurement, { processes, slots, limit, prefetch, n, jobMs }) {
  const options = { limit, prefetch }
  const system = await measurement.open(options)
  await system.setup()
  const workers = await measurement.startAgents(processes, 'worker', options)
  await workers.askAll('work', { slots, lanes: 1, jobMs })
  // So that the task has been measured.
  await system.bulkEnqueue(n)
  await workers.untilFinished(n)
  await measurement.untilDurable(system)
  const from = now()
  await system.bulkEnqueue(n)
  await workers.untilFinished(2 * n)
  await measurement.untilDurable(system)
  return { seconds: (now() - from) / 1000 }
}
