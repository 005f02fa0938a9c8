import { expect, test } from 'vitest'
import type { RawQueryable } from '../db/database.ts'
import { type CycleArguments, runCycle } from './run-cycle.ts'

const IDLE: Omit<CycleArguments, 'ended'> = {
  ...{
    workerId: '7',
    epoch: 1,
    known: 3,
    begun: [],
    lanes: ['a'],
    endedBy: [0],
    run: [0],
    want: [4],
    keep: [0],
  },
  ...{ free: 4, turn: 0, classes: [1], classLane: [1], classMax: [4], classAhead: [0], afterRank: [0] },
  ...{
    afterId: ['0'],
    fresh: [0],
    hint: false,
    steadyClass: undefined,
    budget: null,
    ordered: false,
    hears: true,
  },
}

test('sends the endings of each claim together, in the order in which they came, with their results', async () => {
  const sent: (readonly unknown[])[] = []
  const connection = {
    runRaw: async (_: unknown, values: readonly unknown[]) => {
      sent.push(values)
      return []
    },
  } as unknown as RawQueryable
  const ended = [
    ['5', 2],
    ['1', 1],
    ['6', 2],
    ['2', 1],
  ].map(([id, seq]) => ({
    id: id as string,
    attempt: 1,
    seq: seq as number,
    ending: { kind: 'completed', result: `"of ${id}"` } as const,
  }))

  await runCycle(connection, { ...IDLE, ended })

  const [, , , done, seqs, results] = sent[0]!
  expect([done, seqs, results]).toEqual(['{1,2,5,6}', '{1,1,2,2}', '["of 1","of 2","of 5","of 6"]'])
})
