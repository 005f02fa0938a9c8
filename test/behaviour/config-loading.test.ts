import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { readModule } from '../../src/config/read-module.ts'
import { hasCode } from '../../src/errors.ts'
import { resolveSettings } from '../../src/model/settings.ts'

const root = await mkdtemp(join(tmpdir(), 'sluice-config-'))
afterAll(() => rm(root, { recursive: true, force: true }))

let folder: string
// A new folder each time: a module is run once per process and path.
beforeEach(async () => {
  folder = await mkdtemp(join(root, 'case-'))
})

async function write(name: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(join(folder, name)), { recursive: true })
  await writeFile(join(folder, name), content)
}

async function refusal(path?: string): Promise<string> {
  try {
    await loadConfig({ path, folder })
  } catch (error) {
    if (!hasCode(error, 'INVALID_CONFIG')) throw error
    return error.message
  }
  throw new Error('it was accepted')
}

describe('finding the file', () => {
  test('without any, the config is empty and paths start at the working folder', async () => {
    expect(await loadConfig({ folder })).toMatchObject({ file: undefined, folder, config: {} })
  })

  test('sluice.yaml in the working folder is found', async () => {
    await write('sluice.yaml', 'lanes:\n  interactive: { tasks: [resize], slots: 3, poll: 1s }\n')
    expect(await loadConfig({ folder })).toMatchObject({
      file: join(folder, 'sluice.yaml'),
      folder,
      config: { lanes: { interactive: { tasks: ['resize'], slots: 3, poll: 1000 } } },
    })
  })

  test('--config wins over what lies in the folder, and relative paths start beside the file', async () => {
    await write('sluice.yaml', 'capacity: 1')
    await write('deploy/pipeline.yml', 'capacity: 7')
    expect(await loadConfig({ path: 'deploy/pipeline.yml', folder })).toMatchObject({
      file: join(folder, 'deploy/pipeline.yml'),
      folder: join(folder, 'deploy'),
      config: { capacity: 7 },
    })
    expect((await loadConfig({ path: join(folder, 'deploy/pipeline.yml'), folder: root })).config).toEqual({
      capacity: 7,
    })
  })

  test('JSON is YAML', async () => {
    await write('c.json', '{ "capacity": 7 }')
    expect((await loadConfig({ path: 'c.json', folder })).config).toEqual({ capacity: 7 })
  })

  test('two configs in one folder are refused, and the text says which to remove', async () => {
    await write('sluice.yaml', '')
    await write('sluice.config.ts', 'export default {}')
    await write('sluice.config.mjs', 'export default {}')
    expect(await refusal()).toBe(
      `${folder}: has sluice.yaml and sluice.config.ts and sluice.config.mjs; there can be only one config: ` +
        'remove sluice.config.ts and sluice.config.mjs to use sluice.yaml, or choose one with --config',
    )
    expect((await loadConfig({ path: 'sluice.yaml', folder })).config).toEqual({})
  })

  test('a name that is nearly right is refused, not passed over', async () => {
    await write('sluice.yml', 'capacity: 7')
    expect(await refusal()).toBe(
      'sluice.yml: is not a recognized config name; rename it to sluice.yaml, or choose it with --config',
    )
  })

  test('a file that is missing, a folder, or of another kind is refused', async () => {
    await write('sub/sluice.yaml', '')
    await write('sluice.toml', '')
    expect(await refusal('nope.yaml')).toBe('nope.yaml: no such file')
    expect(await refusal('nope.ts')).toBe('nope.ts: no such file')
    expect(await refusal('sluice.toml')).toContain('is neither YAML (.yaml, .yml, .json) nor a module')
    await mkdir(join(folder, 'dir.yaml'))
    expect(await refusal('dir.yaml')).toContain('is not a file')
  })

  // Root reads every file, so there is nothing to see then.
  test.skipIf(process.getuid?.() === 0)(
    'a file that may not be read is refused with the reason',
    async () => {
      await write('sluice.yaml', '')
      await chmod(join(folder, 'sluice.yaml'), 0)
      expect(await refusal()).toContain('EACCES')
    },
  )
})

