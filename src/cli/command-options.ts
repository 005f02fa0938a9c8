import type { Command } from 'commander'
import { addServerOptions } from './choose-server.ts'
import type { CatalogueEntry } from './command.ts'

/** Adds the options that a command and its subcommands have in common with others. */
export function addCommandOptions(command: Command, { changes = [], withServer }: CatalogueEntry): void {
  for (const each of [command, ...command.commands]) {
    addCommonOptions(each)
    if (withServer !== 'ignores') addServerOptions(each, withServer === 'refuses')
    if (changes === true || changes.includes(each.name())) addReasonOption(each)
  }
}

function addCommonOptions(command: Command): void {
  if (!command.options.some((option) => option.long === '--config')) {
    command.option('--config <file>', 'the config file; the embedded database is beside it')
  }
  command.option('--json', 'print JSON')
}

/** Some commands declare a reason of their own, which the audit log gets too. */
function addReasonOption(command: Command): void {
  if (!command.options.some((option) => option.long === '--reason'))
    command.option('--reason <text>', 'the reason, for the audit log')
}
