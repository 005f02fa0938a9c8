import pg from 'pg'
import { expect, test } from 'vitest'
import { type AskedGeneral, type BackEnding, EPOCH, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// What other workers hear of jobs that a worker gives back. A worker that found nothing rests until a hint or its next poll.

const database = useDatabase()
useCommitChecker(database)
const { general, submit } = useCycles(database)

/** The hints that are sent by `work`. */
async function hintsOf(work: () => Promise<unknown>): Promise<readonly (string | undefined)[]> {
  const hints: (string | undefined)[] = []
  const client = new pg.Client(database.directUrl)
  client.on('notification', (message) => hints.push(message.payload))
  await client.connect()
  try {
    await client.query('listen sluice')
    await work()
    await client.query('select 1')
  } finally {
    await client.end()
  }
  return hints
}

/** Four jobs run, and two are assigned. The last one goes back. */
async function assigned() {
  await submit(6)
  const rows = await general({ ahead: 2 })
  const asked: AskedGeneral = { known: rows.at(-1)!.seq, run: 4, free: 0 }
  return { rows, asked, last: rows[5]! }
}

const BACK: [what: string, ending: BackEnding, run: number][] = [
  ['have not started', { ending: 'unstarted' }, 4],
  ['a worker that leaves gives back', { ending: 'returned' }, 3],
  ['have run out of memory', { ending: 'out_of_memory' }, 3],
  ['are tried again at once', { ending: 'retry', delayMs: 0 }, 3],
]

test.for(BACK)('a cycle tells other workers of jobs that %s', async ([, ending, run]) => {
  const { rows, asked, last } = await assigned()
  const row = run === 4 ? last : rows[0]!
  const hints = await hintsOf(() => general({ ...asked, run, back: [[row, ending]] }))
  expect(hints).toEqual(['ready'])
  expect(await database.sql('select state::text from sluice.queue where id = $1', [row.id])).toEqual([
    { state: 'ready' },
  ])
})

test.for(['recall', 'hand back'])('a %s tells other workers of what goes back', async (what) => {
  const { last } = await assigned()
  const recall = () => database.sql(`select sluice.recall_assigned_v1($1, '[]')`, [WORKER])
  const handBack = () =>
    database.sql('select sluice.hand_back_v1($1, $2, $3, $4)', [WORKER, [last.id], last.seq, EPOCH])
  expect(await hintsOf(what === 'recall' ? recall : handBack)).toEqual(['ready'])
})

test('a cycle tells nobody of jobs that fail, wait for their next attempt or are cancelled', async () => {
  const { rows, asked, last } = await assigned()
  await database.sql('select sluice.cancel_job_v1($1, $2)', [last.id, 'not needed'])
  const hints = await hintsOf(() =>
    general({
      ...asked,
      run: 2,
      failed: [rows[0]!],
      back: [
        [rows[1]!, { ending: 'retry', delayMs: 60_000 }],
        [last, { ending: 'unstarted' }],
      ],
    }),
  )
  expect(hints).toEqual([])
})
