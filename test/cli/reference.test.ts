import { readdir, readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { beforeAll, describe, expect, test } from 'vitest'
import { CATALOGUE } from '../../src/cli/catalogue.ts'
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

/** Texts for people, as templates: what follows `sluice` in them is a command, and a subcommand where it has some. */
test('messages and advice name only commands that exist', async () => {
  const commands = new Map<string, string[]>()
  for (const { name, load } of CATALOGUE) {
    const command = new Command(name)
    ;(await load())(command, async () => {})
    commands.set(
      name,
      command.commands.flatMap((each) => [each.name(), ...each.aliases()]),
    )
  }
  const named: string[] = []
  for (const folder of ['src/model', 'src/engine', 'src/cli', 'src/app', 'src/store', 'sql/functions']) {
    const root = new URL(`../../${folder}/`, import.meta.url)
    for (const file of await readdir(root, { recursive: true })) {
      if (!/(?<!\.test)\.(ts|sql)$/.test(file)) continue
      const text = await readFile(new URL(file, root), 'utf8')
      for (const [, word, next] of text.matchAll(
        /(?:with|run|or|and|[:;`.(]) sluice ([a-z]+) ?([a-z]+(?= [$'"|A-Z]))?/g,
      )) {
        named.push(word!)
        if (!commands.has(word!)) expect.soft(word, `a command in ${folder}/${file}`).toBe('a command')
        else if (next !== undefined && commands.get(word!)!.length > 0)
          expect.soft(commands.get(word!), `sluice ${word} in ${folder}/${file}`).toContain(next)
      }
    }
  }
  expect(named).toEqual(expect.arrayContaining(['trace', 'workers', 'resume']))
})
