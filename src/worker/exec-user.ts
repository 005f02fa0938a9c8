import { execFile } from 'node:child_process'
import { openSync, readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { SluiceError } from '../errors.ts'

/** The account that an `exec` task runs as. */
export interface ExecUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
}

/** Long enough for a name service over a network. */
const PROBE_MS = 10_000
/** Each costs a program a moment at its start. */
const MOST_FILES = 4096
/** O_CLOEXEC of Linux. */
const CLOSED_ON_EXEC = 0o2000000
/** What programs find in the place of a file that is not theirs. */
let nothing: number | undefined
const NUMBERS = /^(\d{1,10}):(\d{1,10})$/
const ASK_ENTER = 'if cd -- "$1" 2>/dev/null; then echo yes; else echo no; fi'
/** What the kernel says of the process that reads it. */
const SHOW_STATUS =
  'while read -r name rest; do case $name in Uid:|Gid:|Groups:|CapPrm:|CapEff:|CapAmb:) echo "$name $rest";; esac; done < /proc/self/status'

/**
 * Looks up an account and asks the kernel whether a program that this process starts under it is held by that boundary:
 * it has that user and group, no other group, no capability, and cannot enter any of `closed`.
 *
 * @param task The task that names the user, for messages.
 * @param closed Folders with the worker's own secrets, such as those of the embedded database.
 * @throws {SluiceError} `EXEC_USER_UNAVAILABLE`.
 */
export async function findExecUser(
  task: string,
  name: string,
  closed: readonly string[] = [],
): Promise<ExecUser> {
  const where = `task ${JSON.stringify(task)} runs as user ${JSON.stringify(name)}`
  const user = await lookUp(name)
  if (user === undefined)
    throw unavailable(
      `${where}, and this machine has no such user. Create the account, or name user and group by their numbers: user: "1001:1001"`,
    )
  if (user.uid === 0 || user.gid === 0)
    throw unavailable(`${where}, which has the rights of root. Use a dedicated account for such programs`)
  if (user.uid === process.geteuid?.())
    throw unavailable(
      `${where}, which is the user of this worker: the program could access everything that the worker can. Use another account`,
    )
  const wrong = await whyNoBoundary(user)
  if (wrong !== undefined) throw unavailable(`${where}, and ${wrong}`)
  for (const folder of closed) {
    if (await canEnter(user, folder))
      throw unavailable(
        `${where}, who can enter ${folder}, which belongs to the database. Use an account that runs nothing else`,
      )
  }
  return user
}

/**
 * Whether the user can enter a folder. Asked of the kernel, which also knows about parents and ACLs.
 *
 * @throws {SluiceError} `EXEC_USER_UNAVAILABLE` when that could not be asked: nobody may take it for a no.
 */
export async function canEnter(user: ExecUser, folder: string): Promise<boolean> {
  const { ok, stdout, error } = await runAs(user, ASK_ENTER, [folder])
  const answer = stdout.trim()
  if (ok && (answer === 'yes' || answer === 'no')) return answer === 'yes'
  throw unavailable(
    `could not check whether user ${JSON.stringify(user.name)} can enter ${folder}: ${error || 'no answer'}. Restart the worker`,
  )
}

/** Runs a line of shell as the user, with nothing of this process's environment. */
export function runAs(
  user: ExecUser,
  script: string,
  args: readonly string[] = [],
  timeout = PROBE_MS,
): Promise<{ readonly ok: boolean; readonly stdout: string; readonly error: string }> {
  const options = {
    uid: user.uid,
    gid: user.gid,
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    timeout,
    killSignal: 'SIGKILL',
  } as const
  return new Promise((resolve) => {
    try {
      execFile('/bin/sh', ['-c', script, 'sh', ...args], options, (error, stdout, stderr) => {
        resolve({ ok: error === null, stdout, error: stderr.trim() || (error?.message ?? '') })
      })
    } catch (error) {
      // A change of user that is refused is thrown at once.
      resolve({ ok: false, stdout: '', error: String(error) })
    }
  })
}

