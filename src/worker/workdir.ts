import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, lchownSync, lstatSync, mkdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { chmod, lchown, mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { messageOf } from '../errors.ts'
import { BrokenWorker } from './attempt.ts'
import { type ExecUser, runAs } from './exec-user.ts'

/** With pauses of up to 10 ms between them this is some 10 seconds. */
const MOST_TRIES = 1000
/** The same for folders of another user, where each try is a process. */
const MOST_FOREIGN_TRIES = 20
const FOREIGN_TRY_MS = 60_000
/** Sticky, or open to what anybody writes, as /tmp is: a folder that many use. */
const SHARED = 0o1002
const REMOVE = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwx -- "$1"; rm -rf -- "$1"; }'

/**
 * The private folders of this worker's attempts.
 *
 * All of them lie below one folder per worker, whose name says which process it
 * belongs to. A worker that starts removes those whose process is gone, so what
 * a `kill -9` left is cleaned up by the next worker with the same root.
 *
 *     <root>/<host>-<boot>-<pid namespace>-<pid>-<start>-<nonce>/<job>-<attempt>-<nonce>
 *
 * The two upper folders belong to the worker's user with mode 0700. Where attempts run as another user, their group is
 * that user's and their mode 0710, so that the user can pass through and neither list nor swap anything; the folder of
 * an attempt is the user's own. This process never walks through such a folder with its own rights: a program that left
 * its group could put a link in its place. It is removed by a process of that user.
 */
export class Workdirs {
  /** The folder all attempts of this worker share. */
  readonly path: string
  readonly #root: string
  readonly #user: ExecUser | undefined

  private constructor(root: string, user: ExecUser | undefined) {
    this.#root = root
    this.#user = user
    this.path = join(root, `${ownerName(process.pid)}-${nonce()}`)
  }

  /**
   * Makes this worker's folder below `root` and removes those of dead workers.
   *
   * @param user Whose programs run in them. Default: this process's own.
   * @throws {BrokenWorker} when `root` cannot be made or written, is a link, belongs to another user (who could then
   *   swap folders under our hands) or is open to others.
   */
  static async open(root: string, user?: ExecUser): Promise<Workdirs> {
    const workdirs = new Workdirs(root, user)
    try {
      workdirs.#prepare()
    } catch (error) {
      throw new BrokenWorker(`cannot create a folder for workdirs under ${root}: ${messageOf(error)}`, error)
    }
    await removeDead(root, user)
    return workdirs
  }

