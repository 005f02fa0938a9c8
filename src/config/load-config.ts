import { readFile, stat } from 'node:fs/promises'
import { dirname, extname, join, relative, resolve } from 'node:path'
import { checkOptions, checkText } from '../model/argument.ts'
import { invalidConfig, type Locate } from '../model/setting-value.ts'
import { checkConfig, findProblems } from './check-config.ts'
import { CONFIG_NAMES, findProjectFolder } from './project-folder.ts'
import { type ExportedTask, type ExportedWorkflow, isModule, readModule } from './read-module.ts'
import { readYaml } from './read-yaml.ts'
import type { Config } from './schema.ts'

export interface LoadedConfig {
  /** The file it came from, absolute; `undefined` when there is none. */
  readonly file: string | undefined
  /** The folder from which relative paths start: the file's folder, or else the folder that was searched. */
  readonly folder: string
  readonly config: Config
  /**
   * The tasks that a module exports as `tasks`, created with `task()`. `sluice()` uses them unless others are given.
   */
  readonly tasks: readonly ExportedTask[]
  /** The workflows that it exports as `workflows`, used in the same way. */
  readonly workflows: readonly ExportedWorkflow[]
  /** Returns positions in it, for later messages. */
  readonly locate: Locate
}

/** Names that users may expect to work. Ignoring such a file silently would be worse than rejecting it. */
const NEAR_NAMES = [
  'sluice.yml',
  'sluice.config.yaml',
  'sluice.config.mts',
  'sluice.config.cjs',
  'sluice.json',
]
const YAML_ENDINGS = ['.yaml', '.yml', '.json']
/** On one core, a file with 9,000 tasks (0.8 MB) takes 1.6 s, and the worst file of 1 MiB that was found takes 7 s. */
const MAX_BYTES = 1_048_576

/**
 * Loads and validates the config: the file at `path`, or the one in `folder` or the nearest parent folder that has a
 * config or a data folder, or else an empty config.
 *
 * @param options.path As given with `--config`; relative to `folder`.
 * @throws {SluiceError} `INVALID_CONFIG` if it cannot be read, if there are several, or if it has problems. One
 *   error names them all, with file, line and column for YAML.
 */
export async function loadConfig(options: {
  path?: string | undefined
  folder: string
}): Promise<LoadedConfig> {
  checkOptions(options, ['path', 'folder'], 'options')
  if (options.path !== undefined) checkText(options.path, 'path')
  checkText(options.folder, 'folder')
  const folder = resolve(options.folder)
  const file = options.path === undefined ? await searchConfig(folder) : resolve(folder, options.path)
  if (file === undefined)
    return { file, folder, config: {}, tasks: [], workflows: [], locate: () => undefined }

  const shown = relative(folder, file).startsWith('..') ? file : relative(folder, file)
  const found = { file, folder: dirname(file) }
  if (isModule(file)) {
    await statFile(file, shown)
    const locate: Locate = () => ({ file: shown })
    const { config, tasks, workflows } = await readModule(file, shown)
    return {
      ...found,
      config: withPaths(checkConfig(config, locate), found.folder),
      tasks,
      workflows,
      locate,
    }
  }
  if (!YAML_ENDINGS.includes(extname(file))) {
    throw configFileError(
      shown,
      'is neither YAML (.yaml, .yml, .json) nor a module (.ts, .js, .mjs); rename it',
    )
  }
  const { value, locate, problems, readable } = readYaml(await readText(file, shown), shown)
  const all = [...problems]
  const config = readable ? findProblems(value, locate, all) : undefined
  if (all.length > 0 || config === undefined) throw invalidConfig(all)
  return { ...found, config: withPaths(config, found.folder), tasks: [], workflows: [], locate }
}

/** Resolves paths relative to the file's folder here, because the source of a setting is not known later. */
function withPaths(config: Config, folder: string): Config {
  const { initialiser } = config
  return typeof initialiser === 'string' ? { ...config, initialiser: resolve(folder, initialiser) } : config
}

/** Finds the config file of the project that contains a folder. */
async function searchConfig(folder: string): Promise<string | undefined> {
  const project = findProjectFolder(folder)
  const file = await findConfig(project)
  if (file !== undefined && project !== folder) await refuseForeign(file)
  return file
}

/**
 * Modules of a config are executed and its programs are started. In a shared folder such as /tmp, any user could plant
 * one for all who work below it.
 */
async function refuseForeign(file: string): Promise<void> {
  const { uid } = await stat(file)
  const me = process.geteuid?.()
  if (me === undefined || uid === me || uid === 0) return
  throw configFileError(
    file,
    `belongs to user ${uid}, and this process runs as user ${me}. A config in a parent folder is used only if it is ` +
      'yours. To use it anyway, name it with --config',
  )
}

/** Finds the config file in a folder. */
async function findConfig(folder: string): Promise<string | undefined> {
  const present = await existing(folder, CONFIG_NAMES)
  if (present.length > 1) {
    const rest = present.slice(1).join(' and ')
    throw configFileError(
      folder,
      `has ${present.join(' and ')}; there can be only one config: remove ${rest} to use ${present[0]}, or choose one with --config`,
    )
  }
  const [near] = await existing(folder, NEAR_NAMES)
  if (near !== undefined && present.length === 0) {
    const right = isModule(near) ? 'sluice.config.ts' : 'sluice.yaml'
    throw configFileError(
      near,
      `is not a recognized config name; rename it to ${right}, or choose it with --config`,
    )
  }
  return present[0] === undefined ? undefined : join(folder, present[0])
}

async function existing(folder: string, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    names.map((name) => stat(join(folder, name)).then(() => name, ignoreMissing)),
  )
  return found.filter((name) => name !== undefined)
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
  throw configFileError(error.path ?? 'config', `cannot be read: ${error.message}`, error)
}

async function readText(file: string, shown: string): Promise<string> {
  const { size } = await statFile(file, shown)
  if (size > MAX_BYTES)
    throw configFileError(shown, `has ${size} bytes; the limit for a config is ${MAX_BYTES}`)
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    throw configFileError(shown, `cannot be read: ${error.message}`, error)
  })
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw configFileError(shown, 'is not UTF-8 text; save it as UTF-8', error)
  }
}

async function statFile(file: string, shown: string): Promise<{ size: number }> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    const missing = error.code === 'ENOENT' || error.code === 'ENOTDIR'
    throw configFileError(shown, missing ? 'no such file' : `cannot be read: ${error.message}`, error)
  })
  if (!found.isFile())
    throw configFileError(
      shown,
      `is not a file; name the config file in it, such as ${join(shown, 'sluice.yaml')}`,
    )
  return found
}

function configFileError(file: string, message: string, cause?: unknown): Error {
  return invalidConfig([{ path: '', place: { file }, message }], cause)
}
