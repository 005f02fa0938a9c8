import { SluiceError } from '../errors.ts'
import { invalidArgument, show } from './argument.ts'
import { cronProblem, Ticks } from './cron.ts'
import type { WrittenFields } from './fields/field.ts'
import { SCHEDULE_FIELDS } from './fields/schedule.ts'
import { toStorableJson } from './json.ts'
import type { Reader } from './setting-value.ts'
import { storedDeadline } from './task-fields.ts'

type Fields = typeof SCHEDULE_FIELDS

/** A schedule as written: `cron`, exactly one of `task` and `workflow`, and any of the other fields. */
export interface ScheduleOptions extends WrittenFields<Fields> {}

/** The given fields of a schedule, validated. Durations are in milliseconds. */
export type ScheduleFields = {
  readonly [K in keyof Fields]?: Fields[K] extends Reader<unknown, infer Out> ? Out : never
}

/** A schedule with all its values. */
export interface Schedule {
  readonly task: string | null
  readonly workflow: string | null
  readonly cron: string
  readonly timezone: string
  readonly input: unknown
  readonly key: string | null
  readonly priority: number | null
  readonly lane: string | null
  readonly tags: readonly string[]
  /** 0 means none, even if its task has one. null means the task's. */
  readonly deadlineMs: number | null
  readonly enabled: boolean
  readonly overlap: 'allow' | 'skip'
  readonly catchUp: number
}

/**
 * Reads one field of a schedule.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`
 */
export function readScheduleField(field: keyof Fields, value: unknown, name: string): unknown {
  const reader: Reader<unknown, unknown> = SCHEDULE_FIELDS[field]
  const problem = field === 'cron' ? cronProblem(value) : undefined
  const read = problem === undefined ? reader.read(value) : undefined
  if (read !== undefined) return read
  // Throws a specific message. The reader only reports that the input is invalid.
  if (field === 'input') toStorableJson(value, name)
  if (problem === undefined) throw invalidArgument(name, value, reader.expected)
  throw new SluiceError('INVALID_ARGUMENT', `${name}: ${show(value)} ${problem}`, {
    details: { argument: name },
  })
}

/** Returns what is wrong with the combination of fields, or `undefined`. */
export function scheduleProblem(fields: ScheduleFields): string | undefined {
  if (fields.task !== undefined && fields.workflow !== undefined)
    return 'has both task and workflow; remove one'
  if (fields.task === undefined && fields.workflow === undefined)
    return 'has neither task nor workflow; name what it runs'
  if (fields.cron === undefined) return 'has no cron; write when it runs, such as cron: "0 3 * * *"'
  return undefined
}

/** Combines the declared fields with an operator's changes, which override them. */
export function combineSchedule(declared: ScheduleFields | null, changed: ScheduleFields): ScheduleFields {
  const { task, workflow, ...rest } = declared ?? {}
  const target = 'task' in changed || 'workflow' in changed ? {} : { task, workflow }
  const all = { ...target, ...rest, ...changed }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

/** @param fields Fields without a `scheduleProblem`. */
export function completeSchedule(fields: ScheduleFields): Schedule {
  return {
    task: fields.task ?? null,
    workflow: fields.workflow ?? null,
    cron: fields.cron!,
    timezone: fields.timezone ?? SCHEDULE_FIELDS.timezone.default!,
    input: fields.input ?? null,
    key: fields.key ?? null,
    priority: fields.priority ?? null,
    lane: fields.lane ?? null,
    tags: fields.tags ?? [],
    deadlineMs: storedDeadline(fields.deadline) ?? null,
    enabled: fields.enabled ?? SCHEDULE_FIELDS.enabled.default!,
    overlap: fields.overlap ?? SCHEDULE_FIELDS.overlap.default!,
    catchUp: fields.catchUp ?? SCHEDULE_FIELDS.catchUp.default!,
  }
}

/**
 * Why a tick created no job: the ceiling on active jobs was reached, an earlier job was active, the schedule was
 * disabled, no process fired it in time, or the submission was rejected for another reason.
 */
export type SkipReason = 'ceiling' | 'overlap' | 'disabled' | 'missed' | 'refused'

/** Ticks that create no job, and why. */
export interface PassedTicks {
  readonly count: number
  readonly since: number
  readonly last: number
  readonly why: 'missed' | 'disabled'
}

export interface FiringPlan {
  /** Ticks that create one job each, oldest first. */
  readonly fire: readonly number[]
  readonly passed: PassedTicks | undefined
  /** The first tick that is not yet due. */
  readonly next: number | undefined
}

/** A tick found later than this is missed. The limit allows for a restart of all processes, or a failover. */
const LATE_MS = 60_000
/** More passed ticks are not counted one by one: 1000 take 70 ms, and a month of seconds would take minutes. */
const MAX_COUNTED = 1000

/**
 * Decides about the due ticks of a schedule.
 *
 * All that are less than a minute late create a job. Of the older ones, the latest `catchUp` do, minus those that are
 * not late.
 *
 * @param nextAt The first unprocessed tick.
 * @param ticks The ticks of its `cron` and `timezone`.
 */
export function planFirings(
  schedule: Pick<Schedule, 'cron' | 'timezone' | 'enabled' | 'catchUp'>,
  nextAt: number,
  now: number,
  ticks = new Ticks(schedule.cron, schedule.timezone),
): FiringPlan {
  const start = nextAt - 1
  let fire: readonly number[] = []
  if (schedule.enabled) {
    const prompt = ticks.between(Math.max(start, now - LATE_MS), now, MAX_COUNTED)
    const latest = ticks.last(schedule.catchUp, start, now)
    fire = prompt.length > latest.length ? prompt : latest
  }
  const end = (fire[0] ?? now + 1) - 1
  const passed = ticks.between(start, end, MAX_COUNTED)
  return {
    fire,
    passed:
      passed.length === 0
        ? undefined
        : {
            count: passed.length,
            since: passed[0]!,
            last: ticks.last(1, start, end)[0]!,
            why: schedule.enabled ? 'missed' : 'disabled',
          },
    next: ticks.next(now),
  }
}

/** A due tick, and the state of its schedule after it fires. */
export interface PromptTick {
  readonly tick: number
  /** The following tick, which may be due as well. */
  readonly next: number | undefined
}

/**
 * The first due tick of a schedule that has missed none. This is almost always the case, and takes two lookups for a
 * tick however many schedules are due. Returns `undefined` if `planFirings` must decide.
 */
export function promptTick(
  schedule: Pick<Schedule, 'cron' | 'timezone' | 'enabled'>,
  nextAt: number,
  now: number,
  ticks: Ticks,
): PromptTick | undefined {
  if (!schedule.enabled || nextAt <= now - LATE_MS) return undefined
  const tick = ticks.next(nextAt - 1)
  return tick === undefined || tick > now ? undefined : { tick, next: ticks.next(tick) }
}
