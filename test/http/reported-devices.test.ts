import { beforeAll, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

// Whose word counts about a device. Workers are played by hand: they say of themselves what they like.
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, {
  tasks: [echo],
  stale: '10m',
  budgets: { vram: { devices: 'auto' }, scratch: { disk0: 100 } },
})
const keys = { honest: '', liar: '' }

beforeAll(async () => {
  keys.honest = await server.keyOf('worker', 'honest')
  keys.liar = await server.keyOf('worker', 'liar')
})

async function worker(by: keyof typeof keys, host: string, key = keys[by]) {
  const body = { name: by, capacity: 1, cores: 1, tasks: [{ name: 'echo' }], host }
  const { id } = (await server.call('POST', '/workers', { key, body })).json<{ id: string }>()
  return {
    report: async (budget: string, device: string, total: number | null, more: object = {}) => {
      const devices = [{ budget, key: device, total, ...more }]
      return (await server.call('POST', `/workers/${id}/devices`, { key, body: { devices } })).status
    },
    close: () => server.call('POST', `/workers/${id}/close`, { key, body: {} }),
  }
}

const devices = () =>
  database.sql<{ key: string; host: string; total: number }>(
    `select d.key, d.host, d.total, array(select w.name from sluice.worker_devices o join sluice.workers w on w.id = o.worker_id and w.ended_at is null
        where o.budget = d.budget and o.device = d.key order by 1) as by from sluice.devices d where d.key <> '' order by 1`,
  )

test('a device that a live worker offers cannot be changed or offered by somebody else', async () => {
  const honest = await worker('honest', 'box')
  const liar = await worker('liar', 'box')
  await honest.report('vram', 'GPU-a', 1000)
  const before = await devices()
  expect(before).toEqual([{ key: 'GPU-a', host: 'box', total: 1000, by: ['honest'] }])

  await liar.report('vram', 'GPU-a', 1e18)
  await liar.report('vram', 'GPU-a', 0, { lost: true })
  expect(await devices()).toEqual(before)

  // Another container of the machine, and another key of the same owner.
  const second = await worker('honest', 'container', await server.keyOf('worker', 'honest'))
  await second.report('vram', 'GPU-a', 1000)
  expect(await devices()).toMatchObject([{ key: 'GPU-a', total: 1000, by: ['honest', 'honest'] }])

  await honest.close()
  await second.close()
  await liar.report('vram', 'GPU-a', 500)
  expect(await devices()).toMatchObject([{ key: 'GPU-a', total: 500, by: ['liar'] }])
  await liar.close()
})

test('what is neither a GPU nor of its own host, or not declared, is not taken; a declared one has what the file says', async () => {
  const known = (await devices()).length
  const liar = await worker('liar', 'box')
  await liar.report('vram', 'box/gpu7', 5)
  await liar.report('vram', 'other/cpu', null)
  await liar.report('scratch', 'other/disk0', 5, { name: 'disk0' })
  await liar.report('scratch', 'box/disk1', 5, { name: 'disk1' })
  expect(await devices()).toHaveLength(known)
  await liar.report('scratch', 'box/disk0', 1e18, { name: 'disk0' })
  expect(await devices()).toContainEqual({ key: 'box/disk0', host: 'box', total: 100, by: ['liar'] })
  // The machine had GPU-a: who knows nothing of it is not taken to run without bounds, who is sure to use none is.
  await liar.report('vram', 'box/cpu', null)
  expect(await devices()).toHaveLength(known + 1)
  await liar.report('vram', 'box/cpu', null, { ageMs: 0 })
  expect(await devices()).toContainEqual({ key: 'box/cpu', host: 'box', total: null, by: ['liar'] })
  for (const odd of ['GPU-a\nb', 'GPU-ä', '<script>', 'x'.repeat(401)])
    expect(await liar.report('vram', odd, 1)).toBe(400)
  expect(await liar.report('vram', 'GPU-b', 1, { name: 'a\u0007b' })).toBe(400)
  await liar.close()
})
