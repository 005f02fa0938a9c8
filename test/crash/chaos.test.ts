import { expect, onTestFinished, test } from 'vitest'
import { Chaos } from '../support/chaos.ts'
import { QUICK_FAULTS } from '../support/chaos-faults.ts'
import { useDatabase } from '../support/database.ts'
import { countAssignedToRemotes } from '../support/state/workers.ts'
import { WatchedCommits } from '../support/watched-commits.ts'

const database = useDatabase()

/** On a busy machine little may happen in one round. */
const MOST_ROUNDS = 4

test('eight workers keep every promise at every commit while processes, connections and requests fail', async () => {
  const seed = Number(process.env.SLUICE_CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000_000))
  console.log(`chaos with seed ${seed}; SLUICE_CHAOS_SEED repeats its plan`)
  const commits = await WatchedCommits.open(database.directUrl)
  onTestFinished(() => commits.close())
  let remotes = 0
  // Without these a run proves nothing.
  const missing = (): string[] => {
    const { seen, peak, budgets, prefetch } = commits.checker
    const wanted = {
      '100 claims': seen.claims > 100,
      '20 growths': seen.growths > 20,
      'a take-over': seen.takeovers > 0,
      '20 reservations': budgets.seen.reservations > 20,
      'two copies of models': budgets.seen.copies > 1,
      'a device that is nearly full': budgets.seen.peak > 0.9,
      '300 assigned jobs': prefetch.seen.assigned > 300,
      '100 starts of assigned jobs': prefetch.seen.starts > 100,
      '30 starts of assigned jobs with a start deadline': prefetch.seen.deadlines > 30,
      '30 ends of such jobs, which say when they started': prefetch.seen.knownDeadlines > 30,
      'assigned jobs that were handed back': prefetch.seen.returned > 0,
      'assigned jobs that came back without a loss': prefetch.seen.lost > 0,
      '30 jobs assigned to workers behind a server': remotes > 30,
      'a lane with seven jobs at once': (peak.get('a') ?? 0) >= 7,
    }
    return Object.entries(wanted).flatMap(([what, isSeen]) => (isSeen ? [] : [what]))
  }
  for (let round = 0; round < MOST_ROUNDS && missing().length > 0; round++) {
    const report = await Chaos.run({
      url: database.directUrl,
      commits,
      seed: seed + round,
      seconds: 12,
      faults: QUICK_FAULTS,
      stuckMs: 60_000,
    })
    const { seen, peak, budgets, prefetch } = commits.checker
    remotes = await countAssignedToRemotes(database.sql, prefetch)
    const counts = {
      ...{ seen, budgets: budgets.seen, prefetch: prefetch.seen, remotes, peak: Object.fromEntries(peak) },
    }
    console.log(JSON.stringify({ ...report, ...counts }))
  }
  expect(missing(), 'what did not happen').toEqual([])
}, 1_200_000)
