import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** Config files, in the order in which messages name them. */
export const CONFIG_NAMES = ['sluice.yaml', 'sluice.config.ts', 'sluice.config.js', 'sluice.config.mjs']

/** The folder of the embedded database. */
export const DATA_FOLDER = '.sluice'

/**
 * The folder of the project that `start` lies in: `start` itself or the nearest folder above it that has a config file or
 * a data folder. Without either it is `start`.
 *
 * Config and data are looked up in the same folder, so a command never combines the config of one project with the data
 * of another.
 */
export function findProjectFolder(start: string): string {
  const first = resolve(start)
  for (let folder = first; ; folder = dirname(folder)) {
    if ([...CONFIG_NAMES, DATA_FOLDER].some((name) => existsSync(join(folder, name)))) return folder
    if (folder === dirname(folder)) return first
  }
}
