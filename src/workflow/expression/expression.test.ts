import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type JsonValue, toStorableJson } from '../../model/json.ts'
import { measure } from './bounds.ts'
import { evaluateExpression, parseExpression, type Scope } from './expression.ts'
import { ExpressionError } from './expression-error.ts'

const scope: Scope = {
  input: {
    n: 7,
    half: 0.5,
    file: 'reads.bam',
    list: [5],
    rows: [
      { id: 1, tags: ['a'] },
      { id: 2, tags: [] },
      { id: 3, tags: ['a', 'b'] },
    ],
    own: { a: 1, 'two words': 2 },
    nothing: null,
    yes: true,
  },
  steps: {
    split: { result: { chunks: ['x', 'y'] }, status: 'completed' },
    align: { results: [[1], [2, 3]], status: 'failed', error: 'disk full' },
  },
  item: 'x',
  index: 0,
}

const value = (source: string, within: Scope = scope) => evaluateExpression(parseExpression(source), within)

function failure(run: () => unknown): ExpressionError {
  try {
    run()
  } catch (error) {
    if (error instanceof ExpressionError) return error
    throw error
  }
  throw new Error('did not fail')
}

const reason = (source: string, within: Scope = scope) => failure(() => value(source, within)).reason

describe('numbers', () => {
  test.each([
    ['input.n - 1', 6],
    ['input.n * 0.5', 3.5],
    ['input.n / 2', 3.5],
    ['7 / 2', 3.5],
    ['size(input.rows) / 2', 1.5],
    ['input.n % 4', 3],
    ['-input.n + 10', 3],
    ['1 + 2 * 3', 7],
    ['(1 + 2) * 3', 9],
    ['0x10 + 1.5e1', 31],
    ['int(7 / 2)', 3],
    ['int(-3.7)', -3],
    ['int("42") + double("0.5")', 42.5],
    ['input.n == 7 && input.n == 7.0', true],
    ['index + 1', 1],
  ])('%s is %j', (source, expected) => {
    expect(value(source)).toBe(expected)
  })

  test.each([
    ['1 / 0', 'division by zero'],
    ['1 % 0', 'division by zero'],
    ['1e308 * 10', 'the result is larger than any number of JSON'],
    ['"a" - 1', '- takes numbers; "a" is a text'],
    [
      'input.file + 1',
      '+ takes two numbers, two texts or two lists, not a text and a number; string(x) makes a text of x',
    ],
    ['int("4.5")', 'int() takes a text that is a whole number of up to 15 digits'],
    ['double("abc")', 'double() takes a text that is a number'],
  ])('%s is refused: %s', (source, expected) => {
    expect(reason(source)).toBe(expected)
  })

  test('a number that JSON would change is refused when it is read', () => {
    expect(failure(() => parseExpression('9007199254740993')).reason).toContain('use a text')
    expect(failure(() => parseExpression('5u')).reason).toContain('unsigned')
  })
})

