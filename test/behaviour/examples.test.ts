import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
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

test.each(Object.entries(EXAMPLES))('examples/%s runs and prints what it should', async (name, output) => {
  const jiti = name.endsWith('.ts') ? [join(root, 'node_modules/jiti/lib/jiti-cli.mjs')] : []
  const { stdout, stderr } = await node([...jiti, join(root, 'examples', name)])
  expect(stderr).toBe('')
  expect(stdout).toMatch(output)
})

test('every example is run by this test', async () => {
  const names = await readdir(join(root, 'examples'), { recursive: true })
  const programs = names.filter((name) => /\.(ts|mjs)$/.test(name) && !name.endsWith('tasks.ts'))
  expect(programs.sort()).toEqual(Object.keys(EXAMPLES).sort())
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

function node(args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  const options = { cwd: root, env: { ...process.env, DATABASE_URL: database.url }, timeout: 25_000 }
  return new Promise((resolve) => {
    execFile(process.execPath, args, options, (error, stdout, stderr) =>
      resolve({ stdout, stderr: error === null ? stderr : `${stderr}${error.message}` }),
    )
  })
}
