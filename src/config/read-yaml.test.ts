import { describe, expect, test } from 'vitest'
import { formatPlace, type Path } from '../model/setting-value.ts'
import { readYaml } from './read-yaml.ts'

function problemsOf(source: string): string[] {
  return readYaml(source, 'sluice.yaml').problems.map(
    ({ path, place, message }) => `${place === undefined ? '' : formatPlace(place)} ${path}: ${message}`,
  )
}

function placeOf(source: string, path: Path, part: 'key' | 'value' = 'value'): string {
  const place = readYaml(source, 'f').locate(path, part)
  return place === undefined ? '' : formatPlace(place)
}

describe('values', () => {
  test('are those of YAML 1.2: yes is text, an empty value is null', () => {
    const { value, readable, problems } = readYaml('a: yes\nb: 0x10\nc:\nd: [1, "2", {e: 1.5}]\n1: x', 'f')
    expect({ value, readable, problems }).toEqual({
      value: { a: 'yes', b: 16, c: null, d: [1, '2', { e: 1.5 }], '1': 'x' },
      readable: true,
      problems: [],
    })
  })

  test.each(['', '# nothing yet\n', '---\n'])('an empty file is null', (source) => {
    expect(readYaml(source, 'f')).toMatchObject({ value: null, readable: true, problems: [] })
  })

  test('aliases and merge keys are followed; what is written in the map wins', () => {
    const source = `
tasks:
  a: &base { timeout: 1m, retry: &retry { attempts: 5 } }
  b: { <<: *base, timeout: 2m }
  c: { retry: *retry }
  d: { <<: [{ timeout: 3m }, *base] }
  e: { "<<": 1 }
`
    expect(readYaml(source, 'f').value).toEqual({
      tasks: {
        a: { timeout: '1m', retry: { attempts: 5 } },
        b: { timeout: '2m', retry: { attempts: 5 } },
        c: { retry: { attempts: 5 } },
        d: { timeout: '3m', retry: { attempts: 5 } },
        e: { '<<': 1 },
      },
    })
  })

  test('one anchor may be used by hundreds of tasks', () => {
    const tasks = Array.from({ length: 500 }, (_, index) => `  t${index}: *base`)
    const { value, problems } = readYaml(`tasks:\n  base: &base { timeout: 1m }\n${tasks.join('\n')}`, 'f')
    expect(problems).toEqual([])
    expect(Object.keys((value as { tasks: object }).tasks)).toHaveLength(501)
  })

  test('an alias means the last anchor of its name before it', () => {
    expect(readYaml('a: &x 1\nb: *x\nc: &x 2\nd: *x', 'f').value).toEqual({ a: 1, b: 1, c: 2, d: 2 })
  })
})

describe('places', () => {
  const source = 'lanes:\n  interactive:\n    tasks: [resize, align]\n    slots: -1\n    empty:\n'

  test('keys, values and items have line and column', () => {
    expect(placeOf(source, ['lanes', 'interactive', 'slots'])).toBe('f:4:12')
    expect(placeOf(source, ['lanes', 'interactive', 'slots'], 'key')).toBe('f:4:5')
    expect(placeOf(source, ['lanes', 'interactive', 'tasks', 1])).toBe('f:3:21')
    expect(placeOf(source, ['lanes', 'interactive', 'empty'], 'key')).toBe('f:5:5')
  })

  test('what is not written has the place of what would hold it', () => {
    expect(placeOf(source, ['lanes', 'interactive', 'stale'])).toBe('f:3:5')
    expect(placeOf(source, ['capacity'])).toBe('f:1:1')
    expect(placeOf('', ['capacity'])).toBe('f')
  })

  test('behind an alias, the place is where the value is written', () => {
    const shared = 'a: &x\n  slots: 1\nb: *x\nc:\n  <<: *x\n'
    expect(placeOf(shared, ['b', 'slots'])).toBe('f:2:10')
    expect(placeOf(shared, ['b'])).toBe('f:3:4')
    expect(placeOf(shared, ['c', 'slots'])).toBe('f:2:10')
  })

  test('windows line ends count as one', () => {
    expect(placeOf('a: 1\r\nb:\r\n  c: 2\r\n', ['b', 'c'])).toBe('f:3:6')
  })
})

