import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const root = fileURLToPath(new URL('../..', import.meta.url))

const EXAMPLES: Readonly<Record<string, RegExp>> = {
  'quick-start.ts': /^cat.png is 64 pixels wide\n$/,
  'keyed-transaction.ts':
    /^same job: true attached: true\nrefused: KEY_CONFLICT\norder A-\d+ is on its way\n$/,
  'process-pool/main.ts': /^primes below 400000: 33860\n$/,
  'exec-task/main.mjs': /^\{\n {2}sha256: '[0-9a-f]{64}'\n\}\ninfo: job \d+, attempt 1\n$/,
}

interface WorkflowExample {
  readonly input: unknown
  /** Where the file has several. */
  readonly workflow?: string
  /** Programs it cannot do without. */
  readonly needs?: readonly string[]
  readonly result: unknown
}

/** What `sluice run` makes of them. */
const WORKFLOWS: Readonly<Record<string, WorkflowExample>> = {
  'word-count/workflow.yaml': {
    input: { folder: '../../docs', parts: 12 },
    result: {
      parts: 12,
      words: expect.any(Number),
      different: expect.any(Number),
      top: expect.arrayContaining([{ word: 'the', count: expect.any(Number) }]),
    },
  },
  'countdown/workflow.yaml': {
    input: { n: 3 },
    result: { n: 3, below: { n: 2, below: { n: 1, below: null } } },
  },
  'bgzip/workflow.yaml': {
    input: { references: 3, bases: 20_000 },
    needs: ['bgzip', 'samtools'],
    result: [1, 2, 3].map((number) => ({
      name: `ref${number}`,
      length: 20_000,
      bytes: expect.any(Number),
      middle: expect.stringMatching(/^[ACGT]{10}$/),
    })),
  },
  'llm-batches/workflow.config.ts': {
    input: { documents: 60 },
    workflow: 'summaries',
    // The 30th of each 30 is refused: 1 of 10 in its batch, which is still 90 %.
    result: {
      batches: 6,
      summaries: [0, 1, 2, 3, 4, 5].map((batch) =>
        Array.from({ length: 10 }, (_, place) => {
          const number = batch * 10 + place
          return number % 30 === 29
            ? null
            : { number, summary: expect.any(String), attempt: number % 7 === 3 ? 2 : 1 }
        }),
      ),
    },
  },
}

/** Of a workflow with `needs`, the first that is not installed here. */
function missing({ needs = [] }: WorkflowExample): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return needs.find((program) => !folders.some((folder) => existsSync(join(folder, program))))
}

for (const [name, example] of Object.entries(WORKFLOWS)) {
  const lacking = missing(example)
  const title = `examples/${name} runs and gives what it should`
  if (lacking !== undefined) {
    test.skip(`${title}: skipped, ${lacking} is not installed`, () => {})
    continue
  }
  test(title, { timeout: 240_000 }, async () => {
    const input = JSON.stringify(example.input)
    const which = example.workflow === undefined ? [] : ['--workflow', example.workflow]
    const args = ['dist/cli/main.js', 'run', join('examples', name), '--json', '--input', input, ...which]
    const { stdout, stderr } = await node(args, 55_000)
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toMatchObject({ status: 'completed', result: example.result })
  })
}

test('the words that the example counts are those that are there', { timeout: 240_000 }, async () => {
  const names = await readdir(join(root, 'docs'), { recursive: true })
  const texts = await Promise.all(
    names.filter((name) => name.endsWith('.md')).map((name) => readFile(join(root, 'docs', name), 'utf8')),
  )
  // As the programs see it: letters of ASCII make words, and a byte of anything else ends one.
  const words = texts
    .join('')
    .toLowerCase()
    .match(/[a-z]+/g)!
  const input = JSON.stringify(WORKFLOWS['word-count/workflow.yaml']!.input)
  const args = ['dist/cli/main.js', 'run', 'examples/word-count/workflow.yaml', '--json', '--input', input]
  const { result } = JSON.parse((await node(args, 55_000)).stdout) as {
    result: { words: number; different: number; top: { word: string; count: number }[] }
  }
  expect([result.words, result.different]).toEqual([words.length, new Set(words).size])
  const the = words.filter((word) => word === 'the').length
  expect(result.top).toContainEqual({ word: 'the', count: the })
})

test.each(Object.entries(EXAMPLES))('examples/%s runs and prints what it should', async (name, output) => {
  const jiti = name.endsWith('.ts') ? [join(root, 'node_modules/jiti/lib/jiti-cli.mjs')] : []
  const { stdout, stderr } = await node([...jiti, join(root, 'examples', name)])
  // On a slow machine jobs of a full lane wait longer than a second, and the program says so.
  expect(stderr.split('\n').filter((line) => !line.includes('"msg":"jobs wait for capacity"'))).toEqual([''])
  expect(stdout).toMatch(output)
})

test('every example is run by this test', async () => {
  const names = await readdir(join(root, 'examples'), { recursive: true })
  const workflows = names.filter((name) => /(^|\/)workflow\.(yaml|config\.ts)$/.test(name))
  expect(workflows.sort()).toEqual(Object.keys(WORKFLOWS).sort())
  const programs = names.filter((name) => /\.(ts|mjs)$/.test(name) && !name.endsWith('tasks.ts'))
  expect(programs.filter((name) => !workflows.includes(name)).sort()).toEqual(Object.keys(EXAMPLES).sort())
})

test('the program of the README is the quick start', async () => {
  const [, program] =
    /^```ts run\n([\s\S]*?)^```$/m.exec(await readFile(join(root, 'README.md'), 'utf8')) ?? []
  expect(await readFile(join(root, 'examples/quick-start.ts'), 'utf8')).toBe(program)
})

test('the examples compile', async () => {
  const tsc = join(root, 'node_modules/typescript/lib/tsc.js')
  expect(await node([tsc, '--noEmit', '-p', join(root, 'examples')])).toEqual({ stdout: '', stderr: '' })
})

function node(args: readonly string[], timeout = 25_000): Promise<{ stdout: string; stderr: string }> {
  const options = { cwd: root, env: { ...process.env, DATABASE_URL: database.url }, timeout }
  return new Promise((resolve) => {
    execFile(process.execPath, args, options, (error, stdout, stderr) =>
      resolve({ stdout, stderr: error === null ? stderr : `${stderr}${error.message}` }),
    )
  })
}
