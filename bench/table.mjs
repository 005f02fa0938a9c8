// Prints the table at the top of the README from results files, so that no figure is typed by hand.
//
//   node bench/table.mjs RESULTS.json ...            print it
//   node bench/table.mjs --write RESULTS.json ...    put it into bench/README.md, between its markers
//
// Where two files have the same scenario, the later one on the command line counts.
import { readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { SCENARIOS } from './harness/options.mjs'
import { format, goalText, percent } from './harness/report.mjs'

const README = fileURLToPath(new URL('./README.md', import.meta.url))
const [BEGIN, END] = ['<!-- table: begin -->', '<!-- table: end -->']
const NAMES = {
  'sluice-before': 'Sluice before',
  graphile: 'graphile-worker, defaults',
  'graphile-tuned': 'graphile-worker, tuned',
  pgboss: 'pg-boss',
  'pgboss-notify': 'pg-boss with NOTIFY',
  bullmq: 'BullMQ on Redis',
  'bullmq-always': 'BullMQ on Redis, fsync always',
  'bullmq-postgres': 'BullMQ on PostgreSQL',
  dbos: 'DBOS',
  'dbos-queue': 'DBOS, through its queue',
}

const { values, positionals } = parseArgs({
  options: { write: { type: 'boolean', default: false } },
  allowPositionals: true,
})
if (positionals.length === 0) {
  console.error('usage: node bench/table.mjs [--write] RESULTS.json ...')
  process.exit(2)
}
const runs = positionals.map((file) => ({ file, ...JSON.parse(readFileSync(file, 'utf8')) }))
for (const { file, scale, dirty } of runs) {
  if (scale !== 1) console.error(`${file}: sizes were multiplied by ${scale}, so the figures mean nothing`)
  if (dirty) console.error(`${file}: measured with changed files`)
}
const text = [table(runs), '', source(runs)].join('\n')
if (values.write) write(text)
else console.log(text)

function table(all) {
  const cells = [
    ['what was measured', 'against whom', 'ratio', 'goal met?', 'where Sluice loses'],
    ...rowsOf(latest(all)).map((rows) => [
      rows[0].row,
      rows[0].against,
      ratio(rows),
      goal(rows),
      loses(rows),
    ]),
  ]
  // As wide as `npm run format` would make it, since the check refuses other widths.
  const widths = cells[0].map((_, column) => Math.max(...cells.map((row) => row[column].length)))
  const line = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`
  const [head, ...body] = cells
  return [head, widths.map((width) => '-'.repeat(width)), ...body].map(line).join('\n')
}

/** The newest result of each scenario, in the order of the scenarios. */
function latest(all) {
  const found = new Map(all.flatMap(({ results }) => results.map((result) => [result.name, result])))
  return SCENARIOS.filter((name) => found.has(name)).map((name) => found.get(name))
}

/** Goals of the same words are one row: limits have fourteen of them. */
function rowsOf(results) {
  const rows = new Map()
  for (const { goals, figures } of results) {
    for (const one of goals.filter(({ row }) => row !== undefined)) {
      const peer = figures.find((figure) => figure.case === one.peer)
      const against = one.peer === null ? 'a fixed bound' : (one.beside ?? NAMES[peer.system])
      const key = `${one.row} / ${against}`
      rows.set(key, [...(rows.get(key) ?? []), { ...one, against }])
    }
  }
  return [...rows.values()]
}

function ratio(rows) {
  if (rows.length > 1) {
    const found = rows.map(({ value }) => value)
    return `${shown(rows[0], Math.min(...found))} to ${shown(rows[0], Math.max(...found))}`
  }
  const [{ value, spread }] = rows
  const between = spread === null || spread[0] === spread[1] ? '' : ` (${spread.map(short).join(' - ')})`
  return `${shown(rows[0], value)}${between}`
}

function shown({ peer, atMostMore, unit }, value) {
  if (peer === null) return unit === undefined ? short(value) : `${format(value)} ${unit}`
  if (atMostMore === undefined) return `${short(value)}x`
  return `${short(Math.abs(value))} ${unit} ${value < 0 ? 'earlier' : 'later'}`
}

function short(value) {
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

function goal(rows) {
  const [first] = rows
  const wanted = goalText(first)
  if (wanted === '') return 'no goal'
  const missed = rows.filter(({ verdict }) => verdict !== 'met')
  if (missed.length === 0) return `yes: ${wanted}`
  if (rows.length === 1) return `**${first.verdict}**: ${wanted}`
  const names = missed.map(({ of, value }) => `${of} ${shown(first, value)}`)
  return `**missed in ${missed.length} of ${rows.length}**: ${wanted}; ${names.join('; ')}`
}

/** Where the other side is better, whatever the goal asks for. */
function loses(rows) {
  // A fixed bound is nobody to lose to.
  if (rows[0].peer === null) return ''
  const lost = rows.filter(isLoss)
  if (lost.length === 0) return 'nowhere'
  if (rows.length > 1) return `in ${lost.length} of ${rows.length}`
  const [one] = lost
  if (one.atMostMore !== undefined) return shown(one, one.value)
  if (one.better === 'higher') return `${percent(1 - one.value)} fewer a second`
  return one.value >= 2 ? `${short(one.value)} times as much` : `${percent(one.value - 1)} more`
}

function isLoss({ value, better, atMostMore }) {
  if (atMostMore !== undefined) return value > 0
  return better === 'higher' ? value < 1 : value > 1
}

/** What a reader needs to judge the figures, for each file. */
function source(all) {
  const runs = all.map(({ file, date, commit, before, repeat, machine, versions, peerSettings }) => {
    const beside = before === null ? '' : ` "Sluice before" is commit ${before}.`
    const swept = Object.keys(peerSettings).length > 0
    const peers = `peers at ${swept ? 'the best settings of a sweep' : 'their recorded settings'}`
    const times = `${repeat} ${repeat === 1 ? 'repetition' : 'repetitions'}`
    const where = `${machine.cores} cores (${machine.cpu}), ${machine.memoryGiB} GB, Node ${versions.node}`
    return `Measured on ${date.slice(0, 10)} at commit ${commit}: ${times}, ${peers}, ${where}.${beside} \`results/${basename(file)}\`.`
  })
  const how =
    'A ratio is the median of the ratios within each repetition; in brackets the smallest and largest.'
  return [how, ...runs].join('\n')
}

function write(content) {
  const readme = readFileSync(README, 'utf8')
  const [from, to] = [readme.indexOf(BEGIN), readme.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`${README} does not have the lines ${BEGIN} and ${END}`)
  writeFileSync(README, `${readme.slice(0, from + BEGIN.length)}\n\n${content}\n\n${readme.slice(to)}`)
}
