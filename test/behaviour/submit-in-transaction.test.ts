import { drizzle } from 'drizzle-orm/node-postgres'
import knexOf from 'knex'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Sluice, type TransactionLike, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)
const audit = task({ name: 'audit', run: (_: unknown) => null })

let pool: pg.Pool
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: database.url, max: 3 })
  await database.sql('create table orders (name text primary key)')
})
afterAll(() => pool.end())

/** One way to run work in a transaction: `work` gets what is given to Sluice, and a way to write the app's own data. */
interface Library {
  readonly name: string
  transact(
    work: (tx: TransactionLike, insert: (order: string) => Promise<unknown>) => Promise<void>,
  ): Promise<void>
}

const INSERT = 'insert into orders (name) values ($1)'

const libraries: Library[] = [
  {
    name: 'a Client of pg',
    async transact(work) {
      const client = new pg.Client(database.url)
      await client.connect()
      try {
        await client.query('begin')
        await work(client, (order) => client.query(INSERT, [order]))
        await client.query('commit')
      } finally {
        await client.end()
      }
    },
  },
  {
    name: 'a PoolClient of pg',
    async transact(work) {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await work(client, (order) => client.query(INSERT, [order]))
        await client.query('commit')
      } catch (error) {
        await client.query('rollback')
        throw error
      } finally {
        client.release()
      }
    },
  },
  {
    name: 'Drizzle',
    async transact(work) {
      const db = drizzle(pool)
      await db.transaction((tx) =>
        work(tx, (order) => tx.execute(`insert into orders (name) values ('${order}')`)),
      )
    },
  },
  {
    name: 'Drizzle on a single client, in a nested transaction',
    async transact(work) {
      const client = new pg.Client(database.url)
      await client.connect()
      try {
        await drizzle(client).transaction((outer) =>
          outer.transaction((tx) =>
            work(tx, (order) => tx.execute(`insert into orders (name) values ('${order}')`)),
          ),
        )
      } finally {
        await client.end()
      }
    },
  },
  {
    name: 'Kysely',
    async transact(work) {
      const db = new Kysely<{ orders: { name: string } }>({ dialect: new PostgresDialect({ pool }) })
      await db
        .transaction()
        .execute((tx) => work(tx, (name) => tx.insertInto('orders').values({ name }).execute()))
    },
  },
  {
    name: 'Knex',
    async transact(work) {
      const knex = knexOf({ client: 'pg', connection: knexConnection(), pool: { min: 0, max: 1 } })
      try {
        await knex.transaction((tx) => work(tx, (name) => tx('orders').insert({ name })))
      } finally {
        await knex.destroy()
      }
    },
  },
  {
    name: 'a function',
    async transact(work) {
      const db = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) })
      await db.transaction().execute((tx) => {
        const client = tx.getExecutor()
        const run = async (text: string, values: unknown[]) => {
          const query = {
            sql: text,
            parameters: values,
            query: { kind: 'RawNode' },
            queryId: { queryId: 'x' },
          }
          return (await client.executeQuery(query as never)).rows
        }
        return work(run, (order) => sql`insert into orders (name) values (${order})`.execute(tx))
      })
    },
  },
]

describe.each(libraries)('with $name', ({ name, transact }) => {
  test('a job is stored by the commit that stores the app\u2019s data, and runs only then', async () => {
    const ran: unknown[] = []
    const note = task({ name: 'note', run: (input: unknown) => void ran.push(input) })
    const app = await apps.open({ tasks: [note] })
    await app.work()
    const order = `committed ${name}`
    let id = ''

    await transact(async (tx, insert) => {
      await insert(order)
      id = (await app.submit(note, { order }, { transaction: tx, key: order, tags: ['a?b $1'] })).id
      await app.submitMany(note, [`${order} 1`, `${order} 2`], { transaction: tx })
      expect(await visible(app, id)).toBe(false)
      expect(ran).toEqual([])
    })

    await app.job(id).result()
    expect(await app.getJob(id)).toMatchObject({ status: 'completed', key: order, tags: ['a?b $1'] })
    await expect.poll(() => ran.length).toBe(3)
    expect(await orders(order)).toBe(1)
  })

  test('a rollback leaves nothing', async () => {
    const app = await apps.open({ tasks: [audit] })
    const order = `rolled back ${name}`
    let id = ''

    await expect(
      transact(async (tx, insert) => {
        await insert(order)
        id = (await app.submit(audit, { order }, { transaction: tx })).id
        await app.submitMany(audit, [1, 2, 3], { transaction: tx })
        throw new Error('no order after all')
      }),
    ).rejects.toThrow('no order after all')

    expect(await visible(app, id)).toBe(false)
    expect(await app.listJobs({ task: 'audit' })).toEqual([])
    expect(await orders(order)).toBe(0)
  })

  test('what Sluice refuses has its own code and message', async () => {
    const app = await apps.open({ tasks: [audit] })
    const holder = await app.submit(audit, 1, { key: `k - ${name}` })

    for (const [submit, code, message] of [
      [
        (tx: TransactionLike) => app.submit(audit, 2, { transaction: tx, key: `k - ${name}` }),
        'KEY_CONFLICT',
        /^key 'k - /,
      ],
      [
        (tx: TransactionLike) => app.submit('nobody', 2, { transaction: tx }),
        'TASK_NOT_FOUND',
        /^no task named/,
      ],
    ] as const) {
      const refused = transact(async (tx) => void (await submit(tx)))
      await expect(refused).rejects.toMatchObject({ code, message: expect.stringMatching(message) })
    }
    await app.cancel(holder.id)
    await app.remove(holder.id)
  })
})

