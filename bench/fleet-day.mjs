// Simulates days of a pool: its cost by default, and beside plans whose idle timeout is chosen when the day is over so that jobs wait
// as little.
//
//   node bench/fleet-day.mjs
import { createJiti } from 'jiti'

const jiti = createJiti(import.meta.url)
const { inHindsight, RIVALS, USUAL } = await jiti.import('./fleet-day/compare.ts')
const { DAYS, jobHours, playDay } = await jiti.import('./fleet-day/day.ts')

const WORDS = {
  'same rules': 'same rules, best timeout afterwards',
  'at once': 'started at once, best timeout afterwards',
  'in turn': 'round-robin, best timeout afterwards',
  'in turn, at once': 'round-robin, started at once, best timeout afterwards',
}
const GOAL = 1.15

console.log('| day | plan | idle | worker-hours | mean wait | 95 % wait less than | ours / its hours |')
console.log('|---|---|---|---|---|---|---|')
let missed = 0
for (const day of DAYS) {
  const ours = playDay(day, USUAL)
  line(
    `${day.name}: ${day.jobs.length} jobs, ${jobHours(day).toFixed(1)} h`,
    'the default',
    USUAL.idleMs,
    ours,
  )
  const inTurn = playDay(day, RIVALS['in turn'])
  line('', 'round-robin, same timeout', USUAL.idleMs, inTurn, ours.workerHours / inTurn.workerHours)
  for (const [name, plan] of Object.entries(RIVALS)) {
    const rival = inHindsight(day, plan, ours)
    const { idleMs, ratio } = rival
    line('', WORDS[name], idleMs, rival, ratio)
    if (name === 'at once' && ratio > GOAL) missed++
  }
}
console.log(
  `\ndays on which the default costs more than ${GOAL} of "${WORDS['at once']}": ${missed} of ${DAYS.length}`,
)

function line(day, plan, idleMs, { workerHours, meanWaitMs, p95WaitMs }, ratio) {
  const cells = [day, plan, seconds(idleMs), workerHours.toFixed(1), seconds(meanWaitMs), seconds(p95WaitMs)]
  console.log(`| ${[...cells, ratio === undefined ? '' : ratio.toFixed(2)].join(' | ')} |`)
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`
}
