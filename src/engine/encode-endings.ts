import type { EndedAttempt } from '../model/assignment.ts'
import { MAX_DETAIL_BYTES } from '../model/error-detail.ts'

/** Characters of results in one cycle; a single one may have more. PostgreSQL refuses 256 MB of JSON in one value. */
const MAX_RESULTS = 32 * 1024 * 1024

/** How many of the first endings may go into one cycle, at least one. */
export function howManyFit(ended: readonly EndedAttempt[]): number {
  let characters = 0
  for (let i = 0; i < ended.length; i++) {
    const { ending } = ended[i]!
    characters += ending.kind === 'completed' ? ending.result.length : MAX_DETAIL_BYTES
    if (i > 0 && characters > MAX_RESULTS) return i
  }
  return ended.length
}

/** Endings as `sluice.cycle_v1` takes them: what completed, and the others. */
export function encodeEndings(ended: readonly EndedAttempt[]): {
  done: string | null
  endings: string | null
} {
  let done = ''
  const others: object[] = []
  for (const { id, attempt, ending, detail } of ended) {
    if (ending.kind === 'completed')
      done += `${done === '' ? '' : ','}"${id}":{"attempt":${attempt},"result":${ending.result}}`
    else {
      others.push({
        id,
        attempt,
        ending: ending.kind,
        error: 'error' in ending ? ending.error : null,
        delayMs: 'delayMs' in ending ? Math.round(ending.delayMs) : null,
        ...(detail !== undefined && { detail }),
      })
    }
  }
  return {
    done: done === '' ? null : `{${done}}`,
    endings: others.length === 0 ? null : JSON.stringify(others),
  }
}
