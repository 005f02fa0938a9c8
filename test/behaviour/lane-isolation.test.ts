import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

const POLL_MS = 400

test.each(['full', 'disabled'] as const)(
  'a %s lane with 10,000 jobs ahead does not delay another, even for a worker of capacity 1 that hears no hint',
  async (how) => {
    const gate = new Gate()
    const names = ['a', 'b', 'z'].map((each) => `${how}-${each}`)
    const [crowd, other, last] = names as [string, string, string]
    const crowded = task({ name: crowd, lane: crowd, run: () => gate.pass() })
    const free = task({ name: other, lane: other, run: (n: number) => n })
    const crowdedToo = task({ name: last, lane: last, run: () => gate.pass() })
    const lanes = {
      [crowd]: { slots: 1, poll: POLL_MS },
      [other]: { slots: 1, poll: POLL_MS },
      [last]: { slots: 1, poll: POLL_MS },
    }
    const tasks = [crowded, free, crowdedToo]
    const holder = await apps.open({ tasks, lanes })
    if (how === 'full') {
      await holder.submitMany(crowded, [undefined])
      await holder.submitMany(crowdedToo, [undefined])
      await holder.work({ capacity: 2 })
      await gate.arrived(2)
    } else {
      await holder.setLane(crowd, { enabled: false })
      await holder.setLane(last, { enabled: false })
    }
    await holder.submitMany(crowded, Array.from({ length: 10_000 }), { priority: 100 })
    await holder.submitMany(crowdedToo, Array.from({ length: 10_000 }), { priority: 100 })

    const proxy = await startProxy(database.url)
    proxy.onConnect((connection) => {
      if (connection.applicationName === 'sluice-listen') connection.blackhole()
    })
    const worker = await apps.open({ tasks, database: proxy.through(database.url) })
    await worker.work({ capacity: 1 })
    const [cycles] = proxy.connections('sluice-cycle')
    let [said, since] = [-1, 0]
    /** It looks again and again for a moment after each job; then only the poll is left. */
    const rests = () => {
      const { requests } = cycles!.bytes
      if (requests !== said) [said, since] = [requests, performance.now()]
      return performance.now() - since > 100
    }
    try {
      const waits: number[] = []
      for (let n = 0; n < 6; n++) {
        await until(rests, 'the worker to rest')
        const job = await holder.submit(free, n)
        expect(await job.result()).toBe(n)
        const { readyAt, startedAt } = await holder.getJob(job.id)
        waits.push(startedAt!.getTime() - readyAt.getTime())
      }
      // Each within one poll, which has a tenth of jitter; a busy machine may spoil one.
      expect(
        waits.filter((wait) => wait > 1.1 * POLL_MS + 150).length,
        `waits of ${waits.join(', ')} ms`,
      ).toBeLessThan(2)
      expect(gate.arrivals.length).toBe(how === 'full' ? 2 : 0)
    } finally {
      await database.sql(
        `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state = 'ready'`,
      )
      gate.open()
      await worker.close()
      await proxy.close()
    }
  },
)
