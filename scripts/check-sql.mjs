// Checks the layout of sql/migrations and sql/functions by the rule in sql/README.md. Part of `npm run check`.
//
//   node scripts/check-sql.mjs [FOLDER]    the folder that holds sql/, the repository unless given
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'

const MAX_LINE = 150
const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'))
const problems = []

for (const file of list('sql/migrations')) {
  const text = readFileSync(join(root, file), 'utf8')
  checkLines(file, text)
  if (!text.startsWith('-- ')) report(file, 1, 'begin the file with a comment that says what it adds')
}
for (const file of list('sql/functions')) {
  const text = readFileSync(join(root, file), 'utf8')
  checkLines(file, text)
  checkHead(file, text)
  checkBodies(file, text)
}

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function list(folder) {
  const path = join(root, folder)
  if (!existsSync(path)) return []
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.sql'))
    .map((name) => join(folder, name))
    .sort()
}

function report(file, line, text) {
  problems.push(`${file}:${line}: ${text}`)
}

/** What holds for every line: length, spaces, and lower case outside of strings and comments. */
function checkLines(file, text) {
  const code = maskLiterals(text).split('\n')
  const lines = text.split('\n')
  if (lines.at(-1) !== '' || lines.at(-2) === '') report(file, lines.length, 'end the file with one newline')
  for (const [n, line] of lines.entries()) {
    const at = n + 1
    if (line.length > MAX_LINE) report(file, at, `${line.length} characters; a line has at most ${MAX_LINE}`)
    if (line.includes('\t')) report(file, at, 'indent with spaces, not with tabs')
    if (/\s$/.test(line)) report(file, at, 'remove the spaces at the end of the line')
    if (line === '' && lines[n - 1] === '') report(file, at, 'write one empty line, not several')
    const upper = /[A-Z]\w*/.exec(code[n])
    if (upper !== null) report(file, at, `write ${upper[0]} in lower case`)
    if (code[n].includes('!=')) report(file, at, 'write <> instead of !=')
  }
}

/** A header comment, then `create or replace` of the object that the file is named after. */
function checkHead(file, text) {
  const lines = text.split('\n')
  if (!lines[0].startsWith('-- '))
    report(file, 1, 'begin the file with a comment that says what the object is for')
  const first = lines.findIndex((line) => line !== '' && !line.startsWith('--'))
  const [, name] = /^create or replace (?:function|view) sluice\.(\w+)/.exec(lines[first] ?? '') ?? []
  const expected = basename(file, '.sql')
  if (name !== expected)
    report(
      file,
      first + 1,
      `the first statement must be: create or replace function (or view) sluice.${expected}`,
    )
  for (const [n, line] of lines.entries())
    if (/\S.* language (plpgsql|sql)\b/.test(line) && !line.trimStart().startsWith('--'))
      report(file, n + 1, 'begin a line with the language')
}

/** In PL/pgSQL, a statement stands two spaces further in than the block that it is in, and no line further out than its statement. */
function checkBodies(file, text) {
  const masked = maskLiterals(text)
  for (const match of masked.matchAll(/\nlanguage plpgsql[^;$]*as \$\$\n/g)) {
    const start = match.index + match[0].length
    const end = masked.indexOf('$$', start)
    checkBlock(file, masked.slice(start, end), text.slice(0, start).split('\n').length)
  }
}

function checkBlock(file, body, firstLine) {
  /** The blocks that are open: declare, begin, if, loop. */
  const blocks = []
  let parens = 0
  let cases = 0
  /** The first word of the statement, or undefined between two statements. */
  let statement
  let indent = 0
  let last = ''
  for (const [n, line] of body.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const found = line.search(/\S/)
    for (const { 0: token, index } of line.matchAll(/\w+|[^\s\w]/g)) {
      if (statement === undefined) {
        indent = 2 * (blocks.length - closes(token))
        statement = token
        if (index === found && found !== indent)
          report(file, firstLine + n, `indent the statement by ${indent} spaces, not by ${found}`)
      } else if (index === found && found < indent)
        report(file, firstLine + n, `indent the line by at least the ${indent} spaces of its statement`)
      follow(token)
      last = token
    }
  }

  /** How many blocks the word ends that a statement begins with. */
  function closes(token) {
    const ends = ['end', 'elsif', 'else', 'exception', 'when'].includes(token)
    return ends || (token === 'begin' && blocks.at(-1) === 'declare') ? 1 : 0
  }

  function follow(token) {
    if (token === '(' || token === '[') parens += 1
    else if (token === ')' || token === ']') parens -= 1
    else if (token === ';' && parens === 0) {
      if (statement === 'end') blocks.pop()
      statement = undefined
    } else if (token === 'case') cases += 1
    else if (token === 'end' && cases > 0) cases -= 1
    else if (cases > 0 || parens > 0) return
    else if (statement === 'declare' && token === 'declare') open('declare')
    else if (statement === 'begin' && token === 'begin') {
      if (blocks.at(-1) === 'declare') blocks.pop()
      open('begin')
    } else if (token === 'then') {
      if (statement === 'if') blocks.push('if')
      statement = undefined
    } else if (token === 'loop' && last !== 'end') open('loop')
    else if (statement === 'else' && token === 'else') statement = undefined
  }

  function open(block) {
    blocks.push(block)
    statement = undefined
  }
}

/** The text with all that strings, quoted names and comments hold replaced by spaces, so that places stay the same. */
function maskLiterals(text) {
  return text.replace(/--[^\n]*|'(?:[^']|'')*'|"[^"]*"|\$\w+\$[\s\S]*?\$\w+\$/g, (literal) =>
    literal.replace(/[^\n]/g, ' '),
  )
}
