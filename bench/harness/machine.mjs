import { execFileSync } from 'node:child_process'
import { readFileSync, statfsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { arch, cpus, loadavg, release, totalmem, type } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const BENCH = join(dirname(fileURLToPath(import.meta.url)), '..')
const ROOT = join(BENCH, '..')
const TMPFS = 0x01021994

/** What the figures depend on besides the code. */
export function machineFacts(dataFolder) {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${arch()}`,
    // fsync on a file system in memory costs nothing: such figures mean little.
    dataInMemory: statfsSync(dataFolder).type === TMPFS,
  }
}

/** Versions of everything measured, as installed. */
export function versions(redisVersion) {
  const installed = ['graphile-worker', 'pg-boss', 'bullmq', 'ioredis', '@dbos-inc/dbos-sdk', 'pg'].map(
    (name) => [
      name,
      JSON.parse(readFileSync(join(BENCH, 'node_modules', name, 'package.json'), 'utf8')).version,
    ],
  )
  const sluice = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version
  return { sluice, node: process.version, ...Object.fromEntries(installed), redis: redisVersion }
}

/** The commit of a checkout, `dirty` when files of the product differ from it. */
export function commitFacts(checkout = ROOT) {
  try {
    const git = (...args) => execFileSync('git', args, { cwd: checkout, encoding: 'utf8' }).trim()
    const changed = git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      'src',
      'sql',
      'bench',
      // The table is written into it between two runs.
      ':(exclude)bench/README.md',
      'package.json',
    )
    return { commit: git('rev-parse', '--short', 'HEAD'), dirty: changed !== '' }
  } catch {
    return { commit: 'unknown', dirty: true }
  }
}

/** Average number of runnable processes over the last minute: another load beside the benchmark shows here. */
export function loadAverage() {
  return Math.round(loadavg()[0] * 100) / 100
}

/** Of the times in /proc. */
export const TICKS_PER_SECOND = 100

/** User and system time of a process so far, and of its children that have ended, in ticks. */
export async function readStat(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The name may hold spaces and brackets; what follows the last bracket does not.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  return { parent: fields[1], ticks: fields[11] + fields[12], ticksOfEnded: fields[13] + fields[14] }
}
