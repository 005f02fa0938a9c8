import { existsSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'

const ENOUGH = 6 * 2 ** 30

/**
 * Where servers of tests keep their data: in memory where there is plenty. A commit waits for a disk four times as long as for
 * everything else; nothing else is different, and tests of crashes have servers of their own.
 */
export function quickFolder() {
  if (!existsSync('/dev/shm') || freemem() < ENOUGH) return tmpdir()
  const { bavail, bsize } = statfsSync('/dev/shm')
  return bavail * bsize < ENOUGH ? tmpdir() : '/dev/shm'
}
