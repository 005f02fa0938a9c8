// An order and the job that ships it are stored by one commit, and an order is shipped by one job at a time.
//   npx jiti examples/keyed-transaction.ts
import pg from 'pg'
import { hasCode, sluice, task } from 'sluice'

const ship = task({
  name: 'ship',
  run: async (input: { order: string }) => `order ${input.order} is on its way`,
})

const app = await sluice({ tasks: [ship] })
const client = new pg.Client({ connectionString: app.databaseUrl })
await client.connect()
await client.query('create table if not exists orders (id text primary key)')

const order = `A-${Date.now()}`
const submit = (input: { order: string }) => app.submit(ship, input, { key: order, transaction: client })

// Rolled back: neither the order nor the job exists.
await client.query('begin')
await client.query('insert into orders (id) values ($1)', [order])
await submit({ order })
await client.query('rollback')

// Committed: both exist.
await client.query('begin')
await client.query('insert into orders (id) values ($1)', [order])
const job = await submit({ order })
await client.query('commit')

// The key is in use while the job is active: an equal submission attaches to the job, any other is rejected.
const again = await app.submit(ship, { order }, { key: order })
console.log('same job:', again.id === job.id, 'attached:', again.attached)
try {
  await app.submit(ship, { order: 'another' }, { key: order })
} catch (error) {
  if (!hasCode(error, 'KEY_CONFLICT')) throw error
  console.log('refused:', error.code)
}

await app.work()
console.log(await job.result())

await client.end()
await app.close()