describe('what is read', () => {
  test.each<[string, JsonValue]>([
    ['input.list', [5]],
    ['input.list[0]', 5],
    ['steps.split.result.chunks', ['x', 'y']],
    ['steps["split"]["status"]', 'completed'],
    ['input["two words"]', null],
    ['input.own["two words"]', 2],
    ['input.missing', null],
    ['input.list[1]', null],
    ['input.list[-1]', null],
    ['steps.split.error', null],
    ['has(input.nothing)', true],
    ['has(input.missing)', false],
    ['has(input.missing.deeper)', false],
    ['input.rows[index].id', 1],
    ['[input.list]', [[5]]],
  ])('%s is %j', (source, expected) => {
    expect(value(source)).toEqual(expected)
  })

  test.each([
    ['inputs.n', 'inputs: no such name, perhaps input; there are: input, steps, item, index'],
    ['steps.splt.result', 'steps.splt: no such step, perhaps split; there are: split, align'],
    ['steps["nope"]', 'steps.nope: no such step; there are: split, align'],
    ['input.nothing.x', 'input.nothing is null and has no property x'],
    ['input.missing.x', 'input.missing is null and has no property x'],
    ['input.list.length', 'input.list is a list and has no property length; size(input.list) counts'],
    ['input.file.x', 'input.file is a text and has no property x'],
    ['input.list["a"]', 'input.list is a list: places are numbers, not a text'],
    ['input.list[0.5]', 'the place in a list must be a whole number'],
    ['input.own[0]', 'input.own is a map: its keys are texts, not a number'],
    ['input.nothing[0]', 'input.nothing is null and has nothing in brackets'],
  ])('%s is refused: %s', (source, expected) => {
    expect(reason(source)).toBe(expected)
  })

  test.each([
    ['constructor'],
    ['__proto__'],
    ['toString'],
    ['globalThis'],
    ['process'],
    ['cel'],
    ['google'],
    ['input.file.constructor'],
    ['input.list.map'],
    ['steps.constructor'],
    ['steps.toString'],
    ['string.constructor'],
    ['"".constructor("x")'],
    ['input.own.constructor("x")'],
    ['input.file.toUpperCase()'],
    ['input.own.hasOwnProperty("a")'],
    ['cel.bind(x, 1, x)'],
    ['input.file.matches("(a+)+$")'],
    ['timestamp("2024-01-01T00:00:00Z")'],
    ['{"__proto__": 1}'],
  ])('%s is refused', (source) => {
    failure(() => value(source))
  })

  test('properties of prototypes are missing, and those that came as data are data', () => {
    for (const key of [
      'constructor',
      '__proto__',
      'toString',
      'hasOwnProperty',
      'valueOf',
      '__defineGetter__',
    ]) {
      expect(value(`input.own["${key}"]`)).toBeNull()
      expect(value(`has(input.own.${key})`)).toBe(false)
      expect(value(`"${key}" in input.own`)).toBe(false)
    }
    const own = JSON.parse('{"input":{"__proto__":{"a":1},"constructor":2}}') as Scope
    expect(value('input.__proto__.a + input.constructor', own)).toBe(3)
  })
})

describe('operators and functions', () => {
  test.each<[string, JsonValue]>([
    ['input.n > 1 ? "many" : "one"', 'many'],
    ['input.n > 1 ? 1 : "a"', 1],
    ['!input.yes || input.n >= 7', true],
    ['false && input.missing.x', false],
    ['"b" > "a"', true],
    ['input.own == {"two words": 2, "a": 1}', true],
    ['[1, [2]] == [1, [2]]', true],
    ['[1] == 1', false],
    ['1 != "1"', true],
    ['null == input.missing', true],
    ['5 in input.list', true],
    ['{"a": 1} in [{"a": 1}]', true],
    ['"a" in input.own', true],
    ['"reads" + ".bam" == input.file', true],
    ['input.list + [6]', [5, 6]],
    ["'it\\'s' + r'\\n' + \"\\u00e9\"", "it's\\né"],
    ['size("a😀")', 2],
    ['input.file.size()', 9],
    ['size(input.own)', 2],
    ['input.file.contains("ads") && input.file.startsWith("re") && input.file.endsWith(".bam")', true],
    ['"a,b".split(",")', ['a', 'b']],
    ['"a😀".split("")', ['a', '😀']],
    ['["a", "b"].join("-") + ["c"].join()', 'a-bc'],
    ['steps.align.results.flatten()', [1, 2, 3]],
    ['range(3)', [0, 1, 2]],
    ['string(1.5) + string(true) + string(null) + string([1, {"a": "b"}])', '1.5truenull[1,{"a":"b"}]'],
    ['input.rows.map(r, r.id * 2)', [2, 4, 6]],
    ['input.rows.filter(r, size(r.tags) == 1)', [{ id: 1, tags: ['a'] }]],
    ['input.rows.map(r, "a" in r.tags, r.id)', [1, 3]],
    ['input.rows.map(r, r.tags.map(t, t + string(r.id)))', [['a1'], [], ['a3', 'b3']]],
    ['input.own.map(key, input.own[key])', [1, 2]],
    ['input.rows.all(r, r.id > 0) && input.rows.exists(r, r.id == 2)', true],
    ['input.rows.exists_one(r, "b" in r.tags)', true],
    ['{"file": input.file, string(item): index}', { file: 'reads.bam', x: 0 }],
    ['input.n // the number', 7],
  ])('%s is %j', (source, expected) => {
    expect(value(source)).toEqual(expected)
  })

  test.each([
    ['input.n && true', '&& takes true or false; input.n is a number'],
    ['input.missing ? 1 : 2', '? takes true or false; input.missing is null'],
    ['1 < "a"', '< takes two numbers or two texts, not a number and a text'],
    [
      '"a" in "abc"',
      'in takes a list, or a text and a map, not a text and a text; write text.contains(part)',
    ],
    ['input.list.contains(5)', '.contains() looks into texts; for a list write: value in list'],
    ['[1].join()', '.join() takes a list of texts; this one has a number: use .map(x, string(x)) first'],
    ['input.n.map(x, x)', '.map() takes a list or a map; input.n is a number'],
    ['input.rows.filter(r, r.id)', '.filter() takes true or false; r.id is a number'],
    ['{"a": 1, "a": 2}', 'the key a is there twice'],
  ])('%s is refused: %s', (source, expected) => {
    expect(reason(source)).toBe(expected)
  })
})

