import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'

/** True while the process runs. A zombie is dead: only its parent has not looked yet. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const state = stat.slice(stat.lastIndexOf(')') + 2)[0]
    return state !== 'Z' && state !== 'X'
  } catch {
    return false
  }
}

export async function expectGone(...pids: number[]): Promise<void> {
  for (const pid of pids) {
    expect(pid).toBeGreaterThan(1)
    await expect
      .poll(() => isAlive(pid), { timeout: 60_000, interval: 10, message: `process ${pid}` })
      .toBe(false)
  }
}

/** The running children of a process whose command line contains `text`. */
export function childrenOf(parent: number, text: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const ppid = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
      return ppid === parent && isAlive(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)
    } catch {
      return false
    }
  })
}

/** The children of a process that its main thread has started. Cheaper than to look at all processes. */
export function childPids(parent: number): number[] {
  try {
    const text = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8')
    return text.split(' ').filter(Boolean).map(Number).filter(isAlive)
  } catch {
    return []
  }
}

/** The command line of a process; empty when it is gone. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/**
 * Marks all that this process starts from now on, however deep. `left()` lists
 * what is still running, orphans included.
 */
export function markDescendants(): { left(): string[] } {
  const mark = `SLUICE_TEST_MARK=${randomUUID()}`
  const [name, value] = mark.split('=')
  process.env[name!] = value!
  return { left: () => readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && carries(Number(pid), mark)) }
}

function carries(pid: number, mark: string): boolean {
  try {
    return isAlive(pid) && readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(mark)
  } catch {
    return false
  }
}

/** A program of `test/support/fixtures`, and the lines it prints. */
export class Fixture {
  readonly process: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(name: string, ...args: string[]) {
    const path = fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url))
    this.process = spawn(process.execPath, [path, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#lines = createInterface({ input: this.process.stdout! })[Symbol.asyncIterator]()
  }

  get pid(): number {
    return this.process.pid!
  }

  async line(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('the fixture ended without another line')
    return value
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const exited = once(this.process, 'exit')
    this.process.kill(signal)
    await exited
  }
}
