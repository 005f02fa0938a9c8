import { expect, test } from 'vitest'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { workThroughServers } from '../support/through-server.ts'
import { untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

workThroughServers()
const { task } = await import('../../src/index.ts')

const database = useDatabase()
const apps = useApps(database)
const commits = useCommitChecker(database)

const SLOTS = 24
/** One request takes 16 of them. */
const LARGE = 'x'.repeat(1024 * 1024)

test('a worker behind a server whose results need several requests never runs more jobs than it has slots', async () => {
  let left = 1000 + 120
  const answer = task({
    name: 'answer',
    lane: 'wide',
    async run({ isLarge }: { isLarge: boolean }) {
      await new Promise((resolve) => setTimeout(resolve, 1))
      left--
      return isLarge ? LARGE : null
    },
  })
  const app = await apps.open({ tasks: [answer], lanes: { wide: { slots: SLOTS } } })
  // The small ones are measured: so many jobs of the task are assigned.
  await app.submitMany(answer, Array(1000).fill({ isLarge: false }))
  await app.submitMany(answer, Array(120).fill({ isLarge: true }))
  await app.work({ capacity: SLOTS })
  await untilNoneLeft(() => left, 'all to run')
  const unfinished = async () => (await database.sql('select 1 from sluice.claims')).length
  await untilNoneLeft(unfinished, 'all to be recorded')
  const { prefetch } = await commits.catchUp()
  expect(prefetch.seen.assigned).toBeGreaterThan(0)
})
