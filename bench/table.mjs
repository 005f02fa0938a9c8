// Prints the tables at the top of the README from results files, so that no figure is typed by hand.
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

/** Rows of results that were recorded before the scenarios gave them these names. */
const ROWS = {
  'The same 14 combinations': 'Drain with lane limits, prefetch off, the same 14 combinations',
  'The same drain, prefetch off': 'The same, prefetch off',
  'The same drain on a server with default settings': 'The same, on a server with default settings',
  'Server CPU per job of that drain, prefetch on and off':
    'Server CPU per job, 1 process x 100 slots, prefetch on and off',
  'WAL per job of that drain, prefetch on and off': 'WAL per job, 1 process x 100 slots, prefetch on and off',
  'Drain with lane limits, prefetch off, 14 combinations of workers, limits, lanes and a held transaction':
    'Drain with lane limits, prefetch off, 14 combinations (workers, limits, lanes, held transaction)',
  'Mixed work: two lanes, three tasks, retries, fan-outs; 1 process x 100 slots':
    'Mixed work (2 lanes, 3 tasks, retries, fan-outs), 1 process x 100 slots',
  'Mixed work: two lanes, three tasks, retries, fan-outs; 8 processes x 25 slots':
    'Mixed work (2 lanes, 3 tasks, retries, fan-outs), 8 processes x 25 slots',
  'From submission to start on an idle worker with 1,000 lanes, p50':
    'Time from submission to start, idle worker with 1,000 lanes, p50',
  'From submission to start on an idle system, p50': 'Time from submission to start, idle system, p50',
  'From submission to start on an idle system, p99': 'Time from submission to start, idle system, p99',
  'A chain of 1,000 nested workflows, time': 'Time of a chain of 1,000 nested workflows',
  'A tree of 1,023 nested workflows, time': 'Time of a tree of 1,023 nested workflows',
  '300 jobs of 100 ms on 4 workers, time until all have ended':
    'Time until 300 jobs of 100 ms on 4 workers have ended',
  'Start of an urgent job behind a backlog, p99': 'Time to start an urgent job behind a backlog, p99',
  'Start of an urgent job of another task behind a backlog, p99':
    'Time to start an urgent job of another task behind a backlog, p99',
  'Drain of 100,000 jobs beside 3,000,000 finished ones':
    'Drain of 100,000 jobs with 3,000,000 finished jobs in the tables',
  'The same as a share of what 6 slots allow, 1 and 5 workers':
    'The same, share of what 6 slots allow, 1 and 5 workers',
  'Server CPU per job: bulk submission': 'Server CPU per job, bulk submission',
  'Server CPU per job: bulk submission, calls of 1,000':
    'Server CPU per job, bulk submission, calls of 1,000',
  'WAL per job of mixed work, both shapes, prefetch on and off':
    'WAL per job, mixed work, both shapes, prefetch on and off',
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
const rows = rowsOf(latest(runs))
const text = [
  '### Against other systems',
  '',
  table(rows.filter(isPeer)),
  '',
  '### Against earlier commits, other settings, and fixed limits',
  '',
  table(rows.filter((row) => !isPeer(row))),
  '',
  '### Cases that miss a goal',
  '',
  'Some rows above stand for several cases. These miss the goal of their row:',
  '',
  missedCases(rows),
  '',
  '### Conditions',
  '',
  conditions(runs),
].join('\n')
if (values.write) write(text)
else console.log(text)

/** Whether a row compares with another system. */
function isPeer([{ peer, beside, against }]) {
  return peer !== null && beside === undefined && against !== NAMES['sluice-before']
}

function table(all) {
  const cells = [
    ['measured', 'against', 'ratio', 'Sluice', 'goal'],
    ...all.map((row) => [row[0].row, row[0].against, ratio(row), standing(row), goal(row)]),
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
      const row = ROWS[one.row] ?? one.row
      const key = `${row} / ${against}`
      rows.set(key, [...(rows.get(key) ?? []), { ...one, row, against }])
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
  const wanted = goalText(rows[0])
  if (wanted === '') return ''
  const count = missesOf(rows).length
  if (count === 0) return `${wanted}, met`
  return rows.length === 1 ? `${wanted}, **missed**` : `${wanted}, **missed in ${count} of ${rows.length}**`
}

function missesOf(rows) {
  return goalText(rows[0]) === '' ? [] : rows.filter(({ verdict }) => verdict !== 'met')
}

/** Which cases miss the goal, for each row that has several. */
function missedCases(all) {
  return all
    .filter((row) => row.length > 1 && missesOf(row).length > 0)
    .map((row) => {
      const [first] = row
      const cases = missesOf(row).map((one) => `  - ${one.of}: ${shown(one, one.value)}`)
      return [`- ${first.row}, against ${first.against}, goal ${goalText(first)}:`, ...cases].join('\n')
    })
    .join('\n')
}

/** Better or worse than what it is compared with, whatever the goal asks for. Losses are bold. */
function standing(rows) {
  // A fixed bound is nobody to lose to.
  if (rows[0].peer === null) return ''
  const lost = rows.filter(isLoss)
  if (rows.length > 1)
    return lost.length === 0 ? 'better in all' : `**worse in ${lost.length} of ${rows.length}**`
  const [one] = rows
  const text = standingOf(one)
  return lost.length === 0 ? text : `**${text}**`
}

function standingOf(one) {
  const { value, better, atMostMore } = one
  if (atMostMore !== undefined) return shown(one, one.value)
  if (value === 1) return 'equal'
  const [more, less] = better === 'higher' ? ['faster', 'slower'] : ['more', 'less']
  if (value >= 2) return `${short(value)} times as ${better === 'higher' ? 'fast' : 'much'}`
  return value > 1 ? `${percent(value - 1)} ${more}` : `${percent(1 - value)} ${less}`
}

function isLoss({ value, better, atMostMore }) {
  if (atMostMore !== undefined) return value > 0
  return better === 'higher' ? value < 1 : value > 1
}

/** What a reader needs to judge the figures. Files of one commit and machine are one sentence. */
function conditions(all) {
  const groups = new Map()
  for (const { file, date, commit, before, repeat, machine, versions, peerSettings } of all) {
    const swept = Object.keys(peerSettings).length > 0
    const sentence = [
      `Measured on ${date.slice(0, 10)} at commit ${commit} on ${machine.cores} cores (${machine.cpu}), ${machine.memoryGiB} GB, Node ${versions.node},`,
      `with peers at ${swept ? 'the best settings of a sweep' : 'their recorded settings'}.`,
      ...(before === null ? [] : [`"Sluice before" is commit ${before}.`]),
    ].join(' ')
    groups.set(sentence, [...(groups.get(sentence) ?? []), { file, repeat }])
  }
  const how =
    'A ratio is the median of the ratios within each repetition; the smallest and largest are in brackets.'
  const files = ([sentence, found]) =>
    [
      `${sentence} Results and repetitions:`,
      '',
      ...found.map(({ file, repeat }) => `- \`results/${basename(file)}\`: ${repeat}`),
    ].join('\n')
  return [how, ...[...groups].map(files)].join('\n\n')
}

function write(content) {
  const readme = readFileSync(README, 'utf8')
  const [from, to] = [readme.indexOf(BEGIN), readme.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`${README} does not have the lines ${BEGIN} and ${END}`)
  writeFileSync(README, `${readme.slice(0, from + BEGIN.length)}\n\n${content}\n\n${readme.slice(to)}`)
}
