import type { Reporter, TestModule } from 'vitest/node'

const LISTED = 15

interface FileTime {
  readonly name: string
  readonly seconds: number
}

/** How long a file took, from its import to its last hook. */
function timeOf(module: TestModule): FileTime {
  const { collectDuration, duration, setupDuration } = module.diagnostic()
  return { name: module.relativeModuleId, seconds: (collectDuration + duration + setupDuration) / 1000 }
}

/** The slowest files, slowest first, and what all files took together. */
export function timeTable(times: readonly FileTime[], wallSeconds: number): string {
  const total = times.reduce((sum, { seconds }) => sum + seconds, 0)
  const rows = [...times]
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, LISTED)
    .map(({ name, seconds }) => `${seconds.toFixed(1).padStart(8)} s  ${name}`)
  return [
    `Slowest of ${times.length} test files:`,
    ...rows,
    `${total.toFixed(1).padStart(8)} s  all files, ${wallSeconds.toFixed(1)} s on the clock`,
  ].join('\n')
}

/** Lists the slowest files after a run of several, so that a suite that grows slower is noticed. */
export class TimeReporter implements Reporter {
  #startedAt = 0

  onTestRunStart(): void {
    this.#startedAt = performance.now()
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length < 2) return
    const wallSeconds = (performance.now() - this.#startedAt) / 1000
    console.log(`\n${timeTable(modules.map(timeOf), wallSeconds)}\n`)
  }
}
