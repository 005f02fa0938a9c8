import { SluiceError } from '../errors.ts'

/** A host, optionally with a port and a path, without @: that may precede a password, which no message may repeat. */
const HOST_ONLY = /^[\w.-]+(:\d{1,5})?(\/[\w./-]*)?$|^\[[0-9a-f:]+\](:\d{1,5})?\/?$/i

/**
 * Returns the address of a server without a final slash.
 *
 * @param what The option or variable that has it.
 * @throws {SluiceError} `INVALID_ARGUMENT`
 */
export function checkServer(server: string, what = 'server'): string {
  let url: URL | undefined
  try {
    url = new URL(server)
  } catch {
    // Reported below.
  }
  if (typeof server === 'string' && HOST_ONLY.test(server))
    throw new SluiceError('INVALID_ARGUMENT', `${what}: ${server} has no scheme; write http://${server}`)
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '')
    throw new SluiceError('INVALID_ARGUMENT', `${what}: use an address such as https://sluice.example.com`)
  // Not repeated in the message: it is a secret.
  if (url.username !== '' || url.password !== '')
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${what}: the address must not contain a user and password; use a key`,
    )
  return url.href.replace(/\/+$/, '')
}

/**
 * Returns a warning about a server on another machine that is used without TLS, or `undefined`.
 *
 * @param server A validated address.
 */
export function plainWarning(server: string): string | undefined {
  const { protocol, hostname } = new URL(server)
  const local = /^(?:(?:[\w-]+\.)*localhost|127(?:\.\d+){3}|\[::1\])$/i.test(hostname)
  if (protocol === 'https:' || local) return undefined
  return `${server} is used without TLS: anyone on the network path can read the key and all that is sent. Use https://`
}

/** @throws {SluiceError} `INVALID_ARGUMENT`, without repeating the key. */
export function checkServerKey(key: string): string {
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key
  throw new SluiceError('INVALID_ARGUMENT', 'key: must be an API key, slk_ and 43 characters')
}
