import { execFile, execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/check-commits.mjs', import.meta.url))
const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@b']

/** What the check reports about a branch with these commits on top of main, without their hashes. */
async function problemsOf(...subjects: readonly string[]): Promise<string[]> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-commits-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const git = (...args: string[]) => execFileSync('git', [...AUTHOR, ...args], { cwd: root })
  git('init', '--quiet', '--initial-branch=main')
  git('commit', '--quiet', '--allow-empty', '--message=Anything goes on main.')
  git('switch', '--quiet', '--create', 'work')
  for (const subject of subjects) git('commit', '--quiet', '--allow-empty', `--message=${subject}`)
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT], { env: { ...process.env, CHECK_ROOT: root } }, (error, _, stderr) =>
      resolve(
        error === null
          ? []
          : stderr
              .trim()
              .split('\n')
              .map((line) => line.replace(/^commit \w+ /, '')),
      ),
    )
  })
}

test('accepts subjects with an area and an imperative, and anything on main', async () => {
  expect(
    await problemsOf('dispatch: requeue prefetched jobs', 'cli: embed the server', 'sql/lanes: add SL013'),
  ).toEqual([])
})

test('names subjects without an area, in another mood, too long, or with a full stop', async () => {
  const long = `dispatch: ${'x'.repeat(63)}`
  const found = await problemsOf(
    'Requeue jobs',
    'cli: Add a verb',
    'cli: added a verb',
    'cli: adding a verb',
    long,
    'cli: add a verb.',
  )
  expect(found.sort()).toEqual([
    'Requeue jobs: begin with an area and a colon, such as "dispatch: requeue prefetched jobs"',
    'cli: Add a verb: begin the words after the area in lower case',
    'cli: add a verb.: remove the full stop',
    'cli: added a verb: use the imperative instead of "added"',
    'cli: adding a verb: use the imperative instead of "adding"',
    `${long}: 73 characters; a subject has at most 72`,
  ])
})

test('checks nothing where there is no repository', async () => {
  const root = await mkdtemp(join(tmpdir(), 'sluice-commits-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const env = { ...process.env, CHECK_ROOT: root, GIT_CEILING_DIRECTORIES: tmpdir() }
  expect(execFileSync(process.execPath, [SCRIPT], { env, encoding: 'utf8' })).toBe('')
})
