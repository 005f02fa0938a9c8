import { SluiceError } from '../errors.ts'
import { show } from './argument.ts'

/** Checks a job id: a positive whole number of up to 19 digits, as text. */
export function checkJobId(id: unknown): string {
  if (isId(id)) return id
  const text = typeof id === 'string' ? '' : ', given as text'
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `${show(id)} is not a job id. A job id is a whole number, such as 42${text}`,
    { details: { argument: 'id' } },
  )
}

/** Whether a value is the id of a job or of a log line. */
export function isId(id: unknown): id is string {
  return typeof id === 'string' && /^[1-9]\d{0,18}$/.test(id) && BigInt(id) <= 9_223_372_036_854_775_807n
}
