// Fails when a folder of src/ imports one that CONTRIBUTING.md does not allow, when imports form a cycle, when SQL or the driver
// appears outside its folder, when more files of src/store name the tables of jobs, or when a pure folder reads the clock, random
// numbers or the machine. Needs no build. Part of `npm run check`.
//
//   node scripts/check-imports.mjs [FOLDER]    src unless given
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

/**
 * Folder of src/ -> folders it may import. Loose files of src/ are the folder ".", except index.ts: no row names
 * "index", so nothing imports the public barrel. A path below a folder may have a row of its own: the longest fits.
 */
const MAY_IMPORT = {
  '.': [],
  model: ['.'],
  // Written down, checked into a graph, moved on. Each reads the graph; expressions know nothing of workflows.
  workflow: ['.', 'model', 'workflow/expression'],
  'workflow/expression': ['.', 'model'],
  'workflow/compile': ['.', 'model', 'workflow', 'workflow/expression'],
  'workflow/define': ['.', 'model', 'workflow', 'workflow/expression', 'workflow/compile'],
  'workflow/advance': ['.', 'model', 'workflow', 'workflow/expression'],
  // Decides who gets which device; the simulator in it draws its workloads from a seed.
  policy: ['.'],
  config: ['.', 'model', 'workflow'],
  db: ['.', 'model'],
  store: ['.', 'model', 'db'],
  engine: ['.', 'model', 'workflow', 'policy', 'db', 'store'],
  duties: ['.', 'model', 'db', 'store', 'engine'],
  worker: ['.', 'model'],
  // The only place where a worker meets the engine: behind the contract in worker/job-source.ts.
  'worker/sources': ['.', 'model', 'worker', 'db', 'store', 'engine', 'api'],
  // Who starts workers, and when. Provisioners know nothing of the database.
  fleet: ['.', 'model', 'db', 'store', 'engine', 'fleet/provisioners'],
  'fleet/provisioners': ['.', 'model', 'fleet'],
  // The wire contract: browsers load it too.
  api: ['.', 'model'],
  client: ['.', 'model', 'api'],
  app: ['.', 'model', 'workflow', 'config', 'db', 'store', 'engine', 'duties', 'worker', 'fleet', 'api'],
  server: ['.', 'model', 'workflow', 'api', 'db', 'engine', 'app', 'server/remote'],
  // Does for workers without a database what worker/sources does for the others.
  'server/remote': ['.', 'model', 'workflow', 'api', 'db', 'store', 'engine', 'app', 'server'],
  cli: [
    '.',
    'model',
    'policy',
    'config',
    'db',
    'engine',
    'duties',
    'worker',
    'app',
    'api',
    'client',
    'server',
    'cli/tour/scenes',
  ],
  // Defines tasks and workflows, as a program of a user does.
  'cli/tour/scenes': ['.', 'model', 'worker', 'workflow', 'app'],
  index: ['.', 'model', 'workflow', 'config', 'db', 'store', 'engine', 'duties', 'worker', 'app'],
}

/** Folders of which only types may be imported: what the engine hands out is described where it is read. */
const MAY_IMPORT_TYPES = { cli: ['store'], server: ['store'] }

/** Data in, data out: no clock, no randomness, no machine. */
const PURE = ['model', 'workflow', 'policy', 'api']
const IMPURE = /\b(?:Date\.now|new Date\(\)|performance\.now|Math\.random|process\.|setTimeout|setInterval)/

