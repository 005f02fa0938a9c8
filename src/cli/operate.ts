import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { LoadedConfig } from '../config/load-config.ts'
import { DATA_FOLDER, findProjectFolder } from '../config/project-folder.ts'
import { hasDatabase } from '../db/embedded/folders.ts'
import { hasCode, SluiceError } from '../errors.ts'
import type { CommonOptions, World } from './command.ts'
import type { ExitCode } from './exit-code.ts'
import { painter } from './output/style.ts'
import { HINT } from './report-error.ts'
import type { System } from './system.ts'

/**
 * Where the embedded database of this call lies: SLUICE_DATA, else `.sluice` beside the config file or in the project's
 * folder. The file itself is not read, so a broken one does not prevent anybody from inspecting jobs.
 */
export function dataFolderOf(world: World, options: CommonOptions): string {
  const { SLUICE_DATA } = world.environment
  if (SLUICE_DATA !== undefined && SLUICE_DATA !== '') return resolve(world.folder, SLUICE_DATA)
  if (options.config === undefined) return join(findProjectFolder(world.folder), DATA_FOLDER)
  return resolve(world.folder, dirname(options.config), DATA_FOLDER)
}

/**
 * A key and no server: whoever set it means one. Without this an empty database is made here, and a list of its jobs says
 * that there are none. Where a database is named, or lies here already, it is meant.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`
 */
export function refuseForgottenServer(world: World, dataFolder: string): void {
  const { SLUICE_KEY = '', DATABASE_URL = '' } = world.environment
  if (world.server !== undefined || SLUICE_KEY === '' || DATABASE_URL !== '' || existsSync(dataFolder)) return
  throw new SluiceError('INVALID_ARGUMENT', 'SLUICE_KEY is set and SLUICE_SERVER is not', {
    details: {
      [HINT]: `set SLUICE_SERVER to the address of the server; to begin a database in ${dataFolder} instead, unset SLUICE_KEY`,
    },
  })
}

/**
 * Refuses to go on where there is no database: a command that reads or changes what is there must not create an empty
 * one, which would answer that there are no jobs.
 *
 * @throws {SluiceError} `DATABASE_NOT_FOUND`
 */
export function requireDatabase(world: World, dataFolder: string): void {
  if ((world.environment.DATABASE_URL ?? '') !== '' || hasDatabase(dataFolder)) return
  throw new SluiceError('DATABASE_NOT_FOUND', `there is no database in ${dataFolder}`, {
    details: {
      folder: dataFolder,
      [HINT]: `start one with ${world.program} up, or name another with DATABASE_URL, SLUICE_DATA or SLUICE_SERVER`,
    },
  })
}

/**
 * For commands that look and operate: through the server, where one was named, else on the database, which is let go in
 * every case.
 *
 * @param config Applied to the database, which is created if there is none. Without it nothing is applied or created.
 */
export async function operate(
  world: World,
  options: CommonOptions,
  work: (system: System) => Promise<ExitCode>,
  config?: LoadedConfig,
): Promise<ExitCode> {
  if (world.server !== undefined) {
    const { SluiceClient } = await import('../client/client.ts')
    const client = new SluiceClient({
      ...world.server,
      onWarning: (message) => world.err.line(`${painter(world.err)('yellow', 'warning:')} ${message}`),
    })
    return work(world.reason === undefined ? client : client.because(world.reason)).catch(pointToServer)
  }
  const dataFolder = dataFolderOf(world, options)
  refuseForgottenServer(world, dataFolder)
  if (config === undefined) requireDatabase(world, dataFolder)
  const { reason } = world
  const app = await world.open({ dataFolder, reason, ...(config !== undefined && { config }) })
  try {
    return await work(app)
  } finally {
    await app.close()
  }
}

/** Otherwise the hint would be about a database that this program does not speak to. */
function pointToServer(error: unknown): never {
  if (!hasCode(error, 'DATABASE_UNAVAILABLE')) throw error
  const hint = 'it is the server that cannot do its work: look at its log, and at /readyz'
  throw new SluiceError(error.code, error.message, {
    details: { ...error.details, [HINT]: hint },
    cause: error,
  })
}
