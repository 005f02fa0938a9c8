import { chownSync, lchownSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The uid and gid to run servers under: PostgreSQL refuses to be root. `null` when this process is
 * not root and can run them as itself.
 */
export function unprivilegedUser() {
  if (process.getuid?.() !== 0) return null
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const account = accounts.find(([name]) => name === 'nobody')
  if (account === undefined) throw new Error('running as root, and /etc/passwd has no user "nobody"')
  return { uid: Number(account[2]), gid: Number(account[3]) }
}

/** Gives a folder and all below it to the user. */
export function giveTo(user, folder) {
  if (user === null) return
  chownSync(folder, user.uid, user.gid)
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) giveTo(user, path)
    else lchownSync(path, user.uid, user.gid)
  }
}
