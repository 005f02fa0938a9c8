import type { LoadedConfig } from '../config/load-config.ts'
import type { Database } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import { messageOf, SluiceError } from '../errors.ts'
import type { FleetKeeper } from '../fleet/fleet-keeper.ts'
import type { Provisioner } from '../fleet/provisioner.ts'
import { POOL_DEFAULTS } from '../model/pool.ts'
import { invalidConfig, type Problem } from '../model/setting-value.ts'
import type { Settings } from '../model/settings.ts'

export interface FleetParts {
  readonly db: Database
  readonly log: Log
  readonly settings: Settings
  readonly config: LoadedConfig | undefined
  /** The environment with which a child process finds the database. */
  readonly environment?: Readonly<Record<string, string>>
}

/** @throws {SluiceError} `INVALID_CONFIG`, which names the invalid option of a pool. */
export async function createFleet(parts: FleetParts): Promise<FleetKeeper> {
  const { db, log } = parts
  const { FleetKeeper } = await import('../fleet/fleet-keeper.ts')
  return new FleetKeeper({ db, log, name: `${process.pid}`, provisioners: await createProvisioners(parts) })
}

/**
 * The provisioners of the pools that file and code of this process declare. The numbers of a pool come from the
 * database, where operators change them. Its provisioner and options come only from here, because a row in a table
 * must not decide which program is started.
 *
 * Nothing is started or called: provisioners reject invalid options by the options alone.
 *
 * @throws {SluiceError} `INVALID_CONFIG`, one error that names all invalid options and their positions in the file.
 */
export async function createProvisioners(
  parts: Pick<FleetParts, 'settings' | 'config' | 'environment'>,
): Promise<ReadonlyMap<string, Provisioner>> {
  const { settings, config, environment = {} } = parts
  const provisioners = new Map<string, Provisioner>()
  const problems: Problem[] = []
  if (settings.pools.size === 0) return provisioners
  const { createProvisioner } = await import('../fleet/create-provisioner.ts')
  for (const [pool, given] of settings.pools) {
    const { provisioner, options } = { ...POOL_DEFAULTS, ...given }
    const folder = config?.folder ?? process.cwd()
    const setting = { pool, options, folder, configFile: config?.file, environment }
    try {
      provisioners.set(pool, await createProvisioner(provisioner, setting))
    } catch (error) {
      problems.push(problemOf(error, pool, config))
    }
  }
  if (problems.length > 0) throw invalidConfig(problems)
  return provisioners
}

/** A provisioner's error begins with the path of the option. */
function problemOf(error: unknown, pool: string, config: LoadedConfig | undefined): Problem {
  const [, path, message] = /^(fleet\.\S+?):? (.*)$/s.exec(messageOf(error)) ?? []
  if (!(error instanceof SluiceError) || path === undefined || message === undefined) throw error
  // Pools that a program declares are in no file.
  if (config?.config.fleet?.pools?.[pool] === undefined) return { path, message }
  // An unknown option is named in the details, not in the message.
  const { argument = path } = (error.cause instanceof SluiceError ? error.cause.details : {}) as {
    argument?: string
  }
  const option = argument.slice(`fleet.pools.${pool}.options.`.length).split(/[.[]/)[0]
  const at = ['fleet', 'pools', pool, 'options', ...(option ? [option] : [])]
  return { path, place: config.locate(at, 'key'), message }
}
