import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { compile, docPrograms, programsOf, run } from '../support/doc-programs.ts'

const database = useDatabase()
const programs = await docPrograms()
// Below dist/, which nobody keeps: a program there finds the package by its own name, as a user's would.
const dist = fileURLToPath(new URL('../../dist/', import.meta.url))
let folder: string
let complaints: string

beforeAll(async () => {
  folder = await mkdtemp(join(dist, '.docs-'))
  complaints = await compile(folder, programs)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('every TypeScript block of README, guides and reference compiles', () => {
  expect(programs.length).toBeGreaterThan(0)
  expect(complaints).toBe('')
})

test.runIf(existsSync(join(dist, '../README.md')))('the README has a program that runs', () => {
  expect(programs.some(({ page, runnable }) => page === 'README.md' && runnable)).toBe(true)
})

for (const program of programs.filter((each) => each.runnable)) {
  test(`the program at ${program.page}:${program.line} runs`, async () => {
    const { code, stdout, stderr } = await run(folder, program, { DATABASE_URL: database.url })
    // On a slow machine jobs of a full lane or device wait longer than a second, and that is told.
    const told = stderr.split('\n').filter((line) => !line.includes('"msg":"jobs wait for capacity"'))
    expect({ code, told }).toEqual({ code: 0, told: [''] })
    if (program.output !== undefined) expect(stdout).toBe(program.output)
  })
}

test('blocks are found with their names, marks and expected output', () => {
  const page = [
    'text',
    '```ts',
    '// file: tasks.ts',
    'export const a = 1',
    '```',
    '',
    '```ts run',
    "import { a } from './tasks.ts'",
    'console.log(a)',
    '```',
    '',
    '```text output',
    '1',
    '```',
    '```yaml',
    'a: 1',
    '```',
  ].join('\n')
  expect(programsOf('p.md', page)).toEqual([
    expect.objectContaining({ file: 'tasks.ts', runnable: false, output: undefined }),
    expect.objectContaining({ file: 'line-7.ts', line: 7, runnable: true, output: '1\n' }),
  ])
  expect(() => programsOf('p.md', '```ts ran\n```')).toThrow('p.md:1: "ran" means nothing after ts')
})

test('the check of the pages names a missing code, an invented one, dead links, and files that do not exist', async () => {
  const found = await checkDocs({
    'src/errors.ts': 'export const ERROR_STATUS = {\n  CLOSED: 503,\n  KEY_CONFLICT: 409,\n} as const',
    'sql/functions/submit/submit.sql': "raise exception using errcode = 'SL009'",
    'docs/reference/errors.md': '### CLOSED (503)\n### RETIRED (410)\n',
    'README.md':
      '[a](docs/reference/errors.md#closed-503) [b](#nowhere) [c](docs/none.md) [d](https://example.org) `src/errors.ts` `sql/<area>/f.sql` `src/old.ts` at commit 1, `src/gone.ts`',
  })
  expect(found).toEqual([
    'docs/reference/errors.md: no heading "### KEY_CONFLICT (409)"',
    'docs/reference/errors.md: RETIRED (410) is not in src/errors.ts',
    'docs/reference/errors.md: SQLSTATE SL009 is missing',
    'README.md: the link #nowhere names a heading that is not there',
    'README.md: the link docs/none.md leads nowhere',
    'README.md: there is no src/gone.ts',
  ])
})

async function checkDocs(files: Readonly<Record<string, string>>): Promise<string[]> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-docs-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
  const script = fileURLToPath(new URL('../../scripts/check-docs.mjs', import.meta.url))
  return new Promise((resolve) => {
    execFile(process.execPath, [script, root], (_, __, stderr) => resolve(stderr.trim().split('\n')))
  })
}
