import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { childPids, commandOf, markDescendants } from '../support/processes.ts'
import { readProcesses } from '../support/state/workers.ts'
import { until } from '../support/until.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const database = useDatabase()
let app: Sluice
let folder: string

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES })
  folder = await mkdtemp(join(tmpdir(), 'sluice-cores-'))
})
afterAll(async () => {
  await app.close()
  await rm(folder, { recursive: true, force: true })
})

const descendants = markDescendants()
/** All processes of process pools, also those whose worker is just starting or was killed. */
const poolProcesses = () =>
  descendants.left().filter((pid) => /child-main|sluice pool/.test(commandOf(Number(pid))))
const poolOf = (worker: WorkerProcess) =>
  childPids(worker.pid).filter((pid) => commandOf(pid).includes('sluice pool'))

/** Looks at the processes and at the database again and again. Gives the largest sums it has seen. */
function watchSums() {
  const most = { processes: 0, granted: 0, looks: 0 }
  let over = false
  const watching = (async () => {
    while (!over) {
      most.processes = Math.max(most.processes, poolProcesses().length)
      const granted = [...(await readProcesses(database.sql)).values()]
      most.granted = Math.max(
        most.granted,
        granted.reduce((sum, each) => sum + each, 0),
      )
      most.looks++
    }
  })()
  onTestFinished(async () => {
    over = true
    await watching
  })
  return most
}

/** As many of `total` as each of `count` workers gets, the first ones one more. */
const deal = (total: number, count: number) =>
  Array.from({ length: count }, (_, place) => Math.floor(total / count) + (place < total % count ? 1 : 0))

function expectShares(workers: readonly WorkerProcess[], shares: readonly number[]): Promise<unknown> {
  return until(
    () => workers.every((worker, place) => poolOf(worker).length === shares[place]),
    `the process pools to have ${shares.join(', ')} processes`,
  )
}

test('three workers of one host share its cores, before, while and after one of them is killed', async () => {
  const cores = availableParallelism()
  const workers: WorkerProcess[] = []
  const most = watchSums()
  const start = async (name: string) => {
    const work = { name, capacity: cores, labels: { name } }
    const worker = await startWorker({
      program: 'process-worker.mjs',
      options: { database: database.url },
      work,
    })
    workers.push(worker)
    return worker
  }
  const first = await start('first')
  await expectShares([first], [cores])

  // All its processes are busy when the others come: they wait until it has fewer.
  const gates = Array.from({ length: cores }, (_, each) => join(folder, `gate-${each}`))
  const jobs = await Promise.all(gates.map((until) => app.submit('hold', { until })))
  await until(async () => {
    const states = await Promise.all(jobs.map(({ id }) => app.getJob(id)))
    return states.every(({ status }) => status === 'running')
  }, 'all processes of the first worker to be busy')
  await start('second')
  await start('third')
  await expectShares(workers, [cores, 0, 0])
  const waiting = await app.submit('hold', { until: gates[0]! })
  await until(
    async () => (await app.why(waiting.id)).wait.kind === 'processes',
    'the reason of a job that waits for a process',
  )

  for (const gate of gates) await writeFile(gate, '')
  await Promise.all([...jobs, waiting].map(({ id }) => app.job(id).result({ timeout: '30s' })))
  await expectShares(workers, deal(cores, 3))
  const pids = workers.map(poolOf)

  await first.kill()
  await expectShares(workers.slice(1), deal(cores, 2))
  expect(most.looks).toBeGreaterThan(50)
  expect(most).toMatchObject({ processes: cores, granted: cores })
  // Nobody gives up a process that it may keep.
  for (const place of [1, 2]) expect(poolOf(workers[place]!)).toEqual(expect.arrayContaining(pids[place]!))
})
