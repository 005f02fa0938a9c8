// Tasks that run in a process of a worker's process pool, for tests.
import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { task } from 'sluice'

/** Runs until the file of its input exists. */
export const hold = task({
  name: 'hold',
  execution: 'process',
  module: import.meta.url,
  async run({ until }, { signal }) {
    while (!existsSync(until)) await delay(10, undefined, { signal })
    return process.pid
  },
})
