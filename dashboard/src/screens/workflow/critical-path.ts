/** What of a step decides how long a run takes. */
export interface TimedStep {
  readonly step: string
  readonly needs: readonly string[]
  readonly job?:
    | { readonly status: string; readonly startedAt: Date | null; readonly finishedAt: Date | null }
    | undefined
}

/**
 * The steps that decided when the last one ended, the first of them first: from the step that ended last, or still runs,
 * back through the one it had to wait for longest.
 *
 * A skipped step took no time: it is never the last, but the way may lead through it to what it was decided by.
 */
export function criticalPath(steps: readonly TimedStep[]): readonly string[] {
  const byName = new Map(steps.filter(ended).map((step) => [step.step, step]))
  let at = latest(steps.filter(took))
  const path: string[] = []
  while (at !== undefined && !path.includes(at.step)) {
    path.unshift(at.step)
    at = latest(at.needs.flatMap((name) => byName.get(name) ?? []))
  }
  return path
}

function ended({ job }: TimedStep): boolean {
  return job !== undefined && (job.startedAt !== null || job.finishedAt !== null)
}

function took({ job }: TimedStep): boolean {
  return job !== undefined && job.status !== 'skipped' && (job.startedAt !== null || job.finishedAt !== null)
}

/** What has not ended ends after all that has. */
function latest(steps: readonly TimedStep[]): TimedStep | undefined {
  let last: TimedStep | undefined
  for (const step of steps) if (last === undefined || endOf(step) > endOf(last)) last = step
  return last
}

function endOf({ job }: TimedStep): number {
  return job?.finishedAt?.getTime() ?? Number.POSITIVE_INFINITY
}
