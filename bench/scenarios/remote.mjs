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
    ]
  },
  goals: [{ metric: 'jobsPerSecond', of: 'remote', against: ['direct'], atLeast: 0.5 }],
  async run(measurement, { remote = false, ...params }) {
    if (!remote) return (await drain(measurement, params)).figures
    let server
    try {
      const { figures } = await drain(measurement, params, async () => {
        server = await serveSluice(measurement.url, { task: 'unused', ceiling: 10_000_000 })
        const key = server.headers.authorization.slice('Bearer '.length)
        return { remote: { server: new URL(server.url).origin, key } }
      })
      return figures
    } finally {
      await server?.close()
    }
  },
}
