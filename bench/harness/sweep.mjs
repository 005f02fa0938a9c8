import { SYSTEMS } from '../systems/registry.mjs'

const ROUNDS = 2
const JOBS = 50_000
const SECONDS = 2

/**
 * Looks for the best settings of each peer on this machine: every candidate once in a short run of the case it is for,
 * twice over, and the best single run counts.
 * @param {{ system: string, sweep?: string }[]} cases The cases that will be measured; each takes the settings of its sweep.
 * @returns the settings by system and sweep.
 */
export async function sweepPeers(laboratory, cases, scale, progress) {
  const chosen = {}
  for (const { system, sweep, scenario, one } of await plannedSweeps(cases, scale)) {
    const rated = []
    for (let round = 0; round < ROUNDS; round++) {
      for (const candidate of SYSTEMS[system].sweep[sweep]) {
        const options = { ...SYSTEMS[system].options, ...candidate }
        const line = await laboratory.measure(scenario, one, options)
        if (laboratory.aborted) return chosen
        const rate = line[scenario.metrics[0].name] ?? 0
        rated.push({ candidate, rate })
        const found = line.error ?? `${Math.round(rate)}/s`
        progress(`sweep ${sweep} ${system} ${JSON.stringify(candidate)}: ${found}`)
      }
    }
    const best = rated.reduce((a, b) => (b.rate > a.rate ? b : a))
    chosen[system] = { ...chosen[system], [sweep]: best.candidate }
  }
  return chosen
}

/** What a case is measured with: the settings of its system, and the best ones found for its sweep. */
export function settingsOf(one, chosen) {
  return { ...SYSTEMS[one.system].options, ...chosen[one.system]?.[one.sweep] }
}

/** Each sweep that one of the cases needs, with a short form of the case that it is made on. */
export async function plannedSweeps(cases, scale) {
  const needed = new Map()
  for (const { system, sweep } of cases)
    if (SYSTEMS[system].sweep?.[sweep] !== undefined) needed.set(`${system} ${sweep}`, { system, sweep })
  const planned = []
  for (const { system, sweep } of needed.values()) {
    const [name] = sweep.split(' ')
    const { scenario } = await import(new URL(`../scenarios/${name}.mjs`, import.meta.url).href)
    const one = scenario.cases(scale).find((each) => each.system === system && each.sweep === sweep)
    planned.push({ system, sweep, scenario, one: { ...one, params: shortened(one.params, scale) } })
  }
  return planned
}

/** How many measurements the sweeps make. */
export function sweepMeasurements(planned) {
  return planned.reduce((sum, { system, sweep }) => sum + ROUNDS * SYSTEMS[system].sweep[sweep].length, 0)
}

function shortened(params, scale) {
  return {
    ...params,
    ...(params.n === undefined ? {} : { n: Math.min(params.n, scale(JOBS)) }),
    ...(params.seconds === undefined ? {} : { seconds: Math.min(params.seconds, scale.seconds(SECONDS)) }),
  }
}
