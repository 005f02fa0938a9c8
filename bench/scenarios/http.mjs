import { readStat, TICKS_PER_SECOND } from '../harness/machine.mjs'
import { serveSluice } from '../harness/serve.mjs'

const TASK = 'noop'
const CONNECTIONS = 64
const PLENTY = 1_000_000_000

export const scenario = {
  name: 'http',
  title: `Submissions over HTTP from ${CONNECTIONS} connections, each waiting for its own commit`,
  metrics: [
    { name: 'perSecond', label: 'requests/s', better: 'higher' },
    { name: 'p50', label: 'p50 ms', better: 'lower' },
    { name: 'p99', label: 'p99 ms', better: 'lower' },
    { name: 'nodeMicroseconds', label: 'CPU of the HTTP server, us a request', better: 'lower' },
    { name: 'allMicroseconds', label: 'with PostgreSQL, us a request', better: 'lower' },
  ],
  cases(scale) {
    const params = { seconds: scale.seconds(8) }
    return [
      { id: 'sluice', label: 'sluice server', system: 'sluice', params: { ...params, ceiling: PLENTY } },
      {
        id: 'sluice refusing',
        label: 'sluice server at its ceiling: 429',
        system: 'sluice',
        params: { ...params, ceiling: 1 },
      },
      { id: 'pgboss', label: 'pg-boss behind one Fastify route', system: 'pgboss', params },
      { id: 'bullmq', label: 'BullMQ (everysec) behind one Fastify route', system: 'bullmq', params },
      { id: 'bullmq-always', label: 'BullMQ (always) behind it', system: 'bullmq-always', params },
    ]
  },
  goals: [
    { metric: 'perSecond', of: 'sluice', against: ['pgboss'], atLeast: 2 },
    { metric: 'perSecond', of: 'sluice', against: ['bullmq'] },
    { metric: 'allMicroseconds', of: 'sluice refusing', against: ['sluice'], atMost: 0.2 },
    { metric: 'nodeMicroseconds', of: 'sluice refusing', against: ['sluice'] },
  ],
  async run(measurement, { seconds, ceiling }) {
    const loader = await measurement.startAgents(1, 'coordinator')
    const server =
      ceiling === undefined ? await thinServer(measurement) : await ownServer(measurement, ceiling)
    try {
      await measurement.checkpoint()
      const fire = (duration) =>
        loader.askAll('fire', {
          url: server.url,
          headers: server.headers,
          body: JSON.stringify({ task: TASK, input: { i: 1 } }),
          connections: CONNECTIONS,
          duration,
        })
      await fire(2)
      const cpu = async () => ({
        node: (await readStat(server.pid)).ticks / TICKS_PER_SECOND,
        postgres: await measurement.serverCpuSeconds(),
      })
      const before = await cpu()
      const [result] = await fire(seconds)
      const after = await cpu()
      const node = after.node - before.node
      const all = node + after.postgres - before.postgres
      const expected = ceiling === 1 ? 429 : 202
      for (const status of Object.keys(result.statuses))
        if (Number(status) !== expected)
          throw new Error(`answers with ${status}: ${JSON.stringify(result.statuses)}`)
      return {
        perSecond: result.perSecond,
        p50: result.p50,
        p99: result.p99,
        nodeMicroseconds: (node * 1e6) / result.total,
        allMicroseconds: (all * 1e6) / result.total,
      }
    } finally {
      await server.close()
    }
  },
}

async function ownServer(measurement, ceiling) {
  const server = await serveSluice(measurement.url, { task: TASK, ceiling })
  if (ceiling === 1) {
    // One job fills it; everything else is refused.
    const body = JSON.stringify({ task: TASK, input: null })
    const headers = { ...server.headers, 'content-type': 'application/json' }
    const { status } = await fetch(server.url, { method: 'POST', headers, body })
    if (status !== 202) throw new Error(`the first submission got ${status}`)
  }
  return server
}

async function thinServer(measurement) {
  const system = await measurement.open()
  await system.setup()
  const agents = await measurement.startAgents(1, 'producer')
  const [server] = await agents.askAll('serve', {})
  return { ...server, close: async () => {} }
}
