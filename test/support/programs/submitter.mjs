// Submits jobs, and tells its parent which were accepted. argv[2] is JSON: the options of sluice(), a seed, the tasks, and
// how many jobs are enough. It ends with its parent.
import { setTimeout as delay } from 'node:timers/promises'
import { hasCode, sluice } from 'sluice'

const { options, seed, tasks, most } = JSON.parse(process.argv[2])
let state = seed

process.on('disconnect', () => process.exit(1))

function random() {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

function pick(list) {
  return list[Math.floor(random() * list.length)]
}

function input() {
  const dice = random()
  if (dice < 0.001) return { die: true }
  if (dice < 0.05) return { fail: 'for good' }
  if (dice < 0.15) return { fail: 1, sleepMs: 5 }
  return { sleepMs: Math.floor(random() * 40) }
}

async function submitSome(app) {
  const task = pick(tasks)
  const priority = Math.floor(random() * 7) - 3
  const dice = random()
  if (dice < 0.1) return app.submitMany(task, Array.from({ length: 30 }, input), { priority })
  if (dice < 0.3)
    return [await app.submit(task, { sleepMs: 10 }, { priority, key: `key ${Math.floor(random() * 8)}` })]
  if (dice < 0.4) return [await app.submit(task, input(), { runAt: new Date(Date.now() + random() * 400) })]
  return Promise.all([1, 2, 3].map(() => app.submit(task, input(), { priority })))
}

const app = await sluice({ ...options, migrate: false })
for (let accepted = 0; accepted < most; ) {
  try {
    const ids = (await submitSome(app)).map((job) => job.id)
    accepted += ids.length
    process.send({ kind: 'accepted', ids })
  } catch (error) {
    // Whether they were stored is not known; without a key they are not sent again. Of several that were sent apart, some
    // may have been let in.
    if (!hasCode(error, 'DATABASE_UNAVAILABLE') && !hasCode(error, 'ADMISSION_REJECTED')) throw error
    process.send({ kind: 'unknown' })
  }
  await delay(random() * 40)
}
