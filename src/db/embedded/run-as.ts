import { execFile } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'

/** The account the server runs under when Sluice itself runs as root. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

/**
 * The account to run PostgreSQL as, which refuses to run as root.
 *
 * `undefined` means: as whoever runs this process. As root, files that exist
 * keep their owner; a new folder goes to `postgres` where the machine has that
 * account, because fewer other programs run as it, and to `nobody` otherwise.
 * Making an account of our own would need tools a container may not have.
 */
export async function serverAccount(existingData: string): Promise<Account | undefined> {
  if (process.geteuid?.() !== 0) return undefined
  const owner = await stat(existingData).catch(() => undefined)
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }

  const accounts = await readFile('/etc/passwd', 'utf8').catch(() => '')
  for (const wanted of ['postgres', 'nobody']) {
    const fields = accounts
      .split('\n')
      .map((line) => line.split(':'))
      .find(([name]) => name === wanted)
    if (fields?.[2] !== undefined && fields[3] !== undefined) {
      return { uid: Number(fields[2]), gid: Number(fields[3]) }
    }
  }
  // The customary number of nobody, for images that ship no account file.
  return { uid: 65534, gid: 65534 }
}

/** Whether the account can enter a folder. Asked of the kernel, which also knows about parents and ACLs. */
export async function canEnter(account: Account, folder: string): Promise<boolean> {
  return succeeds('/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder], account)
}

/** Whether a program starts and ends well under the account, its libraries included. */
export function succeeds(
  file: string,
  args: readonly string[],
  account: Account | undefined,
): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(file, args, { ...account, cwd: '/', timeout: 10_000 }, (error) => resolve(error === null))
  })
}
