import { expect, onTestFinished, test } from 'vitest'
import { Chaos } from '../support/chaos.ts'
import { ALL_FAULTS } from '../support/chaos-faults.ts'
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
    const commits = await WatchedCommits.open(database.directUrl)
    onTestFinished(() => commits.close())
    const report = await Chaos.run({
      url: database.directUrl,
      commits,
      seed,
      seconds: SECONDS,
      faults: ALL_FAULTS,
      stuckMs: 180_000,
    })
    const { seen, peak } = commits.checker
    console.log(JSON.stringify({ seed, ...report, seen, peak: Object.fromEntries(peak) }))
    expect(seen.takeovers).toBeGreaterThan(0)
  },
  (SECONDS + 300) * 1000,
)
