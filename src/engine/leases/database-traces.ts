import type { Queryable } from '../../db/database.ts'
import { appendLogs } from '../../store/append-logs.ts'
import { saveProgress } from '../../store/save-progress.ts'
import type { TraceStore } from './recorder.ts'

/** Lines and progress straight into the database. @param workerId Asked each time: it changes when a worker starts over. */
export function databaseTraces(db: Queryable, workerId: () => string): TraceStore {
  return {
    appendLogs: (lines) => appendLogs(db, null, lines),
    saveProgress: (notes) => saveProgress(db, workerId(), notes),
  }
}
