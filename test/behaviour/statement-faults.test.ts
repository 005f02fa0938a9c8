import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { declaredStatements } from '../../src/db/database.ts'
import { createDatabase } from '../support/database.ts'
import { type Fault, startFaultProxy } from '../support/fault-proxy.ts'
import { JobLife } from '../support/job-life.ts'
import { WatchedCommits } from '../support/watched-commits.ts'

// Every statement there is, whoever declares it: a new one is part of this test without being named here.
const store = new URL('../../src/store/', import.meta.url)
for (const name of readdirSync(store)) await import(new URL(name, store).href)
const nameOf = new Map(
  [...declaredStatements().values()].flatMap(({ name, text, preparedAs = name }) => [
    [text, name],
    [preparedAs, name],
  ]),
)

/** Which times a statement is sent it fails: once alone, then twice in a row. */
const FAILS_AT = [1, 3, 4]
const MOST_ROUNDS = 12

const FAULTS: readonly Fault[] = [
  { when: 'before', how: 'reset' },
  { when: 'before', how: '40001' }, // serialization failure
  { when: 'before', how: '40P01' }, // deadlock
  { when: 'before', how: '55P03' }, // lock not available
  { when: 'before', how: '57014' }, // statement timeout
  { when: 'before', how: '57P01' }, // administrator shuts down
  { when: 'before', how: '53300' }, // too many connections
  { when: 'after', how: 'reset' },
  { when: 'after', how: '57P01' },
]

/** Hands out one kind of fault to every statement, at the same times of each. */
class Schedule {
  readonly #fault: Fault
  readonly #sent = new Map<string, number>()
  #over = false

  constructor(fault: Fault) {
    this.#fault = fault
  }

  decide({ name, text }: { name: string; text: string }): Fault | undefined {
    const statement = nameOf.get(name === '' ? text : name)
    if (statement === undefined || this.#over) return undefined
    const times = (this.#sent.get(statement) ?? 0) + 1
    this.#sent.set(statement, times)
    if (FAILS_AT.includes(times)) return this.#fault
    // Only a worker that never heard what it was given asks what it has been given.
    const unasked = (this.#sent.get('load_claimed') ?? 0) < FAILS_AT.at(-1)!
    return statement === 'run_cycle' && unasked && times % 5 === 0
      ? { when: 'after', how: 'reset' }
      : undefined
  }

  /** Statements that have not failed as often as they should, with how often they were sent. */
  get left(): string[] {
    return [...declaredStatements().keys()]
      .map((name) => [name, this.#sent.get(name) ?? 0] as const)
      .filter(([, times]) => times < FAILS_AT.at(-1)!)
      .map(([name, times]) => `${name} was sent ${times} times`)
  }

  end(): void {
    this.#over = true
  }
}

for (const fault of FAULTS) {
  test.concurrent(`nothing is lost, doubled or stuck when any statement fails: ${fault.how} ${fault.when} it`, {
    timeout: 240_000,
  }, async () => {
    const database = await createDatabase()
    const commits = await WatchedCommits.open(database.directUrl)
    const schedule = new Schedule(fault)
    const proxy = await startFaultProxy(database.directUrl, (statement) => schedule.decide(statement))
    try {
      const life = new JobLife(proxy.url, database.sql)
      for (let round = 1; schedule.left.length > 0 && round <= MOST_ROUNDS; round++) await life.round()
      expect(schedule.left, 'statements that JobLife does not use: add what uses them').toEqual([])
      schedule.end()
      await life.rest()
      expect(life.violations).toEqual([])
      const { violations } = await commits.catchUp()
      const byHand = ({ what }: { what: string }) => life.planted.has(/^job (\d+) /.exec(what)?.[1] ?? '')
      expect(violations.filter((violation) => !byHand(violation))).toEqual([])
    } finally {
      await proxy.close()
      await commits.close()
      await database.drop()
    }
  })
}
