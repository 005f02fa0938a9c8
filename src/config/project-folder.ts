import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** Names of config files, in the order in which messages list them. */
export const CONFIG_NAMES = ['sluice.yaml', 'sluice.config.ts', 'sluice.config.js', 'sluice.config.mjs']

/** The folder of the embedded database. */
export const DATA_FOLDER = '.sluice'

/**
 * Returns the project folder of `start`: `start` itself or the nearest parent folder that has a config file or a data
 * folder. If none has, it is `start`.
 *
 * Config and data come from the same folder, so that a command never combines the config of one project with the data
 * of another.
 */
export function findProjectFolder(start: string): string {
  const first = resolve(start)
  for (let folder = first; ; folder = dirname(folder)) {
    if ([...CONFIG_NAMES, DATA_FOLDER].some((name) => existsSync(join(folder, name)))) return folder
    if (folder === dirname(folder)) return first
  }
}