describe('problems', () => {
  test('a key written twice is refused with both places, at any depth', () => {
    expect(problemsOf('lanes:\n  a: { slots: 1, slots: 2 }\n  b:\n    slots: 1\nlanes: {}\n')).toEqual([
      'sluice.yaml:2:18 lanes.a.slots: duplicate key, first defined at sluice.yaml:2:8; keep one',
      'sluice.yaml:5:1 lanes: duplicate key, first defined at sluice.yaml:1:1; keep one',
    ])
  })

  test('reports a syntax error with its position, and not the errors that follow from it', () => {
    expect(problemsOf('a: { b: 1\nc: 2\nd:\n  - x\n  - y: 3\n')).toEqual([
      'sluice.yaml:2:1 : not valid YAML: Flow map in block collection must be sufficiently indented and end with a }',
    ])
    expect(problemsOf('a: "open\nb: 1')[0]).toMatch(/^sluice\.yaml:\d+:\d+ : not valid YAML: /)
    expect(problemsOf('a: [1\n')[0]).toMatch(/^sluice\.yaml:2:1 /)
    expect(problemsOf('a:\n\tb: 1')[0]).toContain('Tabs are not allowed')
    expect(readYaml('a: [1\n', 'f').readable).toBe(false)
  })

  test.each([
    ['steps:\n  a:\n    with: { file: ${{ item }} }\n  b: 1\nc: 2\n', '3:20', '"${{ item }}"'],
    ['a: [${{ x }}]\nb: 1\n', '1:6', '"${{ x }}"'],
    ['when: ${{ x ? 1 : 2 }}\n', '1:7', '"${{ x ? 1 : 2 }}"'],
    ['a: { b: ${{ "x" }}, c: 1 }\n', '1:10', `'\${{ "x" }}'`],
    [`a: [\${{ ${'x'.repeat(70)} }}]\n`, '1:6', '"${{ ... }}"'],
    ["a: { don't: ${{ x }} }\n", '1:14', '"${{ x }}"'],
  ])('an expression without quotes is one problem, which says to quote it', (source, place, quoted) => {
    const problems = problemsOf(source)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(new RegExp(`^sluice\\.yaml:${place} : not valid YAML: `))
    expect(problems[0]?.endsWith(`; an expression needs quotes around it: ${quoted}`)).toBe(true)
  })

  test.each(['a: "${{ x }}" b\n', "a: '${{ x }}' b\n", 'a: [1 # ${{ x }}\n', 'b: "${{ x }}"\na: @a\n'])(
    'an expression that is quoted, commented out or in another line is not blamed',
    (source) => {
      const problems = problemsOf(source)
      expect(problems).toHaveLength(1)
      expect(problems[0]).not.toContain('needs quotes')
    },
  )

  test('further documents, tags and keys that are no text are refused', () => {
    expect(problemsOf('a: 1\n---\nb: 1\n')).toEqual([
      'sluice.yaml:2:1 : a second document starts here; keep one',
    ])
    expect(problemsOf('a: !secret x\n')[0]).toMatch(
      /^sluice\.yaml:1:4 : Unresolved tag: !secret; remove the tag/,
    )
    expect(problemsOf('? [a]\n: 1\n')).toEqual(['sluice.yaml:1:3 : a key must be plain text'])
  })

  test('__proto__ is refused and pollutes nothing', () => {
    const { value, problems } = readYaml('tasks:\n  __proto__: { polluted: 1 }\n', 'f')
    expect(problems).toMatchObject([
      { path: 'tasks["__proto__"]', message: 'not allowed as a key; remove it' },
    ])
    expect(value).toEqual({ tasks: {} })
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
  })

  test('an alias without an anchor, of itself, or merged without being a map is refused', () => {
    expect(problemsOf('a: *x\nb: &x 1\n')).toEqual([
      'sluice.yaml:1:4 a: the alias *x has no anchor &x before it',
    ])
    expect(problemsOf('a: &x [*x]\n')).toEqual(['sluice.yaml:1:8 a[0][0]: the alias *x contains itself'])
    expect(problemsOf('a: &x { <<: *x }\n')).toEqual(['sluice.yaml:1:13 a: the alias *x contains itself'])
    expect(problemsOf('a: { <<: 5 }\nb: { <<: }\n')).toHaveLength(2)
  })
})

describe('files that grow when they are read', () => {
  test('nested aliases are refused before they fill the memory', () => {
    const levels = Array.from({ length: 20 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(10)}]`)
    const { problems, readable } = readYaml(`a0: &a0 [${'x,'.repeat(10)}]\n${levels.join('\n')}`, 'f')
    expect(readable).toBe(false)
    expect(problems).toHaveLength(1)
    expect(problems[0]?.message).toContain('more than 100000 values')
  })

  test.each([
    ['open lists', '['.repeat(100_000)],
    ['lists', `a: ${'['.repeat(5000)}${']'.repeat(5000)}`],
    ['maps', `${'{a: '.repeat(5000)}${'}'.repeat(5000)}`],
    ['sequences', '- '.repeat(20_000)],
    ['explicit keys', '? '.repeat(20_000)],
  ])('%s nested without end are refused, and the process lives', (_kind, source) => {
    expect(readYaml(source, 'f').problems.map(({ message }) => message)).toEqual([
      'nested more than 64 levels deep',
    ])
  })

  test('a chain of aliases deeper than any text is refused too', () => {
    // Under a second "x", where nothing is converted, so that only the last line follows the chain.
    const chain = Array.from({ length: 5000 }, (_, n) => `  a${n + 1}: &a${n + 1} [*a${n}]`)
    const { problems } = readYaml(`x: 1\nx:\n  a0: &a0 1\n${chain.join('\n')}\ny: *a5000\n`, 'f')
    expect(problems.map(({ message }) => message)).toEqual([
      'duplicate key, first defined at f:1:1; keep one',
      'once its aliases are followed, holds more than 100000 values or 64 levels',
    ])
  })
})

test('asks for quotes around a cron expression that begins with a star', () => {
  const { problems, readable } = readYaml(
    'schedules:\n  tick:\n    cron: * * * * *\n    task: a\n',
    'sluice.yaml',
  )
  expect(readable).toBe(false)
  expect(problems).toHaveLength(1)
  expect(problems[0]!.message).toContain(
    'a cron expression that begins with * needs quotes around it: cron: "* * * * *"',
  )
  expect(problems[0]!.place).toMatchObject({ line: 3 })
  expect(readYaml('cron: 0 3 * * *', 'sluice.yaml').value).toEqual({ cron: '0 3 * * *' })
})

test('a number that would lose digits is a problem at its place', () => {
  const { problems } = readYaml(
    'input:\n  id: 9007199254740993\n  ok: [9007199254740992, 0x1F, +1.5, .inf]\n',
    'sluice.yaml',
  )
  expect(problems).toMatchObject([{ path: 'input.id', place: { line: 2 } }])
  expect(problems[0]!.message).toContain('9007199254740993 has more digits than numbers keep')
})
