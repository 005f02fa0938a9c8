import { expect, test } from 'vitest'
import type { World } from '../../src/cli/command.ts'
import { runProgram } from '../../src/cli/program.ts'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('devices cuts no name where there is no terminal', async () => {
  const model = `model-${'m'.repeat(60)}`
  const long = task({ name: 'long', model, uses: { vram: '9GB' }, run: () => null })
  const app = await apps.open({ tasks: [long], budgets: { vram: { gpu0: '24GB' } } })
  await app.work({ capacity: 1 })
  const { id } = await app.submit(long, undefined)
  await until(async () => (await app.getJob(id)).state === 'completed', 'the model to be loaded')

  const lines: string[] = []
  const out = {
    write: (text: string) => void lines.push(text),
    line: (text = '') => void lines.push(text),
    isTerminal: false,
    hasColour: false,
    columns: undefined,
    rows: undefined,
    onResize: () => () => {},
  }
  const shown = { budgets: () => app.budgets(), close: async () => {} }
  const world = {
    out,
    err: out,
    environment: { DATABASE_URL: database.url },
    folder: '.',
    now: () => new Date(),
    open: async () => shown,
  }
  expect(await runProgram(['devices'], world as unknown as World)).toBe(0)
  expect(lines.find((line) => line.startsWith('  loaded'))).toContain(`${model}  9GB, idle`)
})
