import { messageOf } from '../../errors.ts'
import { toStorableJson } from '../../model/json.ts'
import { withTrace } from '../../tracing.ts'
import { StartFailure } from '../attempt.ts'
import { createInlineExecutor } from '../inline.ts'
import type { AnyTask } from '../task.ts'
import { fromWireError, toDetailedError, type WireError } from '../thrown.ts'
import { loadTask, runInitialiser } from './load-task.ts'
import { type FromChild, parseToChild, type RunOrder, type ToChild } from './messages.ts'
import { RemoteAttempt } from './remote-attempt.ts'

/**
 * Entry of a pool process: initialise, then run one task at a time.
 *
 * It ends when told, when its channel closes (the worker is gone) and when
 * something is thrown that nobody catches. A process too busy to see its
 * channel close is killed by the worker's guard (`orphan-guard.ts`).
 */
let current: RemoteAttempt | undefined

// Every process of the pool is Sluice's own: stacks lead to the sources that tasks were compiled from.
process.setSourceMapsEnabled(true)
process.title = `sluice pool of ${process.ppid}`
// Tells `ProcessPool` that this process may not have one: see there.
Object.defineProperty(globalThis, Symbol.for('sluice.pool-process'), { value: true })

// A service manager asks every process of a unit to stop. When this one stops is
// the worker's decision, which may first let the task finish.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit(1))
process.on('uncaughtException', (error) => {
  send({ type: 'crashed', error: toDetailedError(error) }, () => process.exit(1))
})
process.on('message', (message) => {
  const order = parseToChild(message)
  if (order !== undefined) obey(order)
})

function obey(order: ToChild): void {
  switch (order.type) {
    case 'init':
      void initialise(order)
      return
    case 'run':
      void run(order)
      return
    case 'stop':
      if (current?.run === order.run) current.stop(order.reason, order.message)
      return
    case 'reply':
      current?.answer(order.call, ({ resolve }) => resolve(order.value))
      return
    case 'refuse':
      current?.answer(order.call, ({ reject }) => reject(fromWireError(order.error)))
      return
    case 'exit':
      process.exit(0)
      return
    default:
      order satisfies never
  }
}

async function initialise(order: ToChild & { type: 'init' }): Promise<void> {
  try {
    if (order.initialiser !== undefined) await runInitialiser(order.initialiser)
    send({ type: 'ready' })
  } catch (error) {
    send({ type: 'failed', error: toDetailedError(error) }, () => process.exit(1))
  }
}

async function run(order: RunOrder): Promise<void> {
  const attempt = new RemoteAttempt(order, send)
  current = attempt
  let ending: { type: 'done'; result: string } | { type: 'threw'; error: WireError }
  try {
    const task = await startTask(order)
    send({ type: 'started', run: order.run })
    const result = await withTrace(order.trace, () => createInlineExecutor(task)(attempt))
    ending = { type: 'done', result: toStorableJson(result, `the result of task ${order.task}`) }
  } catch (error) {
    ending = { type: 'threw', error: toDetailedError(error) }
  }
  attempt.end()
  current = undefined
  send({ ...ending, run: order.run, rss: process.memoryUsage.rss() })
}

/** @throws {StartFailure} for whatever goes wrong: another worker may have another copy of the module. */
async function startTask(order: RunOrder): Promise<AnyTask> {
  try {
    return await loadTask(order)
  } catch (error) {
    throw new StartFailure(`cannot load ${order.module}: ${messageOf(error)}`, error)
  }
}

function send(message: FromChild, then?: () => void): void {
  // The callback also takes the error of a closed channel, which `disconnect` handles.
  if (process.connected) process.send?.(message, undefined, undefined, () => then?.())
  else process.exit(1)
}
