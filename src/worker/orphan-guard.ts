import { type ChildProcess, spawn } from 'node:child_process'
import { builtEntry } from '../built-entry.ts'

/**
 * Process groups that must not outlive this process, however it ends.
 *
 * `kill -9` gives no chance to clean up, a program knows nothing of us, and a
 * pool process that computes does not see its channel close. So one small
 * process (7 MB of its own, started with the first group, one per process)
 * reads from a pipe which groups exist. The kernel closes the pipe when this
 * process is gone; then it kills what is still on the list and ends.
 *
 * What leaves its group (`setsid`, a daemon) is not caught.
 */
const groups = new Set<number>()
let guard: ChildProcess | undefined

/**
 * Starts the guard, if none runs. Call it before a spawn: starting it afterwards leaves the new group alone for the
 * milliseconds that takes.
 */
export function prepareGuard(): void {
  if (guard !== undefined) return
  guard = startGuard()
  for (const known of groups) tellGuard('+', known)
}

/** Puts the group led by `pid` under guard. Call it in the same turn as the spawn. */
export function guardGroup(pid: number): void {
  prepareGuard()
  groups.add(pid)
  tellGuard('+', pid)
}

/** The group is gone; its number may soon belong to somebody else. */
export function releaseGroup(pid: number): void {
  groups.delete(pid)
  tellGuard('-', pid)
}

/** Sends a signal to every process of the group. False when none is left. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pid, signal)
    return true
  } catch {
    // ESRCH: empty. EPERM (macOS, only zombies left) is the same for us.
    return false
  }
}

/** The guard's process id, for whoever lists this process's children. */
export function guardPid(): number | undefined {
  return guard?.pid
}

function startGuard(): ChildProcess {
  // A session of its own: Ctrl-C in a terminal must not end it before us.
  const started = spawn(process.execPath, [builtEntry('./orphan-guard-main', import.meta.url)], {
    cwd: '/',
    detached: true,
    env: {},
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const forget = () => {
    // The next group starts a new one, which is told of all groups.
    if (guard === started) guard = undefined
  }
  started.on('error', forget)
  started.on('exit', forget)
  started.stdin?.on('error', forget)
  started.unref()
  if (started.stdin !== null && 'unref' in started.stdin) (started.stdin as { unref(): void }).unref()
  return started
}

function tellGuard(change: '+' | '-', pid: number): void {
  guard?.stdin?.write(`${change}${pid}\n`)
}
