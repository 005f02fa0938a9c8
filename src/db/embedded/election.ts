import { randomBytes } from 'node:crypto'
import { lchown, readdir, rename, rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { EmbeddedFolders } from './folders.ts'

/**
 * Who keeps the server of a folder, decided without locks that could go stale.
 *
 * A keeper listens on a socket of its own name in the run folder. The kernel
 * knows whether somebody still listens there, whatever happened to the process,
 * so neither process ids nor ages are ever judged. A candidate
 *   1. publishes its socket, then
 *   2. tries all others. Nobody listens: a leftover. Somebody listens under a
 *      smaller name: the candidate steps down. Under a larger name: it waits
 *      for the greeting of an elected keeper, and steps down, or for the end of
 *      the connection, because that one stepped down for us.
 * Two can never both be elected: each published before it looked, so the later
 * of the two to look saw the other.
 */
export interface Elected {
  /** Receives every connection, those that arrived during the election too. */
  onConnection(listener: (socket: Socket) => void): void
  /** Lets others stand for election. Connections that were never accepted are closed. */
  resign(): Promise<void>
}

/** First line an elected keeper sends on every connection. */
export const GREETING = 'keeper'

const PREFIX = 'keeper-'

/** How long to wait for a larger candidate to make up its mind; it only has to list a folder. */
const PATIENCE_MS = 5_000
const BUSY_MS = 20

/** @returns undefined when another keeper was, or is being, elected. */
export async function standForElection(folders: EmbeddedFolders): Promise<Elected | undefined> {
  const waiting: Socket[] = []
  let accept = (socket: Socket): void => {
    waiting.push(socket)
  }
  // Half-open, so that a leaving user can be told when the server has stopped.
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    socket.on('error', () => {})
    accept(socket)
  })
  const path = await publish(server, folders)
  const withdraw = async (): Promise<void> => {
    await rm(path, { force: true })
    server.close()
    for (const socket of waiting) socket.destroy()
  }

  if (!(await beatsAllOthers(folders.run, basename(path)))) {
    await withdraw()
    return undefined
  }
  return {
    onConnection(listener) {
      accept = (socket) => {
        socket.write(`${GREETING}\n`)
        listener(socket)
        socket.resume()
      }
      for (const socket of waiting.splice(0)) accept(socket)
    },
    resign: withdraw,
  }
}

/** Paths of all sockets somebody may listen on, elected or not. */
export async function keeperSockets(run: string): Promise<string[]> {
  const names = await readdir(run)
  return names
    .filter((name) => name.startsWith(PREFIX))
    .sort()
    .map((name) => join(run, name))
}

/** The connection, or undefined when nobody listens. */
export function reach(path: string): Promise<Socket | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, allowHalfOpen: true })
    socket.once('connect', () => resolve(socket))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // Only the first two say that nobody listens. A full queue means that somebody is busy.
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined)
      else if (error.code === 'EAGAIN') resolve(delay(BUSY_MS).then(() => reach(path)))
      else reject(error)
    })
  })
}

/** The name appears only once somebody listens behind it: there is no moment to be taken for dead. */
async function publish(server: Server, { run, account }: EmbeddedFolders): Promise<string> {
  const name = `${PREFIX}${randomBytes(6).toString('hex')}`
  const hidden = join(run, `.${name}`)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(hidden, resolve)
  })
  // Root may serve a folder of somebody who later wants to join.
  if (account !== undefined) await lchown(hidden, account.uid, account.gid)
  const path = join(run, name)
  await rename(hidden, path)
  return path
}

async function beatsAllOthers(run: string, own: string): Promise<boolean> {
  const leftovers: string[] = []
  for (const path of await keeperSockets(run)) {
    if (basename(path) === own) continue
    const socket = await reach(path)
    if (socket === undefined) leftovers.push(path)
    else if (basename(path) < own || (await isElected(socket))) {
      socket.destroy()
      return false
    }
  }
  // Only the elected one clears away; by then nobody can be publishing under these names.
  for (const path of leftovers) await rm(path, { force: true })
  return true
}

function isElected(socket: Socket): Promise<boolean> {
  return new Promise((resolve) => {
    const patience = setTimeout(() => resolve(true), PATIENCE_MS)
    const decide = (elected: boolean): void => {
      clearTimeout(patience)
      socket.destroy()
      resolve(elected)
    }
    socket.once('data', () => decide(true))
    socket.once('end', () => decide(false))
    socket.once('close', () => decide(false))
  })
}
