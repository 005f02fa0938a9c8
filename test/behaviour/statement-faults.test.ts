import { test } from 'vitest'
import { FAULTS, liveThrough, STATEMENTS } from '../support/fault-schedule.ts'

for (const fault of FAULTS) {
  test.concurrent(`nothing is lost, doubled or stuck when any statement fails: ${fault.how} ${fault.when} it`, {
    timeout: 240_000,
  }, () => {
    // Once alone, then twice in a row.
    const plan = [fault, undefined, fault, fault]
    return liveThrough(new Map(STATEMENTS.map((name) => [name, plan])))
  })
}
