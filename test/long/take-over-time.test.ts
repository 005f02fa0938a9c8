import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { killInTurn, TAKE_OVER_MS } from '../support/take-over.ts'

const database = useDatabase()

test('over twenty kills each job starts elsewhere within 2 s of the end of its lease, and not before', async () => {
  const lateMs = await killInTurn(database, 20)
  console.log(`after the end of the lease: ${lateMs.join(', ')} ms`)
  expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...lateMs)).toBeLessThan(TAKE_OVER_MS)
}, 600_000)
