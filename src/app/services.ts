import { randomUUID } from 'node:crypto'
import type { LoadedConfig } from '../config/load-config.ts'
import type { Database, Queryable } from '../db/database.ts'
import { Listener } from '../db/listener.ts'
import { withRetries } from '../db/with-retries.ts'
import type { Log } from '../engine/log.ts'
import { AdmissionGate } from '../engine/submit/admission-gate.ts'
import { ResultWaiter } from '../engine/submit/result-waiter.ts'
import { type Submission, type SubmissionAuthor, Submitter } from '../engine/submit/submitter.ts'
import { invalidArgument } from '../model/argument.ts'
import type { Settings } from '../model/settings.ts'
import { parseInput } from '../worker/inline.ts'
import type { AnyTask } from '../worker/task.ts'
import { ProcessRunner } from './process-runner.ts'
import { ownerOf, type SubmitOptions, toSubmission } from './submission.ts'
import type { TaskSet } from './task-set.ts'
import { withUses } from './with-uses.ts'
import type { WorkflowSet } from './workflow-set.ts'

/** What a program has opened: the database, and what its config and its code say. */
export interface ServiceParts {
  readonly db: Database
  readonly tasks: TaskSet
  readonly workflows: WorkflowSet
  readonly settings: Settings
  readonly heartbeatMs: number
  readonly config: LoadedConfig | undefined
  readonly log: Log
  /** The owner of the jobs that this program submits, and the author of its changes. */
  readonly actor: string
  /** Why this program makes changes, for the audit log. */
  readonly reason: string | undefined
  /** The environment with which a child process finds the database. */
  readonly environment?: Readonly<Record<string, string>>
  /** Folders of the embedded database, which programs of other users must not be able to enter. */
  readonly closedFolders?: readonly string[]
  readonly onClose: () => Promise<void>
}

/** What the class `Sluice` and the HTTP server of a process both work with. */
export class Services {
  readonly parts: ServiceParts
  readonly db: Database
  readonly tasks: TaskSet
  readonly workflows: WorkflowSet
  readonly settings: Settings
  readonly heartbeatMs: number
  /** The author of changes that this process itself makes. */
  readonly actor: string
  /**
   * Runs single statements, repeats them where that is safe, and fails with a `SluiceError`. Errors do not name the
   * database.
   */
  readonly calls: Queryable
  /** Like `calls`, but errors name the database. Not for callers over HTTP. */
  readonly namingCalls: Queryable
  readonly listener: Listener
  readonly submitter: Submitter
  /** Remembers recent rejections, so that the database is not asked again. */
  readonly gate: AdmissionGate
  /** Waits for results of jobs. */
  readonly waiter: ResultWaiter
  /** The worker and the background services of this process. */
  readonly runner: ProcessRunner
  /** One object, so that submissions which are stored together share an audit entry. */
  readonly #author: SubmissionAuthor

  constructor(parts: ServiceParts) {
    const { db, tasks, workflows, settings, heartbeatMs, log, actor, reason } = parts
    this.parts = parts
    this.db = db
    this.tasks = tasks
    this.workflows = workflows
    this.settings = settings
    this.heartbeatMs = heartbeatMs
    this.actor = actor
    this.#author = { actor, reason }
    this.namingCalls = withRetries(db)
    this.calls = { run: this.namingCalls.run, snapshot: this.namingCalls.snapshot! }
    this.gate = new AdmissionGate(this.namingCalls, log)
    this.listener = new Listener(db.url)
    this.submitter = new Submitter(db, () => this.runner.noteSubmitted())
    this.waiter = new ResultWaiter(db, this.listener, randomUUID())
    this.runner = new ProcessRunner({
      db,
      listener: this.listener,
      tasks: tasks.byName,
      settings,
      heartbeatMs,
      log,
      closedFolders: parts.closedFolders ?? [],
      onEnded: () => this.waiter.nudge(),
    })
  }

  /**
   * Reports that jobs have ended, because code in this process may be awaiting them. `dueInMs` is the delay until the
   * first retry.
   */
  noteEnded(dueInMs: number | null): void {
    this.runner.noteEnded(dueInMs)
  }

  /**
   * Validates one submission with the task's schema, if it has one. Synchronous if it does not, because bulk submission is
   * hot.
   *
   * @param by The owner for whom a server submits. The server writes the audit entry itself.
   */
  toSubmission(
    task: string | { readonly name: string },
    input: unknown,
    options: SubmitOptions,
    by?: string,
  ): Submission | Promise<Submission> {
    const name = taskName(task)
    const owner = by ?? ownerOf(options) ?? this.actor
    const author = by === undefined ? this.#author : undefined
    if (this.workflows.names.has(name) || isWorkflow(task))
      return { ...toSubmission(name, input, options, owner, author), workflow: true }
    const known = this.tasks.byName.get(name) ?? (typeof task === 'string' ? undefined : (task as AnyTask))
    if (known?.schema === undefined) return withUses(toSubmission(name, input, options, owner, author), known)
    return parseInput(known, input).then(() =>
      withUses(toSubmission(name, input, options, owner, author), known),
    )
  }

  async close(): Promise<void> {
    await this.runner.stop()
    this.waiter.close()
    await this.listener.stop()
    await this.db.close()
    await this.parts.onClose()
  }
}

/** @throws {SluiceError} `INVALID_ARGUMENT` for what is neither a task, nor a workflow, nor the name of one. */
export function taskName(task: unknown): string {
  if (typeof task === 'string') return task
  if (typeof task === 'object' && task !== null && 'name' in task && typeof task.name === 'string')
    return task.name
  throw invalidArgument(
    'task',
    task,
    'a task made with task(), a workflow made with workflow(), or the name of one',
  )
}

function isWorkflow(task: unknown): boolean {
  return typeof task === 'object' && task !== null && 'definition' in task
}
