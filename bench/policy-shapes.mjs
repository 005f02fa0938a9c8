import { createJiti } from 'jiti'

const jiti = createJiti(import.meta.url)
const { compareShape, SHAPE_GOALS } = await jiti.import('./policy/compare-shape.ts')
const { NAMED_SHAPES, randomShape } = await jiti.import('./policy/shapes.ts')

const GOALS = Object.keys(SHAPE_GOALS)

/** Named shapes one by one, random ones summed up. Returns how many goals were missed. */
export function playShapes({ seeds, random, first, only }) {
  const chosen = NAMED_SHAPES.filter(({ name }) => only === undefined || name.includes(only))
  const numbers = Array.from({ length: seeds }, (_, index) => index + 1)
  console.log(`Against the simple policy with the lowest mean wait: ${GOALS.join(', ')}, * missed`)
  const named = chosen.map((shape) => show(compareShape(shape, numbers)))
  const drawn = Array.from({ length: random }, (_, index) => compareShape(randomShape(first + index), [1]))
  if (drawn.length > 0) summarise(drawn)
  const all = [...named, ...drawn]
  const broken = all.reduce(
    (sum, { sluice }) => sum + sluice.overcommits + sluice.livelock + sluice.unserved,
    0,
  )
  console.log(`over-commits, livelocks and jobs not served: ${broken}`)
  return all.filter(({ missed }) => missed.length > 0).length + broken
}

function show(result) {
  const { shape, rival, sluice, best, ratios, missed } = result
  const cells = GOALS.map((goal) =>
    `${ratios[goal].toFixed(2)}${missed.includes(goal) ? '*' : ' '}`.padStart(8),
  )
  const wait = `${(sluice.waitMean / 1000).toFixed(1)} s`.padStart(9)
  console.log(
    `  ${shape.padEnd(40)}${rival.padEnd(11)}${cells.join('')}  mean ${wait}, loads ${sluice.loads.toFixed(0)} (${best.loads.toFixed(0)}), loading ${(100 * sluice.loadingShare).toFixed(0)} %`,
  )
  return result
}

/** How many random shapes meet each goal, and how far off the others are. */
function summarise(results) {
  for (const goal of GOALS) {
    const ratios = results.map((result) => result.ratios[goal]).sort((one, other) => one - other)
    const at = (share) => ratios[Math.ceil(share * ratios.length) - 1].toFixed(2)
    const met = results.filter(({ missed }) => !missed.includes(goal)).length
    console.log(
      `random, ${goal}: ${met} of ${results.length} within ${SHAPE_GOALS[goal]}; ratio p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, max ${at(1)}`,
    )
  }
  const all = results.filter(({ missed }) => missed.length === 0).length
  const waits = results.filter(({ missed }) => missed.every((goal) => goal === 'loads')).length
  const alone = results.filter(({ rival }) => rival === undefined).length
  const costly = results.filter(({ missed }) => missed.includes('loads'))
  const traded = costly.filter(({ ratios }) => ratios.waitMean <= 0.8).length
  console.log(`random, loads missed: ${costly.length}; of these at most 0.8 of the mean wait: ${traded}`)
  console.log(`random, every goal: ${all} of ${results.length}; every goal but loads: ${waits}`)
  if (alone > 0) console.log(`random, no simple policy served all jobs: ${alone}, counted as met`)
  const worst = [...results].filter(({ missed }) => missed.length > 0)
  worst.sort((one, other) => excess(other) - excess(one))
  for (const result of worst.slice(0, 10)) show(result)
}

function excess({ ratios }) {
  return Math.max(...GOALS.map((goal) => ratios[goal] / SHAPE_GOALS[goal]))
}
