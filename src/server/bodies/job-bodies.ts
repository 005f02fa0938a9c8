import type { JobSummaryBody } from '../../api/job-list.ts'
import type { JobBody, TreeBody } from '../../api/jobs.ts'
import type { ListedJob } from '../../engine/views/job-list.ts'
import type { NotReached, TreeNode } from '../../engine/views/tree.ts'
import type { JobSummary, JobView } from '../../store/find-jobs.ts'

export function toJobBody(job: JobView): JobBody {
  return { ...job, ...written(job) }
}

export function toSummaryBody(job: ListedJob): JobSummaryBody {
  return { ...job, ...written(job) }
}

/** What the wire writes differently. */
function written(job: JobSummary) {
  return {
    tags: [...job.tags],
    devices: [...job.devices],
    resubmittedAs: [...job.resubmittedAs],
    submittedAt: job.submittedAt.toISOString(),
    readyAt: job.readyAt.toISOString(),
    deadlineAt: orNull(job.deadlineAt),
    startedAt: orNull(job.startedAt),
    finishedAt: orNull(job.finishedAt),
  }
}

export function toTreeBody(node: TreeNode): TreeBody {
  const { children, counts, notReached, ...rest } = node
  return {
    ...rest,
    earlierIds: [...node.earlierIds],
    submittedAt: node.submittedAt.toISOString(),
    startedAt: orNull(node.startedAt),
    finishedAt: orNull(node.finishedAt),
    ...(counts !== undefined && { counts }),
    ...(notReached !== undefined && { notReached: toNotReachedBody(notReached) }),
    children: children.map(toTreeBody),
  }
}

export function toNotReachedBody({ total, steps }: NotReached): NonNullable<TreeBody['notReached']> {
  return { total, steps: [...steps] }
}

export function orNull(date: Date | null): string | null {
  return date?.toISOString() ?? null
}
