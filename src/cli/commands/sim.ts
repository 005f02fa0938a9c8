import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { InvalidArgumentError } from 'commander'
import { messageOf, SluiceError } from '../../errors.ts'
import { formatDuration } from '../../model/duration.ts'
import { type Comparison, compare, type Row } from '../../policy/sim/compare.ts'
import { lowerBound } from '../../policy/sim/lower-bound.ts'
import { POLICIES, POLICY_NAMES, type PolicyName } from '../../policy/sim/policies/by-name.ts'
import { drawTimeline } from '../../policy/sim/timeline-svg.ts'
import { list, positiveNumber, wholeNumber } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeTable } from '../output/table.ts'
import { readWorkloadFile, type WorkloadFile } from '../sim/workload-file.ts'

interface SimOptions extends CommonOptions {
  readonly seeds?: number
  readonly seed?: number
  readonly policy?: readonly PolicyName[]
  readonly svg?: string
}

/** Without `naive-guard`: it is there to show what goes wrong. */
const SHOWN: readonly PolicyName[] = POLICY_NAMES.filter((name) => name !== 'naive-guard')

/** `sluice sim FILE [--seeds N] [--policy NAMES] [--svg FILE]` */
export const declareSim: Declare = (command, act) => {
  command
    .argument('<file>', 'a workload, YAML or JSON: devices, models, and arrivals or jobs')
    .option(
      '--seeds <number>',
      'simulate this many variations and print their means (default: 20)',
      positiveNumber,
    )
    .option('--seed <number>', 'the first seed (default: 1)', wholeNumber)
    .option('--policy <names>', `policies to compare (default: ${SHOWN.join(',')})`, policies)
    .option('--svg <file>', 'draw the devices over time, for the first seed')
    .addHelpText('after', `\nPolicies:\n${described()}\n\nOpens no database.`)
    .action((file: string, options: SimOptions) => act((world) => sim(world, file, options)))
}

function described(): string {
  return POLICY_NAMES.map((name) => `  ${name.padEnd(12)} ${POLICIES[name].about}`).join('\n')
}

function policies(text: string): readonly PolicyName[] {
  return list(text).map((name) => {
    const known = POLICY_NAMES.find((each) => each === name)
    if (known === undefined)
      throw new InvalidArgumentError(`There is no policy ${name}. Choose from ${POLICY_NAMES.join(', ')}.`)
    return known
  })
}

async function sim(world: World, path: string, options: SimOptions): Promise<ExitCode> {
  const file = await readWorkloadFile(world.folder, path)
  const seeds = file.fixed ? 1 : (options.seeds ?? 20)
  const comparison = compare(file.description, {
    seeds,
    firstSeed: options.seed ?? 1,
    policies: [...new Set(options.policy ?? SHOWN)],
  })
  if (options.svg !== undefined) await writeSvg(resolve(world.folder, options.svg), file, comparison)
  if (options.json === true) writeJson(world.out, toJson(file, comparison))
  else write(world, file, comparison, options.svg)
  return EXIT.done
}

async function writeSvg(path: string, { title }: WorkloadFile, comparison: Comparison): Promise<void> {
  const panels = [...comparison.courses].map(([policy, course]) => ({
    title: `${policy}: ${POLICIES[policy].about}, ${count(course.loads.length, 'load')}`,
    course,
  }))
  try {
    await writeFile(path, drawTimeline(comparison.workload, panels, title))
  } catch (error) {
    throw new SluiceError('INVALID_ARGUMENT', `cannot write the picture: ${messageOf(error)}`)
  }
}

