import { isAbsolute, resolve } from 'node:path'
import { SluiceError } from '../errors.ts'

/**
 * Resolves a program and its arguments. Elements that start with `./` or `../`, and a program with a `/` in it, are
 * paths relative to `folder`.
 *
 * @throws {SluiceError} `INVALID_CONFIG` if it is not a valid command.
 */
export function resolveProgram(argv: readonly string[], folder: string, name: string): readonly string[] {
  if (argv.length === 0 || argv.some((part) => part.includes('\0'))) {
    throw new SluiceError(
      'INVALID_CONFIG',
      `${name}: must be a program and its arguments, as texts without NUL, for example [./start-workers.sh, --region, a]`,
    )
  }
  return argv.map((part, index) => {
    const isPath = /^\.\.?\//.test(part) || (index === 0 && part.includes('/') && !isAbsolute(part))
    return isPath ? resolve(folder, part) : part
  })
}
