import { closeSync, openSync, readFileSync, readSync } from 'node:fs'

/** One line of the file in which the handlers of `programs/worker.mjs` write when they begin and end, in that order. */
export interface JournalLine {
  readonly what: 'start' | 'end'
  readonly job: string
  readonly attempt: number
  readonly pid: number
}

export function readJournal(path: string): JournalLine[] {
  return parse(readFileSync(path, 'utf8'))
}

/** For those who look often: reads only what has been added since the last look, and gives all lines. */
export function followJournal(path: string): { lines(): readonly JournalLine[]; close(): void } {
  const file = openSync(path, 'a+')
  const buffer = Buffer.alloc(1 << 20)
  const lines: JournalLine[] = []
  let offset = 0
  return {
    lines() {
      const text = buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, offset))
      const complete = text.slice(0, text.lastIndexOf('\n') + 1)
      offset += Buffer.byteLength(complete)
      lines.push(...parse(complete))
      return lines
    },
    close: () => closeSync(file),
  }
}

function parse(text: string): JournalLine[] {
  return text
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

/**
 * What must never happen to jobs whose handlers succeed: the same attempt starts twice, or a job starts again although the process that started it before
 * kept its lease.
 *
 * @param lapses Processes that lost their leases while they ran jobs, with the number of lines by which that was over: infinite for those that were killed.
 * @returns also the starts in such a process of attempts that others had taken over by then. A process that is stopped may have started a job and not written its
 *   line yet.
 */
export function secondStartsIn(
  lines: readonly JournalLine[],
  lapses: ReadonlyMap<number, number>,
): { readonly faults: string[]; readonly late: string[] } {
  const faults: string[] = []
  const late: string[] = []
  const used = new Set<string>()
  const last = new Map<string, { readonly line: JournalLine; readonly hasLapsed: boolean }>()
  for (const [at, line] of lines.entries()) {
    if (line.what === 'end') continue
    const { job, attempt, pid } = line
    const name = `attempt ${attempt} of job ${job} in process ${pid}`
    if (used.has(`${job}/${attempt}`)) faults.push(`${name} had started before`)
    used.add(`${job}/${attempt}`)
    const hasLapsed = at < (lapses.get(pid) ?? 0)
    const before = last.get(job)
    if (before !== undefined && attempt < before.line.attempt) {
      ;(hasLapsed ? late : faults).push(`${name} started after attempt ${before.line.attempt}`)
      continue
    }
    if (before !== undefined && !before.hasLapsed)
      faults.push(
        `${name} started although process ${before.line.pid} had a lease on attempt ${before.line.attempt}`,
      )
    last.set(job, { line, hasLapsed })
  }
  return { faults, late }
}
