import { SluiceError } from '../errors.ts'

/** A host, perhaps with a port and a path, and no @: that may be a password, which no message repeats. */
const HOST_ONLY = /^[\w.-]+(:\d{1,5})?(\/[\w./-]*)?$|^\[[0-9a-f:]+\](:\d{1,5})?\/?$/i

/**
 * The address of a server without a slash at its end.
 *
 * @param what Where it was said: an option or a variable.
 * @throws {SluiceError} `INVALID_ARGUMENT`
 */
export function checkServer(server: string, what = 'server'): string {
  let url: URL | undefined
  try {
    url = new URL(server)
  } catch {
    // Told below.
  }
  if (typeof server === 'string' && HOST_ONLY.test(server))
    throw new SluiceError('INVALID_ARGUMENT', `${what}: ${server} has no scheme; write http://${server}`)
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '')
    throw new SluiceError('INVALID_ARGUMENT', `${what}: give an address such as https://sluice.example.com`)
  // Not repeated in the message: it is a secret.
  if (url.username !== '' || url.password !== '')
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${what}: leave user and password out of the address; use a key`,
    )
  return url.href.replace(/\/+$/, '')
}

/**
 * The warning about a server on another machine that is used without TLS; `undefined` where nothing is wrong.
 *
 * @param server An address that was checked.
 */
export function plainWarning(server: string): string | undefined {
  const { protocol, hostname } = new URL(server)
  const local = /^(?:(?:[\w-]+\.)*localhost|127(?:\.\d+){3}|\[::1\])$/i.test(hostname)
  if (protocol === 'https:' || local) return undefined
  return `${server} is used without TLS: anyone on the network path can read the key and all that is sent. Use https://`
}

/** @throws {SluiceError} `INVALID_ARGUMENT`, which does not repeat the key. */
export function checkServerKey(key: string): string {
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key
  throw new SluiceError('INVALID_ARGUMENT', 'key: give an API key, slk_ and 43 characters')
}
