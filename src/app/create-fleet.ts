import type { LoadedConfig } from '../config/load-config.ts'
import type { Database } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import type { FleetKeeper } from '../fleet/fleet-keeper.ts'
import type { Provisioner } from '../fleet/provisioner.ts'
import { POOL_DEFAULTS } from '../model/pool.ts'
import type { Settings } from '../model/settings.ts'

export interface FleetParts {
  readonly db: Database
  readonly log: Log
  readonly settings: Settings
  readonly config: LoadedConfig | undefined
  /** How a child of this process finds the database. */
  readonly environment?: Readonly<Record<string, string>>
}

/**
 * The provisioners of the pools that file and code of this process name. Numbers of a pool are read from the database, where
 * operators change them; who starts workers, and how, is only ever taken from here: a program that is started must not be
 * something that a row of a table says.
 *
 * @throws {SluiceError} `INVALID_CONFIG` naming the option that cannot work.
 */
export async function createFleet(parts: FleetParts): Promise<FleetKeeper> {
  const { db, log, settings, config, environment = {} } = parts
  const { createProvisioner } = await import('../fleet/create-provisioner.ts')
  const { FleetKeeper } = await import('../fleet/fleet-keeper.ts')
  const provisioners = new Map<string, Provisioner>()
  for (const [pool, given] of settings.pools) {
    const { provisioner, options } = { ...POOL_DEFAULTS, ...given }
    const folder = config?.folder ?? process.cwd()
    const setting = { pool, options, folder, configFile: config?.file, environment }
    provisioners.set(pool, await createProvisioner(provisioner, setting))
  }
  return new FleetKeeper({ db, log, name: `${process.pid}`, provisioners })
}
