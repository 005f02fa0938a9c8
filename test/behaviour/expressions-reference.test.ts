import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import type { JsonValue } from '../../src/model/json.ts'
import { MAX_STEPS } from '../../src/workflow/expression/bounds.ts'
import { evaluateExpression, parseExpression } from '../../src/workflow/expression/expression.ts'
import { FUNCTIONS, METHODS } from '../../src/workflow/expression/functions.ts'
import { MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_LENGTH } from '../../src/workflow/expression/grammar.ts'
import { STEP_FIELDS } from '../../src/workflow/scope.ts'

const page = await readFile(new URL('../../docs/reference/expressions.md', import.meta.url), 'utf8')
const input = JSON.parse(/with `input` =\n`(.*)`\./.exec(page)![1]!) as JsonValue
const rows = [...page.matchAll(/^\| `(.+?)` \| `(.+?)` \| .*\|$/gm)].map(([, expression, gives]) => ({
  expression: expression!.replaceAll('\\|', '|'),
  gives: gives!,
}))

test('the page has its tables', () => {
  expect(rows.length).toBeGreaterThan(30)
})

test.each(rows)('$expression gives $gives, as the page says', ({ expression, gives }) => {
  expect(evaluateExpression(parseExpression(expression), { input })).toEqual(JSON.parse(gives))
})

test('every function and field of a step is on the page, and the bounds are those that hold', () => {
  for (const name of FUNCTIONS.keys()) expect(page).toContain(`\`${name}(`)
  for (const name of METHODS.keys()) expect(page).toContain(`.${name}(`)
  for (const field of STEP_FIELDS) expect(page).toContain(`\`steps.NAME.${field}\``)
  for (const bound of [MAX_STEPS, MAX_EXPRESSION_LENGTH, MAX_EXPRESSION_DEPTH])
    expect(page).toContain(bound.toLocaleString('en-US'))
})

test('what the page calls an error is one', () => {
  for (const wrong of ['input.nothing.more', '1 / 0', '"a" + 1', 'input.n && true', '{name: 1}']) {
    expect(() => evaluateExpression(parseExpression(wrong), { input })).toThrow()
  }
})
