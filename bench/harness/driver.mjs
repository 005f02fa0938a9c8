// Runs the chosen cases, interleaved and repeated, prints the table, writes the results file.
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadAdapter, SYSTEMS } from '../systems/registry.mjs'
import { Laboratory } from './laboratory.mjs'
import { commitFacts, loadAverage, machineFacts, versions } from './machine.mjs'
import { HELP, readOptions, SCENARIOS, scaler } from './options.mjs'
import { findRedis } from './redis-server.mjs'
import { evaluate, format, render } from './report.mjs'
import { plannedSweeps, settingsOf, sweepMeasurements, sweepPeers } from './sweep.mjs'
import { inTable, TABLE } from './table-cases.mjs'

const RESULTS = join(dirname(fileURLToPath(import.meta.url)), '..', 'results')
const SWEEP_SECONDS = 7

const options = readOptionsOrExit()
if (options.before !== null) SYSTEMS['sluice-before'].options.checkout = options.before
const parts = await plan(options)
if (options.list) {
  for (const { scenario, cases } of parts) {
    console.log(scenario.title)
    for (const one of cases) console.log(`  ${scenario.name}: ${one.id}`)
  }
  process.exit(0)
}

const wanted = new Set(parts.flatMap(({ cases }) => cases.map((one) => one.system)))
const { usable, skipped, redis } = await findSystems(wanted)
for (const part of parts) part.cases = part.cases.filter((one) => usable.has(one.system))
if (parts.every(({ cases }) => cases.length === 0)) {
  console.error('bench: nothing to run: every chosen case was skipped or filtered out')
  process.exit(1)
}

const scratch = scratchFolder(options.data)
const laboratory = new Laboratory(scratch)
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    progress('bench: stopping; what was measured so far is kept')
    laboratory.abort()
  })
}

let failures = 0
try {
  failures = await runAll()
} finally {
  await laboratory.close()
  if (options.data === undefined) rmSync(scratch, { recursive: true, force: true })
}
process.exit(laboratory.aborted ? 130 : failures === 0 ? 0 : 1)

async function runAll() {
  await laboratory.open()
  const settings = {
    tuned: await laboratory.settings('tuned'),
    embedded: await laboratory.settings('embedded'),
  }
  const facts = {
    date: new Date().toISOString(),
    ...commitFacts(),
    arguments: process.argv
      .slice(2)
      .filter((one, index, all) => all[index - 1] !== '--before' && one !== '--before'),
    before: options.before === null ? null : commitFacts(options.before).commit,
    repeat: options.repeat,
    scale: options.scale,
    machine: { ...machineFacts(scratch), loadAtStart: loadAverage() },
    versions: versions(redis.version ?? null),
    settings,
    skipped,
  }
  printHead(facts)
  const scale = scaler(options.scale)
  const allCases = parts.flatMap(({ cases }) => cases)
  if (options.table) printEstimate(options.sweep ? await plannedSweeps(allCases, scale) : [])
  const chosen = options.sweep ? await sweepPeers(laboratory, allCases, scale, progress) : {}
  for (const [name, found] of Object.entries(chosen))
    progress(`${name}: best settings ${JSON.stringify(found)}`)
  const measured = []
  let file
  // Written after each repetition, so that an interruption costs one repetition of one scenario at most.
  const saveAll = () => {
    const measurements = measured.flatMap(({ lines }) => lines)
    file = save({ ...facts, peerSettings: chosen, results: evaluate(measured), measurements }, file)
  }
  for (const part of parts) {
    if (laboratory.aborted) break
    measured.push(part)
    await runPart(part, chosen, saveAll)
    saveAll()
    progress(`${part.scenario.name}: written to ${file}`)
  }
  console.log(`\n${render(evaluate(measured))}\n`)
  file = keep(file, facts)
  if (file !== undefined) console.log(`written: ${file}`)
  return measured.flatMap(({ lines }) => lines).filter((line) => line.error !== undefined).length
}

/** Every repetition goes once through all cases, every other one backwards. */
async function runPart({ scenario, cases, lines }, chosen, saveAll) {
  const startedAt = performance.now()
  for (let repetition = 0; repetition < options.repeat; repetition++) {
    const round = cases.filter((one) => repetition === 0 || one.once !== true)
    for (const one of repetition % 2 === 0 ? round : round.toReversed()) {
      const from = performance.now()
      const line = await laboratory.measure(scenario, one, settingsOf(one, chosen))
      if (laboratory.aborted) return
      const tookSeconds = Math.round((performance.now() - from) / 100) / 10
      lines.push({ ...line, repetition, tookSeconds })
      progress(lineText(scenario, one, line, repetition))
    }
    saveAll()
    if (repetition === 0 && options.repeat > 1) {
      const left = ((performance.now() - startedAt) / 1000) * (options.repeat - 1)
      progress(`${scenario.name}: ${minutes(left)} more, going by the first of ${options.repeat} repetitions`)
    }
  }
  await laboratory.dropFixtures()
}

