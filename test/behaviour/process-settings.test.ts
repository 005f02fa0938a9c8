import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const inProcess = task({
  name: 'in-process',
  execution: 'process',
  module: new URL('../support/fixtures/process-tasks.mjs', import.meta.url).href,
  run: () => null,
})
let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-settings-'))
  for (const name of ['file', 'variable', 'option'])
    await writeFile(
      join(folder, `${name}.mjs`),
      `import { writeFileSync } from 'node:fs'\nexport const load = () => writeFileSync(${JSON.stringify(join(folder, `${name}.done`))}, '')\n`,
    )
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(folder, { recursive: true, force: true })
})

async function startWorker(work: Parameters<Awaited<ReturnType<typeof sluice>>['work']>[0] = {}) {
  await writeFile(join(folder, 'sluice.yaml'), 'processes: 1\ninitialiser: ./file.mjs#load\n')
  const config = await loadConfig({ folder })
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const app = await sluice({ database: database.url, config, tasks: [inProcess], log })
  onTestFinished(() => app.close())
  await app.work(work)
  const [worker] = await app.listWorkers()
  const called = ['file', 'variable', 'option'].filter((name) => existsSync(join(folder, `${name}.done`)))
  return { limit: worker!.processLimit, called }
}

test('the config file sets the size and the initialiser of the process pool, with paths from its folder', async () => {
  expect(await startWorker()).toEqual({ limit: 1, called: ['file'] })
})

test('variables come before the config file', async () => {
  vi.stubEnv('SLUICE_PROCESSES', '2')
  vi.stubEnv('SLUICE_INITIALISER', join(folder, 'variable.mjs#load'))
  expect(await startWorker()).toEqual({ limit: 2, called: ['variable'] })
})

test('options come before variables', async () => {
  vi.stubEnv('SLUICE_PROCESSES', '2')
  vi.stubEnv('SLUICE_INITIALISER', join(folder, 'variable.mjs#load'))
  const initialiser = { module: new URL(`file://${join(folder, 'option.mjs')}`).href, export: 'load' }
  expect(await startWorker({ pool: { size: 3, initialiser } })).toEqual({ limit: 3, called: ['option'] })
})
