import pg from 'pg'
import { messageOf, SluiceError } from '../errors.ts'

/**
 * Checks that the driver can read the address of a database, and the certificates that it names.
 *
 * The driver takes a text without a scheme for the name of a host, and reads certificates whenever it connects. Without this
 * check, its errors would look like faults of Sluice. No message repeats the address, because it may contain a password. The
 * error has no cause for the same reason: the driver's error can contain the address.
 *
 * @throws {SluiceError} `INVALID_CONFIG`
 */
export function checkAddress(url: string): string {
  if (!/^(postgres(ql)?:\/\/|socket:|\/)/.test(url)) {
    throw new SluiceError(
      'INVALID_CONFIG',
      'the address of the database (option database, or DATABASE_URL) must look like postgres://user:password@host:5432/name',
    )
  }
  try {
    new pg.Client({ connectionString: url })
  } catch (cause) {
    throw new SluiceError(
      'INVALID_CONFIG',
      `the address of the database (option database, or DATABASE_URL) cannot be used: ${reasonOf(cause)}`,
    )
  }
  return url
}

function reasonOf(cause: unknown): string {
  const { code, path } = cause as NodeJS.ErrnoException
  if (path !== undefined)
    return `${path} cannot be read (${code}). sslrootcert, sslcert and sslkey name files on this machine`
  if (code === 'ERR_INVALID_URL' || cause instanceof URIError)
    return 'it is not a valid URL. Write special characters of the password in percent-encoding, such as %23 for # and %2F for /'
  return messageOf(cause)
}