test('a pool, a whole database object or anything else is refused: it would not be the same commit', async () => {
  const app = await apps.open({ tasks: [audit] })
  const knex = knexOf({ client: 'pg', connection: knexConnection() })
  const client = await pool.connect()
  const others: [unknown, RegExp][] = [
    [pool, /a pool is not a transaction; pass the `client`/],
    [drizzle(pool), /the Drizzle database itself is not a transaction; pass the `tx`/],
    [new Kysely({ dialect: new PostgresDialect({ pool }) }), /the Kysely object itself is not a transaction/],
    [knex, /the knex object itself is not a transaction; pass the `trx`/],
    [client, /this client is not in a transaction, so the job would be stored immediately; send BEGIN first/],
    [{}, /this transaction is not of a supported kind; pass a client of pg/],
    [null, /this transaction is not of a supported kind/],
    ['begin', /this transaction is not of a supported kind/],
    [async () => undefined, /did not return rows/],
  ]
  for (const [transaction, message] of others) {
    const submitted = app.submit(audit, 1, { transaction: transaction as TransactionLike })
    await expect(submitted).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(message),
    })
  }
  await knex.destroy()
  expect(await app.listJobs({ task: 'audit' })).toEqual([])
  // One that is on its way counts.
  void client.query('begin')
  await app.submit(audit, 1, { transaction: client })
  await client.query('rollback')
  client.release()
  expect(await app.listJobs({ task: 'audit' })).toEqual([])
})

test('what the caller\u2019s own function throws comes back as it is', async () => {
  const app = await apps.open({ tasks: [audit] })
  const broken = new TypeError('my own mistake')

  await expect(app.submit(audit, 1, { transaction: () => Promise.reject(broken) })).rejects.toBe(broken)
})

test('a job is found by its handle where the caller\u2019s library gives ids as BigInt', async () => {
  const quick = task({ name: 'bigint', run: (n: number) => n })
  const app = await apps.open({ tasks: [quick] })
  await app.work()

  const job = await app.submit(quick, 7, {
    // As `$queryRawUnsafe` of Prisma 7 does it.
    transaction: async (text, values) =>
      (await pool.query(text, values)).rows.map((row) => ({ ...row, id: BigInt(row.id) })),
  })

  expect(typeof job.id).toBe('string')
  expect(await job.result()).toBe(7)
})

test('an open transaction does not keep others from submitting and starting', async () => {
  const quick = task({ name: 'quick', run: (n: number) => n })
  const app = await apps.open({ tasks: [quick] })
  await app.work()
  const client = await pool.connect()
  try {
    await client.query('begin')
    await app.submit(quick, 1, { transaction: client })
    const others = await Promise.all([2, 3, 4].map((n) => app.submit(quick, n)))
    expect(await Promise.all(others.map((job) => job.result()))).toEqual([2, 3, 4])
    await client.query('rollback')
  } finally {
    client.release()
  }
})

async function visible(app: Sluice, id: string): Promise<boolean> {
  return (await app.listJobs({ ids: [id] })).length === 1
}

async function orders(name: string): Promise<number> {
  return (await database.sql('select 1 from orders where name = $1', [name])).length
}

function knexConnection(): string | { host: string; port: number; user: string; database: string } {
  const url = new URL(database.url)
  const host = url.searchParams.get('host')
  if (host === null) return database.url
  const user = url.searchParams.get('user') ?? url.username
  return { host, port: Number(url.searchParams.get('port') ?? url.port), user, database: database.name }
}