/** Statements outside src/store, each with its reason. */
const SQL_ALLOWED = {
  'db/listener.ts': 'listen, and the ping of that connection',
  'db/query-with-settings.ts': 'the settings that are sent before every statement',
  'db/functions.ts': 'part of db/migrate.ts: creates the functions that store files call',
  'db/lock-relations.ts': 'part of db/migrate.ts: what it locks, and who holds it',
  'db/migrate.ts': 'runs before there is a schema for a store file to speak about',
  'db/schema-state.ts': 'part of db/migrate.ts: reads how far the schema is',
  'db/embedded/server.ts': 'creates the database in single-user mode, before anything can connect',
}
// A word of SQL by itself is no statement: code may look for one at the start of a text.
const SQL = new RegExp(
  String.raw`^\s*(?:(?:select|explain|listen|notify|truncate|vacuum|analyze|copy)\s+\S|insert into\s|delete from\s|update\s+[\w.]+\s+(?:as\s+|\w+\s+)?set\s` +
    String.raw`|with\s+(?:recursive\s+)?\w+\s+as\s|(?:create|alter|drop)\s+(?:or replace\s+|unique\s+|unlogged\s+)?(?:table|schema|function|index|type|database|role|extension|view)\s` +
    String.raw`|set\s+(?:local|session|role)\s)`,
  'i',
)

/** How jobs are stored. Everybody else reads the view sluice.jobs, or calls a function. */
const JOB_TABLES = /\bsluice\.(?:job_data|queue|claims|outcomes|job_keys|composites)\b/
/** Files of src/store that name these tables. The list only gets shorter: a change of a table has to look at each of them. */
const KNOW_JOB_TABLES = new Set([
  'append-logs',
  'claim-duties',
  'count-below',
  'count-failures',
  'count-leaves',
  'describe-composite',
  'explain-wait',
  'explain-window',
  'find-drift',
  'find-good-run',
  'find-jobs',
  'find-key-holder',
  'find-owners',
  'find-roots',
  'latest-samples',
  'list-failures',
  'list-lanes',
  'list-workers',
  'load-branches',
  'load-claimed',
  'load-decisions',
  'load-ended-children',
  'load-endings',
  'load-orders',
  'load-outcomes',
  'load-path',
  'load-run-path',
  'load-step',
  'load-tree-nodes',
  'nears-deadline',
  'record-late-endings',
  'recent-claims',
  'save-checkpoint',
  'save-progress',
])

/** Another folder may be named, for the test of this script. */
const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..', 'src'))
const problems = new Set()
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  .map((name) => join(root, name))
const sources = new Map(files.map((file) => [file, withoutComments(readFileSync(file, 'utf8'))]))
const imports = new Map(files.map((file) => [file, importsOf(file)]))

if (process.argv[2] === undefined)
  for (const name of KNOW_JOB_TABLES)
    if (!sources.has(join(root, 'store', `${name}.ts`)))
      problems.add(`src/store/${name}.ts does not exist: remove it from KNOW_JOB_TABLES`)
for (const file of files) {
  checkFolders(file)
  checkContent(file)
}
const finished = new Set()
for (const file of files) findCycle(file, [])
checkDashboard(join(root, '..', 'dashboard', 'src'))

for (const problem of [...problems].sort()) console.error(problem)
if (problems.size > 0)
  console.error(`${problems.size} broken import rules; the table is in scripts/check-imports.mjs`)
process.exitCode = problems.size === 0 ? 0 : 1

function checkFolders(file) {
  const from = rowOf(file)
  if (MAY_IMPORT[from] === undefined) {
    report(file, 'is in a folder without a row in the import table')
    return
  }
  for (const { target, typeOnly } of imports.get(file)) {
    const to = folderOf(target)
    if (!existsSync(target)) report(file, `imports ${nameOf(target)}, which does not exist`)
    else if (to === 'index') {
      report(file, 'imports the public barrel index.ts: import the file that defines the thing')
    } else if (to === 'store' && from === 'store') {
      report(file, `imports another store file, ${nameOf(target)}: compose them in engine/`)
    } else if (!maySee(from, target) && !(typeOnly && MAY_IMPORT_TYPES[from]?.includes(to))) {
      report(file, `may not import ${nameOf(target)}`)
    }
  }
}

