// Releases the version in package.json: checks that it can be released, runs all tests, publishes the package and tags the commit.
//
//   npm run release -- --dry-run                 everything but the publication and the tag
//   npm run release -- --dry-run --skip-tests    also without the tests
//   npm run release
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    'dry-run': { type: 'boolean', default: false },
    'skip-tests': { type: 'boolean', default: false },
  },
})
const dry = values['dry-run']
if (values['skip-tests'] && !dry) {
  console.error('--skip-tests requires --dry-run: no release goes out untested')
  process.exit(2)
}
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
if (!values['skip-tests']) run('npm', 'test')
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
