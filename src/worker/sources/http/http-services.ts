import { setTimeout as delay } from 'node:timers/promises'
import type { LogsAnswer } from '../../../api/worker-protocol.ts'
import type { Recorder, TraceStore } from '../../../engine/leases/recorder.ts'
import { tryUntilStopped } from '../../../engine/leases/try-until-stopped.ts'
import { hasCode } from '../../../errors.ts'
import type { Assignment } from '../../../model/assignment.ts'
import { toStorableJson } from '../../../model/json.ts'
import type { AttemptServices } from '../../attempt.ts'
import type { ServerLink } from './server-link.ts'

const TIMEOUT_MS = 15_000
/** A restart of the server takes a few seconds; lines are worth that much patience. */
const TRACE_WAITS_MS = [100, 300, 1000, 2000]

/**
 * Steps, checkpoints, progress and log lines through a server.
 *
 * While the server is away they are sent again until the attempt is stopped. That is safe after an answer that was lost: of
 * a step the first stored result counts, and the same checkpoint of the same attempt is the same checkpoint.
 */
export function httpServices(
  link: ServerLink,
  recorder: Recorder,
  workerId: string,
  assignment: Assignment,
  signal: AbortSignal,
): AttemptServices {
  const { id, attempt } = assignment
  const ask = <T>(path: string, body: object, what: string) =>
    tryUntilStopped(signal, what, 'SERVER_UNAVAILABLE', () =>
      link.post<T>(`/workers/${workerId}/${path}`, { id, attempt, ...body }, { timeoutMs: TIMEOUT_MS }),
    )
  return {
    progress(fraction, message) {
      signal.throwIfAborted()
      recorder.progress(id, attempt, fraction, message)
    },
    log: (level, message) => recorder.log(id, attempt, level, message),
    async loadStep(name) {
      const what = `step ${JSON.stringify(name)} could not be looked up`
      const { result } = await ask<{ result?: string }>('steps/load', { name }, what)
      return result === undefined ? undefined : { result: JSON.parse(result) as unknown }
    },
    async saveStep(name, value) {
      const step = `the result of step ${JSON.stringify(name)}`
      const body = { name, result: toStorableJson(value, step) }
      const stored = await ask<{ result: string }>('steps/save', body, `${step} could not be stored`)
      return JSON.parse(stored.result) as unknown
    },
    async loadCheckpoint() {
      const { value } = await ask<{ value: string }>(
        'checkpoint/load',
        {},
        'the checkpoint could not be read',
      )
      return JSON.parse(value) as unknown
    },
    async saveCheckpoint(value) {
      const body = { value: toStorableJson(value, 'the checkpoint') }
      await ask('checkpoint/save', body, 'the checkpoint could not be stored')
    },
  }
}

/** Lines and progress through a server. @param workerId Asked each time: it changes when a worker starts over. */
export function httpTraces(link: ServerLink, workerId: () => string): TraceStore {
  const send = async (path: string, body: object): Promise<readonly string[]> => {
    for (let tries = 0; ; tries++) {
      try {
        const address = `/workers/${workerId()}/${path}`
        return (await link.post<LogsAnswer>(address, body, { timeoutMs: TIMEOUT_MS })).refused
      } catch (error) {
        const waitMs = TRACE_WAITS_MS[tries]
        if (waitMs === undefined || !hasCode(error, 'SERVER_UNAVAILABLE')) throw error
        await delay(Math.max(waitMs, 1000 * (error.retryAfter ?? 0)))
      }
    }
  }
  return {
    appendLogs: (lines) => send('logs', { lines }),
    saveProgress: (notes) =>
      send('progress', {
        notes: notes.map(({ message, ...note }) => (message === null ? note : { ...note, message })),
      }),
  }
}
