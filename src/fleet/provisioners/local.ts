import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { builtEntry } from '../../built-entry.ts'
import { SluiceError } from '../../errors.ts'
import { checkList, checkOptions, checkText } from '../../model/argument.ts'
import {
  environmentOf,
  type InstanceState,
  type Provisioner,
  type ProvisionerSetting,
  provisionerFailed,
  type Started,
  type StartRequest,
  startEach,
} from '../provisioner.ts'
import { resolveProgram } from '../resolve-program.ts'

/**
 * A worker that is asked to shut down uses its shutdown grace (30 s by default). After this time, it is no longer
 * awaited.
 */
const CLOSE_MS = 35_000

interface Child {
  readonly process: ChildProcess
  readonly id: string
  ended: string | undefined
}

/**
 * Runs workers as child processes on this machine: `sluice worker` with the config of this process, or `options.argv`.
 *
 * They survive a crash of this process, continue their jobs, and shut down when idle. Other processes of the same
 * machine find them by their ids, HOST/TOKEN.MEMBER/PID. Processes of other machines leave them alone. Registration
 * enforces the maximum of the pool.
 */
export class LocalProvisioner implements Provisioner {
  readonly #setting: ProvisionerSetting
  readonly #argv: readonly string[]
  /**
   * By token and member. Ended children are kept until this process ends, because their tokens must not start workers
   * again.
   */
  readonly #children = new Map<string, Child>()

  constructor(setting: ProvisionerSetting) {
    this.#setting = setting
    this.#argv = argvOf(setting)
  }

  async start(request: StartRequest, signal: AbortSignal): Promise<Started> {
    return startEach(request, (member) => this.#start(request, member, signal))
  }

  async describe(ids: readonly string[]): Promise<readonly InstanceState[]> {
    const known = new Map([...this.#children.values()].map((child) => [child.id, child]))
    return ids.map((id): InstanceState => {
      const child = known.get(id)
      if (child === undefined) return { id, state: processState(parseInstanceId(id)) }
      return child.ended === undefined
        ? { id, state: 'running' }
        : { id, state: 'stopped', reason: child.ended }
    })
  }

  async stop(ids: readonly string[]): Promise<void> {
    const known = new Map([...this.#children.values()].map((child) => [child.id, child]))
    const left: string[] = []
    for (const id of ids) {
      const child = known.get(id)
      const address = parseInstanceId(id)
      if (child !== undefined) {
        if (child.ended === undefined) child.process.kill('SIGTERM')
      } else if (address !== undefined) {
        const state = processState(address)
        if (state === 'unknown') left.push(id)
        else if (state === 'running') end(address.pid)
      }
    }
    if (left.length > 0)
      throw provisionerFailed('refused', `${left.join(', ')}: only a server on that machine can stop it`)
  }

  async close(): Promise<void> {
    const alive = [...this.#children.values()].filter((child) => child.ended === undefined)
    const ends = alive.map((child) => once(child.process, 'exit'))
    for (const child of alive) child.process.kill('SIGTERM')
    const late = setTimeout(() => {
      for (const child of alive) child.process.kill('SIGKILL')
    }, CLOSE_MS)
    await Promise.all(ends)
    clearTimeout(late)
  }

  async #start(request: StartRequest, member: number, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted()
    const environment = environmentOf(request, member)
    const token = environment.SLUICE_REQUEST!
    const known = this.#children.get(token)
    if (known !== undefined) return known.id
    const [command = '', ...args] = this.#argv
    const child = spawn(command, args, {
      cwd: this.#setting.folder,
      env: { ...process.env, ...this.#setting.environment, ...environment },
      // Stdout belongs to this process. Logs go to its stderr.
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const started: Child = { process: child, id: `${hostname()}/${token}/${child.pid}`, ended: undefined }
    child.on('exit', (code, by) => {
      started.ended = by === null ? `ended with code ${code}` : `ended by ${by}`
    })
    // Recorded at once, because a concurrent close must see it.
    this.#children.set(token, started)
    try {
      await once(child, 'spawn')
    } catch (cause) {
      this.#children.delete(token)
      throw provisionerFailed('refused', `cannot start ${command}: ${String(cause)}`, cause)
    }
    return started.id
  }
}

interface InstanceAddress {
  readonly host: string
  readonly request: string
  readonly pid: number
}

/** Returns `undefined` if the id is not of this provisioner. */
function parseInstanceId(id: string): InstanceAddress | undefined {
  const [, host = '', request = '', pid] = /^([^/]+)\/([^/]+)\/([1-9]\d*)$/.exec(id) ?? []
  return pid === undefined ? undefined : { host, request, pid: Number(pid) }
}

/**
 * The state of another process's child. `unknown` if it may run on another machine, or if this machine does not reveal
 * it.
 */
function processState(address: InstanceAddress | undefined): 'running' | 'stopped' | 'unknown' {
  if (address?.host !== hostname()) return 'unknown'
  try {
    // Process ids are reused, so the process must also have the request in its environment.
    const environment = readFileSync(`/proc/${address.pid}/environ`, 'latin1').split('\0')
    return environment.includes(`SLUICE_REQUEST=${address.request}`) ? 'running' : 'stopped'
  } catch {
    return isGone(address.pid) ? 'stopped' : 'unknown'
  }
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM')
  } catch {
    // It has ended in the meantime.
  }
}

function argvOf({ options, pool, folder, configFile }: ProvisionerSetting): readonly string[] {
  const name = `fleet.pools.${pool}.options`
  checkOptions(options, ['argv'], name)
  if (options.argv !== undefined)
    return resolveProgram(checkList(options.argv, `${name}.argv`, checkText), folder, `${name}.argv`)
  if (configFile === undefined) {
    throw new SluiceError(
      'INVALID_CONFIG',
      `fleet.pools.${pool}: no config file names tasks for a worker to run; set ${name}.argv to the program to start as a worker`,
    )
  }
  return [process.execPath, builtEntry('../../cli/main', import.meta.url), 'worker', '--config', configFile]
}
