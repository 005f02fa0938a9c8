import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CATALOGUE } from '../../src/cli/catalogue.ts'
import { SHELLS } from '../../src/cli/completion.ts'
import { Cli } from './cli.ts'

const run = promisify(execFile)
const cli = new Cli()
let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-completion-'))
  for (const shell of SHELLS) {
    const { code, stdout, stderr } = await cli.run(['completion', shell])
    expect([code, stderr]).toEqual([0, ''])
    await writeFile(join(folder, shell), stdout)
  }
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe('bash completes', () => {
  /** @param words Of the command line behind `sluice`; the last one is being typed. */
  async function complete(...words: string[]): Promise<string[]> {
    const script = `source "$1"; shift; COMP_WORDS=(sluice "$@"); COMP_CWORD=$#; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout } = await run('bash', ['-c', script, 'bash', join(folder, 'bash'), ...words], {
      cwd: folder,
    })
    return stdout.split('\n').filter((line) => line !== '')
  }

  test('every command, and no alias', async () => {
    expect(await complete('')).toEqual([...CATALOGUE.map(({ name }) => name), '--help', '--version'])
    expect(await complete('can')).toEqual(['cancel'])
  })

  test('subcommands and options of a command', async () => {
    expect(await complete('lanes', 'se')).toEqual(['set'])
    expect(await complete('lanes', 'set', 'video', '--sl')).toEqual(['--slots'])
    expect(await complete('lanes', '--sl')).toEqual([])
    expect(await complete('ps', '--wa')).toEqual(['--watch'])
    expect(await complete('cancel', '--rea')).toEqual(['--reason'])
  })

  test('file names after an option with a value', async () => {
    expect((await complete('ps', '--config', '')).sort()).toEqual([...SHELLS].sort())
  })
})

const hasFish = spawnSync('fish', ['--version']).status === 0
const hasZsh = spawnSync('zsh', ['--version']).status === 0

describe.skipIf(!hasFish)('fish completes', () => {
  async function complete(line: string): Promise<string[]> {
    const { stdout } = await run('fish', ['-c', `source ${join(folder, 'fish')}; complete -C "${line}"`])
    return stdout
      .split('\n')
      .map((each) => each.split('\t')[0]!)
      .filter((each) => each !== '')
  }

  test('commands, subcommands and options', async () => {
    expect(await complete('sluice can')).toEqual(['cancel'])
    expect(await complete('sluice lanes se')).toEqual(['set'])
    expect(await complete('sluice lanes set --sl')).toEqual(['--slots'])
  })
})

describe.skipIf(!hasZsh)('zsh', () => {
  test('accepts the script', async () => {
    await run('zsh', ['-n', join(folder, 'zsh')])
  })

  test('loads it after compinit, and completes with it', async () => {
    const script = `autoload -Uz compinit; compinit -D; source ${join(folder, 'zsh')}; print -r -- $_comps[sluice]`
    expect((await run('zsh', ['-fc', script])).stdout.trim()).toBe('_sluice')
  })
})

test('rejects an unsupported shell with the names of the supported ones', async () => {
  const { code, stderr } = await cli.run(['completion', 'tcsh'])
  expect(code).toBe(2)
  expect(stderr).toContain('Allowed choices are bash, zsh, fish')
})
