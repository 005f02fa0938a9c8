import { test } from 'vitest'
import { killOnTheWay, ORCHESTRATION } from '../support/orchestrators.ts'

const MOST = 12
const names: ReadonlySet<string> = new Set(ORCHESTRATION)

// As test/crash/workflow-killed-orchestrator.test.ts, at every request of the way instead of one of each statement.
for (let nth = 1; nth <= 3 * MOST; nth++) {
  for (const when of ['before', 'after'] as const) {
    test.concurrent(`kill -9 ${when} request ${nth} leaves nothing stuck and nothing done twice`, () => {
      let sent = 0
      return killOnTheWay(when, ({ statement }) => names.has(statement) && ++sent === nth)
    })
  }
}
