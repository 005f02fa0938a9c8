import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import type { JsonValue } from '../../src/model/json.ts'
import { asStored } from '../../src/model/stored.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
useCommitChecker(database)
const apps = useApps(database)

test('makes the first step of a nested workflow in the transaction that makes the workflow', async () => {
  const act = task({ name: 'act', run: (input: unknown) => input })
  const app = await apps.open({
    tasks: [act],
    workflows: [
      {
        name: 'outer',
        definition: {
          steps: { sub: { workflow: 'inner', with: { n: 1 } } },
          output: '${{ steps.sub.result }}',
        },
      },
      {
        name: 'inner',
        definition: {
          steps: { work: { task: 'act', with: { n: '${{ input.n }}' } } },
          output: '${{ steps.work.result }}',
        },
      },
    ],
  })
  await app.work({ capacity: 1 })
  const job = await app.submit('outer', null)
  expect(await job.result()).toEqual({ n: 1 })
  const made = await database.sql<{ step: string; made: string }>(
    'select step, xmin::text as made from sluice.job_data where root_id = $1 order by id',
    [job.id],
  )
  expect(made.map(({ step }) => step)).toEqual(['sub', 'work'])
  expect(made[1]!.made).toBe(made[0]!.made)
})

test('makes no first step where the workflow above has been cancelled since it was decided', async () => {
  const act = task({ name: 'act', run: (input: unknown) => input })
  const app = await apps.open({
    tasks: [act],
    workflows: [
      { name: 'outer', definition: { steps: { sub: { workflow: 'inner' } } } },
      { name: 'inner', definition: { steps: { work: { task: 'act', with: null } } } },
    ],
  })
  const stepsAfter = async (job: string, version: number) => {
    const child = { parent: Number(job), idx: 0, step: 'sub', kind: 'workflow', task: 'inner', node: 'inner' }
    const first = [{ idx: 0, step: 'work', kind: null, task: 'act', state: 'ready' }]
    await database.sql('select sluice.advance_v1($1, $2, $3)', [
      JSON.stringify([{ job: Number(job), version, wakeups: [] }]),
      JSON.stringify([{ ...child, input: null, state: 'ready', below: 1, first }]),
      '[]',
    ])
    const made = await database.sql<{ step: string }>(
      'select step from sluice.job_data where root_id = $1 order by id',
      [job],
    )
    return made.map(({ step }) => step)
  }
  const decided = async () => {
    const { id } = await app.submit('outer', null)
    const [row] = await database.sql<{ version: number }>(
      'select version from sluice.composites where job_id = $1',
      [id],
    )
    return { id, version: row!.version }
  }
  const kept = await decided()
  expect(await stepsAfter(kept.id, kept.version)).toEqual(['sub', 'work'])
  const cancelled = await decided()
  await app.cancel(cancelled.id)
  expect(await stepsAfter(cancelled.id, cancelled.version)).toEqual(['sub'])

  await app.cancel(kept.id)
  await app.work({ capacity: 1 })
  for (const { id } of [kept, cancelled]) await expect(app.job(id).result()).rejects.toThrow('cancelled')
})

test('orders the keys of a value in memory as PostgreSQL does', async () => {
  const values: JsonValue[] = [
    { b: 1, aa: 2, a: { ä: 1, zz: 2, z: 3 }, '': 4 },
    [
      { '\u00ff': 1, '\u0100': 2, ab: 3, '10': 4, '9': 5 },
      { '🎉': 1, aaaa: 2, '\uffff': 3 },
    ],
    { __proto__x: 1, constructor: [-0, 1e21, 1e-7, 0.1] },
  ]
  for (const value of values) {
    const [row] = await database.sql<{ stored: JsonValue }>('select $1::jsonb as stored', [
      JSON.stringify(value),
    ])
    expect(JSON.stringify(asStored(value))).toBe(JSON.stringify(row!.stored))
  }
})
