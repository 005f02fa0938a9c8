import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Ran } from './cli.ts'

export interface CommandLine {
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly folder: string
  readonly input: string
}

const PROGRAM = fileURLToPath(new URL('../support/programs/command-host.mjs', import.meta.url))

/** A process that runs commands one after another, so that not each of them loads everything again. */
export class CommandHost {
  readonly #main: string
  #process: ChildProcess | undefined
  #busy = false

  /** @param main The path that commands are told they were called by. */
  constructor(main: string) {
    this.#main = main
  }

  /** While it runs a command, another needs a process of its own. */
  get isFree(): boolean {
    return !this.#busy
  }

  async run(command: CommandLine): Promise<Ran> {
    this.#busy = true
    try {
      const host = this.#start()
      host.send(command)
      const ended = new AbortController()
      const [ran] = await Promise.race([
        once(host, 'message', { signal: ended.signal }),
        once(host, 'exit', { signal: ended.signal }).then(([code]) => {
          throw new Error(`sluice ${command.args.join(' ')} ended the process with ${code}: give it its own`)
        }),
      ]).finally(() => ended.abort())
      return ran as Ran
    } finally {
      this.#busy = false
    }
  }

  #start(): ChildProcess {
    if (this.#process?.connected) return this.#process
    const host = fork(PROGRAM, [this.#main])
    host.unref()
    host.channel?.unref()
    this.#process = host
    return host
  }
}
