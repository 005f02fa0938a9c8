import pino from 'pino'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import {
  type Log,
  type RemoteWorker,
  remoteWorker,
  type Sluice,
  SluiceError,
  type SluiceOptions,
  type WorkOptions,
} from '../../src/index.ts'
import { type RunningServer, startServer } from '../../src/server/start-server.ts'
import { EVERYTHING } from './http-server.ts'
import { plantRequest } from './state/fleet.ts'

let remote = false

/**
 * From now on, programs of this file's tests work through a server: `work()` starts one, and a worker that speaks to it.
 * Call it before the tests are imported.
 */
export function workThroughServers(): void {
  remote = true
}

export function worksThroughServers(): boolean {
  return remote
}

/** A new key for a worker. */
export async function workerKey(app: Sluice): Promise<string> {
  // Workers of one machine share its devices: their keys have one owner.
  const about = { name: 'machine', role: 'worker', runs: EVERYTHING }
  const made = await transactWithRetries(app.services.db, (tx) =>
    createKey(tx, about, authorOfDatabase('test')),
  )
  return made.key
}

/** The program as it is, except that its worker is a remote one of the same process. */
export function throughServer(app: Sluice, options: SluiceOptions, log: Log): Sluice {
  let server: Promise<RunningServer> | undefined
  let working: Promise<RemoteWorker> | undefined
  let closing: Promise<void> | undefined

  const start = async ({ tasks: only, ...rest }: WorkOptions): Promise<RemoteWorker> => {
    const { tasks, config, grace, shutdownGrace, cycleMax, capacity } = options
    const silent = pino({ level: 'silent' })
    server ??= startServer({ app, log: silent, host: '127.0.0.1', port: 0, graceMs: 2000 })
    // A key alone joins no pool.
    const { inPool, request = inPool && (await plantRequest(app.services.db.url, inPool)) } = rest
    return remoteWorker({
      server: (await server).url,
      key: await workerKey(app),
      log,
      ...(tasks !== undefined && { tasks }),
      ...(config !== undefined && { config }),
      ...(grace !== undefined && { grace }),
      ...(shutdownGrace !== undefined && { shutdownGrace }),
      ...(cycleMax !== undefined && { cycleMax }),
      ...(capacity !== undefined && { capacity: capacity as number }),
      ...(only !== undefined && { only }),
      ...rest,
      ...(request !== undefined && { request }),
    })
  }
  const work: Sluice['work'] = async (how = {}) => {
    if (working !== undefined) throw new SluiceError('INVALID_ARGUMENT', 'this process is already a worker')
    const mine = start(how)
    working = mine
    try {
      await mine
    } catch (error) {
      if (working === mine) working = undefined
      throw error
    }
    app.startDuties()
  }
  const stopWorking = async (): Promise<void> => {
    const leaving = working
    working = undefined
    await (await leaving?.catch(() => undefined))?.close()
  }
  const close: Sluice['close'] = (how) => {
    if (how?.now === true) void working?.then((worker) => worker.close({ now: true }))
    closing ??= stopWorking()
      .then(async () => (await server)?.stop())
      .then(() => app.close(how))
    return closing
  }
  const changed = { work, stopWorking, close }
  return new Proxy(app, {
    get(target, property) {
      if (property in changed) return changed[property as keyof typeof changed]
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
