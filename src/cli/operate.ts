import { dirname, resolve } from 'node:path'
import type { Sluice } from '../app/app.ts'
import type { CommonOptions, World } from './command.ts'
import type { ExitCode } from './exit-code.ts'

/**
 * Where the embedded database of this call lies: SLUICE_DATA, else `.sluice` beside the config file. The file itself is
 * not read, so that a broken one does not keep anybody from looking after jobs.
 */
export function dataFolderOf(world: World, options: CommonOptions): string {
  const { SLUICE_DATA } = world.environment
  if (SLUICE_DATA !== undefined && SLUICE_DATA !== '') return resolve(world.folder, SLUICE_DATA)
  const folder = options.config === undefined ? '.' : dirname(options.config)
  return resolve(world.folder, folder, '.sluice')
}

/** For commands that look and operate: opens Sluice without applying anything, and closes it in every case. */
export async function operate(
  world: World,
  options: CommonOptions,
  work: (app: Sluice) => Promise<ExitCode>,
): Promise<ExitCode> {
  const app = await world.open({ dataFolder: dataFolderOf(world, options) })
  try {
    return await work(app)
  } finally {
    await app.close()
  }
}
