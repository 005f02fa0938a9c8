import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/check-words.mjs', import.meta.url))

/** Runs the check on a tree with these files and returns its complaints, without the advice below each. */
async function complaints(files: Readonly<Record<string, string>>): Promise<string[]> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-words-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  for (const [name, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), source)
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, root], (error, _, stderr) =>
      resolve(error === null ? [] : stderr.split('\n').filter((line) => /^\S+:\d+: /.test(line))),
    )
  })
}

const FORBIDDEN = `who${'ever'}`

test('accepts plain texts, and words that are forbidden only in another meaning', async () => {
  const found = await complaints({
    'src/a.ts': "throw new Error('job 7 is not a job of this owner; job 7 does not exist')",
    'docs/a.md': 'The server asks the worker to stop.',
    'sql/functions/a.sql': "raise exception 'lane % does not exist', p_lane;",
    'test/a.test.ts': "test('requeues a job when its worker dies', () => {})",
  })
  expect(found).toEqual([])
})

test('reports a forbidden word in messages, documentation, SQL texts and test titles, with its line', async () => {
  const text = `ask ${FORBIDDEN} runs it`
  const found = await complaints({
    'src/a.ts': `// A comment.\nthrow new Error('${text}')\nconst b = \`\${x} ${text}\``,
    'dashboard/src/b.tsx': `export const B = () => <p title="${text}" />`,
    'docs/c.md': `# Title\n\n${text}\n`,
    'sql/functions/d.sql': `begin\n  raise exception '${text}';\nend`,
    'test/e.test.ts': `const data = '${text}'\ntest('${text}', () => {})`,
  })
  expect(found.map((line) => line.split(': ')[0])).toEqual([
    'src/a.ts:2',
    'src/a.ts:3',
    'dashboard/src/b.tsx:1',
    'sql/functions/d.sql:2',
    'test/e.test.ts:2',
    'docs/c.md:3',
  ])
  expect(found[0]).toBe(`src/a.ts:2: "${FORBIDDEN}" in: ${text}`)
})

test('reports a name that the glossary replaces anywhere, code included', async () => {
  const found = await complaints({
    'src/a.ts': `const code = ${`UNKNOWN${'_TASK'}`}\nconst other = PROCESS_POOL_FULL`,
    'docs/b.md': `Run \`sluice ${'nice'} 7\`.`,
  })
  expect(found.map((line) => line.split(': ')[0])).toEqual(['src/a.ts:1', 'docs/b.md:1'])
})

test('ignores comments, code in documentation, and texts of tests other than titles', async () => {
  const found = await complaints({
    'src/a.ts': `/** Of ${FORBIDDEN} asks. */\nconst a = /'${FORBIDDEN} is'/`,
    'docs/b.md': `\`\`\`text\n${FORBIDDEN} it is\n\`\`\`\n\nThe text \`${FORBIDDEN}\`.`,
    'test/c.test.ts': `const input = '${FORBIDDEN} it is'`,
  })
  expect(found).toEqual([])
})
