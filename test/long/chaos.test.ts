import { expect, onTestFinished, test } from 'vitest'
import { Chaos } from '../support/chaos.ts'
import { ALL_FAULTS } from '../support/chaos-faults.ts'
import { CommitChecker } from '../support/commit-checker.ts'
import { useDatabase } from '../support/database.ts'
import { WatchedCommits } from '../support/watched-commits.ts'

const database = useDatabase()

/** How long each seed runs, and how many there are. */
const SECONDS = Number(process.env.SLUICE_CHAOS_SECONDS ?? 90)
const SEEDS = Number(process.env.SLUICE_CHAOS_SEEDS ?? 5)
const FIRST = Number(process.env.SLUICE_CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000_000))

const seeds = Array.from({ length: SEEDS }, (_, n) => FIRST + n)

test.each(seeds)(
  'every promise is kept at every commit while everything fails, half-open connections included: seed %i',
  async (seed) => {
    console.log(`chaos for ${SECONDS} s with seed ${seed}; SLUICE_CHAOS_SEED repeats its plan`)
    const commits = await WatchedCommits.open(
      database.directUrl,
      // As long as a half-open connection goes unnoticed.
      new CommitChecker({ reportMs: 40_000 }),
    )
    onTestFinished(() => commits.close())
    const report = await Chaos.run({
      url: database.directUrl,
      commits,
      seed,
      seconds: SECONDS,
      faults: ALL_FAULTS,
      stuckMs: 180_000,
    })
    const { seen, peak, prefetch } = commits.checker
    const counts = { seen, prefetch: prefetch.seen, peak: Object.fromEntries(peak) }
    console.log(JSON.stringify({ seed, ...report, ...counts }))
    expect(seen.takeovers).toBeGreaterThan(0)
    const { assigned, starts, returned, lost } = prefetch.seen
    expect(Math.min(assigned, starts, returned, lost), 'steps of assigned jobs').toBeGreaterThan(0)
  },
  (SECONDS + 300) * 1000,
)
