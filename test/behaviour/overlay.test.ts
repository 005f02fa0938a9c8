import { describe, expect, test } from 'vitest'
import { columnOf } from '../../src/model/fields/columns.ts'
import { REGISTRIES } from '../../src/model/fields/registries.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const ROW = {
  name: 'a',
  slots: 2,
  poll_ms: 2000,
  operator_set: ['slots'],
  declared: { slots: 5, pollMs: 2000 },
}

async function overlay(given: object | null, operator: boolean) {
  const [found] = await database.sql<{ row: Record<string, unknown> }>(
    'select sluice.overlay_v1($1, $2, $3, $4) as row',
    [JSON.stringify(ROW), given === null ? null : JSON.stringify(given), 'olga', operator],
  )
  return found!.row
}

describe('the overlay of operators', () => {
  test('takes the change of an operator, and notes its fields', async () => {
    expect(await overlay({ pollMs: 500 }, true)).toMatchObject({
      poll_ms: 500,
      operator_set: ['pollMs', 'slots'],
      declared: ROW.declared,
      updated_by: 'olga',
    })
  })

  test('notes what files declare, and leaves the fields of operators alone', async () => {
    expect(await overlay({ slots: 9, pollMs: 700 }, false)).toMatchObject({
      slots: 2,
      poll_ms: 700,
      operator_set: ['slots'],
      declared: { slots: 9, pollMs: 700 },
    })
  })

  test('leaves the row as it is where files declare nothing new', async () => {
    expect(await overlay({ slots: 5 }, false)).toEqual(ROW)
  })

  test('returns to what is declared when the changes of operators are forgotten', async () => {
    expect(await overlay(null, true)).toMatchObject({ slots: 5, poll_ms: 2000, operator_set: [] })
  })
})

test('SQL and TypeScript name the column of every field alike', async () => {
  const names = Object.values(REGISTRIES).flatMap((fields) =>
    Object.values(fields).map(({ storedAs }) => storedAs),
  )
  const [found] = await database.sql<{ columns: object }>('select sluice.columns_v1($1) as columns', [
    JSON.stringify(Object.fromEntries(names.map((name) => [name, name]))),
  ])
  expect(found!.columns).toEqual(Object.fromEntries(names.map((name) => [columnOf(name), name])))
})
