import { hasCode, type Sluice, type TaskContext, task } from '../../src/index.ts'
import type { Sql } from './database.ts'
import { once, repeated, settled } from './persistent-caller.ts'
import { patiently } from './until.ts'

/** What the tasks below draw from. */
export const LIFE_BUDGETS = { seats: 2, vram: { gpu0: '24GB' } } as const

/** A model with a share of its own and of a shared budget; an amount that depends on the input; one that nobody has. */
export function budgetTasks(
  common: object,
  run: <T>(ctx: TaskContext, code: () => T) => Promise<T>,
): ReturnType<typeof task>[] {
  return [
    task({
      ...common,
      name: 'modelled',
      model: 'life',
      uses: { vram: '8GB', seats: 1 },
      perJob: { vram: '1GB' },
      run: (_: unknown, ctx) => run(ctx, () => ctx.attempt),
    }),
    task({
      ...common,
      name: 'expressed',
      uses: { seats: '${{ input.seats }}' },
      run: (_: unknown, ctx) => run(ctx, () => ctx.attempt),
    }),
    task({ ...common, name: 'unplaced', uses: { absent: 1 }, run: () => null }),
  ]
}

/**
 * Jobs that draw from budgets, and budgets that operators change, on an address where any statement may fail.
 *
 * @param sql Straight to the server, past every fault.
 */
export async function liveBudgets(app: Sluice, sql: Sql, round: number): Promise<string[]> {
  const modelled = await repeated('submit', () => app.submit('modelled', null, { key: `modelled-${round}` }))
  const expressed = await repeated('submit', () =>
    app.submit('expressed', { seats: 1 }, { key: `expressed-${round}` }),
  )
  // Nobody has worked out what this one draws.
  const [row] = await sql<{ id: string }>(`select sluice.submit('expressed', '{"seats": 2}')::text as id`)
  const unplaced = await repeated('submit', () => app.submit('unplaced', null, { key: `unplaced-${round}` }))
  await repeated('why', () => app.why(unplaced.id))
  await repeated('budgets', () => app.budgets())
  await once('cancel', () => app.cancel(unplaced.id))
  await repeated('setBudget', () => app.setBudget('seats', { capacity: 3 }))
  await repeated('resetBudget', () => app.resetBudget('seats'))
  await repeated('createBudget', () =>
    app.createBudget('spare', { capacity: 1 }).catch((error) => {
      if (!hasCode(error, 'BUDGET_EXISTS')) throw error
    }),
  )
  // One that there is could be deleted in a moment in which no worker is alive, and the rest would wait for it for ever.
  await repeated('removeBudget', () =>
    app.removeBudget('absent').catch((error) => {
      if (!hasCode(error, 'BUDGET_NOT_FOUND')) throw error
    }),
  )
  const endings = [await settled(modelled), await settled(expressed)]
  await patiently(
    async () =>
      (await sql(`select 1 from sluice.jobs where id = $1 and state = 'completed'`, [row!.id])).length === 1,
    `job ${row!.id}, submitted through SQL, to end`,
  )
  return endings.flatMap(({ id, error }) => (error === undefined ? [] : [`job ${id} failed: ${error}`]))
}
