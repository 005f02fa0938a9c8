// Fails when the reference of errors and the registry differ, when a link of the documentation leads nowhere, or when a page
// names a file of the repository that does not exist. Part of `npm run check`.
// The code in README and guides is checked by test/behaviour/docs.test.ts, which needs a build and a database.
//
//   node scripts/check-docs.mjs [FOLDER]    the repository unless given
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'))
const problems = []
const pages = ['.', 'bench', 'bench/gpu', 'dashboard', 'sql', 'examples']
  .flatMap((folder) => list(folder, false))
  .concat(list('docs', true))
  .filter((name) => name.endsWith('.md'))
const texts = new Map(pages.map((page) => [join(root, page), readFileSync(join(root, page), 'utf8')]))

checkErrors()
checkLogMessages()
checkIndex()
for (const [page, text] of texts) {
  checkLinks(page, text)
  checkPaths(page, text)
}

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function list(folder, deep) {
  const path = join(root, folder)
  if (!existsSync(path)) return []
  return readdirSync(path, { recursive: deep, encoding: 'utf8' }).map((name) => join(folder, name))
}

/** Every code with its status, no more and no less; and every SQLSTATE of our own. */
function checkErrors() {
  const page = 'docs/reference/errors.md'
  const registry = readFileSync(join(root, 'src/errors.ts'), 'utf8')
  const table = registry.slice(registry.indexOf('ERROR_STATUS = {'), registry.indexOf('} as const'))
  const codes = new Set(
    [...table.matchAll(/^ {2}([A-Z_]+): (\d+),/gm)].map((match) => `${match[1]} (${match[2]})`),
  )
  const text = texts.get(join(root, page)) ?? ''
  const told = new Set([...text.matchAll(/^### ([A-Z_]+ \(\d+\))$/gm)].map((match) => match[1]))
  for (const code of codes) if (!told.has(code)) problems.push(`${page}: no heading "### ${code}"`)
  for (const code of told) if (!codes.has(code)) problems.push(`${page}: ${code} is not in src/errors.ts`)

  const states = new Set()
  for (const name of list('sql/functions', true).filter((each) => each.endsWith('.sql'))) {
    for (const [, state] of readFileSync(join(root, name), 'utf8').matchAll(/'(SL\d{3})'/g)) states.add(state)
  }
  for (const state of states)
    if (!text.includes(`\`${state}\``)) problems.push(`${page}: SQLSTATE ${state} is missing`)
}

/** Every part of a message in the table of log messages must be in the source. `...`, a colon or the name L of a lane ends a part. */
function checkLogMessages() {
  const page = 'docs/guides/operating.md'
  const table = (texts.get(join(root, page)) ?? '').split('\n## Logs\n')[1] ?? ''
  const messages = [...table.matchAll(/^\| `([^`]+)` \| (?:info|warn|error) \|/gm)].map((match) => match[1])
  const sources = list('src', true)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(root, name), 'utf8'))
    .join('\n')
  for (const message of messages) {
    const lacking = message.split(/\.\.\.|[:;]| L /).find((part) => !sources.includes(part.trim()))
    if (lacking !== undefined) problems.push(`${page}: no message in src contains "${lacking.trim()}"`)
  }
}

/** The index of the documentation has a link to every page. */
function checkIndex() {
  const index = texts.get(join(root, 'docs/README.md'))
  if (index === undefined) return
  for (const page of pages) {
    const path = relative('docs', page)
    if (page.startsWith('docs') && path !== 'README.md' && !index.includes(`](${path})`))
      problems.push(`docs/README.md: no link to ${path}`)
  }
}

function checkLinks(page, text) {
  const prose = text.replace(/^(```|~~~)[^\n]*\n[\s\S]*?^\1\s*$/gm, '').replace(/`[^`\n]*`/g, '')
  for (const [, target] of prose.matchAll(/\]\(([^()\s]+)\)/g)) {
    if (/^[a-z]+:/i.test(target)) continue
    const [path, anchor] = target.split('#')
    const file = path === '' ? page : resolve(dirname(page), decodeURIComponent(path))
    const from = relative(root, page)
    if (!existsSync(file)) problems.push(`${from}: the link ${target} leads nowhere`)
    else if (anchor !== undefined && file.endsWith('.md') && !anchorsOf(file).has(anchor)) {
      problems.push(`${from}: the link ${target} names a heading that is not there`)
    }
  }
}

/** Files and folders that a page names in code. Paths with parts to fill in, and those `at commit`, are left out. */
function checkPaths(page, text) {
  for (const [, path] of text.matchAll(
    /`((?:src|sql|test|scripts|bench|dashboard|docs|examples)\/[\w./-]*)`(?! at commit)/g,
  )) {
    if (path.includes('node_modules')) continue
    if (![root, dirname(page)].some((folder) => existsSync(join(folder, path))))
      problems.push(`${relative(root, page)}: there is no ${path}`)
  }
}

/** Headings as GitHub turns them into anchors. */
function anchorsOf(file) {
  const text = (texts.get(file) ?? readFileSync(file, 'utf8')).replace(
    /^(```|~~~)[^\n]*\n[\s\S]*?^\1\s*$/gm,
    '',
  )
  const seen = new Map()
  const anchors = new Set()
  for (const [, heading] of text.matchAll(/^#{1,6}\s+(.+?)\s*$/gm)) {
    const base = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-')
    const count = seen.get(base) ?? 0
    seen.set(base, count + 1)
    anchors.add(count === 0 ? base : `${base}-${count}`)
  }
  return anchors
}
