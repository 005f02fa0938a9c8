import { test } from 'vitest'
import { FAULTS, liveThrough, STATEMENTS } from '../support/fault-schedule.ts'

/** Each kind is a life of a minute; the others come in the long tests. */
const USUAL = ['before reset', 'after 57P01']
const faults = FAULTS.filter(
  ({ when, how }) => process.env.SLUICE_TEST_FAULTS === 'all' || USUAL.includes(`${when} ${how}`),
)

for (const fault of faults) {
  test.concurrent(`nothing is lost, doubled or stuck when any statement fails: ${fault.how} ${fault.when} it`, {
    timeout: 600_000,
  }, () => {
    // Once alone, then twice in a row.
    const plan = [fault, undefined, fault, fault]
    return liveThrough(new Map(STATEMENTS.map((name) => [name, plan])))
  })
}
