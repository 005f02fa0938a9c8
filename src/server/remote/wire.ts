import type {
  AssignedBody,
  CycleAnswerBody,
  DevicesBody,
  EndedBody,
  JobBody,
  ModelNewsBody,
  WorkerTask,
} from '../../api/worker-protocol.ts'
import { checkJsonText } from '../../engine/leases/remote-workers.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import { AMOUNT_RULE, amount, expressionIn, isExpression, type StoredAmount } from '../../model/amount.ts'
import type { Assignment, EndedAttempt } from '../../model/assignment.ts'
import { countFitting } from '../../model/count-fitting.ts'
import type { DeviceReading, ModelNews } from '../../model/device.ts'
import { readDetail } from '../../model/error-detail.ts'
import type { Ending } from '../../model/job.ts'
import { toStorableText } from '../../model/json.ts'
import { DEFAULT_LOSSES, isName, MAX_ERROR, NAME_RULE } from '../../model/limits.ts'
import { withoutSecrets } from '../../model/redact.ts'
import { isModelName, MODEL_RULE } from '../../model/task-fields.ts'
import type { TaskRecord } from '../../model/task-record.ts'
import { parseExpression } from '../../workflow/expression/expression.ts'
import type { RemoteAnswer } from './prefetch.ts'

const MAX_KEY = 400
/** Of inputs in one answer; a single one may have more. */
const ANSWER_CHARACTERS = 32 * 1024 * 1024

export function recordOf(task: WorkerTask, deadlineMs: number | null): TaskRecord {
  const {
    name,
    lane = 'default',
    priority = 0,
    approval = null,
    losses = DEFAULT_LOSSES,
    onLost = 'retry',
  } = task
  const { model = null, parallel = 1, keys = null } = task
  if (model !== null && !isModelName(model))
    throw new SluiceError('INVALID_ARGUMENT', `model of task ${name}: must be ${MODEL_RULE}`)
  const uses = amountsOf(task.uses, `uses of task ${name}`)
  const perJob = amountsOf(task.perJob, `perJob of task ${name}`)
  return {
    name,
    lane,
    laneFrom: task.lane === undefined ? null : 'code',
    model,
    uses,
    perJob,
    parallel,
    expressed: [uses, perJob].some((amounts) => Object.values(amounts ?? {}).some(isExpression)),
    requires: task.requires ?? {},
    priority,
    approval,
    keys,
    laneFixed: task.laneFixed ?? null,
    deadlineMs: task.deadlineMs ?? deadlineMs,
    maxLosses: losses,
    onLost,
  }
}

function amountsOf(given: WorkerTask['uses'], where: string): Readonly<Record<string, StoredAmount>> | null {
  const entries = Object.entries(given ?? {}).map(([budget, value]) => {
    if (!isName(budget))
      throw new SluiceError('INVALID_ARGUMENT', `${where}: the name of a budget must be ${NAME_RULE}`)
    const read = amount.read(value)
    if (read === undefined)
      throw new SluiceError('INVALID_ARGUMENT', `${where}.${budget}: must be ${AMOUNT_RULE}`)
    if (isExpression(read)) checkExpression(read, `${where}.${budget}`)
    return [budget, read] as const
  })
  return entries.length === 0 ? null : Object.fromEntries(entries)
}

