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
  /** How a child of this process finds the database. */
  readonly environment?: Readonly<Record<string, string>>
}

/** @throws {SluiceError} `INVALID_CONFIG` naming the option of a pool that cannot work. */
export async function createFleet(parts: FleetParts): Promise<FleetKeeper> {
  const { db, log } = parts
  const { FleetKeeper } = await import('../fleet/fleet-keeper.ts')
  return new FleetKeeper({ db, log, name: `${process.pid}`, provisioners: await createProvisioners(parts) })
}

/**
 * The provisioners of the pools that file and code of this process name. Numbers of a pool are read from the database, where
 * operators change them; who starts workers, and how, is only ever taken from here: a program that is started must not be
 * something that a row of a table says.
 *
 * Nothing is started or called by it: what it refuses, it refuses by the options alone.
 *
 * @throws {SluiceError} `INVALID_CONFIG`, one error that names all options that cannot work, and where the file has them.
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

/** What a provisioner refuses begins with the path of the option. */
function problemOf(error: unknown, pool: string, config: LoadedConfig | undefined): Problem {
  const [, path, message] = /^(fleet\.\S+?):? (.*)$/s.exec(messageOf(error)) ?? []
  if (!(error instanceof SluiceError) || path === undefined || message === undefined) throw error
  // Pools that a program gives are in no file.
  if (config?.config.fleet?.pools?.[pool] === undefined) return { path, message }
  // An option that there is not is named beside the message.
  const { argument = path } = (error.cause instanceof SluiceError ? error.cause.details : {}) as {
    argument?: string
  }
  const option = argument.slice(`fleet.pools.${pool}.options.`.length).split(/[.[]/)[0]
  const at = ['fleet', 'pools', pool, 'options', ...(option ? [option] : [])]
  return { path, place: config.locate(at, 'key'), message }
}
