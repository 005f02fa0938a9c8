import { chmod, lchown, open, stat, truncate, writeFile } from 'node:fs/promises'
import type { Place } from './place.ts'

const LARGEST = 4 * 1024 * 1024
const KEPT = 1024 * 1024

/** Opens the log for the server and the keeper. Appending, so that trimming works under them. */
export async function openLog(place: Place): Promise<{ readonly fd: number; close(): Promise<void> }> {
  const file = await open(place.log, 'a', 0o600)
  if (place.account !== undefined) await lchown(place.log, place.account.uid, place.account.gid)
  return file
}

/** The end of the log, for error messages. Never throws. */
export async function logTail(place: Place, bytes = 2000): Promise<string> {
  try {
    const text = (await readEnd(place.log, bytes)).toString('utf8').trim()
    return text === '' ? `(${place.log} is empty)` : `${place.log} ends with:\n${text}`
  } catch {
    return `(${place.log} cannot be read)`
  }
}

/** Keeps the log below 4 MB: its last megabyte moves to `.1`, the rest goes. */
export async function trimLog(place: Place): Promise<void> {
  const size = (await stat(place.log)).size
  if (size <= LARGEST) return
  const old = `${place.log}.1`
  await writeFile(old, await readEnd(place.log, KEPT), { mode: 0o600 })
  await chmod(old, 0o600)
  if (place.account !== undefined) await lchown(old, place.account.uid, place.account.gid)
  await truncate(place.log, 0)
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
