import { setTimeout as delay } from 'node:timers/promises'
import { messageOf } from '../../errors.ts'
import { requirePackage } from './binaries.ts'
import { type EmbeddedFolders, findFolders } from './folders.ts'
import { joinKeeper, type Membership } from './join.ts'
import { DATABASE, PORT, USER } from './server.ts'

/** A share in the PostgreSQL of a data folder. */
export interface EmbeddedDatabase {
  /** For `pg` and libpq: a socket in a private folder, database `sluice`. The same after every restart. */
  readonly url: string
  /** Sockets and data: a user who can enter one of them can do anything in the database. */
  readonly folders: readonly string[]
  /** Gives the share back; the last one out stops the server and waits for that. May be called twice. */
  release(): Promise<void>
}

export interface EmbeddedOptions {
  /** Created when missing. All processes that name the same folder share one server. */
  readonly dataFolder: string
  /** Server settings such as `wal_level`. They count for whoever starts the server, not for who joins it. */
  readonly settings?: Readonly<Record<string, string>>
  readonly log?: (line: string) => void
}

/** Creation takes about a second, a start a tenth of one; the rest is for machines under load. */
const OPEN_LIMIT_MS = 90_000
const RELEASE_LIMIT_MS = 45_000
const REJOIN_PAUSE_MS = 1_000

/**
 * Opens the PostgreSQL of a data folder; creates and starts it if need be.
 *
 * The server belongs to a process of its own, the keeper, and outlives the one
 * that asked first. It runs while anybody holds a share. A process that dies
 * gives its share back by dying. Should the server or its keeper be killed,
 * those that hold shares bring it back; connections break, the url stays valid.
 * An open share does not keep this process alive.
 *
 * @throws {SluiceError} `EMBEDDED_UNAVAILABLE` when there is no PostgreSQL for
 *   this platform, the folder cannot be used, or the server does not start; the
 *   message then ends with the server's log.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  requirePackage()
  const folders = await findFolders(options.dataFolder)
  const share = new Share(folders, options)
  await share.join(AbortSignal.timeout(OPEN_LIMIT_MS))
  return { url: urlOf(folders), folders: [folders.run, folders.cluster], release: () => share.release() }
}

class Share {
  readonly #folders: EmbeddedFolders
  readonly #settings: Readonly<Record<string, string>>
  readonly #log: (line: string) => void
  readonly #released = new AbortController()
  #membership: Membership | undefined
  #rejoining: Promise<void> | undefined
  #releasing: Promise<void> | undefined

  constructor(folders: EmbeddedFolders, options: EmbeddedOptions) {
    this.#folders = folders
    this.#settings = options.settings ?? {}
    this.#log = options.log ?? (() => {})
  }

  async join(signal: AbortSignal): Promise<void> {
    const membership = await joinKeeper(
      { folders: this.#folders, settings: this.#settings },
      { signal, log: this.#log },
    )
    this.#membership = membership
    void membership.ended.then(() => {
      if (!this.#released.signal.aborted) this.#rejoining = this.#rejoin()
    })
  }

  release(): Promise<void> {
    this.#releasing ??= this.#leave()
    return this.#releasing
  }

  async #leave(): Promise<void> {
    this.#released.abort()
    await this.#rejoining
    const clean = await this.#membership?.leave(RELEASE_LIMIT_MS)
    if (clean) return
    // The keeper was killed. The server may still run, and we may be the last who could end it.
    try {
      await this.join(AbortSignal.timeout(RELEASE_LIMIT_MS))
      await this.#membership?.leave(RELEASE_LIMIT_MS)
    } catch (error) {
      this.#log(messageOf(error))
    }
  }

  /** The keeper is gone. Whoever comes first starts a new one, which takes over the server if that still runs. */
  async #rejoin(): Promise<void> {
    const { signal } = this.#released
    this.#membership = undefined
    let reported: string | undefined
    while (!signal.aborted) {
      try {
        return await this.join(signal)
      } catch (error) {
        if (signal.aborted) return
        const message = messageOf(error)
        if (message !== reported) this.#log(message)
        reported = message
        await delay(REJOIN_PAUSE_MS, undefined, { signal, ref: false }).catch(() => {})
      }
    }
  }
}

/** Everything is spelled out, so that PGPORT and the like in the environment change nothing. */
function urlOf(folders: EmbeddedFolders): string {
  return `postgres:///${DATABASE}?host=${encodeURIComponent(folders.run)}&port=${PORT}&user=${USER}`
}
