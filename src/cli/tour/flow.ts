import { setTimeout as delay } from 'node:timers/promises'
import type { Sluice } from '../../app/app.ts'
import type { Log } from '../../engine/log.ts'
import { messageOf } from '../../errors.ts'
import { Showing } from './showing.ts'

const LOOK_MS = 500
/** Between two showings, so that the picture of an idle system is seen too. */
const PAUSE_MS = 10_000

/**
 * Keeps the tour's jobs flowing: one showing after the other, with the operator's part in each of them played. What a stop
 * leaves behind is taken up by the next one.
 */
export async function flow(app: Sluice, log: Log, now: () => Date, stop: AbortSignal): Promise<void> {
  const rest = (ms: number) => delay(ms, undefined, { signal: stop }).catch(() => {})
  while (!stop.aborted) {
    try {
      const showing = await Showing.find(app, now(), (event) => log.info({}, event))
      await showing.submit()
      log.info({ jobs: showing.total }, 'sample jobs submitted')
      while (!stop.aborted && !showing.finished) {
        await rest(LOOK_MS)
        if (!stop.aborted) await showing.refresh()
      }
    } catch (error) {
      if (!stop.aborted) log.warn({ error: messageOf(error) }, 'sample jobs: tried again soon')
    }
    await rest(PAUSE_MS)
  }
}
