import { test } from 'vitest'
import { FAULTS, liveThrough, STATEMENTS } from '../support/fault-schedule.ts'

// As test/behaviour/statement-faults.test.ts, with one statement at a time failing in every way: what breaks is then
// known by name.
for (const name of STATEMENTS) {
  test.concurrent(
    `nothing is lost, doubled or stuck when ${name} fails in every way`,
    { timeout: 600_000 },
    () => liveThrough(new Map([[name, FAULTS.flatMap((fault) => [fault, undefined])]])),
  )
}