/** A program like any other: what it can do, whoever has a key can do over HTTP. */
function checkDashboard(folder) {
  if (!existsSync(folder)) return
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.tsx?$/.test(name)) continue
    const file = join(folder, name)
    sources.set(file, withoutComments(readFileSync(file, 'utf8')))
    for (const { target, typeOnly } of importsOf(file)) {
      const inside = relative(root, target).split(sep).join('/')
      if (inside.startsWith('..') || inside === 'client/index.ts') continue
      if (!(typeOnly && inside.startsWith('api/')))
        report(file, `may not import ${inside}: the dashboard sees client/index.ts, and types of api`)
    }
  }
}

function maySee(from, target) {
  const to = rowOf(target)
  const seen = MAY_IMPORT[from]
  // A row for a subfolder is a wall inside its folder only; from outside it is part of it.
  return (
    to === from ||
    seen.includes(to) ||
    (!from.startsWith(folderOf(target)) && seen.includes(folderOf(target)))
  )
}

function checkContent(file) {
  const source = sources.get(file)
  const folder = folderOf(file)
  if (folder === 'client' && /from\s*'node:/.test(source))
    report(file, 'is for browsers too and imports a Node built-in')
  if (PURE.includes(folder)) {
    if (/from\s*'node:/.test(source)) report(file, 'is in a pure folder and imports a Node built-in')
    const impure = IMPURE.exec(source)
    if (impure) report(file, `is in a pure folder and uses ${impure[0]}: take it as a parameter`)
  }
  if (/from\s*'pg'/.test(source) && folder !== 'db')
    report(file, 'imports pg: only src/db speaks to the driver')
  if (folder === 'store') {
    checkJobTables(file, source)
    return
  }
  if (/(?<!function )\bstatement\(\s*['`]/.test(source))
    report(file, 'declares a statement: that belongs in src/store')
  if (SQL_ALLOWED[nameOf(file)] !== undefined) return
  for (const [, literal] of source.matchAll(/(?<=[^\w'`])['`]((?:[^'`\\]|\\.)*)['`]/g)) {
    if (SQL.test(literal))
      report(file, `contains SQL (${literal.trim().slice(0, 40)}): that belongs in src/store`)
  }
}

function checkJobTables(file, source) {
  const [table] = JOB_TABLES.exec(source) ?? []
  const isKnown = KNOW_JOB_TABLES.has(nameOf(file).replace(/^store\/|\.ts$/g, ''))
  if (table !== undefined && !isKnown)
    report(file, `names ${table}: read the view sluice.jobs, or put the statement into a function`)
  if (table === undefined && isKnown)
    report(file, 'names no table of jobs any more: remove it from KNOW_JOB_TABLES')
}

function findCycle(file, path) {
  const start = path.indexOf(file)
  if (start >= 0) {
    problems.add(`cycle: ${[...path.slice(start), file].map(nameOf).join(' -> ')}`)
    return
  }
  if (finished.has(file)) return
  for (const { target } of imports.get(file) ?? []) findCycle(target, [...path, file])
  finished.add(file)
}

function importsOf(file) {
  const found = sources
    .get(file)
    .matchAll(/\b(import|export)\b(\s+type\b)?[^'`;]*?\bfrom\s*'(\.[^']+)'|\bimport\s*\(?\s*'(\.[^']+)'/g)
  return [...found].map((match) => ({
    target: resolve(dirname(file), match[3] ?? match[4]),
    typeOnly: match[2] !== undefined,
  }))
}

/** Leaves strings alone, so that a `//` inside an address stays. */
function withoutComments(source) {
  return source.replace(
    /('(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_, literal) => literal ?? ' ',
  )
}

function report(file, what) {
  problems.add(`${`src/${nameOf(file)}`.replace(/^src\/\.\.\//, '')} ${what}`)
}

function nameOf(file) {
  return relative(root, file).split(sep).join('/')
}

function folderOf(file) {
  const parts = nameOf(file).split('/')
  if (parts.length > 1) return parts[0]
  return parts[0] === 'index.ts' ? 'index' : '.'
}

function rowOf(file) {
  const parts = nameOf(file).split('/').slice(0, -1)
  for (; parts.length > 0; parts.pop()) if (MAY_IMPORT[parts.join('/')] !== undefined) return parts.join('/')
  return folderOf(file)
}
