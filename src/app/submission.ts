import { checkPriority } from '../engine/operate/job-control.ts'
import type { Submission, SubmissionAuthor } from '../engine/submit/submitter.ts'
import { SluiceError } from '../errors.ts'
import { checkList, checkOptions, checkText, invalidArgument, optionNames } from '../model/argument.ts'
import { type Duration, parseDuration } from '../model/duration.ts'
import { checkJobId } from '../model/job-id.ts'
import { toStorableJson, toStorableText, withMember } from '../model/json.ts'
import { MAX_KEY, MAX_NAME, MAX_OWNER, MAX_STORED_MS, MAX_TAG, MAX_TAGS } from '../model/limits.ts'
import type { TransactionLike } from './transaction.ts'

export interface SubmitOptions {
  /** At most one active job per task and key: a later submission with the same input attaches to it. */
  readonly key?: string
  /** Higher first. Default: the task's. */
  readonly priority?: number
  /** The lane to run in, instead of the task's. */
  readonly lane?: string
  /** The earliest start: a time (a Date), or a delay. */
  readonly runAt?: Date | Duration
  /**
   * How long after it becomes ready the job must have started, or it fails. `none` overrides the task's deadline with
   * no limit.
   */
  readonly deadline?: Duration | 'none' | null
  /** Up to 50 tags to find it by. */
  readonly tags?: readonly string[]
  /** The id of a job that this one replaces after an edit. Each refers to the other. */
  readonly resubmitOf?: string
  /**
   * The owner of the job and of its keys over HTTP. Default: the `actor` of the program, or else its user and machine.
   */
  readonly submittedBy?: string
}

/** Options of `submitMany`: they apply to all jobs, except where `each` overrides them. */
export interface BulkOptions<Input = unknown> extends SubmitOptions {
  /** Options of one job, which override the others: `(input) => ({ key: input.id })`. */
  readonly each?: (input: Input, index: number) => SubmitOptions
  readonly transaction?: TransactionLike
}

const OWN_OPTIONS = optionNames<SubmitOptions>({
  key: true,
  priority: true,
  lane: true,
  runAt: true,
  deadline: true,
  tags: true,
  resubmitOf: true,
  submittedBy: true,
})

export const OPTIONS_OF_SUBMIT = [...OWN_OPTIONS, 'transaction']
const OPTIONS_OF_SUBMIT_MANY = [...OPTIONS_OF_SUBMIT, 'each']

/**
 * Returns the options of each job of a bulk submission.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` for unknown options, either now or when `each` returns them.
 */
export function optionsOfEach<Input>(
  options: BulkOptions<Input>,
): (input: Input, index: number) => SubmitOptions {
  checkOptions(options, OPTIONS_OF_SUBMIT_MANY, 'options')
  const { each, ...common } = options
  if (each === undefined) return () => common
  if (typeof each !== 'function') throw invalidArgument('each', each, 'a function (input, index) => options')
  return (input, index) => {
    const own = each(input, index)
    checkOptions(own, OWN_OPTIONS, `each(inputs[${index}])`)
    return { ...common, ...own }
  }
}

/** A larger number is more likely a point in time that should be a Date than a delay. */
const MAX_DELAY_MS = 10 * 366 * 86_400_000

/**
 * Creates one submission for `sluice.submit_v1`.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`, which names the option; `NOT_STORABLE` for the input.
 */
