import { setTimeout as delay } from 'node:timers/promises'
import type { Sluice } from '../../app/app.ts'
import { hasCode } from '../../errors.ts'
import { isFinal } from '../../model/job.ts'

/** A command that resumes the same run at the same moment needs a fraction of a second. */
const RESUME_TRIES = 50
const RESUME_PAUSE_MS = 200

/**
 * Runs again what did not complete of a run that had failed or was cancelled when the caller read it.
 *
 * @returns `false` when another command did so first: the run is under way, or has even completed.
 */
export async function continueRun(app: Sluice, id: string): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    try {
      await app.retry(id, { failed: true })
      return true
    } catch (error) {
      if (!hasCode(error, 'ILLEGAL_TRANSITION')) throw error
      const { state } = await app.getJob(id)
      if (!isFinal(state) || state === 'completed') return false
      // What another command is about to do is not to be seen yet.
      if (tries === RESUME_TRIES || error.details.busy !== true) throw error
      await delay(RESUME_PAUSE_MS)
    }
  }
}
