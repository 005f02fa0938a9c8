import { summarise } from './statistics.mjs'

/**
 * Medians and spreads per case and metric, and each goal's ratio.
 * @param {{ scenario: object, cases: object[], lines: object[] }[]} parts
 */
export function evaluate(parts) {
  return parts.map(({ scenario, cases, lines }) => {
    const figures = cases.map((one) => {
      const good = lines.filter((line) => line.case === one.id && line.error === undefined)
      return {
        case: one.id,
        label: one.label,
        system: one.system,
        failed: lines.filter((line) => line.case === one.id && line.error !== undefined).length,
        deadlocks: good.reduce((sum, line) => sum + (line.deadlocks ?? 0), 0),
        ranTwice: good.reduce((sum, line) => sum + Math.max(0, line.ranTwice ?? 0), 0),
        metrics: Object.fromEntries(
          scenario.metrics.map(({ name }) => [name, summarise(good.map((line) => line[name]))]),
        ),
      }
    })
    const goals = scenario.goals.map((goal) => judge(goal, scenario, figures, lines)).filter(Boolean)
    return { name: scenario.name, title: scenario.title, metrics: scenario.metrics, figures, goals }
  })
}

/**
 * A goal without `atLeast`, `atMost` and `atMostMore` is a ratio to report. `atMostMore` is about the difference to the
 * peer, in the unit of the metric. `null` when its cases were not measured.
 */
function judge(goal, scenario, figures, lines) {
  const { better, unit } = scenario.metrics.find(({ name }) => name === goal.metric)
  const medianOf = (id) => figures.find((one) => one.case === id)?.metrics[goal.metric]?.median ?? null
  const own = medianOf(goal.of)
  if (own === null) return null
  let [value, peer, spread] = [own, null, null]

  if (goal.against !== undefined) {
    const known = goal.against.filter((id) => medianOf(id) !== null)
    if (known.length === 0) return null
    const order = better === 'higher' ? 1 : -1
    peer = known.reduce((best, id) => (order * (medianOf(id) - medianOf(best)) > 0 ? id : best))
    const paired = pair(lines, goal, peer)
    if (paired === null) return null
    value = paired.median
    spread = [paired.min, paired.max]
  }
  const { of, metric, atLeast, atMost, atMostMore, aim, row, beside } = goal
  const judged = {
    of,
    metric,
    better,
    unit,
    peer,
    value,
    spread,
    atLeast,
    atMost,
    atMostMore,
    aim,
    row,
    beside,
  }
  return { ...judged, verdict: verdict(value, judged) }
}

/** Ratios or differences within one repetition: both sides ran minutes apart at most, so slow drift cancels. */
function pair(lines, { of, metric, atMostMore }, peer) {
  const value = (id, repetition) =>
    lines.find((line) => line.case === id && line.repetition === repetition)?.[metric]
  const compare = (own, other) => (atMostMore === undefined ? own / other : own - other)
  const repetitions = [...new Set(lines.map((line) => line.repetition))]
  return summarise(repetitions.map((r) => compare(value(of, r), value(peer, r))))
}

function verdict(value, { atLeast, atMost, atMostMore, unit }) {
  if (atLeast !== undefined) return value >= atLeast ? 'met' : `missed by ${percent(1 - value / atLeast)}`
  if (atMost !== undefined) return value <= atMost ? 'met' : `missed by ${percent(value / atMost - 1)}`
  if (atMostMore !== undefined)
    return value <= atMostMore ? 'met' : `missed by ${format(value - atMostMore)} ${unit}`
  return ''
}

/** Of a share. Small ones keep a digit, since a miss by 0 % would read like a contradiction. */
export function percent(share) {
  const value = share * 100
  return `${value < 1 ? value.toPrecision(1) : value.toFixed(0)} %`
}

/** Everything as one table of text. */
export function render(results) {
  const rows = []
  for (const { title, metrics, figures } of results) {
    rows.push([title])
    for (const one of figures) {
      const known = metrics.filter(({ name }) => one.metrics[name] !== null)
      for (const [index, { name, label }] of (known.length > 0 ? known : metrics.slice(0, 1)).entries()) {
        const summary = one.metrics[name]
        const notes = [
          one.failed > 0 && index === 0 ? `${one.failed} failed` : '',
          one.deadlocks > 0 && index === 0 ? `${one.deadlocks} deadlocks` : '',
          one.ranTwice > 0 && index === 0 ? `${one.ranTwice} jobs ran twice` : '',
        ]
        rows.push([
          index === 0 ? `  ${one.label}` : '',
          label,
          summary === null ? '-' : format(summary.median),
          summary === null || summary.runs === 1 ? '' : `${format(summary.min)} - ${format(summary.max)}`,
          notes.filter(Boolean).join(', '),
        ])
      }
    }
  }
  const goals = results.flatMap(({ name, goals }) =>
    goals.map((goal) => [
      `  ${name}: ${goal.of}${goal.peer === null ? '' : ` / ${goal.peer}`}`,
      goal.metric,
      valueText(goal),
      goal.spread === null || goal.spread[0] === goal.spread[1]
        ? ''
        : `${goal.spread[0].toFixed(2)} - ${goal.spread[1].toFixed(2)}`,
      [goalText(goal), goal.verdict].filter(Boolean).join(': '),
    ]),
  )
  if (goals.length > 0) rows.push(['Ratios and goals'], ...goals)
  return align([['', 'metric', 'median', 'min - max', ''], ...rows])
}

function valueText({ peer, value, atMostMore }) {
  if (peer === null) return format(value)
  return atMostMore === undefined ? `${value.toFixed(2)}x` : `${value < 0 ? '' : '+'}${value.toFixed(1)}`
}

export function goalText({ atLeast, atMost, atMostMore, aim, unit }) {
  if (atLeast !== undefined) return `>= ${atLeast}${aim === undefined ? '' : ` (aim ${aim})`}`
  if (atMostMore !== undefined) return `<= ${atMostMore} ${unit} more`
  return atMost === undefined ? '' : `<= ${atMost}`
}

/** Three figures, or a whole number with separators. */
export function format(value) {
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value >= 10 ? value.toFixed(1) : value.toPrecision(3)
}

function align(rows) {
  const wide = rows.filter((row) => row.length > 1)
  const widths = [0, 1, 2, 3].map((column) => Math.max(...wide.map((row) => row[column].length)))
  return rows
    .map((row) => {
      if (row.length === 1) return `\n${row[0]}`
      const [name, metric, value, spread, note] = row
      return [
        name.padEnd(widths[0]),
        metric.padEnd(widths[1]),
        value.padStart(widths[2]),
        spread.padStart(widths[3]),
        note,
      ]
        .join('  ')
        .trimEnd()
    })
    .join('\n')
}
