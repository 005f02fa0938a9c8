import type { Command } from 'commander'
import { SluiceError } from '../errors.ts'
import type { Field, Fields, WrittenFields } from '../model/fields/field.ts'
import { type Given, setting } from './arguments.ts'

/** The values of the options of a registry's fields, as commander hands them on. */
export type FieldOptions<F> = { readonly [K in keyof F]?: Given<unknown> }

/** Declares an option for every field that has one. */
export function withFieldOptions(command: Command, fields: Fields): Command {
  for (const [name, field] of withOption(fields))
    command.option(`${flagOf(name)} <${field.placeholder}>`, helpOf(field), setting(field))
  return command
}

/** The fields that options were given for. */
export function givenFields<F extends Fields>(fields: F, options: FieldOptions<F>): WrittenFields<F> {
  const given = withOption(fields).flatMap(([name]) => {
    const option = options[name]
    return option === undefined ? [] : [[name, option.value]]
  })
  return Object.fromEntries(given) as WrittenFields<F>
}

/** @throws {SluiceError} `INVALID_ARGUMENT` when a command that changes something was given nothing to change. */
export function requireSome(change: object, flags: readonly string[]): void {
  if (Object.keys(change).length > 0) return
  const list = `${flags.slice(0, -1).join(', ')} or ${flags.at(-1)}`
  throw new SluiceError('INVALID_ARGUMENT', `nothing to set: give ${list}`)
}

/** The options of all fields that have one: `--per-worker`. */
export function flagsOf(fields: Fields): readonly string[] {
  return withOption(fields).map(([name]) => flagOf(name))
}

/** What people read of a field: its name in words, and its value as they would write it. */
export function factsOf(fields: Fields, values: object): [string, string][] {
  const all = values as Readonly<Record<string, unknown>>
  return Object.entries(fields).map(([name, field]) => [labelOf(name), field.format(all[field.storedAs])])
}

/** `perWorker` as `per worker`. */
export function labelOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

/** The fields that an operator set, as options and files call them: a column may be called `pollMs` where they say `poll`. */
export function setByOperator(fields: Fields, operatorSet: readonly string[]): string[] {
  const names = new Map(Object.entries(fields).map(([name, { storedAs }]) => [storedAs, name]))
  return operatorSet.map((column) => names.get(column) ?? column)
}

function withOption<F extends Fields>(fields: F): [keyof F & string, Field<unknown, unknown>][] {
  return Object.entries(fields).filter(([, { hasOption }]) => hasOption)
}

function flagOf(name: string): string {
  return `--${labelOf(name).replaceAll(' ', '-')}`
}

/** In the tone of the other options: no capital at the start, no Markdown. */
function helpOf({ text }: Field<unknown, unknown>): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1).replaceAll('`', '')}`
}