/** One that cannot be worked out would fail every job of the task. */
function checkExpression(text: string, where: string): void {
  let strange: readonly string[] | undefined
  try {
    strange = parseExpression(expressionIn(text)).reads.find(([root]) => root !== 'input')
  } catch (cause) {
    throw new SluiceError('INVALID_ARGUMENT', `${where}: ${messageOf(cause)}`, { cause })
  }
  if (strange !== undefined)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${where}: reads ${strange.join('.')}; only input is known here`,
    )
}

export function toNews({ loaded = [], unloaded = [], ran = [] }: ModelNewsBody): ModelNews {
  return {
    loaded: loaded.map(({ model, devices, loadMs = null, observed = {} }) => ({
      model: toStorableText(model, 200),
      devices: devices.map((device) => toStorableText(device, MAX_KEY)).sort(),
      loadMs,
      observed,
    })),
    unloaded: unloaded.map(({ model, device }) => ({
      model: toStorableText(model, 200),
      device: toStorableText(device, MAX_KEY),
    })),
    ran: ran.map((each) => ({ ...each, model: toStorableText(each.model, 200) })),
  }
}

export function toReadings({ devices }: DevicesBody): DeviceReading[] {
  return devices.map(
    ({ budget, key, name = key, total, used = null, free = null, ageMs = null, lost = false }) => ({
      budget,
      key: toStorableText(key, MAX_KEY),
      name: toStorableText(name, 200),
      total,
      used,
      free,
      ageMs: ageMs ?? (free === null ? null : 0),
      lost,
    }),
  )
}

/** @param receivedAt When the request began to arrive, by `performance.now()`. A body of many megabytes takes seconds on a busy machine. */
export function toEnded(body: EndedBody, receivedAt: number): EndedAttempt {
  const { id, attempt, ending, result = 'null', error = '', delayMs = 0, needed, loading = false } = body
  const { ranMs, detail: given } = body
  const text = toStorableText(withoutSecrets(error), MAX_ERROR)
  const detail = readDetail(given)
  return {
    id,
    attempt,
    ending: toEnding({ kind: ending, result, error: text, delayMs, needed, loading }),
    ...(detail !== undefined && { detail }),
    ...(ranMs !== undefined && { startedAt: receivedAt - ranMs }),
  }
}

function toEnding(given: {
  readonly kind: EndedBody['ending']
  readonly result: string
  readonly error: string
  readonly delayMs: number
  readonly needed: number | undefined
  readonly loading: boolean
}): Ending {
  const { kind, result, error, delayMs, needed, loading } = given
  switch (kind) {
    case 'completed':
      try {
        return { kind, result: checkJsonText(result, 'the result') }
      } catch (refusal) {
        // The same code would give the same result: no second try.
        return { kind: 'failed', error: toStorableText(messageOf(refusal), MAX_ERROR) }
      }
    case 'failed':
    case 'cancelled':
      return { kind, error }
    case 'retry':
      return { kind, error, delayMs }
    case 'snoozed':
      return { kind, delayMs }
    case 'unstarted':
      return { kind }
    case 'returned':
      return error === '' ? { kind } : { kind, error }
    case 'out_of_memory':
      return { kind, error, loading, ...(needed !== undefined && { needed }) }
    default:
      return kind satisfies never
  }
}

/** What says nothing is left out: most jobs have no key, no tags and no failures, and thousands go out a second. */
export function toAnswer(answer: RemoteAnswer): CycleAnswerBody {
  const {
    assignments,
    lost,
    refused,
    again,
    orders,
    recall = false,
    unload = [],
    newsTaken = false,
    yieldTo,
    seen,
  } = answer
  // Those that do not fit into one answer come with the next: the worker does not name them as running.
  const fit = countFitting(assignments, ANSWER_CHARACTERS, ({ input }) => input?.length ?? 0)
  const jobs: JobBody[] = []
  const assigned: AssignedBody[] = []
  for (const each of assignments.slice(0, fit)) {
    if (each.prefetched === undefined) jobs.push(toJob(each))
    else {
      const { rank, again } = each.prefetched
      assigned.push({ ...toJob(each), rank, ...(again === true && { again }) })
    }
  }
  return {
    jobs,
    ...(assigned.length > 0 && { assigned }),
    ...(seen !== undefined && { seen }),
    ...(recall && { recall }),
    ...(lost.length > 0 && { lost: [...lost] }),
    ...(refused.length > 0 && { refused: refused.map((each) => ({ ...each, code: 'LEASE_LOST' })) }),
    ...(unload.length > 0 && { unload: [...unload] }),
    ...(newsTaken && { newsTaken }),
    ...(yieldTo !== undefined && { yieldTo }),
    ...((again || fit < assignments.length) && { again: true }),
    ...(orders !== undefined && {
      cancel: [...orders.cancels],
      draining: orders.draining,
      stop: orders.stopping,
    }),
  }
}

function toJob(job: Assignment): JobBody {
  const {
    id,
    attempt,
    task,
    lane,
    input,
    submittedAt,
    failures,
    priority,
    key,
    tags: marks,
    policy,
    trace,
    devices,
    model,
  } = job
  return {
    id,
    attempt,
    task,
    lane,
    input,
    submittedAt: toIso(submittedAt),
    ...(failures > 0 && { failures }),
    ...(priority !== 0 && { priority }),
    ...(key !== null && { key }),
    ...(marks.length > 0 && { tags: [...marks] }),
    ...(policy !== undefined && { policy }),
    ...(trace !== undefined && { trace }),
    ...(devices !== undefined && { devices: [...devices] }),
    ...(model !== undefined && { model }),
  }
}

/** The database's text of a time, as others read it: `2031-05-01 08:00:00.5+00` is `2031-05-01T08:00:00.5+00:00`. */
function toIso(text: string): string {
  const iso = text.replace(' ', 'T')
  return /[+-]\d\d$/.test(iso) ? `${iso}:00` : iso
}
