import type { Queryable } from '../db/database.ts'
import { SluiceError } from '../errors.ts'
import { checkFlag, checkText } from '../model/argument.ts'
import { drainWorker } from '../store/drain-worker.ts'
import { listWorkers } from '../store/list-workers.ts'
import { stopWorker } from '../store/stop-worker.ts'

/**
 * Tells the live workers of a name to take nothing new, or to take work again. Reaches them with their next heartbeat, or
 * at once by a hint. What runs is left alone.
 *
 * @returns how many have that name.
 * @throws {SluiceError} `WORKER_NOT_FOUND` when none has.
 */
export async function setDraining(db: Queryable, name: string, draining: boolean): Promise<number> {
  const count = await drainWorker(db, checkText(name, 'worker'), checkFlag(draining, 'draining'))
  return count > 0 ? count : notFound(db, name)
}

/**
 * Asks the live workers of a name to end: they take nothing new, let what runs finish within their shutdown grace, hand
 * back the rest and leave. It cannot be undone. Reaches them as `setDraining` does.
 *
 * @returns how many have that name.
 * @throws {SluiceError} `WORKER_NOT_FOUND` when none has.
 */
export async function askToStop(db: Queryable, name: string): Promise<number> {
  const count = await stopWorker(db, checkText(name, 'worker'))
  return count > 0 ? count : notFound(db, name)
}

async function notFound(db: Queryable, name: string): Promise<never> {
  const names = [...new Set((await listWorkers(db)).map((worker) => worker.name))]
  const there = names.length === 0 ? 'no worker is alive' : `there are ${names.join(', ')}`
  throw new SluiceError('WORKER_NOT_FOUND', `no live worker is named ${JSON.stringify(name)}; ${there}`, {
    details: { name },
  })
}
