import { formatDuration } from './duration.ts'
import { staleFloorMs } from './limits.ts'
import {
  describe,
  formatPath,
  type Locate,
  type Path,
  type Place,
  type Problem,
  type Reader,
} from './setting-value.ts'

/** The sources of a setting. */
export interface Sources<Written = unknown> {
  /** The config file, if there is one. */
  readonly file?: Written | undefined
  /** `process.env`. Empty variables count as not set. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
  /** What the caller or the command line gives. */
  readonly options?: Written | undefined
  /** Locates values in the file, for messages. */
  readonly locate?: Locate | undefined
}

/** The value in effect. */
export interface Found<Out> {
  readonly value: Out
  /** False for a default. */
  readonly given: boolean
  /** False when the given value is invalid. `value` is then the default. */
  readonly valid: boolean
  /** The source of the value, for messages. */
  readonly origin: string
  /** What to edit to change the value. */
  readonly change: string
  readonly place?: Place | undefined
}

interface Candidate {
  readonly from: 'option' | 'environment' | 'file'
  readonly name: string
  readonly value: unknown
  readonly place?: Place | undefined
}

/**
 * Chooses between the sources of a setting: option, environment, file, default. Reports every invalid value, even one
 * that another source overrides.
 *
 * @param variable The environment variable of the setting, if it has one.
 */
export function chooseSetting<Out>(
  sources: Sources,
  problems: Problem[],
  path: Path,
  variable: string | undefined,
  reader: Reader<unknown, Out>,
  fallback: Out,
): Found<Out> {
  let chosen: Found<Out> | undefined
  for (const { from, name, value, place } of candidates(sources, path, variable)) {
    const read = from === 'environment' ? reader.readText(String(value)) : reader.read(value)
    const valid = read !== undefined
    if (!valid) {
      problems.push({ path: name, place, message: `found ${describe(value)}; write ${reader.expected}` })
    }
    chosen ??= { value: valid ? read : fallback, given: true, valid, origin: name, change: name, place }
  }
  if (chosen !== undefined) return chosen
  const key = formatPath(path)
  const change = variable === undefined ? key : `${key} (${variable})`
  return { value: fallback, given: false, valid: true, origin: 'the default', change }
}

/** The given values, highest precedence first. */
function candidates(sources: Sources, path: Path, variable: string | undefined): Candidate[] {
  const key = formatPath(path)
  const text = variable === undefined ? undefined : sources.environment?.[variable]?.trim()
  const all: Candidate[] = [
    { from: 'option', name: `option ${key}`, value: valueAt(sources.options, path) },
    { from: 'environment', name: variable ?? '', value: text === '' ? undefined : text },
    { from: 'file', name: key, value: valueAt(sources.file, path), place: sources.locate?.(path, 'value') },
  ]
  return all.filter(({ value }) => value !== undefined)
}

function valueAt(source: unknown, path: Path): unknown {
  let value = source
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string | number, unknown>)[key]
  }
  return value
}

/** Describes a violation of the rule. */
export function staleProblem(stale: Found<number>, heartbeat: Found<number>): Problem | undefined {
  if (!stale.valid || !heartbeat.valid || stale.value > staleFloorMs(heartbeat.value)) return undefined
  const subject = stale.given ? stale : heartbeat
  return {
    path: subject.origin,
    place: subject.place,
    message:
      `stale must be greater than twice the heartbeat, but stale is ${formatDuration(stale.value)} ` +
      `(${stale.origin}) and heartbeat is ${formatDuration(heartbeat.value)} (${heartbeat.origin}); ` +
      `set ${stale.change} to more than ${formatDuration(staleFloorMs(heartbeat.value))}, ` +
      `or ${heartbeat.change} to less than ${formatDuration(stale.value / 2)}`,
  }
}
