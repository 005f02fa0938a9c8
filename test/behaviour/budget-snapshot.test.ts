import { expect, onTestFinished, test } from 'vitest'
import { Database, type Queryable } from '../../src/db/database.ts'
import { viewBudgets } from '../../src/engine/views/budget-view.ts'
import { describeVerdict, type Subject } from '../../src/engine/views/why-budget.ts'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { endWorkers } from '../support/state/models.ts'

const database = useDatabase()
const apps = useApps(database)
const GB = 1024 ** 3

test('shows devices and what is loaded on them at one time, also when a worker is taken over in between', async () => {
  const chat = task({ name: 'chat', model: 'llama', uses: { vram: '16GB' }, run: (_: string) => null })
  const app = await apps.open({ tasks: [chat], budgets: { vram: { gpu0: '24GB' } } })
  await app.work({ capacity: 2 })
  await (await app.submit(chat, 'hello')).result()
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'looks' })
  onTestFinished(() => db.close())
  let ended = false
  // As soon as the copies have been read, their worker is declared dead.
  const racing = (inner: Queryable): Queryable => ({
    run: async (statement, values) => {
      const rows = await inner.run(statement, values)
      if (statement.name === 'list_copies' && !ended) {
        ended = true
        await endWorkers(database.sql)
      }
      return rows as never
    },
    ...(inner.snapshot && { snapshot: (work) => inner.snapshot!((tx) => work(racing(tx))) }),
  })

  const [device] = (await viewBudgets(racing(db))).budgets[0]!.devices
  expect(ended).toBe(true)
  expect(device!.copies).toMatchObject([{ model: 'llama' }])
  expect(device!.held).toBe(16 * GB)
  expect(device!.workers).toHaveLength(1)
  // The next answer is of another time, and as whole.
  const [later] = (await viewBudgets(db)).budgets[0]!.devices
  expect(later).toMatchObject({ held: 0, copies: [] })
})

test('names what holds a device as it is: models, running jobs, or programs outside Sluice', () => {
  const said = (held: number, heldByModels: number, room: number, by: readonly string[] = []) => {
    const device = {
      budget: 'vram',
      key: 'gpu0',
      total: 24,
      limit: null,
      capacity: 24,
      held,
      heldByModels,
      room,
    }
    const subject: Subject = {
      task: 'chat',
      model: 'llama',
      what: 'its model llama',
      budgets: [{ name: 'vram', bytes: false }],
      devices: [{ ...device, lostAt: null, workers: ['w'] }],
    }
    const verdict = { kind: 'held', budget: 'vram', device: 'gpu0', need: 16, room, by, until: null } as const
    const { reason, holder } = describeVerdict(verdict, subject)!
    expect(reason.split('; ')[1]).toBe(holder)
    return holder
  }

  expect(said(0, 0, 4)).toBe('programs outside Sluice use the rest')
  expect(said(12, 0, 12)).toBe('running jobs hold the rest')
  expect(said(12, 12, 12, ['flux'])).toBe('flux holds the rest')
  expect(said(15, 12, 9, ['flux'])).toBe('flux, running jobs hold the rest')
  expect(said(4, 4, 5, ['flux']), 'without them there would be room beside flux').toBe(
    'programs outside Sluice use the rest',
  )
})
