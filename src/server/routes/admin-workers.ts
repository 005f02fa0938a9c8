import { StatusBody, WorkerLabelsQuery, WorkerNameParams, WorkersAskedBody } from '../../api/admin-workers.ts'
import {
  ChangedJobBody,
  JobParams,
  OperatorCancelBody,
  OperatorCancelQuery,
  PriorityBody,
  ReprioritisedBody,
} from '../../api/jobs.ts'
import type { Queryable } from '../../db/database.ts'
import * as jobControl from '../../engine/operate/job-control.ts'
import { askToStop, setDraining } from '../../engine/operate/worker-control.ts'
import { type BudgetsView, viewBudgets } from '../../engine/views/budget-view.ts'
import { type SystemStatus, systemStatus } from '../../engine/views/system-status.ts'
import { invalidArgument } from '../../model/argument.ts'
import type { Labels } from '../../model/fields/pool.ts'
import { statusOf } from '../../model/job.ts'
import { toBudgetBody } from '../bodies/budget-body.ts'
import { orNull } from '../bodies/job-bodies.ts'
import { toLaneBody } from '../bodies/lane-body.ts'
import { change } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/workers`: the workers with their jobs, and the actions of operators on workers and on jobs of any owner. */
export function adminWorkerRoutes(server: Server, parts: ServerParts): void {
  const tags = ['workers']
  const manage = { access: 'workers:manage' } as const

  server.get(
    '/admin/workers/status',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Workers and their running jobs; depth and oldest wait per lane and task; budgets',
        tags,
        response: { 200: StatusBody },
      },
    },
    async () =>
      toStatusBody(await systemStatus(parts.services.calls), await viewBudgets(parts.services.calls)),
  )

  for (const { name, summary, ask } of REQUESTS) {
    server.post(
      `/admin/workers/:name/${name}`,
      {
        config: manage,
        schema: {
          summary,
          tags,
          params: WorkerNameParams,
          querystring: WorkerLabelsQuery,
          response: { 200: WorkersAskedBody },
        },
      },
      async (request) => {
        const worker = request.params.name
        const labels = readLabels(request.query.labels)
        const what = { action: `worker.${name}`, target: `worker ${worker}` }
        return change(parts, request, what, async (tx) => {
          const workers = await ask(tx, worker, labels)
          const which = Object.keys(labels).length > 0 ? { labels } : {}
          return { result: { workers }, after: { workers, ...which } }
        })
      },
    )
  }

  server.post(
    '/admin/workers/jobs/:id/cancel',
    {
      config: manage,
      schema: {
        summary: 'Cancel a job of any owner, with all jobs below it',
        description:
          'A running job is asked to stop, and its status remains running until it has stopped. The reason, in the body or the query, becomes the error of the job.',
        tags,
        params: JobParams,
        querystring: OperatorCancelQuery,
        body: OperatorCancelBody,
        response: { 200: ChangedJobBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const reason = request.body?.reason ?? request.query.reason ?? `by ${request.caller.name}`
      return change(parts, request, { action: 'job.cancel', target: `job ${id}` }, async (tx) => {
        const before = await jobControl.getJob(tx, id)
        const state = await jobControl.cancel(tx, id, reason)
        return {
          result: { id, status: statusOf(state) },
          before: { status: before.status },
          after: jobControl.cancelFacts(state, reason),
        }
      })
    },
  )

  server.patch(
    '/admin/workers/jobs/:id/priority',
    {
      config: manage,
      schema: {
        summary: 'Change the priority of a waiting job, or of a workflow that has not ended',
        tags,
        params: JobParams,
        body: PriorityBody,
        response: { 200: ReprioritisedBody },
      },
    },
    async (request) => {
      const { id } = request.params
      return change(parts, request, { action: 'job.priority', target: `job ${id}` }, async (tx) => {
        const before = await jobControl.getJob(tx, id)
        await jobControl.reprioritise(tx, id, request.body.priority)
        const { status, priority } = await jobControl.getJob(tx, id)
        return {
          result: { id, status, priority },
          before: { priority: before.priority },
          after: { priority },
        }
      })
    },
  )
}

interface WorkerRequest {
  readonly name: string
  readonly summary: string
  readonly ask: (tx: Queryable, worker: string, labels: Labels) => Promise<number>
}

const REQUESTS: readonly WorkerRequest[] = [
  {
    name: 'drain',
    summary: 'Drain the workers with a name, so that they take no more jobs',
    ask: (tx, worker, labels) => setDraining(tx, worker, true, labels),
  },
  {
    name: 'undrain',
    summary: 'Undrain the workers with a name, so that they take jobs again',
    ask: (tx, worker, labels) => setDraining(tx, worker, false, labels),
  },
  {
    name: 'stop',
    summary: 'Shut down the workers with a name: running jobs may finish, other jobs are handed back',
    ask: askToStop,
  },
]

/** @throws {SluiceError} `INVALID_ARGUMENT` */
function readLabels(text = '{}'): Labels {
  const expected = 'a JSON object of texts, numbers and booleans, such as {"zone":"a"}'
  try {
    const labels: unknown = JSON.parse(text)
    if (typeof labels === 'object' && labels !== null && !Array.isArray(labels)) return labels as Labels
  } catch {
    // The error below covers invalid JSON too.
  }
  throw invalidArgument('labels', text, expected)
}

function toStatusBody(
  { workers, lanes, queues, duties }: SystemStatus,
  { budgets }: BudgetsView,
): StatusBody {
  return {
    workers: workers.map((worker) => ({
      ...worker,
      tasks: [...worker.tasks],
      labels: { ...worker.labels },
      withdrawn: worker.withdrawn.map(({ since, retryAt, ...each }) => ({
        ...each,
        since: since.toISOString(),
        retryAt: retryAt.toISOString(),
      })),
      startedAt: worker.startedAt.toISOString(),
      seenAt: worker.seenAt.toISOString(),
      jobs: worker.jobs.map((job, before) => ({
        ...job,
        slot: before + 1,
        startedAt: job.startedAt.toISOString(),
      })),
    })),
    lanes: lanes.map(toLaneBody),
    queues: queues.map((queue) => ({
      ...queue,
      oldestAt: orNull(queue.oldestAt),
      sampledAt: queue.sampledAt.toISOString(),
    })),
    budgets: budgets.map(toBudgetBody),
    duties: duties.map((duty) => ({ ...duty, ranAt: orNull(duty.ranAt) })),
  }
}
