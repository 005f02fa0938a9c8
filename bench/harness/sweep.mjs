import { SYSTEMS } from '../systems/registry.mjs'

/**
 * Looks for the best settings of each peer on this machine: every candidate once in a short run of
 * the scenario it is for, twice over, the better of the two counts. Answers the settings by system.
 */
export async function sweepPeers(laboratory, names, scale, progress) {
  const chosen = {}
  for (const name of names) {
    for (const [scenarioName, candidates] of Object.entries(SYSTEMS[name].sweep ?? {})) {
      const { scenario } = await import(new URL(`../scenarios/${scenarioName}.mjs`, import.meta.url).href)
      const one = scenario.cases(scale).find((candidate) => candidate.system === name)
      if (one === undefined) continue
      const short = { ...one, params: { ...one.params, n: Math.min(one.params.n, scale(50_000)) } }
      const rated = []
      for (let round = 0; round < 2; round++) {
        for (const candidate of candidates) {
          const options = { ...SYSTEMS[name].options, ...chosen[name], ...candidate }
          const line = await laboratory.measure(scenario, short, options)
          if (line.error !== undefined) progress(`sweep ${name} ${JSON.stringify(candidate)}: ${line.error}`)
          rated.push({ candidate, rate: line[scenario.metrics[0].name] ?? 0 })
          progress(
            `sweep ${scenarioName} ${name} ${JSON.stringify(candidate)}: ${Math.round(rated.at(-1).rate)}/s`,
          )
        }
      }
      const best = rated.reduce((a, b) => (b.rate > a.rate ? b : a))
      chosen[name] = { ...chosen[name], ...best.candidate }
    }
  }
  return chosen
}
