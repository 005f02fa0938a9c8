import { count } from '../output/in-words.ts'
import type { Output } from '../output/output.ts'
import { painter } from '../output/style.ts'
import { writeTable } from '../output/table.ts'
import type { Stories } from './showing.ts'

export interface LaneSummary {
  readonly name: string
  /** `null`: no limit. */
  readonly slots: number | null
  /** The most that were seen running at once. */
  readonly most: number
  readonly completed: number
}

export interface TourSummary {
  /** Done in this run. */
  readonly jobs: number
  /** Done by an earlier, interrupted run. */
  readonly earlier: number
  readonly seconds: number
  /** Of the jobs: queued by the earlier run. */
  readonly continued: number
  readonly lanes: readonly LaneSummary[]
  readonly stories: Stories
}

/** Tells what ran, and where to go from here. */
export function writeSummary(
  output: Output,
  summary: TourSummary,
  picture: readonly string[],
  command: string,
): void {
  const { jobs, earlier, seconds, lanes, stories } = summary
  const paint = painter(output)
  output.line()
  // On a terminal it was drawn above.
  if (!output.isTerminal) for (const line of [...picture, '']) output.line(line)
  const within = lanes.every((lane) => lane.slots === null || lane.most <= lane.slots)
  const verdict = within ? 'no lane was ever over its limit' : 'a lane was over its limit: please report this'
  const before = earlier === 0 ? '' : `, after ${earlier} in an earlier run`
  output.line(paint('bold', `${count(jobs, 'job')} in ${seconds.toFixed(1)} seconds${before}; ${verdict}:`))
  output.line()
  writeTable(
    output,
    [
      { title: 'LANE', value: (lane) => lane.name },
      { title: 'SLOTS', value: (lane) => String(lane.slots ?? 'none'), align: 'right' },
      { title: 'MOST AT ONCE', value: (lane) => String(lane.most), align: 'right' },
      { title: 'COMPLETED', value: (lane) => String(lane.completed), align: 'right' },
    ],
    lanes,
  )
  output.line()
  if (stories.flaky !== undefined)
    output.line(`Job ${stories.flaky} failed twice and succeeded at its third attempt.`)
  if (stories.retried !== undefined)
    output.line(`Job ${stories.retried} failed for good; an operator's retry made it succeed.`)
  if (stories.attached !== undefined)
    output.line(
      `Job ${stories.attached} was submitted twice with one key: there is one job, and both got it.`,
    )
  output.line('All of it is in PostgreSQL, with results, attempts and logs. Look around:')
  output.line()
  const steps: [string, string][] = [
    [`${command} ps --all`, 'what ran'],
    ...(stories.flaky === undefined
      ? []
      : ([[`${command} show ${stories.flaky}`, 'one job with its attempts']] as [string, string][])),
    [`${command} lanes`, 'the lanes; lanes set changes one while workers run'],
    [`${command} doctor`, 'whether the system is healthy'],
    [`${command} --help`, 'everything else'],
  ]
  const width = Math.max(...steps.map(([step]) => step.length))
  for (const [step, what] of steps) output.line(`  ${paint('cyan', step.padEnd(width))}  ${what}`)
  output.line()
  output.line('README.md has a first program, docs/ the rest.')
}
