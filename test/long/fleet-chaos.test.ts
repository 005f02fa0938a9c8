import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test, vi } from 'vitest'
import { hasCode, sluice } from '../../src/index.ts'
import { Cli, type Running } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { processesOf } from '../support/embedded.ts'
import { FleetProcesses, kill, POOL_CONFIG } from '../support/fleet-processes.ts'
import { SeededRandom } from '../support/seeded-random.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

vi.setConfig({ testTimeout: 600_000 })

const FOR_MS = 120_000
const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_LOG: 'error' })
const fleet = new FleetProcesses(database, cli)
const commits = useCommitChecker(database)

// A job may be lost with its worker more often here than anywhere else.
beforeAll(() =>
  cli.write('sluice.yaml', POOL_CONFIG.replace('attempts: 1 } }', 'attempts: 1 }, losses: 100 }')),
)

/** Processes of workers, those included that have not said a word yet. */
async function started(): Promise<number[]> {
  return (await processesOf(cli.folder)).map(({ pid }) => pid)
}

test('any mix of servers and workers killed for two minutes, in waves of work: all jobs end, no limit is broken', async () => {
  const seed = Number(process.env.SLUICE_CHAOS_SEED ?? 6)
  const seeded = new SeededRandom(seed)
  const random = () => seeded.next()
  const servers: Running[] = [await fleet.serve('server'), await fleet.serve('server')]
  const app = await sluice({ database: database.url, publish: false })
  const killed = { workers: 0, servers: 0, together: 0 }
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
      // Each of them or not, at the same moment: one, several, all workers, all servers, everything.
      const harm = random()
      const workers = (await started()).filter(() => random() < harm)
      const down = servers.filter(() => random() < harm * 0.5)
      for (const pid of [...workers, ...down.map((server) => server.process.pid!)]) kill(pid)
      killed.workers += workers.length
      killed.servers += down.length
      if (workers.length > 0 && down.length > 0) killed.together++
      for (const server of down) servers[servers.indexOf(server)] = await fleet.serve('server')
    }
    await until(async () => (await fleet.count(`state = 'completed'`)) === submitted, 'all to end', 180_000)
    expect(await fleet.count(`state <> 'completed'`)).toBe(0)
    expect(await fleet.mostWorkers()).toBeLessThanOrEqual(3)
    await until(async () => (await fleet.pids()).length === 0, 'the workers to leave', 60_000)
    await until(async () => (await started()).length === 0, 'their processes to end', 60_000)
    const open = async () => (await app.fleet()).decisions.filter(({ endedAt }) => endedAt === null)
    await until(async () => (await open()).length === 0, 'requests to end', 60_000)
    const { seen, fleet: left } = await commits.catchUp()
    console.log(JSON.stringify({ seed, submitted, killed, ...seen, left: left.seen.left }))
    expect(killed.together).toBeGreaterThan(0)
    expect(seen.takeovers).toBeGreaterThan(0)
  } finally {
    await app.close()
  }
})
