import { Argument, Command } from 'commander'
import type { CatalogueEntry, Declare, World } from '../command.ts'
import { addCommandOptions } from '../command-options.ts'
import { type Completed, completionScript, SHELLS, type Shell } from '../completion.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'

/** `sluice completion SHELL` */
export const declareCompletion: Declare = (command, act) => {
  command
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText(
      'after',
      '\nLoad it in the startup file of the shell:\n  bash  source <(sluice completion bash)\n  zsh   source <(sluice completion zsh), after compinit\n  fish  sluice completion fish | source',
    )
    .action((shell: Shell) => act((world) => completion(world, shell)))
}

async function completion(world: World, shell: Shell): Promise<ExitCode> {
  world.out.write(completionScript(shell, await Promise.all(world.catalogue.map(describeCommand))))
  return EXIT.done
}

async function describeCommand(entry: CatalogueEntry): Promise<Completed> {
  const command = new Command(entry.name).description(entry.summary)
  const declare = await entry.load()
  declare(command, async () => {})
  addCommandOptions(command, entry)
  return toCompleted(command)
}

function toCompleted(command: Command): Completed {
  return {
    name: command.name(),
    summary: command.description(),
    options: [
      ...command.options
        .filter(({ hidden }) => !hidden)
        .map(({ long, short, description, required, optional }) => ({
          flags: [long, short].filter((flag) => flag !== undefined && flag !== null),
          description,
          takesValue: required || optional,
        })),
      { flags: ['--help', '-h'], description: 'print help', takesValue: false },
    ],
    below: command.commands.map(toCompleted),
  }
}
