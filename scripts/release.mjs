// Releases the version in package.json: checks that it can be released, then publishes and tags it.
//
//   node scripts/release.mjs --dry-run    everything but the publication and the tag
//   node scripts/release.mjs
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const dry = process.argv.includes('--dry-run')
const root = join(import.meta.dirname, '..')
const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const tag = `v${version}`

const problems = [
  ...(output('git', 'status', '--porcelain') === '' ? [] : ['the working tree has uncommitted changes']),
  ...(output('git', 'branch', '--show-current') === 'main' ? [] : ['the branch is not main']),
  ...(output('git', 'tag', '--list', tag) === ''
    ? []
    : [`the tag ${tag} exists: raise the version in package.json`]),
  ...(readFileSync(join(root, 'CHANGELOG.md'), 'utf8').includes(`## ${version} `)
    ? []
    : [`CHANGELOG.md has no heading "## ${version} (DATE)": move the entries under Unreleased below it`]),
]
for (const problem of problems) console.error(`cannot release ${name} ${version}: ${problem}`)
if (problems.length > 0 && !dry) process.exit(1)

run('npm', 'ci')
run('npm', 'test')
run('node', 'scripts/check-package.mjs')
run('npm', 'publish', ...(dry ? ['--dry-run'] : []))
if (dry) console.log(`dry run: ${name} ${version} was not published, and ${tag} was not tagged`)
else {
  run('git', 'tag', '--annotate', tag, '--message', `${name} ${version}`)
  console.log(`published ${name} ${version}; push the tag with: git push origin ${tag}`)
}
process.exitCode = problems.length > 0 ? 1 : 0

function output(program, ...args) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${stderr}`)
  return stdout.trim()
}

function run(program, ...args) {
  const { status } = spawnSync(program, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) {
    console.error(`${program} ${args.join(' ')} failed: nothing was published`)
    process.exit(1)
  }
}
