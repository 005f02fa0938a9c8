import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { builtEntry } from '../built-entry.ts'
import { AssignedCells } from './assigned-cells.ts'

test('a job is started or taken back, never both', () => {
  const loop = new AssignedCells()
  const thread = new AssignedCells(loop.buffer)
  const [first, second] = ['7', '8'].map((id) => loop.put(id))
  expect(loop.take(first!)).toBe(true)
  loop.sent(5, 2)
  expect(thread.recall()).toEqual({ ids: ['8'], known: 5n, epoch: 2 })
  expect(loop.take(second!)).toBe(false)
  expect(loop.recalls).toBe(1)
})

test('with nothing assigned and no answer to come there is nothing to take back', () => {
  const loop = new AssignedCells()
  const thread = new AssignedCells(loop.buffer)
  expect(thread.recall()).toBeUndefined()
  loop.sent(3, 1)
  expect(thread.recall()).toEqual({ ids: [], known: 3n, epoch: 1 })
  loop.answered(4, 1)
  expect(thread.recall()).toBeUndefined()
  expect(loop.recalls).toBe(1)
})

test('a cell is used again once its job has left it', () => {
  const loop = new AssignedCells()
  const room = loop.room
  for (let i = 0; i < 3 * room; i++) loop.take(loop.put(String(i)))
  expect(loop.room).toBe(room)
})

test('a cell that was taken back is used again once the thread has read its id', () => {
  const loop = new AssignedCells()
  const { room } = loop
  const cells = Array.from({ length: room }, (_, i) => loop.put(String(i)))
  new AssignedCells(loop.buffer).recall()
  for (const cell of cells) expect(loop.take(cell)).toBe(false)
  expect(loop.room).toBe(0)
  loop.reuse()
  expect(loop.room).toBe(room)
})

/** So many each side has to get: a step that is not atomic is seen only now and then. */
const MEETINGS = 5000

test('of a loop that starts jobs and a thread that takes them back, each job goes to one', async () => {
  const loop = new AssignedCells()
  const path = builtEntry('./assigned-cells', import.meta.url)
  const code = `
    const { parentPort, workerData } = require('node:worker_threads')
    import(workerData.path).then(({ AssignedCells }) => {
      const cells = new AssignedCells(workerData.buffer)
      const taken = []
      parentPort.postMessage('ready')
      parentPort.once('message', () => { stop = true })
      let stop = false
      const turn = () => {
        for (let i = 0; i < 100; i++) taken.push(...(cells.recall()?.ids ?? []))
        if (stop) parentPort.postMessage(taken)
        else setImmediate(turn)
      }
      turn()
    })`
  const thread = new Worker(code, {
    eval: true,
    workerData: { path, buffer: loop.buffer },
  })
  const next = <T>() => new Promise<T>((resolve) => thread.once('message', resolve))
  await next()
  const started: string[] = []
  let jobs = 0
  // With one core for both, the thread gets its turn seldom, or when there is nothing to take back.
  for (let round = 0; round < 200 || Math.min(started.length, jobs - started.length) < MEETINGS; round++) {
    expect(round, 'rounds in which one side got nearly all jobs').toBeLessThan(100_000)
    // The thread may be taking jobs back: their cells cannot be used until it has read them.
    for (loop.reuse(); loop.room < 100; loop.reuse()) await new Promise((resolve) => setImmediate(resolve))
    const cells = Array.from({ length: 100 }, () => String(jobs++)).map((id) => [id, loop.put(id)] as const)
    for (const [id, cell] of cells) if (loop.take(cell)) started.push(id)
    if (round % 20 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  thread.postMessage('stop')
  const taken = await next<string[]>()
  await thread.terminate()
  expect(started.length + taken.length).toBe(jobs)
  expect(new Set([...started, ...taken]).size).toBe(jobs)
})
