import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, lchown, lstat, mkdir, readFile, realpath, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { messageOf, SluiceError } from '../../errors.ts'
import { type Account, canEnter, serverAccount } from './run-as.ts'

/** Where one embedded server keeps its things. The same for every process of a data folder. */
export interface EmbeddedFolders {
  /** Data, log and binaries live here: the data folder, or a system folder when the server cannot enter that. */
  readonly home: string
  /** PostgreSQL's own data directory. */
  readonly cluster: string
  /** Sockets. Private to the server's account: whoever can enter may do anything in the database. */
  readonly run: string
  readonly log: string
  /** Where a private copy of the binaries goes if the installed ones cannot be used. */
  readonly binaries: string
  readonly account: Account | undefined
}

const SYSTEM_FOLDER = '/var/lib/sluice'
const POINTER = 'database-location'

/**
 * A socket's path may have 103 bytes on macOS and 107 on Linux, and no more.
 * 32 are kept for the longest name in the folder.
 */
const LONGEST_RUN_FOLDER = 103 - 32

/**
 * Works out, and creates, the folders of the embedded server for a data folder.
 *
 * @throws {SluiceError} `EMBEDDED_UNAVAILABLE` when a folder cannot be made or
 *   belongs to somebody else.
 */
export async function findFolders(dataFolder: string): Promise<EmbeddedFolders> {
  try {
    return await prepareFolders(resolve(dataFolder))
  } catch (error) {
    if (error instanceof SluiceError) throw error
    const reason = messageOf(error)
    throw unusable(dataFolder, reason, error)
  }
}

/** Whether a data folder has a database, without creating anything. */
export function hasDatabase(dataFolder: string): boolean {
  return [join(dataFolder, 'postgresql'), join(dataFolder, POINTER)].some((path) => existsSync(path))
}

async function prepareFolders(dataFolder: string): Promise<EmbeddedFolders> {
  await createDataFolder(dataFolder)
  const folder = await realpath(dataFolder)
  const home = await findHome(folder)
  const cluster = join(home, 'postgresql')
  const account = await serverAccount(cluster)
  await refuseStrangers(cluster, account)

  const run = await prepareRunFolder(home, account)
  return {
    home,
    cluster,
    run,
    log: join(home, 'postgresql.log'),
    binaries: account === undefined ? home : SYSTEM_FOLDER,
    account,
  }
}

/** Its content never belongs into version control or an image, hence the ignore file. */
async function createDataFolder(folder: string): Promise<void> {
  const made = await mkdir(folder, { recursive: true })
  if (made === undefined) return
  // Against a strict umask: the server's account has to pass through. What is private has its own mode.
  await chmod(folder, 0o755)
  await writeFile(join(folder, '.gitignore'), '*\n')
}

/** A pointer left by an earlier run wins, so that a project that moves keeps its data. */
async function findHome(folder: string): Promise<string> {
  const pointer = join(folder, POINTER)
  const pointed = (await readFile(pointer, 'utf8').catch(() => '')).trim()
  if (pointed !== '') {
    if (process.geteuid?.() !== 0) {
      throw unusable(folder, `its database was created by root and lies in ${pointed}; run as root again`)
    }
    return pointed
  }

  const account = await serverAccount(join(folder, 'postgresql'))
  if (account === undefined || (await canEnter(account, folder))) return folder
  if (await exists(join(folder, 'postgresql'))) {
    throw unusable(folder, `user ${account.uid}, who owns the database in it, can no longer enter it`)
  }
  const home = join(SYSTEM_FOLDER, fingerprint(folder))
  await mkdir(home, { recursive: true })
  await chmod(SYSTEM_FOLDER, 0o755)
  await chmod(home, 0o755)
  await writeFile(pointer, `${home}\n`)
  return home
}

async function refuseStrangers(cluster: string, account: Account | undefined): Promise<void> {
  const owner = await stat(cluster).catch(() => undefined)
  const me = account?.uid ?? process.geteuid?.()
  if (owner !== undefined && owner.uid !== me) {
    throw unusable(cluster, `it belongs to user ${owner.uid}, and this process runs as user ${me}`)
  }
}

/** Sockets lie beside the data, or, where that path is too long for a socket, in a private folder of /tmp. */
async function prepareRunFolder(home: string, account: Account | undefined): Promise<string> {
  const beside = join(home, 'run')
  const uid = account?.uid ?? process.geteuid?.() ?? 0
  const fits = Buffer.byteLength(beside) <= LONGEST_RUN_FOLDER
  const run = fits ? beside : `/tmp/sluice-${uid}-${fingerprint(home)}`

  await mkdir(run, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  // Anybody may create a folder of that name in /tmp first. lstat, so that a link is not followed.
  const found = await lstat(run)
  const owned = found.uid === uid || found.uid === process.geteuid?.()
  if (!found.isDirectory() || !owned || (found.mode & 0o077) !== 0) {
    throw unusable(run, `it must be a folder of user ${uid} with mode 0700; remove it`)
  }
  if (account !== undefined && found.uid !== uid) await lchown(run, account.uid, account.gid)
  return run
}

function fingerprint(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 16)
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined
}

function unusable(path: string, reason: string, cause?: unknown): SluiceError {
  return new SluiceError(
    'EMBEDDED_UNAVAILABLE',
    `the embedded PostgreSQL cannot use ${path}: ${reason}. ` +
      'Set SLUICE_DATA to another folder, or DATABASE_URL to a PostgreSQL of your own',
    { details: { path }, cause },
  )
}