describe('YAML', () => {
  test('all problems come together, each with file, line, column, path and cure', async () => {
    await write(
      'sluice.yaml',
      `lanes:
  interactive: { tasks: [resize, align], slots: -1 }
  night:
    tasks: [align]
    slot: 3
    poll: 2s
    poll: 3s
heartbeat: 5s
stale: 10s
fleet: { pools: { a: { min: 4 } } }
tasks:
  align: { exec: ./align.sh }
`,
    )
    expect((await refusal()).split('\n')).toEqual([
      '7 problems:',
      '  sluice.yaml:7:5: lanes.night.poll: duplicate key, first defined at sluice.yaml:6:5; keep one',
      '  sluice.yaml:2:49: lanes.interactive.slots: found -1; write a whole number of at least 0, or none',
      '  sluice.yaml:5:5: lanes.night.slot: unknown key; did you mean slots?',
      '  sluice.yaml:10:29: fleet.pools.a.min: is 4, more than max, which is 3; write at most 3, or raise max',
      '  sluice.yaml:12:18: tasks.align.exec: found "./align.sh"; write the program and its arguments as a list, ' +
        'such as [./align.sh, --fast]; no shell is involved',
      '  sluice.yaml:4:13: lanes.night.tasks[0]: task align is placed in lane night here and in lane interactive at ' +
        'lanes.interactive.tasks[1] (sluice.yaml:2:34); a task is in one lane: keep one',
      '  sluice.yaml:9:8: stale: stale must be greater than twice the heartbeat, but stale is 10s (stale) and ' +
        'heartbeat is 5s (heartbeat); set stale to more than 10s, or heartbeat to less than 5s',
    ])
  })

  test('budgets and what draws from them are checked, with the line of each problem', async () => {
    await write(
      'sluice.yaml',
      `budgets:
  vram: { gpu0: 24GB, gpu1: 24XB }
  licences: -1
models: { llama3.1-8b: { load: soon } }
tasks:
  align: { exec: [./align.sh], model: llama3.1-8b, uses: { vram: 5GB } }
  resize:
    uses:
      vram: "\${{ input.n + }}"
    parallel: 0
`,
    )
    const lines = (await refusal()).split('\n')
    expect(lines.map((line) => /^ +(\S+ \S+):/.exec(line)?.[1] ?? line)).toEqual([
      '5 problems:',
      'sluice.yaml:2:29: budgets.vram.gpu1',
      'sluice.yaml:3:13: budgets.licences',
      'sluice.yaml:4:32: models["llama3.1-8b"].load',
      'sluice.yaml:9:13: tasks.resize.uses.vram',
      'sluice.yaml:10:15: tasks.resize.parallel',
    ])
  })

  test('a problem that shows only with the environment still has its line', async () => {
    await write('sluice.yaml', 'lanes:\n  interactive:\n    stale: 12s\n')
    const { config, locate } = await loadConfig({ folder })
    expect(() => resolveSettings({ file: config, environment: { SLUICE_HEARTBEAT: '8s' }, locate })).toThrow(
      /sluice\.yaml:3:12: lanes\.interactive\.stale: .*heartbeat is 8s \(SLUICE_HEARTBEAT\)/,
    )
  })

  test('a file outside the working folder is named in full', async () => {
    await write('other/sluice.yaml', 'capacity: -1')
    const inner = join(folder, 'inner')
    await mkdir(inner)
    await expect(loadConfig({ path: '../other/sluice.yaml', folder: inner })).rejects.toThrow(
      `${join(folder, 'other/sluice.yaml')}:1:11: capacity: found -1`,
    )
  })

  test('a file that is too large or no text is refused', async () => {
    await write('big.yaml', `# ${'x'.repeat(1_048_576)}`)
    expect(await refusal('big.yaml')).toContain('the limit for a config is 1048576')
    await write('latin.yaml', Uint8Array.from([0x61, 0x3a, 0x20, 0xe4]))
    expect(await refusal('latin.yaml')).toContain('save it as UTF-8')
  })

  test('a byte order mark is no obstacle', async () => {
    await write('sluice.yaml', '\ufeffcapacity: 2')
    expect((await loadConfig({ folder })).config).toEqual({ capacity: 2 })
  })

  test('nothing in a value is replaced, so a dollar sign needs no escape', async () => {
    const variable = '$'.concat('{HOME}')
    await write('sluice.yaml', `tasks: { a: { exec: [echo, "${variable}"], env: { A: "${variable}" } } }`)
    const { config } = await loadConfig({ folder })
    expect(config.tasks?.a).toEqual({ exec: ['echo', variable], env: { A: variable } })
  })
})

describe('modules', () => {
  test.each([
    [
      'sluice.config.ts',
      'const capacity: number = 5\nexport default { capacity } satisfies { capacity: number }',
    ],
    ['sluice.config.ts', 'export const config = { capacity: 5 as number }'],
    ['sluice.config.js', 'export default { capacity: 5 }'],
    ['sluice.config.js', 'module.exports = { capacity: 5 }'],
    ['sluice.config.js', 'exports.config = { capacity: 5 }'],
    ['sluice.config.mjs', 'export default { capacity: await Promise.resolve(5) }'],
    ['sluice.config.ts', "import { five } from './five.ts'\nexport default { capacity: five }"],
    [
      'sluice.config.ts',
      "import { five } from './five'\nexport default { capacity: await Promise.resolve(five) }",
    ],
  ])('%s may say: %s', async (name, source) => {
    await write('five.ts', 'export const five: number = 5')
    await write(name, source)
    expect(await loadConfig({ folder })).toMatchObject({
      file: join(folder, name),
      folder,
      config: { capacity: 5 },
    })
  })

  test('a module that waits for what never comes is given up, and named', async () => {
    await write('sluice.config.mjs', 'await new Promise(() => {})\nexport default {}')
    const path = join(folder, 'sluice.config.mjs')
    await expect(readModule(path, 'sluice.config.mjs', 200)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message:
        'sluice.config.mjs: could not be run: it did not finish within 200ms; it may be waiting for something that never happens',
    })
  })

  test('problems name the file and the path', async () => {
    await write('sluice.config.ts', 'export default { lanes: { a: { slot: 1, poll: "x" } } }')
    expect((await refusal()).split('\n')).toEqual([
      '2 problems:',
      '  sluice.config.ts: lanes.a.slot: unknown key; did you mean slots?',
      '  sluice.config.ts: lanes.a.poll: found "x"; write a duration from 0ms up to 1h, such as 500ms, 15s, 10m, 4h or 7d',
    ])
  })

  test.each([
    ['export default { capacity: 1', /could not be run: ParseError.*sluice\.config\.ts:1/],
    ["throw new Error('no licence')", /could not be run: no licence$/],
    ["import './nope.ts'\nexport default {}", /could not be run: Cannot find module '\.\/nope\.ts'/],
    [
      "import { x } from 'sluice'\nexport default x",
      /Cannot find module 'sluice'.*install sluice in this folder/,
    ],
    ['export const other = {}', /does not export a config; write "export default/],
    ['export default {}\nexport const config = {}', /exports a default and also "config"; keep one/],
    ['export default () => ({})', /the export default is a function; export the config itself/],
    ['export const config = 5', /the export config is 5/],
  ])('%s is refused with the reason', async (source, reason) => {
    await write('sluice.config.ts', source)
    expect(await refusal()).toMatch(reason)
  })
})
