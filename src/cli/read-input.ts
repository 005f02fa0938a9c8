import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { messageOf, SluiceError } from '../errors.ts'
import { explainInexact, findInexactNumber } from '../model/exact-numbers.ts'
import type { World } from './command.ts'
import { HINT } from './report-error.ts'

/**
 * What was given as `--input`: JSON, `@FILE`, or `-` for the standard input. Nothing given is `null`.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when it cannot be read or is not JSON.
 */
export async function readInput(world: World, given: string | undefined): Promise<unknown> {
  if (given === undefined) return null
  const [text, where] = given.startsWith('@')
    ? [await readInputFile(resolve(world.folder, given.slice(1))), given.slice(1)]
    : given === '-'
      ? [await world.readInput(), 'the standard input']
      : [given, '--input']
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const why = messageOf(error)
    throw new SluiceError('INVALID_ARGUMENT', `${where} is not JSON: ${why}`, {
      details: { [HINT]: `a text needs quotes of its own: --input '"text"'; @FILE reads a file` },
    })
  }
  const inexact = findInexactNumber(text)
  if (inexact === undefined) return value
  throw new SluiceError('INVALID_ARGUMENT', `${where}: ${explainInexact(inexact)}`)
}

async function readInputFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new SluiceError('INVALID_ARGUMENT', `--input: ${messageOf(error)}`)
  }
}
