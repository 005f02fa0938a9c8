import { beforeAll, expect, test, vi } from 'vitest'
import { hasCode, sluice } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { FleetProcesses, kill, POOL_CONFIG } from '../support/fleet-processes.ts'
import { expectGone } from '../support/processes.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

vi.setConfig({ testTimeout: 120_000 })

const database = useDatabase()
// No worker runs more than its capacity, at any commit. Times of jobs cannot tell: a start is as old as the cycle that waited for its turn.
useCommitChecker(database)
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_LOG: 'warn' })
const fleet = new FleetProcesses(database, cli)

beforeAll(() => cli.write('sluice.yaml', POOL_CONFIG))

test('fifteen jobs without a worker: three are started, at most three run, all end well, the workers leave', async () => {
  const up = await fleet.serve('up')
  const app = await sluice({ database: database.url, publish: false })
  try {
    await app.submitMany('work', Array(15).fill(null))
    const refused: unknown = await app.submit('work', null).catch((error: unknown) => error)
    expect(hasCode(refused, 'ADMISSION_REJECTED')).toBe(true)

    await untilNoneLeft(async () => 15 - (await fleet.count(`state = 'completed'`)), 'all to end')
    await until(async () => (await fleet.pids()).length === 0, 'the workers to leave', 60_000)

    expect(await fleet.mostWorkers()).toBe(3)
    const { pools, decisions } = await app.fleet()
    expect(pools[0]).toMatchObject({ overflow: 0, workers: 0, failed: 0, arrived: 3 })
    const came = decisions.flatMap(({ workers }) => workers)
    expect(came.reduce((sum, { done }) => sum + done, 0)).toBe(15)
    expect(came.map(({ endedWhy }) => endedWhy)).toEqual(Array(3).fill(expect.stringMatching(/^idle for/)))
  } finally {
    await app.close()
  }
  expect(await up.end('SIGTERM')).toBe(0)
})

test('servers and workers that are killed while workers come and go: no job is lost, no limit broken', async () => {
  const servers = [await fleet.serve('server'), await fleet.serve('server')]
  const app = await sluice({ database: database.url, publish: false })
  try {
    await app.submitMany('work', Array(15).fill(null))
    const asked = async () => (await app.fleet()).decisions.some(({ endedAt }) => endedAt === null)
    await until(asked, 'a request to be open', 60_000)
    // Whichever of the two has asked, the other goes on.
    await servers[0]!.end('SIGKILL')

    await until(async () => (await fleet.pids()).length > 0, 'a worker', 60_000)
    const [victim] = await fleet.pids()
    kill(victim!)
    await untilNoneLeft(async () => 30 - (await fleet.count(`state = 'completed'`)), 'all to end')
    expect(await fleet.count(`state = 'failed'`)).toBe(0)
    expect(await fleet.mostWorkers()).toBeLessThanOrEqual(3)

    const left = await fleet.pids()
    await until(async () => (await fleet.pids()).length === 0, 'the workers to leave', 60_000)
    await expectGone(...left)
  } finally {
    await app.close()
  }
})
