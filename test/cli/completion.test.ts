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

/** Whether this machine has a shell, and a title that says so where its tests are skipped. */
function shell(name: string): { readonly missing: boolean; readonly title: string } {
  const missing = spawnSync(name, ['--version']).status !== 0
  return { missing, title: `${name} completes${missing ? ` (skipped: ${name} is not installed)` : ''}` }
}

const fish = shell('fish')
const zsh = shell('zsh')

describe.skipIf(fish.missing)(fish.title, () => {
  async function complete(line: string): Promise<string[]> {
    const { stdout } = await run('fish', ['-c', `source ${join(folder, 'fish')}; complete -C "${line}"`], {
      cwd: folder,
      env: { ...process.env, HOME: folder },
    })
    return stdout
      .split('\n')
      .map((each) => each.split('\t')[0]!)
      .filter((each) => each !== '')
  }

  test('every command, and no alias', async () => {
    expect((await complete('sluice ')).sort()).toEqual(CATALOGUE.map(({ name }) => name).sort())
    expect(await complete('sluice can')).toEqual(['cancel'])
  })

  test('subcommands and options of a command', async () => {
    expect(await complete('sluice lanes se')).toEqual(['set'])
    expect(await complete('sluice lanes set --sl')).toEqual(['--slots'])
    expect(await complete('sluice cancel --rea')).toEqual(['--reason'])
  })

  test('file names after an option with a value', async () => {
    expect(await complete('sluice check --config zs')).toContain('zsh')
  })
})

describe.skipIf(zsh.missing)(zsh.title, () => {
  /**
   * Types a line and a tab into an interactive zsh, and waits until the terminal shows a text. A line that is completed as
   * something else never shows it.
   */
  async function completes(line: string, shown: string): Promise<void> {
    const script = `
      zmodload zsh/zpty
      zpty terminal zsh -f -i
      zpty -w terminal "PS1= PROMPT_EOL_MARK=; autoload -Uz compinit; compinit -D -u; source ${join(folder, 'zsh')}; print LOAD''ED"
      zpty -r terminal ignored '*LOADED*'
      zpty -n -w terminal "$1"$'\t'
      zpty -r terminal ignored "*$2*"
      zpty -d terminal`
    await run('zsh', ['-f', '-c', script, 'zsh', line, shown], {
      cwd: folder,
      env: { ...process.env, TERM: 'dumb', HOME: folder },
      timeout: 60_000,
    })
  }

  test('the name of a command', () => completes('sluice canc', 'sluice cancel'))
  test('a subcommand', () => completes('sluice lanes se', 'sluice lanes set'))
  test('an option of a subcommand', () => completes('sluice lanes set video --slo', '--slots'))
  test('an option that several commands have', () => completes('sluice pause video --rea', '--reason'))
  test('a file name after an option with a value', () => completes('sluice check --config fi', 'fish'))
})

test('rejects an unsupported shell with the names of the supported ones', async () => {
  const { code, stderr } = await cli.run(['completion', 'tcsh'])
  expect(code).toBe(2)
  expect(stderr).toContain('Allowed choices are bash, zsh, fish')
})