async function plan({ only, systems, casesWith, scale, sustained, before, table }) {
  const names = only ?? SCENARIOS.filter((name) => name !== 'sustained' || sustained)
  const all = []
  for (const name of names) {
    const { scenario } = await import(new URL(`../scenarios/${name}.mjs`, import.meta.url).href)
    const cases = scenario
      .cases(scaler(scale))
      .filter((one) => (systems === null ? one.optional !== true : systems.includes(one.system)))
      .filter((one) => one.id.includes(casesWith) && (before !== null || one.system !== 'sluice-before'))
      .filter((one) => !table || inTable(name, one))
      .map((one) => ({ label: SYSTEMS[one.id]?.label ?? one.id, ...one }))
    if (cases.length > 0) all.push({ scenario, cases, lines: [] })
  }
  return all
}

/** Which of the wanted systems can run here; the others are named with the reason. */
async function findSystems(wanted) {
  const usesRedis = [...wanted].some((name) => SYSTEMS[name].store === 'redis')
  const redis = usesRedis ? findRedis() : {}
  const skipped = {}
  for (const name of wanted) {
    if (SYSTEMS[name].store === 'redis' && redis.reason !== undefined) skipped[name] = redis.reason
    try {
      await loadAdapter(name)
    } catch (error) {
      skipped[name] = `cannot be loaded: ${error.message.split('\n')[0]}`
    }
  }
  for (const [name, reason] of Object.entries(skipped)) console.error(`bench: ${name} is skipped: ${reason}`)
  return { usable: new Set([...wanted].filter((name) => !(name in skipped))), skipped, redis }
}

function printHead({ commit, dirty, machine, versions: installed, settings }) {
  const list = (object) =>
    Object.entries(object)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')
  console.log(`commit ${commit}${dirty ? ' with changes' : ''}`)
  console.log(`machine: ${list(machine)}`)
  console.log(`versions: ${list(installed)}`)
  for (const [profile, values] of Object.entries(settings)) console.log(`server, ${profile}: ${list(values)}`)
  if (options.scale !== 1) console.log(`sizes and durations multiplied by ${options.scale}`)
  if (machine.dataInMemory) console.error('bench: the data folder is in memory, so fsync costs nothing there')
}

/** From the rough figures of `table-cases.mjs`; after the first repetition of a scenario a better one is printed. */
function printEstimate(sweeps) {
  let total = sweepMeasurements(sweeps) * SWEEP_SECONDS
  console.log(`expected: sweeps of the peers' settings ${minutes(total)}`)
  for (const { scenario, cases } of parts) {
    const { seconds, fixture = 0 } = TABLE[scenario.name]
    const expected = cases.length * options.repeat * seconds + fixture
    total += expected
    console.log(`expected: ${scenario.name}, ${cases.length} cases x ${options.repeat}: ${minutes(expected)}`)
  }
  console.log(`expected: ${minutes(total)} in all`)
}

function minutes(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`
}

function lineText(scenario, one, line, repetition) {
  if (line.error !== undefined) return `${scenario.name} ${one.id}: FAILED: ${line.error}`
  const figures = scenario.metrics
    .filter(({ name }) => typeof line[name] === 'number')
    .map(({ name, label }) => `${format(line[name])} ${label}`)
  return `${scenario.name} #${repetition + 1} ${one.id}: ${figures.join(', ')}`
}

/** Writes what there is so far. The name is that of an incomplete run until `keep` changes it. */
function save(document, file) {
  mkdirSync(RESULTS, { recursive: true })
  const started = document.date.slice(0, 16).replace(':', '')
  const path = file ?? join(RESULTS, `${started}-${document.commit}-partial.json`)
  writeFileSync(path, `${JSON.stringify(document, null, 2)}\n`)
  return path
}

/** Only complete runs get a plain name: the others are for looking at, not for keeping. */
function keep(file, { dirty }) {
  if (file === undefined || !options.complete || dirty || laboratory.aborted) return file
  const plain = file.replace('-partial.json', '.json')
  renameSync(file, plain)
  return plain
}

/** Not the system's temporary folder when there is a choice: that one is often in memory. */
function scratchFolder(given) {
  const parent = process.platform === 'linux' ? '/var/tmp' : tmpdir()
  const folder = given ?? mkdtempSync(join(parent, 'sluice-bench-'))
  mkdirSync(folder, { recursive: true })
  // The servers run under another user when this process is root.
  chmodSync(folder, 0o755)
  return folder
}

function progress(text) {
  console.error(text)
}

function readOptionsOrExit() {
  try {
    const read = readOptions(process.argv.slice(2))
    if (!read.help) return read
    console.log(HELP)
    process.exit(0)
  } catch (error) {
    console.error(`bench: ${error.message}\n\n${HELP}`)
    process.exit(2)
  }
}
