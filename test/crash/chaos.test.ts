import { expect, onTestFinished, test } from 'vitest'
import { Chaos } from '../support/chaos.ts'
import { QUICK_FAULTS } from '../support/chaos-faults.ts'
import { useDatabase } from '../support/database.ts'
import { WatchedCommits } from '../support/watched-commits.ts'

const database = useDatabase()

test('eight workers keep every promise at every commit while processes, connections and requests fail', async () => {
  const seed = Number(process.env.SLUICE_CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000_000))
  console.log(`chaos with seed ${seed}; SLUICE_CHAOS_SEED repeats its plan`)
  const commits = await WatchedCommits.open(database.directUrl)
  onTestFinished(() => commits.close())
  const report = await Chaos.run({
    url: database.directUrl,
    commits,
    seed,
    seconds: 12,
    faults: QUICK_FAULTS,
    drainMs: 60_000,
  })
  const { seen, peak, budgets } = commits.checker
  console.log(JSON.stringify({ ...report, seen, budgets: budgets.seen, peak: Object.fromEntries(peak) }))
  // Without these the run proved nothing.
  expect(seen.claims).toBeGreaterThan(100)
  expect(seen.growths).toBeGreaterThan(20)
  expect(seen.takeovers).toBeGreaterThan(0)
  expect(budgets.seen.reservations).toBeGreaterThan(20)
  expect(budgets.seen.copies).toBeGreaterThan(1)
  expect(budgets.seen.peak).toBeGreaterThan(0.9)
  expect(peak.get('a')).toBeGreaterThanOrEqual(7)
}, 150_000)
