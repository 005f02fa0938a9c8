import { chownSync, existsSync, mkdirSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findProjectFolder } from '../../src/config/project-folder.ts'
import { Cli } from './cli.ts'

const cli = new Cli({ DATABASE_URL: '' })

const YAML = `
tasks:
  hello: { exec: [node, -e, "require('fs').writeFileSync(process.env.SLUICE_RESULT, '7')"] }
workflows:
  greet: { steps: { only: { task: hello } } }
`

async function folder(...names: string[]): Promise<string> {
  const path = join(cli.folder, ...names)
  mkdirSync(path, { recursive: true })
  return path
}

test.each([
  [['ps']],
  [['show', '1']],
  [['tree', '1']],
  [['why', '1']],
  [['logs', '1']],
  [['trace', '1']],
  [['cancel', '1']],
  [['doctor']],
  [['lanes']],
  [['workers']],
  [['tasks']],
  [['schedules']],
  [['audit']],
  [['errors']],
  [['keys']],
  [['budgets']],
  [['admission']],
  [['fleet']],
  [['pools']],
  [['devices']],
  [['migrate', '--dry-run']],
])('sluice %s creates no database where there is none', async (args) => {
  const empty = await folder('empty')
  const { code, stdout, stderr } = await cli.run(args, { folder: empty })
  expect([code, stdout]).toEqual([3, ''])
  expect(stderr).toContain(`there is no database in ${join(empty, '.sluice')}`)
  expect(stderr).toContain('DATABASE_NOT_FOUND')
  expect(await readdir(empty)).toEqual([])
})

describe('in a folder below the project', () => {
  test('commands find its config and its database', async () => {
    const project = await folder('project')
    const below = await folder('project', 'src', 'deep')
    await writeFile(join(project, 'sluice.yaml'), YAML)
    const ran = await cli.run(['run', '--json'], { folder: below })
    expect([ran.code, ran.stderr]).toEqual([0, ''])
    expect(existsSync(join(project, '.sluice'))).toBe(true)
    expect(existsSync(join(below, '.sluice'))).toBe(false)
    const { id } = JSON.parse(ran.stdout) as { id: string }
    const shown = await cli.run(['show', id, '--json'], { folder: below })
    expect(JSON.parse(shown.stdout)).toMatchObject({ id, status: 'completed' })
  })

  test.runIf(process.geteuid?.() === 0)(
    'a config of another user is refused unless it is named',
    async () => {
      const project = await folder('foreign')
      const below = await folder('foreign', 'below')
      const file = join(project, 'sluice.yaml')
      await writeFile(file, YAML)
      chownSync(file, 4242, 4242)
      const refused = await cli.run(['check'], { folder: below })
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('belongs to user 4242')])
      expect((await cli.run(['check', file], { folder: below })).code).toBe(0)
      expect((await cli.run(['check'], { folder: project })).code).toBe(0)
    },
  )
})

test('the nearest folder with a config or data wins, else the folder itself', async () => {
  const [outer, inner] = [await folder('outer'), await folder('outer', 'inner')]
  await writeFile(join(outer, 'sluice.yaml'), YAML)
  const leaf = await folder('outer', 'inner', 'leaf')
  expect(findProjectFolder(leaf)).toBe(outer)
  await folder('outer', 'inner', '.sluice')
  expect(findProjectFolder(leaf)).toBe(inner)
  const alone = await folder('alone')
  expect(findProjectFolder(alone)).toBe(alone)
})
