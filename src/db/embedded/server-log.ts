import { chmod, lchown, open, stat, truncate, writeFile } from 'node:fs/promises'
import type { EmbeddedFolders } from './folders.ts'

const LARGEST = 4 * 1024 * 1024
const KEPT = 1024 * 1024

/** Opens the log for the server and the keeper. Appending, so that trimming works under them. */
export async function openLog(
  folders: EmbeddedFolders,
): Promise<{ readonly fd: number; close(): Promise<void> }> {
  const file = await open(folders.log, 'a', 0o600)
  if (folders.account !== undefined) await lchown(folders.log, folders.account.uid, folders.account.gid)
  return file
}

/** The end of the log, for error messages. Never throws. */
export async function logTail(folders: EmbeddedFolders, bytes = 2000): Promise<string> {
  try {
    const text = (await readEnd(folders.log, bytes)).toString('utf8').trim()
    return text === '' ? `(${folders.log} is empty)` : `${folders.log} ends with:\n${text}`
  } catch {
    return `(${folders.log} cannot be read)`
  }
}

/** Keeps the log below 4 MB: its last megabyte moves to `.1`, the rest goes. */
export async function trimLog(folders: EmbeddedFolders): Promise<void> {
  const size = (await stat(folders.log)).size
  if (size <= LARGEST) return
  const old = `${folders.log}.1`
  await writeFile(old, await readEnd(folders.log, KEPT), { mode: 0o600 })
  await chmod(old, 0o600)
  if (folders.account !== undefined) await lchown(old, folders.account.uid, folders.account.gid)
  await truncate(folders.log, 0)
}

async function readEnd(path: string, bytes: number): Promise<Buffer> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const length = Math.min(size, bytes)
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return buffer
  } finally {
    await file.close()
  }
}
