import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { isCycle, type RequestProxy, startRequestProxy } from '../support/request-proxy.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 90_000 })

const database = useDatabase()
const apps = useApps(database)
const FAST_MS = 100
const SLOW_MS = 1000
/** Less than the shortest poll with its jitter: a request may reach the database late, and the next one in time. */
const SHORTEST = 0.75
const LANES = {
  fast: { perWorker: 5, poll: FAST_MS },
  slow: { perWorker: 5, poll: SLOW_MS },
  rare: { perWorker: 5, poll: '1h' },
} as const
const tasks = (['fast', 'slow', 'rare'] as const).map((lane) =>
  task({ name: lane, lane, run: (n: number) => n }),
)

/** When each lane was looked at, as the database was asked. */
const looks: Record<string, number[]> = { fast: [], slow: [], rare: [] }
let proxy: RequestProxy

beforeAll(async () => {
  proxy = await startRequestProxy(database.url)
  proxy.takeOver((request) => {
    if (request.applicationName === 'sluice-listen') {
      // Hints are not heard, so that polls are all there is.
      request.ignore()
      return true
    }
    if (isCycle(request)) noteLook(request.text)
    return false
  })
})
afterAll(() => proxy.close())

/** The lanes of a cycle without endings, how many jobs have ended and how many run in each, and how many are wanted of each. */
function noteLook(text: string): void {
  const [lanes, , , want] = [...text.matchAll(/\{([^{}]*)\}/g)].map(([, list]) =>
    list!.split(',').map((each) => each.replaceAll('"', '')),
  )
  for (const [n, lane] of lanes!.entries()) if (Number(want![n]) > 0) looks[lane]?.push(performance.now())
}

function gaps(times: readonly number[]): number[] {
  return times.slice(1).map((at, n) => at - times[n]!)
}

test('an idle worker polls each lane at its own interval, and at a changed one at once', async () => {
  const operator = await apps.open({ tasks, lanes: LANES })
  const worker = await apps.open({ tasks, database: proxy.url, heartbeat: '300ms', stale: '5s' })
  await worker.work({ capacity: 5 })
  // What looks around at the start looks everywhere.
  await until(() => looks.slow!.length > 1 && looks.fast!.length > 30, 'the start to be over', 60_000)
  for (const times of Object.values(looks)) times.length = 0

  await until(() => looks.slow!.length === 4, 'four polls of the slow lane', 60_000)
  expect(Math.min(...gaps(looks.slow!))).toBeGreaterThan(SHORTEST * SLOW_MS)
  expect((looks.fast!.at(-1)! - looks.fast![0]!) / (looks.fast!.length - 1)).toBeGreaterThan(
    SHORTEST * FAST_MS,
  )
  expect(looks.fast!.length).toBeGreaterThan(2 * looks.slow!.length)
  expect(looks.rare).toEqual([])

  await operator.setLane('rare', { poll: '200ms' })
  await operator.setLane('slow', { poll: '1h' })
  await until(() => looks.rare!.length > 2, 'the changed poll to take effect', 60_000)
  const before = looks.slow!.length
  await until(() => looks.rare!.length > 8, 'more polls')
  // One look, at most, is that of the change.
  expect(looks.slow!.length - before).toBeLessThanOrEqual(1)
  await operator.resetLane('slow')
  await operator.resetLane('rare')
})
