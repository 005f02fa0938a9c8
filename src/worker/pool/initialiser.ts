import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Initialiser } from './messages.ts'

/** An initialiser as settings name it: the path of a module and, after `#`, the function in it to call. */
export function parseInitialiser(text: string): Initialiser {
  const at = text.lastIndexOf('#')
  const path = at < 0 ? text : text.slice(0, at)
  const name = at < 0 ? '' : text.slice(at + 1)
  return { module: pathToFileURL(resolve(path)).href, ...(name !== '' && { export: name }) }
}
