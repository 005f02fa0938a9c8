// Jobs that come and go while somebody looks, in a process of their own: it submits them, and runs them as a worker.
// Forked with the address of the database; told { rate } in jobs a second, tells { done } twice a second.
import pino from 'pino'
import { sluice } from '../../dist/index.js'
import { tasksOf } from './tasks.mjs'

const TICK_MS = 50
/** What may wait at once: beyond it the machine is too slow, and the rate that is told is what it could do. */
const MOST_WAITING = 2000

let rate = 0
let submitted = 0
let done = 0
let owed = 0
let before = performance.now()
let submitting
const app = await sluice({
  database: process.argv[2],
  log: pino({ level: 'silent' }),
  publish: false,
  ...tasksOf(() => {
    done += 1
  }),
})
// Before the workers that are rows only: whoever comes first in the order gets the jobs at once.
await app.work({ name: 'traffic', capacity: 300, rank: -1 })

const ticking = setInterval(() => {
  const now = performance.now()
  owed = Math.min(owed + ((now - before) / 1000) * rate, rate)
  before = now
  const count = Math.min(Math.floor(owed), MOST_WAITING - (submitted - done))
  if (count < 1 || submitting !== undefined) return
  owed -= count
  const inputs = Array.from({ length: count }, (_, n) => ({ n: submitted + n }))
  submitted += count
  submitting = app
    .submitMany('thumbs.render', inputs, { tags: ['shop'] })
    .catch((error) => console.error(error.message))
    .finally(() => {
      submitting = undefined
    })
}, TICK_MS)
const telling = setInterval(() => process.send({ done }), 500)

process.on('message', async (message) => {
  if (message.rate !== undefined) rate = message.rate
  if (message.stop !== true) return
  clearInterval(ticking)
  clearInterval(telling)
  await submitting
  await app.close()
  process.disconnect()
})
process.send({ ready: true })
