import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { beforeAll, describe, expect, test } from 'vitest'
import { CATALOGUE } from '../../src/cli/catalogue.ts'
import { addCommandOptions } from '../../src/cli/command-options.ts'
import { EXIT } from '../../src/cli/exit-code.ts'

let reference = ''

beforeAll(async () => {
  reference = await readFile(new URL('../../docs/reference/cli.md', import.meta.url), 'utf8')
})

describe.each(CATALOGUE)('the reference of sluice $name', ({ name, load }) => {
  test('names the command, its subcommands and every option', async () => {
    const command = new Command(name)
    ;(await load())(command, async () => {})
    for (const each of [command, ...command.commands]) {
      const path = each === command ? name : `${name} ${each.name()}`
      expect(reference).toMatch(new RegExp(`\`sluice ${path}[ \`]`))
      for (const { long, short } of each.options) {
        expect(reference).toMatch(new RegExp(`${long}[ \`]`))
        if (short !== undefined && short !== null) expect(reference).toContain(`\`${short}\``)
      }
    }
  })
})

test('the reference lists every exit code', () => {
  for (const code of Object.values(EXIT)) expect(reference).toMatch(new RegExp(`^\\| ${code} \\| `, 'm'))
})

/** Verbs that only show something. */
const LOOKS = /^(list|show)$/
/** Commands that change nothing in a running system, or whose submissions have an author and an input instead of a reason. */
const WITHOUT_REASON =
  /^(run|up|server|worker|submit|status|top|ps|show|tree|trace|why|errors|logs|fleet|devices|sim|check|audit|migrate|doctor|completion|version|tour)$/

test('every command that changes or stops something takes a reason for the audit log', async () => {
  const without: string[] = []
  for (const entry of CATALOGUE.filter(({ name }) => !WITHOUT_REASON.test(name))) {
    const command = new Command(entry.name)
    ;(await entry.load())(command, async () => {})
    addCommandOptions(command, entry)
    const changing = command.commands.filter((each) => !LOOKS.test(each.name()))
    for (const each of changing.length > 0 ? changing : [command])
      if (!each.options.some(({ long }) => long === '--reason')) without.push(`${entry.name} ${each.name()}`)
  }
  expect(without).toEqual([])
})

const NOUNS = {
  lanes: ['create', 'set', 'delete', 'list', 'show'],
  schedules: ['create', 'set', 'delete', 'list', 'show'],
  keys: ['create', 'set', 'delete', 'list', 'show'],
  roles: ['create', 'set', 'delete', 'list', 'show'],
  budgets: ['create', 'set', 'delete', 'list', 'show'],
  // A config creates them: it names the program that starts their workers.
  pools: ['set', 'delete', 'list', 'show'],
}

test.each(Object.entries(NOUNS))('sluice %s has the verbs of every noun', async (noun, verbs) => {
  const command = new Command(noun)
  ;(await CATALOGUE.find(({ name }) => name === noun)!.load())(command, async () => {})
  expect(command.commands.map((each) => each.name())).toEqual(expect.arrayContaining(verbs))
})
