import { type HeldRequest, type ProxiedRequest, startRequestProxy } from './request-proxy.ts'
import { noteFault } from './until.ts'

/**
 * What happens to one statement.
 *
 * `before`: the server never hears of it. `after`: it is carried out and committed, and the answer is lost. Then the
 * client sees a reset connection, or nothing ever again, or an error with that SQLSTATE. A state that ends sessions
 * also ends this one.
 */
export interface Fault {
  readonly when: 'before' | 'after'
  readonly how: 'reset' | 'silence' | string
}

export interface FaultProxy {
  readonly url: string
  close(): Promise<void>
}

/** After these the server closes the connection. */
const FATAL = new Set(['57P01', '57P02', '57P03', '53300'])
const READY_FOR_QUERY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]) // in no transaction

/**
 * A proxy in front of PostgreSQL that makes statements fail.
 *
 * @param decide Asked once for each statement that reaches the proxy.
 */
export async function startFaultProxy(
  targetUrl: string,
  decide: (request: ProxiedRequest) => Fault | undefined,
): Promise<FaultProxy> {
  const proxy = await startRequestProxy(targetUrl)
  proxy.takeOver((request) => {
    const fault = decide(request)
    if (fault === undefined) return false
    noteFault()
    void inflict(request, fault)
    return true
  })
  return { url: proxy.url, close: () => proxy.close() }
}

async function inflict(request: HeldRequest, { when, how }: Fault): Promise<void> {
  if (when === 'after') await request.deliver()
  if (how === 'silence') request.ignore()
  else if (how === 'reset') {
    request.cut()
    request.close()
  } else if (FATAL.has(how)) request.answer(errorResponse(how), true)
  else request.answer(Buffer.concat([errorResponse(how), READY_FOR_QUERY]))
}

function errorResponse(state: string): Buffer {
  const severity = FATAL.has(state) ? 'FATAL' : 'ERROR'
  const fields = `S${severity}\0V${severity}\0C${state}\0Mfault ${state} on purpose\0\0`
  const message = Buffer.alloc(5 + Buffer.byteLength(fields))
  message.write('E')
  message.writeInt32BE(message.length - 1, 1)
  message.write(fields, 5)
  return message
}
