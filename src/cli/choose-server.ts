import { type Command, Option } from 'commander'
import { checkServer } from '../api/server-address.ts'
import type { ServerOptions } from '../client/link.ts'
import { SluiceError } from '../errors.ts'
import { HINT } from './report-error.ts'

/** Options of every command that can connect to a server. */
export function addServerOptions(command: Command, hidden: boolean): void {
  const add = (flags: string, description: string) =>
    command.addOption(new Option(flags, description).hideHelp(hidden))
  add('--server <url>', 'connect to this server instead of a database (default: SLUICE_SERVER)')
  add(
    '--api-key <key>',
    'the API key for the server; unlike SLUICE_KEY, it is visible in the list of processes',
  )
}

/**
 * The server that was named: by an option of the command or of the one above it, else in the environment.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` if it is not an address, or if no API key is given for it.
 */
export function chooseServer(called: Command, environment: NodeJS.ProcessEnv): ServerOptions | undefined {
  const commands = [called, ...(called.parent === null ? [] : [called.parent])]
  const given = (name: 'server' | 'apiKey') =>
    commands.map((command) => command.opts()[name] as string | undefined).find((each) => each !== undefined)
  const server = given('server') ?? environment.SLUICE_SERVER ?? ''
  if (server === '') return undefined
  checkServer(server, given('server') === undefined ? 'SLUICE_SERVER' : '--server')
  const written = given('apiKey')
  // Removes the key from the list of processes.
  if (written !== undefined) process.title = `sluice ${called.name()}`
  const key = written ?? environment.SLUICE_KEY ?? ''
  if (key !== '') return { server, key }
  throw new SluiceError('INVALID_ARGUMENT', 'a server requires an API key', {
    details: {
      [HINT]: 'set SLUICE_KEY, or pass --api-key; create a key with sluice keys create on its database',
    },
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
