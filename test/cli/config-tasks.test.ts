import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { loadTask } from '../../src/worker/pool/load-task.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-config-tasks-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** What `task()` makes, as far as a config looks at it: the folder of the test has no package to import it from. */
const TASK = (name: string) => `{ name: '${name}', execution: 'inline', retry: {}, run: () => '${name}' }`

async function load(source: string, name = 'sluice.config.ts') {
  await writeFile(join(folder, name), source)
  const { config, tasks } = await loadConfig({ folder })
  return { config, tasks: tasks.map((task) => task.name) }
}

describe('a config module may export tasks', () => {
  test.each([
    ['a list', `export const tasks = [${TASK('a')}, ${TASK('b')}]\nexport default { capacity: 3 }`],
    [
      'a map',
      `export const tasks = { one: ${TASK('a')}, two: ${TASK('b')} }\nexport const config = { capacity: 3 }`,
    ],
  ])('as %s, beside its config', async (_, source) => {
    expect(await load(source)).toEqual({ config: { capacity: 3 }, tasks: ['a', 'b'] })
  })

  test('and nothing else', async () => {
    expect(await load(`export const tasks = [${TASK('a')}]`)).toEqual({ config: {}, tasks: ['a'] })
  })

  test('in CommonJS too, where the key tasks of a config stays one', async () => {
    const exported = await load(
      `exports.config = { capacity: 3 }\nexports.tasks = [${TASK('a')}]`,
      'sluice.config.js',
    )
    expect(exported).toEqual({ config: { capacity: 3 }, tasks: ['a'] })
  })

  test('the key tasks of a CommonJS config is its own', async () => {
    const config = await load(`module.exports = { tasks: { a: { exec: ['x'] } } }`, 'sluice.config.js')
    expect(config).toEqual({ config: { tasks: { a: { exec: ['x'] } } }, tasks: [] })
  })

  test('a YAML config has none', async () => {
    await writeFile(join(folder, 'sluice.yaml'), 'capacity: 3\n')
    expect((await loadConfig({ folder })).tasks).toEqual([])
  })

  test.each([
    ['export const tasks = 5', 'the export tasks is 5; export a list of tasks, or a map of them'],
    [
      `export const tasks = ${TASK('a')}`,
      'the export tasks is a map; export a list of tasks, or a map of them',
    ],
    [
      'export const tasks = [() => {}]',
      'the export tasks[0] is a function; make it with task({ name, run })',
    ],
    [
      'export const tasks = { a: { name: "a" } }\nexport default {}',
      'the export tasks.a is a map; make it with task(',
    ],
    [
      `export const tasks = [${TASK('a')}, ${TASK('a')}]`,
      'the export tasks has two tasks named a; rename one',
    ],
  ])('%s is refused', async (source, reason) => {
    await expect(load(source)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining(reason),
    })
  })

  test('a pool process finds its task in that list', async () => {
    const path = join(folder, 'sluice.config.ts')
    await writeFile(path, `export const tasks = [${TASK('a')}, ${TASK('b')}]`)
    const task = await loadTask({ module: pathToFileURL(path).href, task: 'b' })
    expect(task.run(undefined, undefined as never)).toBe('b')
  })
})
