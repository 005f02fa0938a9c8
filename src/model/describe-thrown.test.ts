import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { describeThrown } from './describe-thrown.ts'
import { type ErrorDetail, MAX_DETAIL_BYTES, readDetail } from './error-detail.ts'
import { toStorableJson } from './json.ts'

/** Stored and given back unchanged, and within the bound. */
function check(detail: ErrorDetail): void {
  const text = toStorableJson(detail, 'the detail')
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_DETAIL_BYTES)
  expect(JSON.stringify(JSON.parse(text))).toBe(text)
}

class HttpError extends Error {
  readonly status: number
  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

describe('what is kept of an error', () => {
  test('has its class, message, properties, stack and causes', () => {
    const error = new HttpError('declined', 402)
    error.cause = new TypeError('no such card', { cause: 'the bank said no' })
    const detail = describeThrown(error)
    expect(detail).toMatchObject({
      class: 'HttpError',
      message: 'declined',
      properties: { status: 402 },
      cause: {
        class: 'TypeError',
        message: 'no such card',
        cause: { class: 'string', message: 'the bank said no' },
      },
    })
    expect(detail.stack![0]).toEqual({ line: expect.stringContaining('describe-thrown.test.ts:'), own: true })
    check(detail)
  })

  test('has an empty message and a name of its own as they are', () => {
    expect(describeThrown(new Error(''))).toMatchObject({ class: 'Error', message: '' })
    const named = Object.assign(new Error('x'), { name: 'ValidationError' })
    expect(describeThrown(named)).toMatchObject({ class: 'ValidationError' })
  })

  test('has the errors of an AggregateError', () => {
    const error = new AggregateError([new RangeError('a'), { code: 7 }], 'all failed')
    expect(describeThrown(error)).toMatchObject({
      class: 'AggregateError',
      message: 'all failed',
      errors: [
        { class: 'RangeError', message: 'a' },
        { class: 'Object', value: { code: 7 } },
      ],
    })
  })

  test('has the content of a thrown object, whatever is in it', () => {
    const circular: Record<string, unknown> = { code: 'E_CARD', when: new Date(0), big: 2n, not: Number.NaN }
    circular.self = circular
    circular.send = function send() {}
    circular.seen = new Map([['a', new Set([1])]])
    circular.bytes = new Uint8Array(3)
    circular.inner = new TypeError('inside')
    Object.defineProperty(circular, 'trap', {
      enumerable: true,
      get() {
        throw new Error('not today')
      },
    })
    const detail = describeThrown(circular)
    expect(detail.value).toEqual({
      code: 'E_CARD',
      when: '1970-01-01T00:00:00.000Z',
      big: '2',
      not: 'NaN',
      self: '[circular]',
      send: '[function send]',
      seen: [['a', [1]]],
      bytes: '[Uint8Array of 3 bytes]',
      inner: { class: 'TypeError', message: 'inside' },
      trap: '[unreadable]',
    })
    check(detail)
  })

  test.each([
    [null, 'null', 'null'],
    [undefined, 'undefined', 'undefined'],
    ['no\0pe', 'string', 'no␀pe'],
    [42, 'number', '42'],
    [Symbol('s'), 'symbol', 'Symbol(s)'],
  ])('says of %s what it was', (thrown, type, message) => {
    expect(describeThrown(thrown)).toEqual({ class: type, message })
  })

  test('is there for what refuses to be read', () => {
    const never = () => {
      throw new Error('never')
    }
    const refusing = new Proxy({}, { get: never, getPrototypeOf: never, ownKeys: never, has: never })
    check(describeThrown(refusing))
    check(describeThrown(new Error('x', { cause: refusing })))
    const broken = new Error('x')
    for (const name of ['stack', 'name', 'message', 'cause'])
      Object.defineProperty(broken, name, { get: never })
    check(describeThrown(broken))
  })

  test('ends where errors are each other’s cause', () => {
    const a = new Error('a')
    a.cause = new Error('b', { cause: a })
    expect(describeThrown(a).cause!.cause).toEqual({ class: 'Error', message: '[repeated]' })
  })

  test('has no keys and tokens of Sluice, not even where texts are cut', () => {
    const secret = `slk_${'a'.repeat(40)}`
    const error = Object.assign(new Error(`with ${secret}`), {
      [secret]: { [secret]: [secret, `${'x'.repeat(4090)}${secret}`] },
    })
    expect(JSON.stringify(describeThrown(error))).not.toContain('slk_a')
  })

  test('keeps the frames of the task when there is no room for all', () => {
    const error = new Error('m')
    const foreign = Array.from(
      { length: 40 },
      (_, n) => `    at lib${n} (/a/node_modules/x/${'y'.repeat(300)}.js:1:1)`,
    )
    error.stack = ['Error: m', ...foreign, '    at mine (/a/src/mine.ts:3:9)'].join('\n')
    const detail = describeThrown(
      Object.assign(error, { body: 'z'.repeat(50_000), more: 'é'.repeat(50_000) }),
    )
    check(detail)
    expect(detail.cut).toBe(true)
    expect(detail.stack).toContainEqual({ line: 'mine (/a/src/mine.ts:3:9)', own: true })
  })
})

test('frames of the runtime, of dependencies and of Sluice are not the task’s own', () => {
  const error = new Error('m')
  error.stack = [
    'TypeError: a message',
    '    at of two lines',
    '    at charge (/app/src/pay.ts:12:9)',
    '    at async file:///app/src/run.js:3:1',
    '    at async Promise.all (index 0)',
    '    at new Promise (<anonymous>)',
    '    at node:internal/main/run_main_module:28:49',
    '    at Socket.emit (node:events:519:28)',
    '    at send (/app/node_modules/axios/index.js:1:1)',
    '    at run (/opt/sluice/dist/worker/inline.js:9:9)',
    '    at C:\\app\\src\\pay.ts:1:1',
  ].join('\n')
  const own = describeThrown(error, { foreign: ['/opt/sluice/dist/'] }).stack!.filter((frame) => frame.own)
  expect(own.map(({ line }) => line)).toEqual([
    'charge (/app/src/pay.ts:12:9)',
    'async file:///app/src/run.js:3:1',
    'C:\\app\\src\\pay.ts:1:1',
  ])
})

test('a stack ends where the task was called, and is kept whole where nothing of it is the task’s own', () => {
  const error = new Error('m')
  const called = '    at run (/opt/sluice/dist/worker/inline.js:9:9)'
  error.stack = [
    'Error: m',
    '    at send (/app/node_modules/x/index.js:1:1)',
    '    at pay (/app/pay.js:1:1)',
    called,
  ].join('\n')
  expect(describeThrown(error, { foreign: ['/opt/sluice/dist/'] }).stack).toEqual([
    { line: 'send (/app/node_modules/x/index.js:1:1)' },
    { line: 'pay (/app/pay.js:1:1)', own: true },
  ])
  error.stack = ['Error: m', called].join('\n')
  expect(describeThrown(error, { foreign: ['/opt/sluice/dist/'] }).stack).toEqual([
    { line: 'run (/opt/sluice/dist/worker/inline.js:9:9)' },
  ])
})

test('whatever is thrown, its detail can be stored and has at most 16 kB', () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withObjectString: true,
    withTypedArray: true,
    withSparseArray: true,
    size: 'medium',
  })
  const errors = fc
    .tuple(fc.string({ unit: 'binary', maxLength: 5000 }), anything, anything, fc.array(anything))
    .map(([message, cause, properties, several]) =>
      Object.assign(new AggregateError(several, message, { cause }), { properties }),
    )
  fc.assert(
    fc.property(fc.oneof(anything, errors), (thrown) => {
      const detail = describeThrown(thrown)
      check(detail)
      expect(readDetail(detail)).toEqual(detail)
    }),
    { numRuns: 100, endOnFailure: true },
  )
})

test('a detail that comes from elsewhere is taken as far as it has the right shape, within the bound', () => {
  expect(readDetail(null)).toBeUndefined()
  expect(readDetail('text')).toBeUndefined()
  expect(readDetail({ stack: ['a'] })).toBeUndefined()
  expect(
    readDetail({
      class: 'ValueError',
      message: 'bad\0',
      stack: ['File "a.py", line 3', { line: 'b', own: true, more: 1 }, 7],
      cause: { message: 'x' },
      other: 1,
    }),
  ).toEqual({
    class: 'ValueError',
    message: 'bad␀',
    stack: [{ line: 'File "a.py", line 3' }, { line: 'b', own: true }],
    cause: { class: 'Error', message: 'x' },
  })
  fc.assert(
    fc.property(
      fc.jsonValue({ maxDepth: 6 }),
      fc.jsonValue(),
      fc.string({ maxLength: 20_000 }),
      (a, b, c) => {
        const detail = readDetail({
          class: c,
          message: c,
          properties: { a },
          value: b,
          cause: { class: 'X', value: c },
        })
        check(detail!)
      },
    ),
  )
})