  /**
   * Makes the folder of one attempt, mode 0700, and returns its path.
   *
   * @throws {BrokenWorker} when it cannot be made: disk full, no permission.
   */
  create(jobId: string, attempt: number): string {
    const path = join(this.path, `${safeName(jobId)}-${attempt}-${nonce()}`)
    try {
      try {
        mkdirSync(path, { mode: 0o700 })
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
        // Cleaners of /tmp may have taken the folders above, and anybody may have made others in their place.
        this.#prepare()
        mkdirSync(path, { mode: 0o700 })
      }
      if (this.#user !== undefined) lchownSync(path, this.#user.uid, this.#user.gid)
      return path
    } catch (error) {
      throw new BrokenWorker(`cannot create the workdir ${path}: ${messageOf(error)}`, error)
    }
  }

  #prepare(): void {
    makePassage(this.#root, this.#user)
    checkRoot(this.#root, this.#user)
    makePassage(this.path, this.#user)
  }

  /**
   * Removes one attempt's folder. A folder that is gone already is fine.
   *
   * @throws when it could not be removed; `close()` and the next worker that
   *   starts with this root try again.
   */
  async remove(path: string): Promise<void> {
    // First out of the way, in one step: whoever still writes there by its full
    // path fails from now on, so the removal below does not race with it.
    if (this.#user !== undefined) return removeForeign(this.path, path, this.#user)
    const doomed = join(this.path, `removing-${nonce()}`)
    try {
      await rename(path, doomed)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      await removeTree(path)
      return
    }
    await removeTree(doomed)
  }

  /** Removes whatever is left. Call it after the last attempt has ended. */
  async close(): Promise<void> {
    await removeAll(this.path, this.#user)
  }
}

/**
 * Removes a folder with all it holds, also when folders were made read-only and
 * while somebody still writes into it. Gives up after some seconds.
 */
async function removeTree(path: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      // From the third time on without a break between the last file and the
      // folder: a loop that makes a file every 30 µs loses to this after 2 to 200
      // more tries, and wins against calls that wait for the event loop.
      if (tries < 2) await rm(path, { recursive: true, force: true })
      else rmSync(path, { recursive: true, force: true })
      return
    } catch (error) {
      if (tries === MOST_TRIES) throw error
      if (codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM') await makeWritable(path)
      // Most writers are processes that are just being killed.
      else await delay(Math.min(10, tries))
    }
  }
}

async function makeWritable(folder: string): Promise<void> {
  await chmod(folder, 0o700)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    // `isDirectory` is false for a link to a folder, so nothing outside is touched.
    if (entry.isDirectory()) await makeWritable(join(folder, entry.name))
  }
}

/** The folder of one worker with all that its attempts left. */
async function removeAll(path: string, user: ExecUser | undefined): Promise<void> {
  if (user === undefined) return removeTree(path)
  const entries = await readdir(path).catch(() => [])
  for (const entry of entries) await removeForeign(path, join(path, entry), user)
  await rmdir(path).catch((error) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
}

/**
 * Removes what belongs to another user, by a process of that user.
 *
 * It is first moved into a folder that is given to the user, because only the owner of the folder above can remove it.
 *
 * @throws when it could not be removed.
 */
async function removeForeign(folder: string, path: string, user: ExecUser): Promise<void> {
  const doomed = join(folder, `removing-${nonce()}`)
  const inside = join(doomed, 'it')
  await mkdir(doomed, { mode: 0o700 })
  try {
    await rename(path, inside)
  } catch (error) {
    await rmdir(doomed)
    if (codeOf(error) === 'ENOENT') return
    throw error
  }
  // It may be such a folder itself, of a worker that was killed before it had given it away.
  await lchown(inside, user.uid, user.gid)
  await lchown(doomed, user.uid, user.gid)
  for (let tries = 1; ; tries++) {
    const { ok, error } = await runAs(user, REMOVE, [inside], FOREIGN_TRY_MS)
    if (ok) break
    if (tries === MOST_FOREIGN_TRIES) throw new Error(`cannot remove ${inside} as ${user.name}: ${error}`)
    // Most writers are processes that are just being killed.
    await delay(10 * tries)
  }
  await rmdir(doomed)
}

async function removeDead(root: string, user: ExecUser | undefined): Promise<void> {
  const here = machine()
  for (const name of await readdir(root)) {
    if (!isLeftBehind(name, here)) continue
    try {
      await removeAll(join(root, name), user)
    } catch {
      // Another worker cleans up at the same moment, or it is not ours to
      // remove. It only costs disk space, and the next start tries again.
    }
  }
}

interface Machine {
  readonly host: string
  readonly boot: string
  readonly pidNamespace: string
}

const OWNER = /^([0-9a-f]{8})-([0-9a-f]{8})-(\d+)-(\d+)-(\d+)-[0-9a-f]{12}$/

/**
 * True only when the owner is certainly gone: same host, and either the machine
 * has booted since, or the process can be looked up and is not the same one.
 * In doubt (another host on a shared disk, another container) the folder stays.
 */
function isLeftBehind(name: string, here: Machine): boolean {
  const match = OWNER.exec(name)
  if (match === null) return false
  const [, host, boot, pidNamespace, pid, started] = match
  if (host !== here.host) return false
  if (boot !== here.boot) return true
  if (pidNamespace !== here.pidNamespace) return false
  return startOf(Number(pid)) !== started
}

function ownerName(pid: number): string {
  const { host, boot, pidNamespace } = machine()
  return `${host}-${boot}-${pidNamespace}-${pid}-${startOf(pid) ?? '0'}`
}

function machine(): Machine {
  return {
    host: shortHash(hostname() + readOr('/etc/machine-id', '')),
    boot: shortHash(readOr('/proc/sys/kernel/random/boot_id', '')),
    pidNamespace: /\d+/.exec(readLinkOr('/proc/self/ns/pid', '0'))?.[0] ?? '0',
  }
}

/**
 * When the process started, in clock ticks since boot; tells it from a later one
 * with the same number. `undefined` when it is gone. Without /proc only the
 * number is compared ('0' while it lives): a reused one keeps a folder, never
 * removes one.
 */
function startOf(pid: number): string | undefined {
  const stat = readOr(`/proc/${pid}/stat`, '')
  if (stat !== '') {
    // The second field is the program's name in brackets, which may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  }
  if (process.platform === 'linux') return undefined
  try {
    process.kill(pid, 0)
    return '0'
  } catch (error) {
    return codeOf(error) === 'EPERM' ? '0' : undefined
  }
}

/** Makes a folder of this process's user that only it, and the group of `user`, can pass through. */
function makePassage(path: string, user: ExecUser | undefined): void {
  const made = mkdirSync(path, { recursive: true, mode: 0o700 })
  if (made === undefined || user === undefined) return
  lchownSync(path, process.geteuid!(), user.gid)
  chmodSync(path, 0o710)
}

/** `lstat`, so that a link to a folder that somebody else chose is not taken for the folder. */
function checkRoot(root: string, user: ExecUser | undefined): void {
  const found = lstatSync(root)
  const self = process.geteuid?.() ?? found.uid
  if (!found.isDirectory()) throw new Error('it is a link or a file; it must be a folder')
  if (found.uid !== self)
    throw new Error(`it belongs to user ${found.uid}; it must belong to user ${self}, who runs this worker`)
  const mode = user === undefined ? 0o700 : 0o710
  const allowed = user === undefined || found.gid === user.gid
  if ((found.mode & SHARED) !== 0)
    throw new Error(
      `others can create files there (mode 0${(found.mode & 0o7777).toString(8)}); name a folder of its own, such as ${join(root, 'sluice-workdirs')}`,
    )
  if ((found.mode & 0o777) !== mode || !allowed)
    throw new Error(
      `others can enter it (mode 0${(found.mode & 0o7777).toString(8)}, group ${found.gid}); run: ` +
        (user === undefined ? `chmod 700 ${root}` : `chgrp ${user.gid} ${root} && chmod 710 ${root}`),
    )
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return otherwise
  }
}

function readLinkOr(path: string, otherwise: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return otherwise
  }
}

/** Job ids are made by us, but a path is no place to rely on that. */
function safeName(text: string): string {
  return text.replaceAll(/[^\w-]/g, '_').slice(0, 80)
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}

function nonce(): string {
  return randomBytes(6).toString('hex')
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