export function toSubmission(
  task: string,
  input: unknown,
  options: SubmitOptions = {},
  by?: string,
  author?: SubmissionAuthor,
): Submission {
  const stored = toStorableJson(input, `the input of task ${task}`)
  const begin = `{"task":${JSON.stringify(task)}`
  let fields = begin
  const { key, priority, lane, runAt, deadline, tags, resubmitOf } = options
  if (key !== undefined) fields += `,"key":${text(key, 'key', MAX_KEY)}`
  if (priority !== undefined) fields += `,"priority":${checkPriority(priority)}`
  if (lane !== undefined) fields += `,"lane":${text(lane, 'lane', MAX_NAME)}`
  if (runAt !== undefined)
    fields += runAt instanceof Date ? `,"runAt":"${instant(runAt)}"` : `,"delayMs":${delay(runAt)}`
  if (deadline !== undefined) fields += `,"deadlineMs":${deadlineMs(deadline)}`
  if (tags !== undefined) fields += `,"tags":${tagList(tags)}`
  if (resubmitOf !== undefined) fields += `,"resubmitOf":"${checkJobId(resubmitOf)}"`
  const isPlain = fields === begin
  if (by !== undefined) fields += `,"by":${JSON.stringify(by)}`
  const needsSubmit = key !== undefined || resubmitOf !== undefined
  return {
    fields: `${fields}}`,
    isPlain,
    input: stored,
    task,
    key,
    owner: by,
    needsSubmit,
    later: lateness(runAt),
    author,
  }
}

/**
 * Returns the owner that the options name.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`.
 */
export function ownerOf({ submittedBy }: SubmitOptions): string | undefined {
  if (submittedBy === undefined) return undefined
  return toStorableText(checkText(submittedBy, 'submittedBy', { max: MAX_OWNER }), MAX_OWNER)
}

/** Adds the trace context. */
export function traced(submission: Submission, kept: string | undefined): Submission {
  return kept === undefined ? submission : withField(submission, 'trace', JSON.stringify(kept))
}

/** Adds one field. @param json JSON text. */
export function withField(submission: Submission, name: string, json: string): Submission {
  return { ...submission, fields: withMember(submission.fields, name, json), isPlain: false }
}

function text(value: unknown, field: string, max: number): string {
  return toStorableJson(checkText(value, field, { max }), field)
}

function instant(value: Date): string {
  const ms = value.getTime()
  if (Number.isNaN(ms) || ms < 0 || ms > 253_402_300_799_000)
    throw invalidArgument('runAt', value, 'a time between the years 1970 and 9999')
  return value.toISOString()
}

/** This machine's clock may be wrong, so only a time that is a day ahead of it is certain to be in the future. */
function lateness(runAt: Date | Duration | undefined): Submission['later'] {
  if (runAt === undefined) return undefined
  const ms = runAt instanceof Date ? runAt.getTime() - Date.now() - 86_400_000 : parseDuration(runAt, 'runAt')
  return ms > 0 ? 'certain' : 'maybe'
}

function deadlineMs(value: Duration | 'none' | null): number {
  return value === 'none' || value === null ? 0 : milliseconds(value, 'deadline', 1)
}

function milliseconds(value: Duration, field: string, min: number): number {
  const ms = Math.round(parseDuration(value, field))
  if (ms >= min && ms <= MAX_STORED_MS) return ms
  throw invalidArgument(field, value, `from ${min}ms to ${MAX_STORED_MS / 86_400_000}d`)
}

function durationOf(value: Duration): number | undefined {
  try {
    return parseDuration(value, 'runAt')
  } catch {
    return undefined
  }
}

function delay(runAt: Duration): number {
  if (durationOf(runAt) === undefined)
    throw invalidArgument(
      'runAt',
      runAt,
      'a time, such as 2031-05-01T08:00:00Z (in code a Date), or a duration from now, such as 250ms, 10m or 7d',
    )
  const ms = milliseconds(runAt, 'runAt', 0)
  if (ms <= MAX_DELAY_MS) return ms
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `runAt: ${ms} ms is more than ten years away; a number is a delay in milliseconds. Use a Date for a point in time`,
  )
}

function tagList(tags: readonly string[]): string {
  if (!Array.isArray(tags) || tags.length > MAX_TAGS)
    throw invalidArgument('tags', tags, `a list of at most ${MAX_TAGS} texts`)
  return `[${checkList(tags, 'tags', (tag, name) => text(tag, name, MAX_TAG)).join(',')}]`
}
