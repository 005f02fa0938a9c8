import { setTimeout as delay } from 'node:timers/promises'
import type { Queryable } from '../../db/database.ts'
import { isFinal } from '../../model/job.ts'
import type { StoredLogLine } from '../../store/read-logs.ts'
import { getJob, readJobLogs } from '../operate/job-control.ts'

const PAGE = 1000
/** Lines are stored in batches, at most 200 ms after they were written. */
const LOOK_MS = 300

/** Every log line of a job, oldest first, until it has ended. */
export async function* followLogs(db: Queryable, id: string): AsyncGenerator<StoredLogLine> {
  let after = '0'
  for (;;) {
    // Asked before the lines are read: whatever an ended job wrote is there by then.
    const { state } = await getJob(db, id)
    for (;;) {
      const lines = await readJobLogs(db, id, after, PAGE)
      yield* lines
      after = lines.at(-1)?.id ?? after
      if (lines.length < PAGE) break
    }
    if (isFinal(state)) return
    await delay(LOOK_MS)
  }
}
