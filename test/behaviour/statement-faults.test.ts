import { test } from 'vitest'
import { FAULTS, liveThrough, type Plan, STATEMENTS } from '../support/fault-schedule.ts'

/** A life in which every statement fails takes minutes of processor time: one here, one for each kind of fault in the long tests. */
const LONG = process.env.SLUICE_TEST_FAULTS === 'all'

function live(plan: Plan): Promise<void> {
  return liveThrough(new Map(STATEMENTS.map((name) => [name, plan])))
}

if (LONG) {
  for (const fault of FAULTS) {
    test.concurrent(`nothing is lost, doubled or stuck when any statement fails: ${fault.how} ${fault.when} it`, {
      timeout: 600_000,
    }, () => {
      // Once alone, then twice in a row.
      return live([fault, undefined, fault, fault])
    })
  }
} else {
  test('nothing is lost, doubled or stuck when any statement fails: never sent, and committed without an answer', {
    timeout: 600_000,
  }, () => {
    // Each alone, then both in a row.
    const [unsent, unanswered] = [
      { when: 'before', how: 'reset' },
      { when: 'after', how: '57P01' },
    ] as const
    return live([unsent, undefined, unanswered, unsent])
  })
}
