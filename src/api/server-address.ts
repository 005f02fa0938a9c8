import { SluiceError } from '../errors.ts'

/** The address of a server without a slash at its end. @throws {SluiceError} `INVALID_ARGUMENT` */
export function checkServer(server: string): string {
  let url: URL | undefined
  try {
    url = new URL(server)
  } catch {
    // Told below.
  }
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '')
    throw new SluiceError('INVALID_ARGUMENT', 'server: give an address such as https://sluice.example.com')
  // Not repeated in the message: it is a secret.
  if (url.username !== '' || url.password !== '')
    throw new SluiceError('INVALID_ARGUMENT', 'server: leave user and password out of the address; use a key')
  return url.href.replace(/\/+$/, '')
}

/** @throws {SluiceError} `INVALID_ARGUMENT`, which does not repeat the key. */
export function checkServerKey(key: string): string {
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key
  throw new SluiceError('INVALID_ARGUMENT', 'key: give an API key, slk_ and 43 characters')
}
