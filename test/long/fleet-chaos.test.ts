import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test, vi } from 'vitest'
import { hasCode, sluice } from '../../src/index.ts'
import { Cli, type Running } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { FleetProcesses, kill, POOL_CONFIG } from '../support/fleet-processes.ts'
import { SeededRandom } from '../support/seeded-random.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 600_000 })

const FOR_MS = 120_000
const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_LOG: 'error' })
const fleet = new FleetProcesses(database, cli)

// A job may be lost with its worker more often here than anywhere else.
beforeAll(() =>
  cli.write('sluice.yaml', POOL_CONFIG.replace('attempts: 1 } }', 'attempts: 1 }, losses: 100 }')),
)

test('any mix of servers and workers killed for two minutes, in waves of work: all jobs end, no limit is broken', async () => {
  const seeded = new SeededRandom(6)
  const random = () => seeded.next()
  const servers: Running[] = [await fleet.serve('server'), await fleet.serve('server')]
  const app = await sluice({ database: database.url, publish: false })
  let submitted = 0
  const end = performance.now() + FOR_MS
  try {
    while (performance.now() < end) {
      const wave = 1 + Math.floor(random() * 15)
      const sent = await app.submitMany('work', Array(wave).fill(null)).catch((error: unknown) => {
        if (hasCode(error, 'ADMISSION_REJECTED')) return []
        throw error
      })
      submitted += sent.length
      // Not a wait for something: the pause is what varies where in a rise or fall the next blow lands.
      await delay(random() * 4000)
      const pids = await fleet.pids()
      if (random() < 0.5 && pids.length > 0) kill(pids[Math.floor(random() * pids.length)]!)
      if (random() < 0.3) {
        const at = Math.floor(random() * servers.length)
        kill(servers[at]!.process.pid!)
        servers[at] = await fleet.serve('server')
      }
    }
    await until(async () => (await fleet.count(`state = 'completed'`)) === submitted, 'all to end', 180_000)
    expect(await fleet.count(`state <> 'completed'`)).toBe(0)
    const most = await fleet.most()
    expect(most.running).toBeLessThanOrEqual(3)
    expect(most.workers).toBeLessThanOrEqual(3)
    await until(async () => (await fleet.pids()).length === 0, 'the workers to leave', 60_000)
    const open = async () => (await app.fleet()).decisions.filter(({ endedAt }) => endedAt === null)
    await until(async () => (await open()).length === 0, 'requests to end', 60_000)
  } finally {
    await app.close()
  }
})