/**
 * What a program is started with, besides its three streams, so that it inherits none of the files that this process was started with: each is
 * replaced by nothing. Files that Node opens are closed in programs anyway.
 *
 * @throws {SluiceError} `EXEC_USER_UNAVAILABLE`.
 */
export function closedFiles(): number[] {
  const inherited = inheritedFiles()
  const last = Math.max(2, ...inherited)
  if (last > MOST_FILES)
    throw unavailable(
      `this worker was started with file descriptor ${last} open, which its programs would inherit: start it without that descriptor`,
    )
  if (last === 2) return []
  nothing ??= openSync('/dev/null', 'r')
  return Array<number>(last - 2).fill(nothing)
}

/** File descriptors that programs inherit, from the kernel. */
function inheritedFiles(): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((fd) => {
      try {
        const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0'
        return (Number.parseInt(flags, 8) & CLOSED_ON_EXEC) === 0
      } catch {
        // The one this folder was read by.
        return false
      }
    })
}

/** Variables of a program that runs as another user. The worker's own may hold any credential, so none but these go on. */
export function plainEnvironment(user: ExecUser, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(
    ([name]) => name === 'PATH' || name === 'TZ' || name === 'LANG' || name.startsWith('LC_'),
  )
  return { ...Object.fromEntries(kept), HOME: user.home, USER: user.name, LOGNAME: user.name }
}

async function whyNoBoundary(user: ExecUser): Promise<string | undefined> {
  const probe = await runAs(user, process.platform === 'linux' ? SHOW_STATUS : 'id -u; id -G')
  if (!probe.ok) {
    const self = userInfo().username
    return process.geteuid?.() === 0
      ? `no program can be started as that user here: ${probe.error}`
      : `this worker runs as ${self}, who may not start programs as another user. Start the worker as root, or remove user: from the task`
  }
  if (process.platform !== 'linux') {
    const same = probe.stdout.trim() === `${user.uid}\n${user.gid}`
    return same ? undefined : `its programs would keep groups of the worker: ${probe.stdout.trim()}`
  }
  const status = new Map(
    probe.stdout.split('\n').map((line) => {
      const [field = '', ...values] = line.trim().split(/\s+/)
      return [field.replace(':', ''), values] as const
    }),
  )
  const all = (field: string, id: number) =>
    status.get(field)?.every((value) => Number(value) === id) === true
  if (!all('Uid', user.uid) || !all('Gid', user.gid)) return 'the change of user has no effect here'
  if (!all('Groups', user.gid))
    return `its programs would keep groups of the worker: ${status.get('Groups')?.join(' ')}`
  const capable = ['CapPrm', 'CapEff', 'CapAmb'].some((field) => !/^0*$/.test(status.get(field)?.[0] ?? ''))
  if (capable)
    return 'its programs would keep capabilities of the worker. Start the worker as root, without ambient capabilities'
  return undefined
}

async function lookUp(name: string): Promise<ExecUser | undefined> {
  const numbers = NUMBERS.exec(name)
  if (numbers !== null)
    return { name, uid: Number(numbers[1]), gid: Number(numbers[2]), home: '/nonexistent' }
  const accounts = await readFile('/etc/passwd', 'utf8').catch(() => '')
  const own = accounts.split('\n').find((line) => line.startsWith(`${name}:`))
  // Accounts of a directory service are not in the file.
  const line = own ?? (await output('getent', ['passwd', name]))
  const [found, , uid, gid, , home] = line.split(':')
  if (found !== name || uid === undefined || gid === undefined) return undefined
  return { name, uid: Number(uid), gid: Number(gid), home: home || '/nonexistent' }
}

function output(file: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(file, args, { timeout: PROBE_MS }, (error, stdout) =>
      resolve(error === null ? stdout.trim() : ''),
    )
  })
}

function unavailable(message: string): SluiceError {
  return new SluiceError('EXEC_USER_UNAVAILABLE', message)
}
