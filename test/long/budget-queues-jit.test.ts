import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Database, type Queryable } from '../../src/db/database.ts'
import { listBudgetQueues } from '../../src/store/list-budget-queues.ts'
import { createDatabase } from '../support/database.ts'
import { costOfBudgetQueues, plantBudgetQueues } from '../support/state/budgets.ts'

// How long reading the queues of budgets takes with Sluice's own connection, which turns JIT off, and with that of others. Only a
// server that has JIT can tell: on any other the tests are skipped, and `npm run test:long` runs them on PostgreSQL 15:
//   node test/long/on-postgresql-15.mjs --config vitest.long.config.ts test/long/budget-queues-jit.test.ts

/** A connection as any program opens it, with these settings. */
async function others(url: string, settings: Readonly<Record<string, string>>): Promise<Queryable> {
  const client = new pg.Client(url)
  await client.connect()
  onTestFinished(() => client.end())
  for (const [name, value] of Object.entries(settings)) await client.query(`set ${name} = ${value}`)
  const run = async (statement: { readonly text: string }, values: readonly unknown[]) =>
    (await client.query(statement.text, [...values])).rows
  return { run } as unknown as Queryable
}

/** The median of seven, after one that warms up. */
async function medianMs(db: Queryable): Promise<number> {
  const took: number[] = []
  for (let n = 0; n < 8; n++) {
    const began = performance.now()
    await listBudgetQueues(db, 1000)
    took.push(performance.now() - began)
  }
  return took.slice(1).sort((a, b) => a - b)[3]!
}

test.for([10, 100, 1000])(
  'reading the queues of %i budgeted classes never pays for compiling a plan',
  async (classes, { skip }) => {
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    const [server] = await database.sql<{ version: string; jit: boolean }>(
      `select current_setting('server_version') as version, pg_jit_available() as jit`,
    )
    if (!server!.jit) skip('this server has no JIT')
    await plantBudgetQueues(database.sql, classes, 100)
    const own = new Database({ url: database.url, maxConnections: 1, applicationName: 'jit' })
    onTestFinished(() => own.close())
    const figures = {
      classes,
      cost: Math.round(await costOfBudgetQueues(database.sql)),
      ownMs: await medianMs(own),
      offMs: await medianMs(await others(database.url, { jit: 'off' })),
      defaultMs: await medianMs(await others(database.url, {})),
      forcedMs: await medianMs(await others(database.url, { jit: 'on', jit_above_cost: '0' })),
    }
    console.log(server, figures)
    expect(await listBudgetQueues(own, 1000)).toHaveLength(classes)
    expect(figures.ownMs, 'with what the settings of each statement cost').toBeLessThan(
      3 * figures.offMs + 50,
    )
  },
)
