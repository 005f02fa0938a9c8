import { builtEntry } from '../../../built-entry.ts'
import { task } from '../../../worker/task.ts'
import { hasJob, type Scene, submitAll } from './scene.ts'
import { pretend } from './work.ts'

const POOL = 'tour-burst'
const LABELS = { tour: 'burst' }
const PICTURES = 16
const EVERY_MS = 5 * 60_000

const thumbnail = task({
  name: 'tour.thumbnail',
  requires: LABELS,
  run: async ({ picture, crash }: { picture: number; crash?: boolean }, ctx) => {
    // The label keeps these jobs to the workers of the pool, so it is one of those that dies.
    if (crash === true && ctx.attempt === 1) process.kill(process.pid, 'SIGKILL')
    await pretend(ctx, 2000, ['reading', 'scaling', 'storing'])
    return { picture, bytes: 20_000 + picture * 37 }
  },
})

/**
 * A pool: jobs that no live worker can take make it start one, which leaves when it has been idle. The very first job kills its
 * worker, so that there is a recovery to see: the jobs of the dead worker are taken over.
 *
 * @param config The file that was named for this process; workers of the pool read it too.
 */
export function thumbnails(config: string | undefined): Scene {
  const main = builtEntry('../../main', import.meta.url)
  const file = config === undefined ? [] : ['--config', config]
  let nextAt = Number.NEGATIVE_INFINITY
  return {
    program: {
      tasks: [thumbnail],
      fleet: {
        pools: {
          [POOL]: {
            max: 1,
            capacity: 4,
            idle: '20s',
            labels: LABELS,
            options: {
              argv: [process.execPath, main, 'worker', '--tour', '--tasks', thumbnail.name, ...file],
            },
          },
        },
      },
    },
    async tend(app) {
      const now = performance.now()
      if (now < nextAt) return
      nextAt = now + EVERY_MS
      const crash = !(await hasJob(app, thumbnail))
      const pictures = Array.from({ length: PICTURES }, (_, picture) => ({ picture }))
      await submitAll(app, thumbnail, crash ? [{ picture: PICTURES, crash }, ...pictures] : pictures)
    },
  }
}
