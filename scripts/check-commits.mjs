// Checks the subjects of commits: an area, a colon, an imperative in lower case, at most 72 characters. Part of `npm run check`, which
// checks the commits that are not on main yet. Where there is no Git history to compare with, it checks nothing.
//
//   node scripts/check-commits.mjs [RANGE]    for example v1.0.0..HEAD; origin/main..HEAD or main..HEAD unless given
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const MAX = 72
const root = process.env.CHECK_ROOT ?? join(import.meta.dirname, '..')
const range = process.argv[2] ?? defaultRange()
const problems = range === undefined ? [] : subjectsOf(range).flatMap(judge)

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function defaultRange() {
  const base = ['origin/main', 'main'].find(
    (name) => git('rev-parse', '--verify', '--quiet', name) !== undefined,
  )
  return base === undefined ? undefined : `${base}..HEAD`
}

function subjectsOf(commits) {
  const found = git('log', '--no-merges', '--format=%h %s', commits)
  if (found === undefined) throw new Error(`git knows no commits ${commits}`)
  return found.split('\n').filter((line) => line !== '')
}

function judge(line) {
  const subject = line.slice(line.indexOf(' ') + 1)
  const [, verb] = /^[a-z][a-z0-9 ./-]*: (\S+)/.exec(subject) ?? []
  const report = (text) => [`commit ${line}: ${text}`]
  if (verb === undefined)
    return report('begin with an area and a colon, such as "dispatch: requeue prefetched jobs"')
  if (/^[A-Z][a-z]/.test(verb)) return report('begin the words after the area in lower case')
  if (/(?:ed|ing)$/.test(verb) && !['embed', 'feed', 'need', 'seed', 'speed'].includes(verb))
    return report(`use the imperative instead of "${verb}"`)
  if (subject.length > MAX) return report(`${subject.length} characters; a subject has at most ${MAX}`)
  return subject.endsWith('.') ? report('remove the full stop') : []
}

/** What Git prints, or undefined if it fails or there is no repository. */
function git(...args) {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}
