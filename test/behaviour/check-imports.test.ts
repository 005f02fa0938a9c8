import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/check-imports.mjs', import.meta.url))

/** The complaints of the check about a source folder with these files; none: it is content. */
async function complaints(files: Readonly<Record<string, string>>): Promise<string[]> {
  const own = await mkdtemp(join(tmpdir(), 'sluice-imports-'))
  onTestFinished(() => rm(own, { recursive: true, force: true }))
  const root = join(own, 'src')
  for (const [name, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), source)
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, root], (error, _, stderr) =>
      resolve(error === null ? [] : stderr.trim().split('\n').slice(0, -1)),
    )
  })
}

const LOOSE = { 'errors.ts': 'export const a = 1', 'index.ts': "export * from './errors.ts'" }

test('accepts imports along the table, from inside and outside a walled subfolder', async () => {
  const found = await complaints({
    ...LOOSE,
    'worker/job-source.ts': "import { a } from '../errors.ts'",
    'worker/sources/database.ts':
      "import type { b } from '../job-source.ts'\nimport { c } from '../../engine/d.ts'",
    'engine/d.ts': "import { e } from '../store/e.ts'",
    'store/e.ts': "const s = statement('e', 'select 1')",
    'app/f.ts': "import { g } from '../worker/sources/database.ts'\nconst query = text.startsWith('select ')",
    'cli/h.ts': "import type { i } from '../store/e.ts'",
  })
  expect(found).toEqual([])
})

test('names a forbidden import, static or dynamic, and a folder without a row', async () => {
  const found = await complaints({
    ...LOOSE,
    'engine/a.ts': "import { w } from '../worker/w.ts'",
    'worker/w.ts': "const e = await import('../engine/b.ts')",
    'engine/b.ts': '',
    'worker/x.ts': "import { s } from './sources/s.ts'",
    'worker/sources/s.ts': '',
    'cli/c.ts': "import { s } from '../store/s.ts'",
    'store/s.ts': "import { t } from './t.ts'",
    'store/t.ts': '',
    'elsewhere/f.ts': '',
    'model/m.ts': "import { a } from '../index.ts'",
  })
  expect(found).toEqual([
    'src/cli/c.ts may not import store/s.ts',
    'src/elsewhere/f.ts is in a folder without a row in the import table',
    'src/engine/a.ts may not import worker/w.ts',
    'src/model/m.ts imports the public barrel index.ts: import the file that defines the thing',
    'src/store/s.ts imports another store file, store/t.ts: compose them in engine/',
    'src/worker/w.ts may not import engine/b.ts',
    'src/worker/x.ts may not import worker/sources/s.ts',
  ])
})

test('holds the dashboard to the client, and to types of the wire', async () => {
  const found = await complaints({
    ...LOOSE,
    'client/index.ts': "export * from '../errors.ts'",
    'api/b.ts': 'export type b = 1',
    '../dashboard/src/a.tsx':
      "import { a } from '../../src/client/index.ts'\nimport type { b } from '../../src/api/b.ts'\nimport { c } from './c.ts'",
    '../dashboard/src/c.ts': "import { a } from '../../src/errors.ts'",
  })
  expect(found).toEqual([
    'dashboard/src/c.ts may not import errors.ts: the dashboard sees client/index.ts, and types of api',
  ])
})

test('names a cycle, also through types', async () => {
  const found = await complaints({
    'engine/a.ts': "import { b } from './b.ts'",
    'engine/b.ts': "import type { a } from './c.ts'",
    'engine/c.ts': "import { a } from './a.ts'",
  })
  expect(found).toEqual(['cycle: engine/a.ts -> engine/b.ts -> engine/c.ts -> engine/a.ts'])
})

test('names SQL, the driver and impure code outside their place', async () => {
  const found = await complaints({
    'engine/a.ts': "import pg from 'pg'\nconst text = `\n  select id from jobs`",
    'engine/b.ts': "const s = statement('late', '')",
    'model/c.ts': "import { hostname } from 'node:os'\nexport const now = Date.now()",
    'model/d.ts': '/** Math.random() is only talked about here. */',
  })
  expect(found).toEqual([
    'src/engine/a.ts contains SQL (select id from jobs): that belongs in src/store',
    'src/engine/a.ts imports pg: only src/db speaks to the driver',
    'src/engine/b.ts declares a statement: that belongs in src/store',
    'src/model/c.ts is in a pure folder and imports a Node built-in',
    'src/model/c.ts is in a pure folder and uses Date.now: take it as a parameter',
  ])
})

test('names a statement about the tables of jobs in a file that may not know them, and a listed file that no longer does', async () => {
  const read = (from: string) => `const s = statement('s', 'select 1 from ${from}')`
  const found = await complaints({
    ...LOOSE,
    'store/new-reader.ts': read('sluice.outcomes o'),
    'store/by-view.ts': read('sluice.jobs'),
    'store/of-others.ts': read('sluice.queue_samples'),
    'store/load-step.ts': read('sluice.job_data'),
    'store/find-drift.ts': read('sluice.claimed'),
  })
  expect(found).toEqual([
    'src/store/find-drift.ts names no table of jobs any more: remove it from KNOW_JOB_TABLES',
    'src/store/new-reader.ts names sluice.outcomes: read the view sluice.jobs, or put the statement into a function',
  ])
})
