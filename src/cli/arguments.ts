import { InvalidArgumentError } from 'commander'
import { type Duration, parseDuration } from '../model/duration.ts'
import type { Reader } from '../model/setting-value.ts'

/** For commander: reads a whole number, negative ones included. */
export function wholeNumber(text: string): number {
  const number = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(number))
    throw new InvalidArgumentError('Write a whole number.')
  return number
}

export function positiveNumber(text: string): number {
  const number = wholeNumber(text)
  if (number < 1) throw new InvalidArgumentError('Write a whole number of at least 1.')
  return number
}

export function duration(text: string): Duration {
  try {
    parseDuration(text, 'duration')
  } catch {
    throw new InvalidArgumentError('Write a duration, such as 250ms, 15s, 10m, 4h or 7d.')
  }
  return text
}

/** A point in time, or a time from now. */
export function moment(text: string): Date | Duration {
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const date = new Date(text)
    if (!Number.isNaN(date.getTime())) return date
  }
  try {
    return duration(text)
  } catch {
    throw new InvalidArgumentError(
      'Write a time, such as 2031-05-01T08:00:00Z, or a duration from now, such as 10m.',
    )
  }
}

/** A value that was given. Commander takes a bare `null`, which means "no limit" here, for no value at all. */
export interface Given<Out> {
  readonly value: Out
}

/** Reads what a setting may be, with the bounds of the config file. */
export function setting<Out>(reader: Reader<unknown, Out>): (text: string) => Given<Out> {
  return (text) => {
    const value = reader.readText(text)
    if (value === undefined) throw new InvalidArgumentError(`Write ${reader.expected}.`)
    return { value }
  }
}

/** Collects an option that may be given several times. */
export function several(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text]
}

/** `a,b` as a list. */
export function list(text: string): readonly string[] {
  const items = text.split(',').map((each) => each.trim())
  if (items.some((each) => each === ''))
    throw new InvalidArgumentError('Write names with commas between them.')
  return items
}

/** The value of --since: a time, or how long ago. */
export function since(text: string): Date | string | number {
  try {
    return moment(text)
  } catch {
    throw new InvalidArgumentError('Write a time, such as 2031-05-01T08:00:00Z, or how long ago, such as 2h.')
  }
}
