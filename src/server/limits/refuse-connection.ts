import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { PROBLEM_TYPE } from '../../api/problem.ts'
import { type ErrorCode, messageOf } from '../../errors.ts'
import { SECURITY_HEADERS } from '../http/security-headers.ts'

/** Of a request's first line and headers. */
export const MAX_HEADER_BYTES = 16 * 1024

/** What is no HTTP, comes too slowly or has too large headers. There is no request to answer, only a connection. */
export function refuseConnection(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, code, detail] =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? (['408 Request Timeout', 'REQUEST_TIMEOUT', 'the request did not arrive in time'] as const)
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? ([
            '431 Request Header Fields Too Large',
            'INVALID_ARGUMENT',
            `address and headers together are larger than ${MAX_HEADER_BYTES / 1024} KiB: send less`,
          ] as const)
        : (['400 Bad Request', 'INVALID_ARGUMENT', `this is not valid HTTP: ${messageOf(error)}`] as const)
  const { headers, body } = refusal(status, code, detail)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n${body}`)
}

/** `Expect` with something else than 100-continue: nobody here does it, and no route hears of it. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const { headers, body } = refusal(
    '417 Expectation Failed',
    'INVALID_ARGUMENT',
    'Expect: only 100-continue is supported',
  )
  response.writeHead(417, headers).end(body)
}

function refusal(
  status: string,
  code: ErrorCode,
  detail: string,
): { readonly headers: Readonly<Record<string, string>>; readonly body: string } {
  const requestId = randomUUID()
  const body = JSON.stringify({
    type: 'about:blank',
    title: status.slice(4),
    status: Number(status.slice(0, 3)),
    detail,
    code,
    requestId,
  })
  const headers = {
    ...SECURITY_HEADERS,
    'x-request-id': requestId,
    connection: 'close',
    'content-type': PROBLEM_TYPE,
    'content-length': String(Buffer.byteLength(body)),
  }
  return { headers, body }
}
