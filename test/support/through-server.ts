import pino from 'pino'
import { transactForCallers } from '../../src/db/for-callers.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import {
  type Log,
  type RemoteWorker,
  remoteWorker,
  type Sluice,
  type SluiceOptions,
} from '../../src/index.ts'
import { startServer } from '../../src/server/start-server.ts'

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

/** The program as it is, except that its worker is a remote one of the same process. */
export function throughServer(app: Sluice, options: SluiceOptions, log: Log): Sluice {
  let server: Awaited<ReturnType<typeof startServer>> | undefined
  let worker: RemoteWorker | undefined
  const work: Sluice['work'] = async ({ tasks: only, ...rest } = {}) => {
    const { tasks, config, grace, shutdownGrace, cycleMax } = options
    const silent = pino({ level: 'silent' })
    server ??= await startServer({ app, log: silent, host: '127.0.0.1', port: 0, graceMs: 2000 })
    const author = authorOfDatabase('test')
    const name = `worker-${Math.random()}`
    const { key } = await transactForCallers(app.room.db, (tx) =>
      createKey(tx, { name, role: 'worker' }, author),
    )
    worker = await remoteWorker({
      ...rest,
      server: server.url,
      key,
      log,
      ...(tasks !== undefined && { tasks }),
      ...(config !== undefined && { config }),
      ...(grace !== undefined && { grace }),
      ...(shutdownGrace !== undefined && { shutdownGrace }),
      ...(cycleMax !== undefined && { cycleMax }),
      ...(only !== undefined && { only }),
      ...(rest.capacity === undefined &&
        options.capacity !== undefined && { capacity: options.capacity as number }),
    })
    app.startDuties()
  }
  const stopWorking = async () => worker?.close()
  const close: Sluice['close'] = async (how) => {
    await worker?.close(how)
    await server?.stop()
    await app.close(how)
  }
  const changed: Partial<Sluice> = { work, stopWorking, close } as Partial<Sluice>
  return new Proxy(app, {
    get(target, property) {
      if (property in changed) return changed[property as keyof Sluice]
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
