import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { SYSTEMS } from '../systems/registry.mjs'
import { TABLE } from './table-cases.mjs'

export const SCENARIOS = [
  'drain',
  'workers',
  'mixed',
  'limits',
  'lanes',
  'live',
  'prefetch',
  'history',
  'held',
  'claim',
  'submit',
  'bulk',
  'latency',
  'memory',
  'idle',
  'workflows',
  'fanout',
  'window',
  'nesting',
  'http',
  'remote',
  'fleet',
  'sustained',
]

export const HELP = `npm run bench -- [options]

  --only NAMES       scenarios, comma-separated: ${SCENARIOS.join(', ')}
  --systems NAMES    systems: ${Object.keys(SYSTEMS).join(', ')}
                     ("graphile", "pgboss", "bullmq" and "dbos" stand for all their variants)
  --cases TEXT       only cases whose name contains the text
  --table            only the cases of the table at the top of bench/README.md, with an estimate of the time; needs --before
  --repeat N         measurements of each case (default 5, with --table 9; medians and spreads are over these)
  --quick            one measurement of each case, no sweep
  --scale X          multiplies job counts and durations (default 1); figures below 1 are for trying things out
  --sustained        also the ten-minute run
  --before FOLDER    a built checkout of an earlier commit, measured beside this one where a goal compares the two
  --no-sweep         take the recorded settings of the peers instead of looking for the best ones
  --data FOLDER      where the scratch servers keep their data (default: a new folder in /var/tmp)
  --list             print the cases and stop
`

/** Reads the command line. Throws an Error that names the option and what would be right. */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      only: { type: 'string' },
      systems: { type: 'string' },
      cases: { type: 'string' },
      table: { type: 'boolean', default: false },
      repeat: { type: 'string' },
      quick: { type: 'boolean', default: false },
      scale: { type: 'string', default: '1' },
      sustained: { type: 'boolean', default: false },
      'no-sweep': { type: 'boolean', default: false },
      before: { type: 'string' },
      data: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.table && values.before === undefined && !values.list)
    throw new Error(
      '--table compares with an earlier commit: name a built checkout of it with --before FOLDER',
    )
  const only = names(values.only, '--only', values.table ? Object.keys(TABLE) : SCENARIOS)
  return {
    only: only ?? (values.table ? Object.keys(TABLE) : null),
    table: values.table,
    systems: systemNames(values.systems),
    casesWith: values.cases ?? '',
    repeat: values.quick ? 1 : number(values.repeat ?? (values.table ? '9' : '5'), '--repeat', 1),
    scale: number(values.scale, '--scale', 0),
    sweep: !values.quick && !values['no-sweep'],
    sustained: values.sustained || (only?.includes('sustained') ?? false),
    // Figures that may stand beside others: everything at full size and repeated.
    complete: !values.quick && values.scale === '1',
    before: values.before === undefined ? null : resolve(values.before),
    data: values.data,
    list: values.list,
    help: values.help,
  }
}

function names(text, option, known) {
  if (text === undefined) return null
  const given = text.split(',').map((name) => name.trim())
  const wrong = given.find((name) => !known.includes(name))
  if (wrong !== undefined) throw new Error(`${option}: "${wrong}" is not one of ${known.join(', ')}`)
  return given
}

function systemNames(text) {
  const known = Object.entries(SYSTEMS)
  const adapters = known.map(([, { adapter }]) => adapter)
  const given = names(text, '--systems', [...new Set([...Object.keys(SYSTEMS), ...adapters])])
  if (given === null) return null
  return known
    .filter(([name, { adapter }]) => given.includes(name) || given.includes(adapter))
    .map(([name]) => name)
}

function number(text, option, least) {
  const value = Number(text)
  if (!Number.isFinite(value) || value < least || value === 0) {
    throw new Error(`${option}: "${text}" is not a number of at least ${least} and above 0`)
  }
  return value
}

/** Turns the sizes written in the scenarios into those of this run. */
export function scaler(scale) {
  const count = (n, least = 200) => (scale === 1 ? n : Math.max(Math.min(n, least), Math.round(n * scale)))
  count.seconds = (seconds) => (scale === 1 ? seconds : Math.max(2, Math.round(seconds * scale)))
  return count
}