describe('errors', () => {
  test.each([
    ['1 +', 3, 'unexpected token: the end'],
    ['', 0, 'the expression is empty'],
    ['input.n = 7', 8, 'unexpected character: =; equality is written =='],
    ['input.many.lenght()', 10, 'there is no method lenght'],
    ['sise(input.list)', 0, 'there is no function sise, perhaps size; there are: size, string'],
    ['size()', 0, 'size() takes 1 arguments, not 0'],
    ['range(1, 2)', 0, 'range() takes 1 arguments, not 2'],
    ['{name: 1}', 1, 'write the key in quotes, "name"'],
    ['input.rows.map(1, 2)', 15, 'the first argument must be a name'],
    ['has(input)', 0, 'has() takes one property'],
    ['"a\\u0000"', 0, 'NUL character'],
    ['b"bytes"', 0, 'neither bytes'],
    ['input.?n', 6, 'QUESTION'],
  ])('%j is refused at offset %i: %s', (source, offset, text) => {
    const error = failure(() => parseExpression(source))

    expect(error.reason).toContain(text)
    expect(error.position.offset).toBe(offset)
    expect(error.code).toBe('EXPRESSION_FAILED')
  })

  test('an error has the line and column, the place in the definition, and no values', () => {
    const expression = parseExpression('input.n +\n  steps.splt.result', 'steps.align.with.chunk')
    const error = failure(() => evaluateExpression(expression, scope))

    expect(error.position).toEqual({ offset: 18, line: 2, column: 9 })
    expect(error.details).toMatchObject({ at: 'steps.align.with.chunk', line: 2, column: 9, offset: 18 })
    expect(error.message).toBe(
      'steps.align.with.chunk: steps.splt: no such step, perhaps split; there are: split, align ' +
        `(line 2, column 9 of \${{ input.n + steps.splt.result }})`,
    )
  })
})

describe('reads', () => {
  test.each([
    ['steps.split.result.chunks', [['steps', 'split', 'result', 'chunks']]],
    ['steps["split"].result["a b"]', [['steps', 'split', 'result', 'a b']]],
    ['input.rows[index].id', [['input', 'rows'], ['index']]],
    ['input.rows[0].id', [['input', 'rows']]],
    ['steps[item].result', [['steps'], ['item']]],
    ['input.a + input.a + size(item)', [['input', 'a'], ['item']]],
    [
      'input.rows.map(r, r.id + input.n)',
      [
        ['input', 'rows'],
        ['input', 'n'],
      ],
    ],
    ['input.rows.map(item, item.id)', [['input', 'rows']]],
    [
      'input.rows.map(steps, steps.a).size() + steps.b.result',
      [
        ['input', 'rows'],
        ['steps', 'b', 'result'],
      ],
    ],
    [
      'has(steps.a.result) ? 1 : {"k": [!input.x]}',
      [
        ['steps', 'a', 'result'],
        ['input', 'x'],
      ],
    ],
    ['1 + 2', []],
  ])('%s', (source, expected) => {
    expect(parseExpression(source).reads).toEqual(expected)
  })
})

