import type { Command } from 'commander'
import type { Sluice } from '../app/app.ts'
import type { SluiceOptions } from '../app/open.ts'
import type { ServerOptions } from '../client/link.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import type { Log } from '../engine/log.ts'
import type { ExitCode } from './exit-code.ts'
import type { Interrupts } from './interrupts.ts'
import type { Output } from './output/output.ts'

/** What a command may touch. */
export interface World {
  readonly out: Output
  readonly err: Output
  readonly environment: NodeJS.ProcessEnv
  /** The working folder. */
  readonly folder: string
  /** How to call this program again from the working folder: `npx sluice`, or `node` and a path. */
  readonly program: string
  readonly interrupts: Interrupts
  now(): Date
  /** All of the standard input, as text. */
  readInput(): Promise<string>
  open(options: OpenOptions): Promise<Sluice>
  /** The server to speak to instead of a database, if one was named. */
  readonly server?: ServerOptions | undefined
  /** Every command of the program. */
  readonly catalogue: readonly CatalogueEntry[]
  /** Why the command changes what it changes, for the audit. */
  readonly reason?: string | undefined
}

export interface OpenOptions {
  /** Applied and made known. Without it the program only looks and operates: it changes nothing by opening. */
  readonly config?: LoadedConfig
  /** Where the embedded database is, if that is the one. */
  readonly dataFolder: string
  readonly log?: Log
  /** Why it is opened: the audit has it with every change. */
  readonly reason?: string | undefined
  /** Over those of the config and the environment. */
  readonly settings?: Pick<SluiceOptions, 'database' | 'shutdownGrace'>
  /** A program of its own, with tasks and lanes, in place of a config or beside it. */
  readonly program?: Pick<
    SluiceOptions,
    'tasks' | 'workflows' | 'lanes' | 'budgets' | 'schedules' | 'fleet' | 'database'
  >
}

/** Options that every command has. */
export interface CommonOptions {
  readonly json?: boolean
  readonly config?: string
}

/** Runs the command's work in its world and keeps its exit code. */
export type Act = (work: (world: World) => Promise<ExitCode>) => Promise<void>

/** Declares arguments and options of a command, and what it does with them. */
export type Declare = (command: Command, act: Act) => void

/** A command as the help lists it. */
export interface CatalogueEntry {
  readonly name: string
  /** Other names of the command. Help does not list them. */
  readonly aliases?: readonly string[]
  readonly summary: string
  readonly group: string
  /** The code of a command is only loaded when it is called: `sluice --help` loads none of it. */
  readonly load: () => Promise<Declare>
  /** What it does when a server is named: `refuses`, since it needs the database; `ignores`, since it works here. Else it speaks to it. */
  readonly withServer?: 'refuses' | 'ignores'
  /** What takes a --reason for the audit: the command itself, or these of the commands below it. */
  readonly changes?: true | readonly string[]
}
