import { Command, CommanderError } from 'commander'
import { SluiceError } from '../errors.ts'
import { suggest } from '../model/suggest.ts'
import { VERSION } from '../version.ts'
import { CATALOGUE } from './catalogue.ts'
import { chooseServer, refuseServer } from './choose-server.ts'
import type { World } from './command.ts'
import { addCommandOptions } from './command-options.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import { HINT, reportError } from './report-error.ts'

const EXIT_CODES = `
Exit codes: 0 success, 1 the request or the job failed, 2 the command line or the config is wrong,
3 the database or the server cannot be reached or used, 130 or 143 interrupted.
Commands that inspect or operate the system use the server in SLUICE_SERVER with the API key in SLUICE_KEY, else
the database in DATABASE_URL, else the embedded one in .sluice/ (or SLUICE_DATA).
`

/** What a command line asks for: the work of its command in the world in which it is called. */
type Perform = (work: (world: World) => Promise<ExitCode>, world: World) => Promise<ExitCode>

/**
 * Runs one command line.
 *
 * @param argv Without the names of node and of the program.
 * @param perform Called once the command line has been parsed. It may leave the work undone.
 * @returns the exit code. Errors have been reported.
 */
export async function runProgram(
  argv: readonly string[],
  world: Omit<World, 'catalogue'>,
  perform: Perform = (work, itsWorld) => work(itsWorld),
): Promise<ExitCode> {
  const json = argv.includes('--json')
  try {
    return await parse(withoutAlias(argv), { ...world, catalogue: CATALOGUE }, perform)
  } catch (error) {
    return reportError(world.err, error, {
      json,
      debug: (world.environment.SLUICE_DEBUG ?? '') !== '',
    })
  }
}

async function parse(argv: readonly string[], world: World, perform: Perform): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.done
  const program = new Command('sluice')
    .description('Durable jobs on PostgreSQL with bounded concurrency at every level.')
    .version(VERSION, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help; also: sluice COMMAND --help')
    .addHelpText('after', EXIT_CODES)
    // Otherwise a command takes the options behind its subcommand for its own.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.out.write(text),
      writeErr: (text) => world.err.write(text),
      // Reported with everything else, in one form.
      outputError: () => {},
    })
  program.helpCommand('help [command]', 'print the help of a command')

  const named = argv.filter((each) => !each.startsWith('-')).slice(0, 2)
  for (const entry of CATALOGUE) {
    const { name, summary, group, load, withServer = 'speaks' } = entry
    const command = program.command(name).description(summary).helpGroup(group)
    if (!named.includes(name)) continue
    const declare = await load()
    let server: World['server']
    let reason: string | undefined
    declare(command, async (work) => {
      exitCode = await perform(work, { ...world, server, reason })
    })
    command.enablePositionalOptions()
    addCommandOptions(command, entry)
    command.hook('preAction', (_, called) => {
      if (called.getOptionValueSource('reason') === 'cli') reason = called.opts().reason
      if (withServer === 'refuses') refuseServer(called, world.environment)
      if (withServer === 'speaks') server = chooseServer(called, world.environment)
    })
  }
  if (argv.length === 0) {
    world.err.write(program.helpInformation())
    return EXIT.usage
  }
  const unknown = findUnknownSubcommand(argv, program)
  if (unknown !== undefined) throw unknown
  try {
    await program.parseAsync(argv, { from: 'user' })
  } catch (error) {
    // Help and version end this way too.
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done
    throw toUsageError(error, argv, program)
  }
  return exitCode
}

/** Words that people try, and the commands they mean. */
const MEANT: Readonly<Record<string, string>> = {
  list: 'ps',
  jobs: 'ps',
  stop: 'cancel',
  delete: 'rm',
  start: 'up',
  init: 'up',
  work: 'worker',
}

const ALIASES: ReadonlyMap<string, string> = new Map(
  CATALOGUE.flatMap(({ name, aliases = [] }) => aliases.map((alias) => [alias, name] as const)),
)

/** Replaces an alias by the name of its command: everything that follows knows one name only. */
function withoutAlias(argv: readonly string[]): readonly string[] {
  const at = argv.findIndex((each) => !each.startsWith('-') && each !== 'help')
  const name = ALIASES.get(argv[at] ?? '')
  return name === undefined ? argv : argv.with(at, name)
}

/**
 * Where a command has subcommands and takes no argument, the word behind it must be one of them. Commander takes an unknown one
 * for an argument: it complained of the options behind it, and answered --help with the help of the command above.
 */
function findUnknownSubcommand(argv: readonly string[], program: Command): SluiceError | undefined {
  const command = program.commands.find((each) => each.name() === argv[0])
  const word = argv[1]
  if (command === undefined || word === undefined || word.startsWith('-')) return undefined
  if (command.commands.length === 0 || command.registeredArguments.length > 0) return undefined
  const isKnown = command.commands.some((each) => each.name() === word || each.aliases().includes(word))
  return isKnown || word === 'help' ? undefined : unknownSubcommand(command, word)
}

/** Commander's errors in our words and with our code. Others pass through. */
function toUsageError(error: unknown, argv: readonly string[], program: Command): unknown {
  if (!(error instanceof CommanderError)) return error
  const [first, second] = argv.filter((each) => !each.startsWith('-'))
  const command = program.commands.find((each) => each.name() === first)
  const below = command?.commands.find((each) => each.name() === second)
  if (
    error.code === 'commander.excessArguments' &&
    below === undefined &&
    (command?.commands.length ?? 0) > 0
  )
    return unknownSubcommand(command!, second ?? '')
  if (error.code === 'commander.unknownCommand') {
    const word = argv.find((each) => !each.startsWith('-')) ?? ''
    const names = CATALOGUE.map(({ name }) => name)
    const meant = suggest(word, [...names, ...ALIASES.keys(), ...Object.keys(MEANT)])
    const near = meant === undefined ? undefined : (ALIASES.get(meant) ?? MEANT[meant] ?? meant)
    return new SluiceError('INVALID_ARGUMENT', `unknown command ${JSON.stringify(word)}`, {
      details: {
        [HINT]: `${near === undefined ? '' : `did you mean sluice ${near}? `}sluice --help lists the commands`,
      },
    })
  }
  const [message, suggestion] = error.message.replace(/^error: /, '').split('\n')
  const path = [command, below].flatMap((each) => (each === undefined ? [] : [`${each.name()} `])).join('')
  const help = `sluice ${path}--help says what is possible`
  return new SluiceError('INVALID_ARGUMENT', message ?? 'the command line is wrong', {
    details: {
      [HINT]: suggestion === undefined ? help : `${suggestion.replace(/^\(|\)$/g, '').toLowerCase()} ${help}`,
    },
  })
}

function unknownSubcommand(command: Command, word: string): SluiceError {
  const names = command.commands.map((each) => each.name())
  const near = suggest(word, [...names, ...command.commands.flatMap((each) => each.aliases())])
  const hint = near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`
  return new SluiceError(
    'INVALID_ARGUMENT',
    `sluice ${command.name()} has no subcommand ${JSON.stringify(word)}`,
    { details: { [HINT]: `${hint}; sluice ${command.name()} --help tells what they do` } },
  )
}
