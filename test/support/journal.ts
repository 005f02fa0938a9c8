import { readFileSync } from 'node:fs'

/** One line of the file in which the handlers of `programs/worker.mjs` write when they begin and end, in that order. */
export interface JournalLine {
  readonly what: 'start' | 'end'
  readonly job: string
  readonly attempt: number
  readonly pid: number
}

export function readJournal(path: string): JournalLine[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [what, job, attempt, pid] = line.split(' ')
      return { what: what as 'start' | 'end', job: job!, attempt: Number(attempt), pid: Number(pid) }
    })
}

/**
 * What a lane with one slot must never show: two handlers at once, or two that ran as the same attempt of a job.
 *
 * @param dead Processes that were killed: what they ran ended with them.
 */
export function faultsIn(lines: readonly JournalLine[], dead: ReadonlySet<number> = new Set()): string[] {
  const faults: string[] = []
  const used = new Set<string>()
  const running = new Map<string, JournalLine>()
  for (const line of lines) {
    const name = `${line.job}/${line.attempt}`
    const key = `${name} of ${line.pid}`
    if (line.what === 'end') running.delete(key)
    else {
      if (used.has(name)) faults.push(`attempt ${name} ran twice`)
      used.add(name)
      for (const other of running.values())
        if (!dead.has(other.pid))
          faults.push(`${key} began while ${other.job}/${other.attempt} of ${other.pid} ran`)
      running.set(key, line)
    }
  }
  return faults
}
