import type {
  AssignedBody,
  CycleAnswerBody,
  EndedBody,
  JobBody,
  ModelNewsBody,
} from '../../../api/worker-protocol.ts'
import type { Assignment, CycleAnswer, EndedAttempt } from '../../../model/assignment.ts'
import type { LeafPolicy } from '../../../model/composite.ts'
import { countFitting } from '../../../model/count-fitting.ts'
import type { ModelNews } from '../../../model/device.ts'
import { MAX_DETAIL_BYTES } from '../../../model/error-detail.ts'
import { MAX_ATTEMPTS } from '../../../model/limits.ts'

const NO_TAGS: readonly string[] = Object.freeze([])

/** Bytes of endings in one request; a single one may have more. Half of what a server takes, since texts are escaped. */
const MAX_REQUEST_BYTES = 16 * 1024 * 1024

export function toCycleAnswer(body: CycleAnswerBody): CycleAnswer {
  const { jobs, assigned = [], lost = [], refused = [], again = false, unload, newsTaken = false } = body
  const { yieldTo } = body
  const { cancel, draining, stop } = body
  return {
    assignments: [...jobs.map(toAssignment), ...assigned.map(toAssigned)],
    lost,
    refused,
    again,
    newsTaken,
    ...(unload !== undefined && { unload }),
    ...(yieldTo !== undefined && { yieldTo }),
    ...(draining !== undefined && {
      orders: { cancels: cancel ?? [], draining, stopping: stop === true },
    }),
  }
}

function toAssignment(job: JobBody): Assignment {
  const { id, attempt, task, lane, input, submittedAt, failures = 0, priority = 0, key = null } = job
  return {
    id,
    attempt,
    task,
    lane,
    failures,
    priority,
    key,
    tags: job.tags ?? NO_TAGS,
    submittedAt,
    input,
    ...(job.policy !== undefined && { policy: job.policy as LeafPolicy }),
    ...(job.trace !== undefined && { trace: job.trace }),
    ...(job.devices !== undefined && { devices: job.devices }),
    ...(job.model !== undefined && { model: job.model }),
  }
}

/** A job that waits for a slot. */
function toAssigned({ rank, again = false, ...job }: AssignedBody): Assignment {
  return { ...toAssignment(job), prefetched: { rank, ...(again && { again }) } }
}

/** @param now By the clock that starts are measured with. */
export function toEndedBody(
  { id, attempt, ending, detail, startedAt }: EndedAttempt,
  now: number,
): EndedBody {
  const { kind } = ending
  const ran = startedAt !== undefined && { ranMs: Math.round((now - startedAt) * 100) / 100 }
  if (kind === 'completed')
    return ending.result === 'null'
      ? { id, attempt, ending: kind, ...ran }
      : { id, attempt, ending: kind, result: ending.result, ...ran }
  return {
    id,
    attempt,
    ending: kind,
    ...ran,
    ...('error' in ending && ending.error !== undefined && { error: ending.error }),
    ...('delayMs' in ending && { delayMs: ending.delayMs }),
    ...('needed' in ending && ending.needed !== undefined && { needed: ending.needed }),
    ...('loading' in ending && { loading: ending.loading }),
    ...(detail !== undefined && { detail }),
  }
}

export function toNewsBody({ loaded, unloaded, ran }: ModelNews): ModelNewsBody {
  return {
    ...(loaded.length > 0 && {
      loaded: loaded.map((each) => ({ ...each, devices: [...each.devices], observed: { ...each.observed } })),
    }),
    ...(unloaded.length > 0 && { unloaded: [...unloaded] }),
    ...(ran.length > 0 && { ran: [...ran] }),
  }
}

/** How many of the first endings may go into one request, at least one. */
export function endingsPerRequest(ended: readonly EndedAttempt[]): number {
  const fitting = countFitting(ended, MAX_REQUEST_BYTES, ({ ending, detail }) => {
    const text = ending.kind === 'completed' ? ending.result : 'error' in ending ? (ending.error ?? '') : ''
    // Only large ones are worth counting exactly.
    const bytes = text.length > 1024 ? Buffer.byteLength(text) : 3 * text.length
    return detail === undefined ? bytes : bytes + MAX_DETAIL_BYTES
  })
  return Math.min(fitting, MAX_ATTEMPTS / 2)
}
