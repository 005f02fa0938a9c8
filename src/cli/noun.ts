import type { Command } from 'commander'
import { type ErrorCode, SluiceError } from '../errors.ts'
import { suggest } from '../model/suggest.ts'
import type { Act, CommonOptions, World } from './command.ts'
import type { ExitCode } from './exit-code.ts'
import { operate } from './operate.ts'
import { HINT } from './report-error.ts'
import type { System } from './system.ts'

/** Declares `sluice NOUNS` and `sluice NOUNS list`, which do the same. */
export function declareList(
  command: Command,
  act: Act,
  list: (world: World, options: CommonOptions) => Promise<ExitCode>,
): void {
  command.action((options: CommonOptions) => act((world) => list(world, options)))
  command
    .command('list')
    .description(`the same as sluice ${command.name()}`)
    .action((options: CommonOptions) => act((world) => list(world, options)))
}

/** How `sluice NOUNS show NAME` finds one thing and prints it. */
export interface Shown<T> {
  /** What it is, in the singular. */
  readonly noun: string
  /** The code of the error if it does not exist. */
  readonly missing: ErrorCode
  all(system: System): Promise<readonly T[]>
  readonly nameOf: (one: T) => string
  /** For things whose names are not unique. */
  readonly idOf?: (one: T) => string
  print(world: World, one: T, options: CommonOptions): ExitCode
}

/** Declares `sluice NOUNS show NAME`. */
export function declareShowOne<T>(command: Command, act: Act, shown: Shown<T>): void {
  const { noun, idOf } = shown
  command
    .command('show')
    .description(`show one ${noun}`)
    .argument('<name>', `${idOf === undefined ? 'name' : 'name or id'} of the ${noun}`)
    .action((name: string, options: CommonOptions) =>
      act((world) =>
        operate(world, options, async (system) =>
          shown.print(world, findOne(await shown.all(system), name, shown), options),
        ),
      ),
    )
}

/** @throws {SluiceError} with the code `missing`; `INVALID_ARGUMENT` if several have that name. */
function findOne<T>(
  all: readonly T[],
  name: string,
  { noun, missing, nameOf, idOf }: Pick<Shown<T>, 'noun' | 'missing' | 'nameOf' | 'idOf'>,
): T {
  const found = all.filter((each) => nameOf(each) === name || idOf?.(each) === name)
  if (found.length === 1) return found[0]!
  const details = { [noun]: name }
  if (idOf !== undefined && found.length > 1)
    throw new SluiceError('INVALID_ARGUMENT', `${found.length} ${noun}s are called ${JSON.stringify(name)}`, {
      details: { ...details, [HINT]: `name one by its id: ${found.map(idOf).join(', ')}` },
    })
  const near = suggest(name, all.map(nameOf))
  throw new SluiceError(missing, `${noun} ${JSON.stringify(name)} does not exist`, {
    details: {
      ...details,
      [HINT]: near === undefined ? `list them with: sluice ${noun}s` : `did you mean ${near}?`,
    },
  })
}
