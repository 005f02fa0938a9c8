import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { SluiceError } from '../errors.ts'
import type { Program } from './task.ts'

/**
 * The command to start: elements that start with `./` or `../`, and a program with a `/` in it, are paths from `folder`.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when it cannot be a command.
 */
export function resolveArgv(argv: readonly string[], folder: string): readonly string[] {
  const wrong = argv.findIndex((part) => typeof part !== 'string' || part.includes('\0'))
  if (argv.length === 0 || argv[0] === '' || wrong >= 0) {
    const where = wrong >= 0 ? `exec[${wrong}]` : 'exec'
    throw new SluiceError(
      'INVALID_CONFIG',
      `${where}: must be a program and its arguments, as texts without NUL, for example [./align.sh, --fast]`,
    )
  }
  return argv.map((part, index) => {
    const isPath = /^\.\.?\//.test(part) || (index === 0 && part.includes('/') && !isAbsolute(part))
    return isPath ? resolve(folder, part) : part
  })
}

/** Why this machine and user could not start the program, or `undefined` when nothing speaks against it. */
export function whyNotStartable(program: Program, environment: NodeJS.ProcessEnv): string | undefined {
  const [command = ''] = resolveArgv(program.argv, program.folder)
  if (command.includes('/')) return whyNotRunnable(command)
  const path = program.env.PATH ?? environment.PATH ?? ''
  // An empty element of PATH is the working folder, which is the job's own and empty.
  const places = path.split(delimiter).filter((folder) => folder !== '')
  if (places.some((folder) => whyNotRunnable(join(folder, command)) === undefined)) return undefined
  return `${command} is in no folder of PATH`
}

function whyNotRunnable(file: string): string | undefined {
  try {
    if (!statSync(file).isFile()) return `${file} is not a file`
    accessSync(file, constants.X_OK)
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return `${file} does not exist`
    if (code === 'EACCES') return `${file} is not executable for this user`
    return `${file} cannot be looked at (${code})`
  }
}