describe('bounds', () => {
  test('length and nesting of the text are bounded', () => {
    const deep = [
      `${'('.repeat(200)}1${')'.repeat(200)}`,
      `${'!'.repeat(4000)}true`,
      `${'['.repeat(150)}1${']'.repeat(150)}`,
      `1${'+1'.repeat(200)}`,
      `input${'.a'.repeat(200)}`,
    ]
    for (const source of deep) {
      expect(failure(() => parseExpression(source)).reason).toContain('nested deeper than 100')
    }
    expect(failure(() => parseExpression(`"${'a'.repeat(5000)}"`)).reason).toContain('more than 4096')
    expect(failure(() => parseExpression(`"${'a'.repeat(5000)}"`)).message.length).toBeLessThan(300)
  })

  const many: Scope = {
    input: { list: Array.from({ length: 300 }, (_, i) => i), text: 'x'.repeat(1_000_000) },
  }

  test.each([
    ['loops in loops', 'input.list.map(a, input.list.map(b, input.list.map(c, 1)))'],
    ['a text that doubles', `[input.text]${'.map(t, t + t)'.repeat(30)}`],
    ['a list that doubles', `[input.list]${'.map(l, l + l)'.repeat(30)}`],
    ['a value that doubles by sharing', `[input.list]${'.map(l, [l, l])'.repeat(40)}`],
    ['a shared value as a text', `string([input.list]${'.map(l, [l, l])'.repeat(40)})`],
    [
      'shared values compared',
      `[input.list]${'.map(l, [l, l])'.repeat(40)} == [input.list]${'.map(l, [l, l])'.repeat(40)}`,
    ],
    ['a long range', 'range(1000000000)'],
    ['a value nested by steps', `[1]${'.map(x, [[[[x]]]])'.repeat(40)}`],
    ['a search in a long text', 'input.text.contains(input.text.split("").map(c, c).join() + "y")'],
  ])('%s is stopped', (_, source) => {
    expect(reason(source, many)).toMatch(
      /more than 5000000 steps|larger than 16777216|longer than|nested deeper/,
    )
  })

  test('the largest value that jobs may hold passes, and one more byte does not', () => {
    const text = 'é"'.repeat((16 * 1024 * 1024 - 8) / 4)
    expect(Buffer.byteLength(JSON.stringify(text))).toBe(16 * 1024 * 1024 - 6)
    expect(value('[[input], 1]', { input: text })).toEqual([[text], 1])
    expect(reason('[[input], 10]', { input: text })).toContain('larger than')
  })
})