function toJson({ title, description }: WorkloadFile, comparison: Comparison) {
  const { seeds, firstSeed, rows, optimum, workload } = comparison
  return {
    name: title,
    seeds,
    firstSeed,
    quantum: description.rules.quantum,
    maxWaitMs: description.rules.maxWaitMs,
    lowerBoundMs: lowerBound(workload),
    optimum: optimum ?? null,
    policies: rows.map(({ policy, measures, worstWait }) => ({
      policy,
      loads: measures.loads,
      loadsPerThousand: measures.loadsPerThousand,
      makespanMs: measures.makespanMs,
      stretch: measures.stretch,
      waitMs: {
        p50: measures.waitP50,
        p95: measures.waitP95,
        p99: measures.waitP99,
        max: measures.waitMax,
        worst: worstWait,
      },
      loadingShare: measures.loadingShare,
      overcommits: measures.overcommits,
      livelocks: measures.livelock,
      outOfMemory: measures.outOfMemory,
      unserved: measures.unserved,
    })),
  }
}

interface Line {
  readonly policy: string
  readonly row: Row | undefined
  readonly loads: string
  readonly stretch: string
}

function write(world: World, file: WorkloadFile, comparison: Comparison, svg: string | undefined): void {
  const { seeds, firstSeed, rows, optimum, workload } = comparison
  const { rules } = file.description
  const bound = lowerBound(workload)
  world.out.line(
    `${file.title}: ${count(workload.arrivals.length, 'job')} of ${count(workload.models.length, 'model')} on ${count(workload.devices.length, 'device')}, ` +
      (seeds === 1 ? `seed ${firstSeed}` : `means of seeds ${firstSeed} to ${firstSeed + seeds - 1}`),
  )
  world.out.line(
    `quantum ${rules.quantum} times the load time, maximum wait ${formatDuration(rules.maxWaitMs)}`,
  )
  world.out.line()
  const lines: Line[] = rows.map((row) => ({
    policy: row.policy,
    row,
    loads: row.measures.loadsPerThousand.toFixed(0),
    stretch: row.measures.stretch.toFixed(2),
  }))
  if (optimum !== undefined)
    lines.push({
      policy: seeds === 1 ? 'optimum' : `optimum (seed ${firstSeed})`,
      row: undefined,
      loads: ((1000 * optimum.loads) / workload.arrivals.length).toFixed(0),
      stretch: (optimum.makespanMs / bound).toFixed(2),
    })
  writeTable(world.out, COLUMNS, lines)
  const wrong = rows.flatMap(problemsOf)
  if (wrong.length > 0) world.out.line()
  for (const line of wrong) world.out.line(line)
  if (svg !== undefined) world.out.line(`\n${svg} shows the devices over time for seed ${firstSeed}`)
}

const COLUMNS: readonly Column<Line>[] = [
  { title: 'POLICY', value: ({ policy }) => policy },
  { title: 'LOADS/1000', value: ({ loads }) => loads, align: 'right' },
  { title: 'MAKESPAN/BOUND', value: ({ stretch }) => stretch, align: 'right' },
  wait('WAIT P50', ({ measures }) => measures.waitP50),
  wait('P95', ({ measures }) => measures.waitP95),
  wait('P99', ({ measures }) => measures.waitP99),
  wait('MAX', ({ measures }) => measures.waitMax),
  {
    title: 'LOADING',
    value: ({ row }) => (row === undefined ? '' : `${(100 * row.measures.loadingShare).toFixed(1)} %`),
    align: 'right',
  },
]

function wait(title: string, of: (row: Row) => number): Column<Line> {
  return {
    title,
    value: ({ row }) => (row === undefined ? '' : `${(of(row) / 1000).toFixed(of(row) < 10_000 ? 1 : 0)} s`),
    align: 'right',
  }
}

function problemsOf({ policy, measures }: Row): string[] {
  const { overcommits, livelock, outOfMemory, unserved } = measures
  return [
    livelock > 0 ? `${policy}: loaded on and on without starting a job, in ${count(livelock, 'run')}` : '',
    unserved > 0 ? `${policy}: ${count(unserved, 'job')} did not end` : '',
    overcommits > 0 ? `${policy}: over the memory of a device ${count(overcommits, 'time')}` : '',
    outOfMemory > 0 ? `${policy}: ran out of memory ${count(outOfMemory, 'time')} while loading` : '',
  ].filter((text) => text !== '')
}
