import { readFile } from 'node:fs/promises'
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
