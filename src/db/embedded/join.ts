import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { builtEntry } from '../../built-entry.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import { keeperSockets, reach } from './election.ts'
import { JOIN, type KeeperOptions } from './keeper.ts'
import { logTail, openLog } from './server-log.ts'

/** A connection to the keeper, for as long as it stands. */
export interface Membership {
  /** Resolves when the keeper is gone, or after `leave`. */
  readonly ended: Promise<void>
  /** @returns false when the keeper was killed before it could see to the server. */
  leave(limitMs: number): Promise<boolean>
}

/** A keeper ends at once, and well, when another was elected. One that was killed may be replaced. */
interface StartedKeeper {
  ended: boolean
  failure: string | undefined
}

const RETRY_MS = 10

/**
 * Joins the keeper of a place; starts one where there is none.
 *
 * Several processes may do this at once: each starts a keeper, one is elected,
 * the others end at once, and all join the one.
 *
 * @throws {SluiceError} `EMBEDDED_UNAVAILABLE` with the reason, also when `signal` fires first.
 */
export async function joinKeeper(
  options: KeeperOptions,
  { signal, log }: { signal: AbortSignal; log: (line: string) => void },
): Promise<Membership> {
  try {
    return await tryToJoin(options, signal, log)
  } catch (error) {
    if (error instanceof SluiceError) throw error
    throw unavailable(messageOf(error), error)
  }
}

async function tryToJoin(
  options: KeeperOptions,
  signal: AbortSignal,
  log: (line: string) => void,
): Promise<Membership> {
  let own: StartedKeeper | undefined
  while (!signal.aborted) {
    for (const path of await keeperSockets(options.folders.run)) {
      const socket = await reach(path)
      if (socket === undefined) continue
      if (await becomesReady(socket, signal, log)) return memberBy(socket)
    }
    if (own?.failure !== undefined) {
      throw unavailable(`its keeper failed: ${own.failure}; ${await logTail(options.folders)}`)
    }
    if (own === undefined || own.ended) own = await startKeeper(options)
    await delay(RETRY_MS)
  }
  throw unavailable(`it did not come up in time; ${await logTail(options.folders)}`)
}

/** @returns false when the keeper ended, or was none, before the server was ready. */
function becomesReady(socket: Socket, signal: AbortSignal, log: (line: string) => void): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      socket.destroy()
    }
    signal.addEventListener('abort', abort)
    socket.once('close', () => {
      signal.removeEventListener('abort', abort)
      resolve(false)
    })
    socket.once('end', () => socket.destroy())
    onLines(socket, (word, text) => {
      if (word === 'ready') {
        signal.removeEventListener('abort', abort)
        resolve(true)
      }
      if (word === 'log') log(JSON.parse(text) as string)
      if (word === 'failed') {
        reject(new SluiceError('EMBEDDED_UNAVAILABLE', JSON.parse(text) as string))
        socket.destroy()
      }
    })
    socket.write(`${JOIN}\n`)
  })
}

function memberBy(socket: Socket): Membership {
  const ended = new Promise<void>((resolve) => {
    if (socket.closed) resolve()
    socket.once('close', () => resolve())
  })
  let bye = false
  onLines(socket, (word) => {
    bye ||= word === 'bye'
  })
  socket.unref()
  return {
    ended,
    async leave(limitMs) {
      socket.ref()
      const limit = setTimeout(() => socket.destroy(), limitMs)
      socket.end()
      await ended
      clearTimeout(limit)
      return bye
    },
  }
}

function onLines(socket: Socket, listener: (word: string, text: string) => void): void {
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [word = ''] = line.split(' ', 1)
      listener(word, line.slice(word.length + 1))
    }
  })
}

/** In a session of its own: Ctrl-C in the terminal of its starter does not reach it. */
async function startKeeper(options: KeeperOptions): Promise<StartedKeeper> {
  const main = builtEntry('./keeper-main', import.meta.url)
  const log = await openLog(options.folders)
  const child = spawn(process.execPath, [main, JSON.stringify(options)], {
    detached: true,
    cwd: '/',
    stdio: ['ignore', log.fd, log.fd],
    // Not the caller's NODE_OPTIONS: a debugger or a loader of theirs has no business in the keeper.
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  })
  const started: StartedKeeper = { ended: false, failure: undefined }
  child.once('error', (error) => {
    started.failure = error.message
  })
  child.once('exit', (code) => {
    started.ended = true
    if (code !== null && code !== 0) started.failure = `exit code ${code}`
  })
  child.unref()
  await log.close()
  return started
}

function unavailable(message: string, cause?: unknown): SluiceError {
  return new SluiceError('EMBEDDED_UNAVAILABLE', `the embedded PostgreSQL is not available: ${message}`, {
    cause,
  })
}
