import { readdirSync } from 'node:fs'
import { expect } from 'vitest'
import { declaredStatements } from '../../src/db/database.ts'
import { createDatabase } from './database.ts'
import { type Fault, startFaultProxy } from './fault-proxy.ts'
import { JobLife } from './job-life.ts'
import { isCycle, type ProxiedRequest } from './request-proxy.ts'
import { WatchedCommits } from './watched-commits.ts'

// Every statement there is, whoever declares it: a new one is part of these tests without being named anywhere.
const store = new URL('../../src/store/', import.meta.url)
for (const name of readdirSync(store)) await import(new URL(name, store).href)

export const STATEMENTS = [...declaredStatements().keys()]
const nameOf = new Map([...declaredStatements().values()].map(({ name, text }) => [text, name]))

export const FAULTS: readonly Fault[] = [
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

/** What happens the first, second, ... time a statement is sent; afterwards all is well. */
export type Plan = readonly (Fault | undefined)[]

const MOST_ROUNDS = 40

/**
 * Lives the life of jobs while statements fail as planned, until every plan has been carried out. Then nothing may be
 * lost, doubled or stuck, and no commit on the way may have broken a promise.
 */
export async function liveThrough(plans: ReadonlyMap<string, Plan>): Promise<void> {
  const database = await createDatabase()
  const commits = await WatchedCommits.open(database.directUrl)
  const schedule = new Schedule(plans)
  const proxy = await startFaultProxy(database.directUrl, (request) => schedule.decide(request))
  const life = new JobLife(proxy.url, database.sql)
  try {
    for (let round = 1; schedule.left.length > 0 && round <= MOST_ROUNDS; round++) await life.round()
    expect(schedule.left, 'statements that JobLife does not use: add what uses them').toEqual([])
    schedule.end()
    await life.rest()
    expect(life.violations).toEqual([])
    const { violations } = await commits.catchUp()
    const byHand = ({ what }: { what: string }) => life.planted.has(/^job (\d+) /.exec(what)?.[1] ?? '')
    expect(violations.filter((violation) => !byHand(violation))).toEqual([])
  } finally {
    await life.end()
    await proxy.close()
    await commits.close()
    await database.drop()
  }
}

class Schedule {
  readonly #plans: ReadonlyMap<string, Plan>
  readonly #sent = new Map<string, number>()
  #over = false

  constructor(plans: ReadonlyMap<string, Plan>) {
    this.#plans = plans
  }

  decide({ statement: name, sql }: ProxiedRequest): Fault | undefined {
    const statement = name === '' ? nameOf.get(sql) : name
    if (statement === undefined || this.#over) return undefined
    const times = (this.#sent.get(statement) ?? 0) + 1
    this.#sent.set(statement, times)
    const planned = this.#plans.get(statement)?.[times - 1]
    if (planned !== undefined) return planned
    // Only a worker that never heard what it was given asks what it has been given.
    const claimLost = isCycle({ statement }) && times % 5 === 0 && this.#isLeft('load_claimed')
    return claimLost ? { when: 'after', how: 'reset' } : undefined
  }

  /** Statements that have not been sent as often as planned. */
  get left(): string[] {
    return [...this.#plans.keys()]
      .filter((name) => this.#isLeft(name))
      .map((name) => `${name} was sent ${this.#sent.get(name) ?? 0} times`)
  }

  end(): void {
    this.#over = true
  }

  #isLeft(name: string): boolean {
    return (this.#sent.get(name) ?? 0) < (this.#plans.get(name)?.length ?? 0)
  }
}