describe('whatever is written and given', () => {
  const names = [
    'input',
    'steps',
    'item',
    'index',
    'a',
    'b',
    'x',
    'constructor',
    '__proto__',
    'toString',
    'length',
  ]
  const key = fc.constantFrom(...names, 'split', 'result', '')
  const json = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<JsonValue>(null, true, false, 0, 1, -1, 0.5, 1e300, '', 'a', '😀'),
      fc.string({ unit: 'binary' }).filter((text) => !text.includes('\0')),
      fc.array(tie('value'), { maxLength: 4 }),
      // Through JSON.parse, so that __proto__ is an own property as in real inputs.
      fc
        .array(fc.tuple(key, tie('value')), { maxLength: 4 })
        .map(
          (entries) =>
            JSON.parse(
              `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`)}}`,
            ) as JsonValue,
        ),
    ),
  })).value
  const anyScope = fc.record(
    { input: json, item: json, index: fc.nat(5), steps: fc.dictionary(key, fc.dictionary(key, json)) },
    { requiredKeys: ['input'] },
  )
  const source = fc.letrec<{ any: string }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      fc.constantFrom(...names, '0', '1', '2.5', '""', '"a"', '[]', '{}', 'null', 'true'),
      fc.tuple(tie('any'), key).map(([of, name]) => `${of}.${name}`),
      fc.tuple(tie('any'), key).map(([of, name]) => `has(${of}.${name})`),
      fc.tuple(tie('any'), tie('any')).map(([of, at]) => `${of}[${at}]`),
      fc
        .tuple(
          tie('any'),
          fc.constantFrom('+', '-', '*', '/', '%', '==', '!=', '<', '>=', 'in', '&&', '||'),
          tie('any'),
        )
        .map(([left, operator, right]) => `(${left} ${operator} ${right})`),
      fc.tuple(tie('any'), tie('any'), tie('any')).map(([a, b, c]) => `(${a} ? ${b} : ${c})`),
      fc
        .tuple(fc.constantFrom('size', 'string', 'int', 'double', 'range', '-', '!'), tie('any'))
        .map(([f, a]) => `${f}(${a})`),
      fc
        .tuple(tie('any'), fc.constantFrom('contains', 'split', 'join', 'startsWith'), tie('any'))
        .map(([of, method, arg]) => `${of}.${method}(${arg})`),
      fc
        .tuple(
          tie('any'),
          fc.constantFrom('map', 'filter', 'all', 'exists', 'exists_one'),
          fc.constantFrom('x', 'a', 'item'),
          tie('any'),
        )
        .map(([of, macro, name, body]) => `${of}.${macro}(${name}, ${body})`),
      fc.array(tie('any'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
      fc
        .array(fc.tuple(tie('any'), tie('any')), { maxLength: 2 })
        .map((entries) => `{${entries.map(([k, v]) => `${k}: ${v}`)}}`),
    ),
  })).any

  function outcome(text: string, within: Scope): string {
    try {
      return toStorableJson(evaluateExpression(parseExpression(text), within), 'result')
    } catch (error) {
      if (error instanceof ExpressionError) return `${error.message} @${error.position.offset}`
      throw error
    }
  }

  test('the outcome is storable JSON or an ExpressionError, the same each time, and the scope is untouched', () => {
    fc.assert(
      fc.property(source, anyScope, (text, within) => {
        const before = JSON.stringify(within)
        const first = outcome(text, within as Scope)
        expect(outcome(text, within as Scope)).toBe(first)
        expect(outcome(text, JSON.parse(before) as Scope)).toBe(first)
        expect(JSON.stringify(within)).toBe(before)
      }),
      { numRuns: 3000 },
    )
  })

  test('the size of a value is that of its JSON text in UTF-8', () => {
    fc.assert(
      fc.property(json, (any) => {
        expect(measure(any, Number.POSITIVE_INFINITY, 0)).toBe(Buffer.byteLength(JSON.stringify(any)))
      }),
    )
  })

  test('any text at all is read or refused with a place inside it', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string({ maxLength: 40 }), source), (text) => {
        try {
          parseExpression(text)
        } catch (error) {
          if (!(error instanceof ExpressionError)) throw error
          expect(error.position.offset).toBeGreaterThanOrEqual(0)
          expect(error.position.offset).toBeLessThanOrEqual(text.length)
        }
      }),
      { numRuns: 3000 },
    )
  })

  test('no more is read than reads says: a scope cut down to it gives the same outcome', () => {
    fc.assert(
      fc.property(source, anyScope, (text, within) => {
        let expression: ReturnType<typeof parseExpression>
        try {
          expression = parseExpression(text)
        } catch {
          return
        }
        const roots = new Set(expression.reads.map(([root]) => root))
        const cut = Object.fromEntries(Object.entries(within).filter(([name]) => roots.has(name)))
        const whole = outcome(text, within as Scope)
        if (!whole.includes('no such name')) expect(outcome(text, cut as Scope)).toBe(whole)
      }),
      { numRuns: 1000 },
    )
  })
})
