import { dirname, relative } from 'node:path'
import { type LoadedConfig, loadConfig } from '../../config/load-config.ts'
import { findProjectFolder } from '../../config/project-folder.ts'
import { SluiceError } from '../../errors.ts'
import { SETTINGS } from '../../model/settings.ts'
import { type Given, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import type { ExitCode } from '../exit-code.ts'
import { readInput } from '../read-input.ts'
import { checkFile, checkPrograms, chooseWorkflow, type RunnableFile } from '../run/choose-workflow.ts'
import { type Order, Runner } from '../run/runner.ts'

interface RunOptions extends CommonOptions {
  readonly workflow?: string
  readonly input?: string
  readonly capacity?: Given<number>
  readonly database?: string
  /** `true` without a job. */
  readonly resume?: string | true
}

/** `sluice run [FILE]` */
export const declareRun: Declare = (command, act) => {
  command
    .argument(
      '[file]',
      'the file with the workflow; default: the config of this folder or the nearest one above it',
    )
    .option('--workflow <name>', 'the workflow to run, if the file has several')
    .option('--input <json>', 'the input: JSON, @FILE, or - for the standard input (default: {})')
    .option(
      '--capacity <number>',
      'jobs at once; 0: only the lanes limit it (default: 0)',
      setting(SETTINGS.capacity.reader),
    )
    .option('--database <address>', 'the database, instead of DATABASE_URL or the embedded one')
    .option('--resume [job]', 'continue this run, or the last one if it did not complete')
    .addHelpText(
      'after',
      '\nExits with 0 if the workflow completed, and with 1 if it failed or was cancelled.' +
        '\nCtrl-C stops the running jobs and cancels the workflow; a second Ctrl-C leaves it as it is. --resume continues a' +
        '\nrun that failed or was interrupted: completed steps keep their results.',
    )
    .action((file: string | undefined, options: RunOptions) => act((world) => run(world, file, options)))
}

async function run(world: World, given: string | undefined, options: RunOptions): Promise<ExitCode> {
  const stops = world.interrupts.take()
  // `--resume FILE` takes the file for the job.
  const swapped = given === undefined && typeof options.resume === 'string' && !/^\d+$/.test(options.resume)
  const path = given ?? (swapped ? (options.resume as string) : options.config)
  const resume = swapped ? true : options.resume
  const config = await loadConfig({ path, folder: world.folder })
  if (config.file === undefined) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `there is no config in ${world.folder} or a folder above it; name the file to run`,
    )
  }
  const file = checkFile(config)
  const order = await orderOf(world, options, config, file, resume)
  const runner = new Runner(world, config, {
    json: options.json === true,
    capacity: options.capacity?.value ?? 0,
    database: options.database,
    again: againIn(world, config.file, options),
  })
  return runner.run(order, stops)
}

async function orderOf(
  world: World,
  options: RunOptions,
  config: LoadedConfig,
  file: RunnableFile,
  resume: string | true | undefined,
): Promise<Order> {
  if (resume !== undefined && options.input !== undefined) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      '--input: a run that goes on has its input already; leave it out',
    )
  }
  if (resume === undefined || options.workflow !== undefined || file.workflows.names.size === 0) {
    const workflow = chooseWorkflow(file, config, options.workflow)
    checkPrograms(file, config, workflow, world.environment)
    if (resume === undefined) {
      return { kind: 'start', workflow, input: (await readInput(world, options.input)) ?? {} }
    }
    return { kind: 'resume', workflows: [workflow], id: resume === true ? undefined : resume }
  }
  return { kind: 'resume', workflows: [...file.workflows.names], id: resume === true ? undefined : resume }
}

/** How to call other commands about the same database, and this one again. */
function againIn(world: World, file: string, options: RunOptions): { run: string; rest: string } {
  const shown = relative(world.folder, file)
  const isHere = dirname(file) === findProjectFolder(world.folder)
  const embedded = (options.database ?? world.environment.DATABASE_URL ?? '') === ''
  const database = options.database === undefined ? '' : ' --database ...'
  return {
    run: `${world.program} run ${shown}${database}`,
    rest: embedded && !isHere && (world.environment.SLUICE_DATA ?? '') === '' ? ` --config ${shown}` : '',
  }
}
