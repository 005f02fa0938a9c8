import { setTimeout as delay } from 'node:timers/promises'
import type { Sluice } from '../../app/app.ts'
import type { Log } from '../../engine/log.ts'
import { messageOf } from '../../errors.ts'
import type { TourProduct } from './product.ts'
import { Showing } from './showing.ts'

const LOOK_MS = 1000
const TEND_MS = 3000
/** Between two showings, so that idle lanes are seen too. */
const PAUSE_MS = 30_000

/**
 * Keeps the jobs of the tour flowing: one showing after the other, with the operator's part in each of them played, and
 * whatever the scenes need. What a stop leaves behind is taken up by the next one.
 */
export async function flow(
  app: Sluice,
  product: TourProduct,
  log: Log,
  now: () => Date,
  stop: AbortSignal,
): Promise<void> {
  await Promise.all([
    untilStopped(stop, TEND_MS, log, () => product.tend(app)),
    untilStopped(stop, PAUSE_MS, log, () => showOnce(app, log, now, stop)),
  ])
  await product.removeSchedules(app).catch((error) => {
    log.warn({ error: messageOf(error) }, 'the schedules of the tour could not be deleted')
  })
}

/** Calls again and again, with a pause between. A failure, of a database that restarts for example, waits for the next call. */
async function untilStopped(
  stop: AbortSignal,
  pauseMs: number,
  log: Log,
  act: () => Promise<void>,
): Promise<void> {
  while (!stop.aborted) {
    await act().catch((error) => {
      if (!stop.aborted)
        log.warn({ error: messageOf(error) }, 'the tour could not go on and tries again soon')
    })
    await rest(pauseMs, stop)
  }
}

async function showOnce(app: Sluice, log: Log, now: () => Date, stop: AbortSignal): Promise<void> {
  const showing = await Showing.find(app, now(), (event) => log.info({}, event))
  await showing.submit()
  log.info({ jobs: showing.total }, 'sample jobs submitted')
  while (!stop.aborted && !showing.finished) {
    await rest(LOOK_MS, stop)
    if (!stop.aborted) await showing.refresh()
  }
}

async function rest(ms: number, stop: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal: stop }).catch(() => {})
}
