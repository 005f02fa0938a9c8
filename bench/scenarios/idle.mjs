import { Redis } from 'ioredis'
import { now, pause } from '../harness/clock.mjs'

const SETTLE_MS = 5000

export const scenario = {
  name: 'idle',
  title: 'Statements a second of one idle worker process',
  metrics: [
    { name: 'queriesPerSecond', label: 'queries/s', better: 'lower' },
    { name: 'transactionsPerSecond', label: 'transactions/s', better: 'lower' },
  ],
  cases(scale) {
    return [
      'sluice',
      'graphile',
      'graphile-tuned',
      'pgboss',
      'pgboss-notify',
      'bullmq',
      'bullmq-postgres',
    ].map((system) => ({
      id: system,
      system,
      params: { slots: 10, seconds: scale.seconds(30), limit: system === 'sluice' ? 10 : null },
    }))
  },
  goals: [{ metric: 'queriesPerSecond', of: 'sluice', atMost: 2 }],
  /** For Redis, commands count as queries. */
  async run(measurement, { slots, seconds, limit }) {
    await measurement.recordStatements()
    const system = await measurement.open({ limit })
    await system.setup()
    await system.close()
    const workers = await measurement.startAgents(1, 'worker', { limit })
    await workers.askAll('work', { slots, lanes: 1, jobMs: 0 })
    await pause(SETTLE_MS)
    const before = await totals(measurement)
    await pause(seconds * 1000)
    const after = await totals(measurement)
    const elapsed = (after.at - before.at) / 1000
    return {
      queriesPerSecond: (after.calls - before.calls) / elapsed,
      transactionsPerSecond: (after.transactions - before.transactions) / elapsed,
      statements: await measurement.topStatements(),
    }
  },
}

async function totals(measurement) {
  const at = now()
  if (measurement.redis !== null) return { at, calls: await commandCount(measurement.redis), transactions: 0 }
  const [{ calls }, { transactions }] = [
    await measurement.statementTotals(),
    await measurement.databaseCounters(),
  ]
  return { at, calls, transactions }
}

async function commandCount({ host, port }) {
  const client = new Redis({ host, port })
  const info = await client.info('stats')
  client.disconnect()
  return Number(/total_commands_processed:(\d+)/.exec(info)[1])
}
