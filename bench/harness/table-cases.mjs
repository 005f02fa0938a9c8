const SLUICE = ['sluice', 'sluice-before']

/**
 * What `--table` measures: the cases that the table at the top of the README needs, and no others. `systems`: cases of
 * these; `without`: parts of the names of cases that are left out. `seconds`: roughly what one measurement takes on two
 * cores, `fixture`: what the databases take that are prepared once; both are for the estimate only.
 * @type {Record<string, { seconds: number, fixture?: number, systems: string[], without?: string[] }>}
 */
export const TABLE = {
  drain: { seconds: 9, systems: [...SLUICE, 'graphile-tuned', 'pgboss'], without: ['unlimited'] },
  workers: { seconds: 13, systems: [...SLUICE, 'graphile-tuned', 'pgboss'] },
  mixed: { seconds: 13, systems: SLUICE },
  limits: { seconds: 11, systems: SLUICE },
  prefetch: { seconds: 14, systems: SLUICE },
  history: { seconds: 20, fixture: 240, systems: SLUICE },
  held: { seconds: 25, fixture: 20, systems: SLUICE },
  submit: { seconds: 10, systems: [...SLUICE, 'graphile', 'pgboss', 'bullmq-postgres'] },
  bulk: { seconds: 7, systems: [...SLUICE, 'graphile', 'pgboss', 'bullmq-postgres'] },
  latency: { seconds: 30, systems: [...SLUICE, 'graphile', 'graphile-tuned'], without: ['together'] },
  workflows: { seconds: 11, systems: [...SLUICE, 'dbos', 'dbos-queue'], without: ['bulk'] },
  fanout: { seconds: 20, systems: SLUICE, without: ['live'] },
  window: { seconds: 16, systems: SLUICE },
  nesting: { seconds: 11, systems: [...SLUICE, 'dbos'] },
  lanes: { seconds: 18, systems: SLUICE },
  remote: { seconds: 13, systems: SLUICE, without: ['direct'] },
}

export function inTable(scenarioName, one) {
  const { systems, without = [] } = TABLE[scenarioName]
  return systems.includes(one.system) && !without.some((text) => one.id.includes(text))
}
