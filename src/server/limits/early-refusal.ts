import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Compile } from 'typebox/compile'
import { SubmitBody, type SubmitBody as SubmitJson } from '../../api/jobs.ts'
import { PROBLEM_TYPE } from '../../api/problem.ts'
import type { Caller } from '../../engine/access/caller.ts'
import type { Refused } from '../../engine/submit/admission-gate.ts'
import { ERROR_STATUS } from '../../errors.ts'
import type { Identification } from '../callers/identify.ts'
import { problemOf } from '../http/problem.ts'
import { SECURITY_HEADERS } from '../http/security-headers.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Server, ServerParts } from '../parts.ts'

const ROUTE = '/api/v1/jobs'
/** A longer body is not looked at here: to read it costs more than is spared. */
const MAX_BYTES = 16 * 1024
const JSON_TYPES: ReadonlySet<string | undefined> = new Set([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
])
const CODE = 'ADMISSION_REJECTED'
const STATUS = ERROR_STATUS[CODE]

/**
 * Answers submissions at the ceiling before anything else looks at them: a server that refuses has to do so for a
 * fraction of what it costs to accept, or those who are refused keep it from its work.
 *
 * Only where the answer is certain: the database has just refused one, the key was good less than 100 ms ago, and the
 * submission is a single one that is well formed, repeats nothing (no `Idempotency-Key`), can attach to nothing (no
 * `key`) and is to start now (no `runAt`). Everything else goes its usual way. Call it when all routes are there.
 */
export function refuseEarly(
  server: Server,
  parts: ServerParts,
  identification: Identification,
  metrics: Metrics,
): void {
  const http = server.server
  const [handle] = http.listeners('request') as [RequestListener]
  const { gate } = parts.services
  const submission = Compile(SubmitBody)
  const texts = new WeakMap<Refused, string>()

  const refuse = (request: IncomingMessage, response: ServerResponse, caller: Caller): boolean => {
    const startedAt = performance.now()
    const body = request.read() as Buffer | null
    if (body === null) return false
    const refused =
      body.length === Number(request.headers['content-length']) && isCertain(body)
        ? gate.refuseOne()
        : undefined
    if (refused === undefined) {
      request.unshift(body)
      return false
    }
    const id = randomUUID()
    send(response, id, `${textOf(refused)},"requestId":"${id}"}`, refused.details.retryAfter)
    const ms = performance.now() - startedAt
    metrics.observe('POST', ROUTE, STATUS, ms / 1000)
    if (parts.log.isLevelEnabled('info')) {
      const line = { reqId: id, method: 'POST', path: ROUTE, status: STATUS, ms: Math.round(ms * 10) / 10 }
      parts.log.info({ ...line, by: caller.name }, 'answered')
    }
    return true
  }

  /** Nobody could answer it otherwise: it is as it has to be, and has neither a key nor a time. */
  const isCertain = (body: Buffer): boolean => {
    if (!isUtf8(body)) return false
    const value = parse(body)
    if (!submission.Check(value)) return false
    const { task, workflow, name, key, runAt } = value as SubmitJson & { name?: string }
    if (key !== undefined || runAt !== undefined) return false
    return [task, workflow, name].filter((each) => each !== undefined).length === 1
  }

  /** Many are told the same: all of it but the id of the request. */
  const textOf = (refused: Refused): string => {
    let text = texts.get(refused)
    if (text === undefined) {
      text = JSON.stringify(problemOf({ ...refused, code: CODE, status: STATUS })).slice(0, -1)
      texts.set(refused, text)
    }
    return text
  }

  http.removeListener('request', handle)
  http.on('request', (request, response) => {
    const caller =
      gate.shut && isPlainSubmission(request) && !parts.draining()
        ? identification.lately(request.headers.authorization ?? '')
        : undefined
    if (caller?.may('jobs:submit') !== true) {
      handle.call(http, request, response)
      return
    }
    // Its body is here once the parser is through with what has arrived.
    process.nextTick(() => {
      if (!refuse(request, response, caller)) handle.call(http, request, response)
    })
  })
}

function isPlainSubmission({ method, url, headers }: IncomingMessage): boolean {
  return (
    url === ROUTE &&
    method === 'POST' &&
    headers['idempotency-key'] === undefined &&
    JSON_TYPES.has(headers['content-type']) &&
    Number(headers['content-length']) > 0 &&
    Number(headers['content-length']) <= MAX_BYTES
  )
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

const HEADERS = Object.entries({ ...SECURITY_HEADERS, 'content-type': PROBLEM_TYPE }).flat()

function send(response: ServerResponse, id: string, text: string, retryAfter: number): void {
  const own = ['x-request-id', id, 'retry-after', String(retryAfter), 'content-length', String(text.length)]
  // The ceiling's words and numbers are ASCII; as UTF-8 the same bytes take longer to write.
  response.writeHead(STATUS, HEADERS.concat(own)).end(text, 'latin1')
}
