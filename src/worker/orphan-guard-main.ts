/**
 * Entry of the guard process; `orphan-guard.ts` says what it is for.
 *
 * Reads `+pid` and `-pid` lines. At the end of input the parent is gone: kills
 * the groups that are left and ends.
 */
const groups = new Set<number>()
let rest = ''

// A service manager that asks every process of a unit to stop must not take the
// guard away while the worker still finishes its jobs.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})

process.stdin.setEncoding('utf8')
process.stdin.on('data', (chunk: string) => {
  const lines = (rest + chunk).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) {
    const pid = Number(line.slice(1))
    // 0 and 1 would mean the own group and everything.
    if (!Number.isInteger(pid) || pid < 2) continue
    if (line.startsWith('+')) groups.add(pid)
    else groups.delete(pid)
  }
})
process.stdin.on('error', killAll)
process.stdin.on('end', killAll)

function killAll(): void {
  for (const pid of groups) {
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // Gone already.
    }
  }
  process.exit(0)
}

export {}
