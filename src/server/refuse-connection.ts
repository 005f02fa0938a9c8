import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { PROBLEM_TYPE } from '../api/problem.ts'
import { messageOf } from '../errors.ts'

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
        : (['400 Bad Request', 'INVALID_ARGUMENT', `this is no HTTP: ${messageOf(error)}`] as const)
  const body = JSON.stringify({
    type: 'about:blank',
    title: status.slice(4),
    status: Number(status.slice(0, 3)),
    detail,
    code,
    requestId: randomUUID(),
  })
  socket.end(
    `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: ${PROBLEM_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}
