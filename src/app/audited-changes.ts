import type { Database, Queryable } from '../db/database.ts'
import { transactWithRetries } from '../db/with-retries.ts'
import { audit } from '../engine/access/audit.ts'
import * as jobControl from '../engine/operate/job-control.ts'
import { retryFacts } from '../engine/operate/retry-facts.ts'
import { type Retried, retry, type TreeRetryOptions } from '../engine/operate/retry-tree.ts'
import { resizeWindow, resumeWindow, type WindowChange } from '../engine/operate/window-control.ts'
import { askToStop, setDraining } from '../engine/operate/worker-control.ts'
import * as schedules from '../engine/schedules/schedules.ts'
import type { Labels } from '../model/fields/pool.ts'
import type { JobState } from '../model/job.ts'
import type { ScheduleOptions } from '../model/schedule.ts'

interface Done<T> {
  readonly result: T
  /** States, limits, names. Never inputs or results. */
  readonly before?: unknown
  readonly after?: unknown
}

/**
 * Changes of jobs, workers and schedules that a program or command makes directly on the database. Each change and its
 * audit entry are one transaction, as on a server. Rejected changes leave no entry. `OperatorChanges` has changes of
 * limits.
 */
export class AuditedChanges {
  readonly #db: Database
  readonly #actor: string
  readonly #reason: string | undefined

  /** @param reason The reason recorded with every change. */
  constructor(db: Database, actor: string, reason?: string) {
    this.#db = db
    this.#actor = actor
    this.#reason = reason
  }

  cancel(id: string, reason: string): Promise<JobState> {
    return this.#job('cancel', id, async (tx) => {
      jobControl.checkReason(reason, 'reason')
      const { status } = await jobControl.getJob(tx, id)
      const state = await jobControl.cancel(tx, id, reason)
      return { result: state, before: { status }, after: jobControl.cancelFacts(state, reason) }
    })
  }

  approve(id: string): Promise<void> {
    return this.#job('approve', id, async (tx) => {
      const result = await jobControl.approve(tx, id, this.#actor)
      const { status } = await jobControl.getJob(tx, id)
      return { result, before: { status: 'awaiting_approval' }, after: { status } }
    })
  }

  reject(id: string, comment: string): Promise<void> {
    return this.#job('reject', id, async (tx) => ({
      result: await jobControl.reject(tx, id, comment, this.#actor),
      before: { status: 'awaiting_approval' },
      after: { status: 'cancelled', comment },
    }))
  }

  reprioritise(id: string, priority: number): Promise<void> {
    return this.#job('priority', id, async (tx) => {
      jobControl.checkPriority(priority)
      const before = await jobControl.getJob(tx, id)
      const result = await jobControl.reprioritise(tx, id, priority)
      return { result, before: { priority: before.priority }, after: { priority } }
    })
  }

  retry(id: string, options: TreeRetryOptions): Promise<Retried> {
    return this.#job('retry', id, async (tx) => {
      const { status } = await jobControl.getJob(tx, id)
      const result = await retry(tx, id, options, this.#actor)
      return { result, before: { status }, after: retryFacts(result, options) }
    })
  }

  rerun(id: string): Promise<void> {
    return this.#job('retry', id, async (tx) => {
      const { status } = await jobControl.getJob(tx, id)
      return { result: await jobControl.rerun(tx, id), before: { status }, after: { root: id, jobs: 1 } }
    })
  }

  remove(id: string): Promise<void> {
    return this.#job('delete', id, async (tx) => {
      const { status, task } = await jobControl.getJob(tx, id)
      return { result: await jobControl.remove(tx, id), before: { status, task } }
    })
  }

  resizeWindow(id: string, size: number): Promise<WindowChange> {
    return this.#window(id, (tx) => resizeWindow(tx, id, size))
  }

  resumeWindow(id: string): Promise<WindowChange> {
    return this.#window(id, (tx) => resumeWindow(tx, id))
  }

  drainWorker(name: string, draining: boolean, labels: Labels): Promise<number> {
    const action = draining ? 'worker.drain' : 'worker.undrain'
    return this.#worker(action, name, labels, (tx) => setDraining(tx, name, draining, labels))
  }

  stopWorker(name: string, labels: Labels): Promise<number> {
    return this.#worker('worker.stop', name, labels, (tx) => askToStop(tx, name, labels))
  }

  createSchedule(name: string, options: ScheduleOptions): Promise<schedules.ScheduleView> {
    return this.#schedule('create', name, async (tx) => {
      const result = await schedules.createSchedule(tx, name, options, this.#actor)
      return { result, after: schedules.scheduleFacts(result) }
    })
  }

  setSchedule(name: string, change: ScheduleOptions): Promise<schedules.ScheduleView> {
    return this.#schedule('change', name, async (tx) => {
      const before = schedules.scheduleFacts(await schedules.viewSchedule(tx, name))
      const result = await schedules.changeSchedule(tx, name, change, this.#actor)
      return { result, before, after: schedules.scheduleFacts(result) }
    })
  }

  resetSchedule(name: string): Promise<schedules.ScheduleView> {
    return this.#schedule('reset', name, async (tx) => {
      const before = schedules.scheduleFacts(await schedules.viewSchedule(tx, name))
      const result = await schedules.resetSchedule(tx, name, this.#actor)
      return { result, before, after: schedules.scheduleFacts(result) }
    })
  }

  removeSchedule(name: string): Promise<void> {
    return this.#schedule('delete', name, async (tx) => {
      const before = schedules.scheduleFacts(await schedules.viewSchedule(tx, name))
      return { result: await schedules.removeSchedule(tx, name), before }
    })
  }

  fireSchedule(name: string): ReturnType<typeof schedules.fireNow> {
    return this.#schedule('fire', name, async (tx) => {
      const result = await schedules.fireNow(tx, name, this.#actor)
      return { result, after: { jobId: result.id } }
    })
  }

  #job<T>(action: string, id: string, work: (tx: Queryable) => Promise<Done<T>>): Promise<T> {
    return this.#carryOut(`job.${action}`, `job ${id}`, work)
  }

  #window(id: string, change: (tx: Queryable) => Promise<WindowChange>): Promise<WindowChange> {
    return this.#job('window', id, async (tx) => {
      const result = await change(tx)
      return { result, before: { concurrency: result.before }, after: { concurrency: result.after } }
    })
  }

  #schedule<T>(action: string, name: string, work: (tx: Queryable) => Promise<Done<T>>): Promise<T> {
    return this.#carryOut(`schedule.${action}`, `schedule ${name}`, work)
  }

  #worker(
    action: string,
    name: string,
    labels: Labels,
    ask: (tx: Queryable) => Promise<number>,
  ): Promise<number> {
    return this.#carryOut(action, `worker ${name}`, async (tx) => {
      const workers = await ask(tx)
      return { result: workers, after: { workers, ...(Object.keys(labels).length > 0 && { labels }) } }
    })
  }

  #carryOut<T>(action: string, target: string, work: (tx: Queryable) => Promise<Done<T>>): Promise<T> {
    const { address } = this.#db
    return transactWithRetries(this.#db, async (tx) => {
      // Errors about missing things name the database.
      const { result, before, after } = await work({ address, run: (text, values) => tx.run(text, values) })
      await audit(tx, { actor: this.#actor, action, target, before, after, reason: this.#reason })
      return result
    })
  }
}
