import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JsonValue } from '../../model/json.ts'
import type { Scope } from './expression.ts'
import { ExpressionError } from './expression-error.ts'
import { parseTemplate, renderTemplate, templateReads } from './template.ts'

const scope: Scope = {
  input: { n: 7, file: 'reads.bam', list: [5], nothing: null },
  item: { id: 1 },
  index: 2,
}

/** An expression in its braces. */
const x = (source: string) => `\${{ ${source} }}`
const render = (value: JsonValue) => renderTemplate(parseTemplate(value, 'steps.align.with'), scope)

function failure(run: () => unknown): ExpressionError {
  try {
    run()
  } catch (error) {
    if (error instanceof ExpressionError) return error
    throw error
  }
  throw new Error('did not fail')
}

describe('a text', () => {
  test.each<[string, JsonValue]>([
    [x('input.n - 1'), 6],
    [x('input.list'), [5]],
    [x('input.nothing'), null],
    [`  ${x('input.n')}\n`, 7],
    [`\${{input.n}}`, 7],
    [`part-${x('index')}.txt`, 'part-2.txt'],
    [`${x('input.file')}${x('index')}`, 'reads.bam2'],
    [`${x('input.n')} of ${x('input.list')} and ${x('item')}`, '7 of [5] and {"id":1}'],
    [x('"a }} b"'), 'a }} b'],
    [x("'it\\'s }}'"), "it's }}"],
    [x('{"a": {"b": 1}}'), { a: { b: 1 } }],
    [`\${{{"a": {"b": 1}}}}`, { a: { b: 1 } }],
    [x('"""say "}}" twice"""'), 'say "}}" twice'],
    [x(`"\${{"`), `\${{`],
    [x("input.n // it's the number"), 7],
    [`\${{ input.n // it's {\n + 1 }}`, 8],
    ['no expression, $ {{ x }}, } }}', 'no expression, $ {{ x }}, } }}'],
    ['', ''],
  ])('%j becomes %j', (text, expected) => {
    expect(render(text)).toEqual(expected)
  })

  test.each([
    [`a ${x('input.nothing')}`, 'null cannot stand inside a text'],
    [`a ${x('input.missing')} b`, 'null cannot stand inside a text'],
    [`a \${{ input.n`, 'no }} closes this'],
    [`\${{ "}} }`, 'no }} closes this'],
    [x(''), 'the expression is empty'],
    [x('input.n +'), 'unexpected token: the end'],
  ])('%j is refused: %s', (text, reason) => {
    const error = failure(() => render({ chunk: ['a', text] }))

    expect(error.message).toMatch(/^steps\.align\.with\.chunk\[1\]: /)
    expect(error.reason).toContain(reason)
  })
})

describe('a value', () => {
  test('is rendered at any depth, and its types are kept', () => {
    const value = { n: x('input.n'), deep: [{ list: x('input.list') }, 1, null, true], plain: { a: ['b'] } }

    expect(render(value)).toEqual({ n: 7, deep: [{ list: [5] }, 1, null, true], plain: { a: ['b'] } })
  })

  test('without an expression comes back as it is', () => {
    const value = { a: [1, { b: 'text' }] }

    expect(render(value)).toBe(value)
    expect(templateReads(parseTemplate(value, 'with'))).toEqual([])
  })

  test('cannot have expressions or __proto__ as keys, nor be nested without end', () => {
    expect(failure(() => render({ [x('item')]: 1 })).reason).toContain('keys cannot hold expressions')
    expect(failure(() => render(JSON.parse('{"__proto__": 1}') as JsonValue)).reason).toContain('__proto__')
    const deep = JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`) as JsonValue
    expect(failure(() => render(deep)).reason).toContain('nested deeper than 100')
  })

  test('reads each path once', () => {
    const template = parseTemplate(
      { a: x('input.n + index'), b: [`${x('input.n')} ${x('steps.a.result')}`] },
      'with',
    )

    expect(templateReads(template)).toEqual([['input', 'n'], ['index'], ['steps', 'a', 'result']])
  })

  test('knows how many bytes it gives at least', () => {
    const template = parseTemplate({ a: [1, x('0'), { é: x('0') }], b: 'text', c: {}, d: [] }, 'with')

    expect(template.bytes).toBe(JSON.stringify(renderTemplate(template, {})).length + 1 - 2)
  })

  test('has one allowance for all its expressions', () => {
    const big = { input: 'a'.repeat(9 * 1024 * 1024) }
    const both = parseTemplate([x('input'), x('input')], 'with')

    expect(failure(() => renderTemplate(both, big)).message).toMatch(
      /^with\[1\]: .*larger than 16777216 bytes/,
    )
    const around = parseTemplate({ a: 'b'.repeat(8 * 1024 * 1024), c: x('input') }, 'with')
    expect(failure(() => renderTemplate(around, big)).message).toMatch(
      /^with\.c: .*larger than 16777216 bytes/,
    )
    // Quotes are escaped once more when a list stands inside a text.
    const quoted = parseTemplate(`list: ${x('input')}`, 'with')
    const quotes = { input: Array.from({ length: 3_500_000 }, () => '') }
    expect(failure(() => renderTemplate(quoted, quotes)).message).toMatch(/larger than 16777216 bytes/)
    const busy = parseTemplate([x('range(3000000).size()'), x('range(3000000).size()')], 'with')
    expect(failure(() => renderTemplate(busy, {})).message).toMatch(/^with\[1\]: .*5000000 steps/)
  })
})

test('any JSON with texts around expressions is rendered or refused with an ExpressionError', () => {
  const text = fc
    .array(
      fc.oneof(
        fc.string(),
        fc.constantFrom(`\${{`, '}}', '"', "'", '{', 'input', 'index', x('input.n'), x('item')),
      ),
    )
    .map((parts) => parts.join(''))
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), text, (value, inside) => {
      try {
        const template = parseTemplate([value as JsonValue, inside, { inside }], 'with')
        const first = JSON.stringify(renderTemplate(template, scope))
        expect(template.bytes).toBeLessThanOrEqual(Buffer.byteLength(first))
        expect(JSON.stringify(renderTemplate(template, scope))).toBe(first)
      } catch (error) {
        if (!(error instanceof ExpressionError)) throw error
        expect(error.message).toMatch(/^with\[/)
      }
    }),
    { numRuns: 2000 },
  )
})
