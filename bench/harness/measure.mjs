// One measurement in a process of its own. Reads its specification as JSON on stdin, prints one line of
// JSON on stdout: the figures, or the error.
import { readFileSync } from 'node:fs'
import { Measurement } from './measurement.mjs'

const spec = JSON.parse(readFileSync(0, 'utf8'))
const { scenario } = await import(new URL(`../scenarios/${spec.scenario}.mjs`, import.meta.url).href)
const measurement = new Measurement(spec)
let line
try {
  const step = spec.prepare ? scenario.prepare : scenario.run
  const figures = (await step(measurement, spec.params)) ?? {}
  const { deadlocks } = await measurement.databaseCounters()
  line = { scenario: spec.scenario, case: spec.case, system: spec.system, ...figures, deadlocks }
} catch (error) {
  line = {
    scenario: spec.scenario,
    case: spec.case,
    system: spec.system,
    error: error.stack ?? String(error),
  }
}
await measurement.end()
process.stdout.write(`${JSON.stringify(line)}\n`)
// Peers may leave timers and sockets behind; nothing is left to wait for.
process.exit(line.error === undefined ? 0 : 1)
