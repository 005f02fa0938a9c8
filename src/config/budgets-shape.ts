import { messageOf } from '../errors.ts'
import { type AmountSource, amount, expressionIn, type StoredAmount } from '../model/amount.ts'
import { type BudgetSource, type ModelSource, readBudget, readModel } from '../model/budget.ts'
import { describe } from '../model/setting-value.ts'
import { isModelName, MODEL_RULE } from '../model/task-fields.ts'
import { parseExpression } from '../workflow/expression/expression.ts'
import { record, type Shape, type Spot, value } from './shape.ts'

const budget: Shape<BudgetSource, BudgetSource> = {
  keys: [],
  check(found, at) {
    const read = readBudget(found, (path, message) => below(at, path).report(message))
    // As it was written: with units it is told to people in units.
    return read === undefined ? undefined : (found as BudgetSource)
  },
}

/** Budgets by name. */
export const budgets = record(budget)

const model: Shape<ModelSource | null, ModelSource> = {
  keys: [
    { path: 'load', bound: '>= 0ms, <= 1d' },
    { path: 'pinned', bound: 'true or false' },
  ],
  check(found, at) {
    const name = String(at.path.at(-1))
    const read = readModel(name, found, (path, message) => below(at, path).report(message))
    return read === undefined ? undefined : ((found ?? {}) as ModelSource)
  },
}

/** Models by name, which may be any text. */
export const models = record(model, {
  fits: (key) => key !== '__proto__' && isModelName(key),
  expected: MODEL_RULE,
})

/** What jobs draw, by budget. */
const plain = value(amount)
const drawn: Shape<AmountSource, StoredAmount> = {
  ...plain,
  check(found, at) {
    const read = plain.check(found, at)
    if (typeof read !== 'string') return read
    const problem = amountProblem(read)
    return problem === undefined ? read : at.report(problem)
  },
}

/** What is wrong with an amount that is an expression on the input; `undefined` when it can be worked out. */
export function amountProblem(text: string): string | undefined {
  try {
    const strange = parseExpression(expressionIn(text)).reads.find(([root]) => root !== 'input')
    return strange === undefined ? undefined : `reads ${strange.join('.')}; only input is known here`
  } catch (error) {
    return messageOf(error)
  }
}

export const uses = record(drawn)

export const modelName: Shape<string, string> = {
  keys: [],
  check: (found, at) =>
    isModelName(found) ? found : at.report(`found ${describe(found)}; write ${MODEL_RULE}`),
}

function below(at: Spot, path: readonly string[]): Spot {
  return path.reduce((spot, key) => spot.below(key), at)
}
