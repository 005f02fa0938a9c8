import { drain } from '../harness/drain.mjs'
import { serveSluice } from '../harness/serve.mjs'

const PROCESSES = 4
const SLOTS = 50

export const scenario = {
  name: 'remote',
  title: 'Drain of 60,000 waiting no-op jobs, four workers of 50 slots, directly and through one server',
  metrics: [{ name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' }],
  cases(scale) {
    const params = { n: scale(60_000), processes: PROCESSES, slots: SLOTS, limit: PROCESSES * SLOTS }
    return [
      { id: 'direct', label: 'Sluice, direct workers', system: 'sluice', params },
      {
        id: 'remote',
        label: 'Sluice, workers behind one server',
        system: 'sluice',
        params: { ...params, remote: true },
      },
      { id: 'before', system: 'sluice-before', params: { ...params, remote: true } },
    ]
  },
  goals: [
    {
      metric: 'jobsPerSecond',
      of: 'remote',
      against: ['before'],
      atLeast: 1.3,
      row: 'Drain through one server, 4 workers x 50 slots',
    },
    { metric: 'jobsPerSecond', of: 'remote', against: ['direct'] },
  ],
  async run(measurement, { remote = false, ...params }) {
    if (!remote) return (await drain(measurement, params)).figures
    let server
    try {
      const { figures } = await drain(measurement, params, async () => {
        server = await serveSluice(measurement.url, {
          task: 'unused',
          ceiling: 10_000_000,
          checkout: measurement.checkout,
        })
        const { origin } = new URL(server.url)
        await allowAll(origin, server.headers)
        return { remote: { server: origin, key: server.headers.authorization.slice('Bearer '.length) } }
      })
      return figures
    } finally {
      await server?.close()
    }
  },
}

/** The first key, an administrator's, runs nothing by itself. */
async function allowAll(origin, headers) {
  const answer = await fetch(`${origin}/api/v1/keys/1`, {
    method: 'PATCH',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ runs: { tasks: ['*'], lanes: ['*'] } }),
  })
  if (!answer.ok) throw new Error(`the key could not be changed: ${await answer.text()}`)
}
