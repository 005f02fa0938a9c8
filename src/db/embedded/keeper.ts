import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { messageOf } from '../../errors.ts'
import { findBinaries } from './binaries.ts'
import type { Elected } from './election.ts'
import type { EmbeddedFolders } from './folders.ts'
import { createCluster, findRunning, runServer, type Server } from './server.ts'
import { openLog, trimLog } from './server-log.ts'

/**
 * The process that runs PostgreSQL for all Sluice processes of a folder.
 *
 * Started detached by whoever needs the server first; see `embedded.ts` for the
 * other end. A user is a connection that said `join`. The kernel closes it when
 * the user dies, so a user killed with -9 leaves like any other. The keeper
 *   - starts the server, or adopts one that a killed keeper left running;
 *   - starts it again when it dies while users are there;
 *   - stops it when the last user has left, and ends.
 */
export interface KeeperOptions {
  readonly folders: EmbeddedFolders
  readonly settings: Readonly<Record<string, string>>
}

/**
 * What a user says. The keeper answers with lines: `log <text>`, `ready`, and in
 * the end `bye`, or `failed <text>`. Texts are JSON. A user that leaves and hears
 * no `bye` knows that the keeper was killed and the server may still run.
 */
export const JOIN = 'join'

/** The user that started this process connects within milliseconds. One that comes later starts a new keeper. */
const FIRST_USER_MS = 2_000
/** So that a server that dies at every start does not occupy the machine. */
const RESTART_PAUSE_MS = 100
const TRIM_LOG_MS = 10_000

export class Keeper {
  readonly #options: KeeperOptions
  readonly #elected: Elected
  readonly #users = new Set<Socket>()
  /** Users that left and wait for the end of the server. */
  readonly #leaving = new Set<Socket>()
  #ready = false
  #hadUsers = false
  #wake: () => void = () => {}

  constructor(options: KeeperOptions, elected: Elected) {
    this.#options = options
    this.#elected = elected
    elected.onConnection((socket) => this.#accept(socket))
    // Whoever stops a service or a machine signals every process. The users need the server until they
    // have finished; they decide when it ends.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
  }

  async run(): Promise<void> {
    const { folders, settings } = this.#options
    const log = await openLog(folders)
    const trimming = setInterval(() => void trimLog(folders).catch(() => {}), TRIM_LOG_MS)
    try {
      await trimLog(folders)
      const binaries = await findBinaries(folders)
      await this.#firstUser()
      if (this.#users.size > 0) {
        await createCluster(folders, binaries, (line) => this.#tell(`log ${JSON.stringify(line)}`))
      } else {
        // Whoever started this process is dead by now; a server without users still has to go.
        await (await findRunning(folders))?.stop()
      }
      while (this.#users.size > 0) {
        await this.#serve(await runServer(folders, binaries, settings, log.fd))
        if (this.#users.size > 0) await delay(RESTART_PAUSE_MS)
      }
    } catch (error) {
      console.error(error)
      this.#tell(`failed ${JSON.stringify(messageOf(error))}`)
    } finally {
      clearInterval(trimming)
      await this.#elected.resign()
      this.#dismiss()
      await log.close()
    }
  }

  async #firstUser(): Promise<void> {
    let late = false
    const timer = setTimeout(() => {
      late = true
      this.#wake()
    }, FIRST_USER_MS)
    await this.#until(() => late || this.#hadUsers)
    clearTimeout(timer)
  }

  /** Until the server has ended: by itself, or because nobody is left. */
  async #serve(server: Server): Promise<void> {
    let ended = false
    void server.exited.then(() => {
      ended = true
      this.#wake()
    })
    // Users of a killed keeper come back within milliseconds. Until they all can have, nobody is the last.
    let expected = server.adopted
    const arrival = setTimeout(() => {
      expected = false
      this.#wake()
    }, FIRST_USER_MS)
    this.#ready = true
    this.#tell('ready')
    await this.#until(() => ended || (this.#users.size === 0 && !expected))
    this.#ready = false
    clearTimeout(arrival)
    if (!ended) await server.stop()
    else console.error(`the server (pid ${server.pid}) ended by itself`)
  }

  #accept(socket: Socket): void {
    let received = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      received += chunk
      if (!received.includes(`${JOIN}\n`) || this.#users.has(socket)) return
      this.#users.add(socket)
      this.#hadUsers = true
      if (this.#ready) socket.write('ready\n')
      this.#dismiss()
      this.#wake()
    })
    socket.on('end', () => this.#leave(socket))
    socket.on('close', () => this.#leave(socket))
  }

  #leave(socket: Socket): void {
    if (!this.#users.delete(socket)) {
      if (!this.#leaving.has(socket)) socket.end()
      return
    }
    if (this.#users.size > 0) socket.end('bye\n')
    else this.#leaving.add(socket)
    this.#wake()
  }

  /** Nothing left to wait for: the server has stopped, or goes on for somebody else. */
  #dismiss(): void {
    for (const socket of this.#leaving) socket.end('bye\n')
    this.#leaving.clear()
  }

  #tell(line: string): void {
    for (const socket of this.#users) socket.write(`${line}\n`)
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}
