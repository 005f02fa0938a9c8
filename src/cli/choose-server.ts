import { type Command, Option } from 'commander'
import { checkServer } from '../api/server-address.ts'
import type { ServerOptions } from '../client/link.ts'
import { SluiceError } from '../errors.ts'
import { HINT } from './report-error.ts'

/** Commands whose `--key` is that of a server. Some have a `--key` of their own: that of a job. */
const withKey = new WeakSet<Command>()

/** Options of every command that can speak to a server. */
export function addServerOptions(command: Command, hidden: boolean): void {
  const own = command.options.some(({ long }) => long === '--key')
  const add = (flags: string, description: string) =>
    command.addOption(new Option(flags, description).hideHelp(hidden))
  add(
    '--server <url>',
    `speak to this server, not to a database (default: SLUICE_SERVER)${own ? '; its key is in SLUICE_KEY' : ''}`,
  )
  if (own) return
  add('--key <key>', 'the key for the server; SLUICE_KEY does not show in the list of processes')
  withKey.add(command)
}

/**
 * The server that was named: by an option of the command or of the one above it, else in the environment.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when it is no address, or there is no key for it.
 */
export function chooseServer(called: Command, environment: NodeJS.ProcessEnv): ServerOptions | undefined {
  const commands = [called, ...(called.parent === null ? [] : [called.parent])]
  const given = (name: 'server' | 'key', among: readonly Command[]) =>
    among.map((command) => command.opts()[name] as string | undefined).find((each) => each !== undefined)
  const server = given('server', commands) ?? environment.SLUICE_SERVER ?? ''
  if (server === '') return undefined
  checkServer(server, given('server', commands) === undefined ? 'SLUICE_SERVER' : '--server')
  const written = given(
    'key',
    commands.filter((command) => withKey.has(command)),
  )
  // Takes the key out of the list of processes.
  if (written !== undefined) process.title = `sluice ${called.name()}`
  const key = written ?? environment.SLUICE_KEY ?? ''
  if (key !== '') return { server, key }
  throw new SluiceError('INVALID_ARGUMENT', 'a key is needed to speak to a server', {
    details: { [HINT]: 'set SLUICE_KEY to one; sluice keys create, on its database, makes one' },
  })
}

/** For commands that need the database itself. @throws {SluiceError} `INVALID_ARGUMENT` when a server was named. */
export function refuseServer(called: Command, environment: NodeJS.ProcessEnv): void {
  const where = called.opts().server !== undefined ? '--server' : 'SLUICE_SERVER'
  if (where === 'SLUICE_SERVER' && (environment.SLUICE_SERVER ?? '') === '') return
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `sluice ${called.name()} needs the database itself, and ${where} names a server`,
    {
      details: {
        [HINT]: `call it where the database can be reached, without --server and with SLUICE_SERVER empty`,
      },
    },
  )
}
