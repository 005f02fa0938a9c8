import pino from 'pino'
import { FleetKeeper } from '../../dist/fleet/fleet-keeper.js'

export const POOLS = {
  'gpu-burst': {
    min: 0,
    max: 4,
    capacity: 6,
    labels: { zone: 'eu-1', gpu: 'a100' },
  },
  'render-farm': {
    min: 0,
    max: 3,
    capacity: 4,
    labels: { zone: 'eu-3', cores: 64 },
  },
}

/**
 * Films that only workers of the farm can render wait; the farm asks for two workers, and gets one of them, which begins.
 *
 * @param start Starts a worker with these options.
 */
export async function overflow(demo, start) {
  await demo.client('shop').submitMany(
    'films.render',
    Array.from({ length: 8 }, (_, n) => ({ n, hold: n > 1, at: n / 10, message: `scene ${1 + n} of 12` })),
    { tags: ['studio'] },
  )
  const farm = {
    async start({ token, pool, members, capacity, labels }) {
      const [first, ...others] = members
      await start({ name: `${pool}-1`, capacity, labels, inPool: pool, request: `${token}.${first}` })
      const message = 'there is no capacity for c7i.16xlarge in eu-3 now'
      return {
        instances: [{ member: first, id: 'i-0e41c9' }],
        failures: others.map((member) => ({ member, message })),
      }
    },
    describe: (ids) => Promise.resolve(ids.map((id) => ({ id, state: 'running' }))),
    stop: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
  const keeper = new FleetKeeper({
    db: demo.app.services.db,
    log: pino({ level: 'silent' }),
    name: 'demo',
    provisioners: new Map([['render-farm', farm]]),
    momentMs: 0,
  })
  const end = Date.now() + 30_000
  for (;;) {
    await keeper.tend()
    const { decisions } = await demo.app.fleet()
    if (decisions[0]?.outcome === 'arrived') break
    if (Date.now() > end) throw new Error(`the farm has no worker: ${JSON.stringify(decisions)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  await keeper.stop()
}
