import { basename } from 'node:path'
import { createJiti } from 'jiti'
import { describe, invalidConfig } from '../model/setting-value.ts'

/**
 * Runs a config written as a module and returns what it exports: its default, or `config`.
 *
 * It is run once per process, like any module: a change shows after a restart.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when it cannot be run or exports neither or both.
 */
export async function readModule(path: string, file: string): Promise<unknown> {
  // The cache of compiled code would lie in a shared temporary folder, where others could plant code.
  const jiti = createJiti(path, { fsCache: false, interopDefault: false })
  let exported: Record<string, unknown>
  try {
    exported = await jiti.import<Record<string, unknown>>(path)
  } catch (error) {
    throw invalidConfig([{ path: '', place: { file }, message: explainFailure(error) }], error)
  }
  const named = exported.config
  const byDefault = exported.default
  const fail = (message: string) => invalidConfig([{ path: '', place: { file }, message }])
  if (named === undefined && byDefault === undefined) {
    throw fail('exports no config; write "export default { ... }" or "export const config = { ... }"')
  }
  if (named === undefined) return asMap(byDefault, 'default', fail)
  // A CommonJS module's default is all it exports, `config` included.
  if (byDefault !== undefined && (byDefault as { config?: unknown } | null)?.config !== named) {
    throw fail('exports a default and also "config"; keep one of them')
  }
  return asMap(named, 'config', fail)
}

function asMap(value: unknown, name: string, fail: (message: string) => Error): object {
  if (typeof value === 'object' && value !== null) return value
  throw fail(`the export ${name} is ${describe(value)}; export the config itself, a plain object`)
}

function explainFailure(error: unknown): string {
  const text = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').trim()
  const hint = /Cannot find (?:module|package) 'sluice'/.test(text)
    ? '; install sluice in this folder, or export a plain object'
    : ''
  return `could not be run: ${text}${hint}`
}

/** Files that `readModule` can run. */
export function isModule(path: string): boolean {
  return /\.[cm]?[jt]s$/.test(basename(path))
}
