import type { Queryable } from '../../db/database.ts'
import { latestSamples, type WaitingClass } from '../../store/latest-samples.ts'
import { type DutyView, listDuties } from '../../store/list-duties.ts'
import { type Lane, listLanes } from '../../store/list-lanes.ts'
import { listRunning, type RunningJob } from '../../store/list-running.ts'
import { listWorkers, type WorkerView } from '../../store/list-workers.ts'

export interface WorkerStatus extends WorkerView {
  /** What it runs; fewer than `running` only where the whole answer was full. */
  readonly jobs: readonly RunningJob[]
}

/** Who runs what, and what waits. */
export interface SystemStatus {
  readonly workers: readonly WorkerStatus[]
  readonly lanes: readonly Lane[]
  readonly queues: readonly WaitingClass[]
  readonly duties: readonly DutyView[]
}

/** Running jobs in one answer: some 2 MB as JSON. */
const MOST_JOBS = 5000

/** Nothing of it counts waiting jobs: depth and oldest wait are what the duty last sampled. */
export async function systemStatus(db: Queryable): Promise<SystemStatus> {
  const workers = await listWorkers(db)
  const running = await listRunning(db, MOST_JOBS)
  const byWorker = new Map<string, RunningJob[]>(workers.map(({ id }) => [id, []]))
  for (const job of running) byWorker.get(job.workerId)?.push(job)
  return {
    workers: workers.map((worker) => ({ ...worker, jobs: byWorker.get(worker.id) ?? [] })),
    lanes: await listLanes(db),
    queues: await latestSamples(db),
    duties: await listDuties(db),
  }
}
