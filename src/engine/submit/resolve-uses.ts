import {
  type Amount,
  amountOf,
  expressionIn,
  type ResolvedUses,
  type StoredAmount,
} from '../../model/amount.ts'
import type { JsonValue } from '../../model/json.ts'
import { type Expression, evaluateExpression, parseExpression } from '../../workflow/expression/expression.ts'

type Amounts = Readonly<Record<string, StoredAmount>> | null | undefined

/** Reading an expression takes ten times as long as working it out, and a task has few. */
const parsed = new Map<string, Expression>()
const MOST_PARSED = 1000

/**
 * What a job with this input draws.
 *
 * @throws {SluiceError} `EXPRESSION_FAILED` or `INVALID_INPUT`, naming task and budget.
 */
export function resolveUses(task: string, uses: Amounts, perJob: Amounts, input: unknown): ResolvedUses {
  return {
    uses: resolve(task, 'uses', uses, input),
    perJob: resolve(task, 'perJob', perJob, input),
  }
}

function resolve(task: string, field: string, amounts: Amounts, input: unknown): Record<string, Amount> {
  const found = Object.entries(amounts ?? {}).map(([budget, amount]) => {
    if (typeof amount !== 'string') return [budget, amount] as const
    const where = `${field}.${budget} of task ${task}`
    const value = evaluateExpression(parse(amount, where), { input: (input ?? null) as JsonValue })
    return [budget, amountOf(value, where)] as const
  })
  return Object.fromEntries(found)
}

function parse(text: string, where: string): Expression {
  const key = `${where}\n${text}`
  let expression = parsed.get(key)
  if (expression === undefined) {
    expression = parseExpression(expressionIn(text), where)
    if (parsed.size >= MOST_PARSED) parsed.clear()
    parsed.set(key, expression)
  }
  return expression
}
