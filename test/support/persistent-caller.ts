import { setTimeout as delay } from 'node:timers/promises'
import { hasCode, type JobFailedError, type JobHandle } from '../../src/index.ts'

export interface Settled {
  readonly id: string
  readonly result?: unknown
  readonly error?: string
}

/** How a job ended. No fault on the way may show here. */
export async function settled(job: JobHandle): Promise<Settled> {
  try {
    return { id: job.id, result: await job.result() }
  } catch (error) {
    if (!hasCode(error, 'JOB_FAILED') && !hasCode(error, 'JOB_CANCELLED')) throw error
    return { id: job.id, error: (error as JobFailedError).error }
  }
}

/** Repeats what the caller was told to be unknown or undone, as a caller would. */
export async function repeated<T>(what: string, act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act()
    } catch (error) {
      if (!hasCode(error, 'DATABASE_UNAVAILABLE') || tries === 50) {
        throw new Error(`${what}, try ${tries}: ${error}`, { cause: error })
      }
      await delay(5)
    }
  }
}

/** The same for what can be done only once: a refusal after a lost answer says that it was done. */
export async function once(what: string, act: () => Promise<unknown>): Promise<void> {
  let unsure = false
  await repeated(what, async () => {
    try {
      await act()
    } catch (error) {
      if (unsure && (hasCode(error, 'ILLEGAL_TRANSITION') || hasCode(error, 'JOB_NOT_FOUND'))) return
      unsure = true
      throw error
    }
  })
}
