// Fails on words that the glossary replaces and on words that a native technical writer would not use: in public names,
// messages, documentation and test titles.
// Runs on plain Node, without a build. A folder as the argument checks that tree instead, for the test of this script.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve, sep } from 'node:path'

/** Words in prose, each with what to write instead. A word with a correct meaning needs a pattern that spares it. */
const PROSE = [
  [/\bwho(?:m)?ever\b/i, 'name the subject: the caller, the process that, any program'],
  [/\banew\b/i, 'again'],
  [/\bmend(?:s|ed|ing)?\b/i, 'fix, repair'],
  [/\bmisspelt\b/i, 'misspelled'],
  [/\bin (?:its|the|their) way\b(?! (?:to|of doing))/i, 'block, blocked by'],
  [/\ball the same\b/i, 'nevertheless, or nothing'],
  [/\bby turns\b/i, 'in turn, alternately'],
  [/\bof those that\b/i, 'name the things: of the jobs that'],
  [/\bwhich there (?:is|are) not\b/i, 'which does not exist'],
  [/\btold\b/i, 'asked, informed, reported, shown'],
  [/\bturn(?:s|ed|ing)? away\b/i, 'reject'],
  [/\bcomes? to (?:its|their) end\b/i, 'ends, finishes'],
  [/\bhal(?:f|ves) (?:of )?(?:a )?surrogates?\b/i, 'an unpaired surrogate'],
  [
    /(?<!here )\bis no (?:job|task|lane|number|duration|list|map|text|server|time|transaction|key|address|fan-out|file|fraction|option|module|program)\b/i,
    'is not a ...',
  ],
]

/** Names that the glossary (docs/reference/glossary.md) replaces, in any text: code, messages and documentation. */
const NAMES = [
  [/\bUNKNOWN_(?:TASK|LANE)\b/, 'TASK_NOT_FOUND, LANE_NOT_FOUND'],
  [/\bNO_FANOUT\b/, 'NOT_A_FANOUT'],
  [/(?<!PROCESS_)\bPOOL_FULL\b/, 'PROCESS_POOL_FULL'],
  [/\b(?:EngineRoom|IdleRoom|LikePolls|NewsBox|ProcessWork|Turnstile)\b/, 'a name that says what it does'],
  [/\b(?:leave|left|offers?|drawn|draws|moment)_v\d+\b/, 'yield, device_capacity, planned_devices, snapshot'],
  [/\bsluice gpu\b/, 'sluice devices'],
  [/\bsluice nice\b/, 'sluice priority'],
  [/\bsluice drain\b/, 'sluice pause'],
]

const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'))
const problems = []
const anyWord = new RegExp([...PROSE, ...NAMES].map(([pattern]) => pattern.source).join('|'), 'i')

for (const name of files()) {
  const source = readFileSync(join(root, name), 'utf8')
  // Most files have none of the words, and need no parsing.
  if (!anyWord.test(source)) continue
  checkLines(name, source, NAMES)
  if (name.endsWith('.md')) checkLines(name, withoutCode(source), PROSE)
  else if (name.endsWith('.sql')) for (const text of textsOfSql(source)) check(name, text, PROSE)
  else for (const text of textsOf(source, isTest(name))) check(name, text, PROSE)
}

for (const problem of problems) console.error(problem)
if (problems.length > 0)
  console.error(`${problems.length} problems; the words are in scripts/check-words.mjs`)
process.exitCode = problems.length === 0 ? 0 : 1

/** Sources, SQL, tests and documentation. */
function files() {
  const found = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'].filter((name) =>
    existsSync(join(root, name)),
  )
  const folders = ['src', 'dashboard/src', 'sql/functions', 'sql/migrations', 'test', 'docs', 'examples']
  for (const folder of folders) {
    if (!existsSync(join(root, folder))) continue
    for (const name of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
      const path = `${folder}/${name.split(sep).join('/')}`
      if (/\.(?:tsx?|sql|md)$/.test(path) && !path.includes('node_modules')) found.push(path)
    }
  }
  return found
}

function isTest(name) {
  return name.startsWith('test/') || name.endsWith('.test.ts')
}

/** Blanks out fenced blocks and inline code, and keeps the line numbers. */
function withoutCode(markdown) {
  return markdown
    .replace(/^```[\s\S]*?^```/gm, (block) => block.replace(/[^\n]/g, ''))
    .replace(/`[^`\n]*`/g, '``')
}

function checkLines(name, source, words) {
  for (const [index, text] of source.split('\n').entries()) check(name, { line: index + 1, text }, words)
}

function check(name, { line, text }, words) {
  for (const [pattern, better] of words) {
    const found = pattern.exec(text)
    if (found !== null)
      problems.push(`${name}:${line}: "${found[0]}" in: ${text.trim().slice(0, 120)}\n  write: ${better}`)
  }
}

/** The texts between quotes. In tests only titles, because other texts there are often data. */
function textsOf(source, onlyTitles) {
  const lines = source.split('\n')
  const isTitle = (line) => /^\s*(?:test|describe|it)\b|^\s*\]\)\(/.test(lines[line - 1])
  const isSql = (text) => /^\s*(?:select|with|insert|update|delete)\b/.test(text)
  return texts(source).filter(
    ({ line, text }) => text.includes(' ') && !isSql(text) && (!onlyTitles || isTitle(line)),
  )
}

/** Finds texts in TypeScript with one expression: comments and regular expressions are matched to be skipped. */
function texts(source) {
  const tokens =
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|(?<=[(,=:[!&|?{};\n]\s*)\/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`/g
  const found = []
  let line = 1
  let last = 0
  for (const { 0: token, index } of source.matchAll(tokens)) {
    line += count(source, last, index)
    last = index
    if (/^['"`]/.test(token)) found.push({ line, text: token.slice(1, -1).replace(/\s+/g, ' ') })
  }
  return found
}

/** The texts that SQL raises, and everything else between quotes. Bodies between $$ are read like other SQL. */
function textsOfSql(source) {
  const found = []
  let line = 1
  let last = 0
  for (const { 0: token, index } of source.matchAll(/--[^\n]*|'(?:[^']|'')*'/g)) {
    line += count(source, last, index)
    last = index
    if (token.startsWith("'")) found.push({ line, text: token.slice(1, -1) })
  }
  return found
}

function count(source, from, to) {
  let lines = 0
  for (let at = source.indexOf('\n', from); at >= 0 && at < to; at = source.indexOf('\n', at + 1)) lines++
  return lines
}
