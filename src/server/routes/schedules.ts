import { Type } from 'typebox'
import { IdempotencyHeaders } from '../../api/jobs.ts'
import { ScheduleChangeBody, ScheduleCreateBody } from '../../api/schedule-changes.ts'
import {
  FiredBody,
  type FiringBody,
  FiringList,
  FiringQuery,
  NextTicksBody,
  NextTicksQuery,
  ScheduleBody,
  ScheduleList,
  ScheduleListQuery,
  ScheduleParams,
} from '../../api/schedules.ts'
import type { Queryable } from '../../db/database.ts'
import type { Caller } from '../../engine/access/caller.ts'
import {
  changeSchedule,
  createSchedule,
  fireNow,
  nextTicks,
  removeSchedule,
  resetSchedule,
  type ScheduleView,
  scheduleFacts,
  viewFirings,
  viewSchedule,
  viewSchedules,
} from '../../engine/schedules/schedules.ts'
import { hasCode, SluiceError } from '../../errors.ts'
import { SCHEDULE_FIELDS } from '../../model/fields/schedule.ts'
import type { Firing } from '../../store/list-firings.ts'
import { orNull } from '../bodies/job-bodies.ts'
import { checkLaneOf } from '../callers/lane-choice.ts'
import { checkPriorityOf } from '../callers/priority-cap.ts'
import { checkIntervalOf } from '../callers/schedule-interval.ts'
import { hiddenJobs } from '../callers/visible-job.ts'
import { change } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

const READ = ['jobs:submit', 'jobs:read:all'] as const
const TAGS = ['schedules']

/**
 * `/schedules`. A schedule and its jobs belong to the caller who created it. Others need `jobs:read:all` to see it and `workers:manage` to
 * change it. For everybody else the server responds as if it did not exist.
 */
export function scheduleRoutes(server: Server, parts: ServerParts): void {
  readingRoutes(server, parts)
  changingRoutes(server, parts)
}

function readingRoutes(server: Server, { services }: ServerParts): void {
  server.get(
    '/schedules',
    {
      config: { access: READ },
      schema: {
        summary: 'All schedules that you may see',
        tags: TAGS,
        querystring: ScheduleListQuery,
        response: { 200: ScheduleList },
      },
    },
    async ({ caller, query: { after, limit = 1000 } }) => {
      const owner = seesAll(caller) ? undefined : caller.name
      const schedules = await viewSchedules(services.calls, { after, owner, limit })
      return {
        schedules: schedules.map(toBody),
        next: schedules.length === limit ? schedules.at(-1)!.name : null,
      }
    },
  )

  server.get(
    '/schedules/:name/next',
    {
      config: { access: READ },
      schema: {
        summary: 'The next ticks of a schedule',
        tags: TAGS,
        params: ScheduleParams,
        querystring: NextTicksQuery,
        response: { 200: NextTicksBody },
      },
    },
    async ({ caller, params, query: { count = 10 } }) => {
      const schedule = await visible(services.calls, caller, params.name)
      const ticks = await nextTicks(services.calls, schedule, count)
      return { ticks: ticks.map((at) => ({ at: at.toISOString() })) }
    },
  )

  server.get(
    '/schedules/:name',
    {
      config: { access: READ },
      schema: {
        summary: 'One schedule',
        tags: TAGS,
        params: ScheduleParams,
        response: { 200: ScheduleBody },
      },
    },
    async ({ caller, params }) => toBody(await visible(services.calls, caller, params.name)),
  )

  server.get(
    '/schedules/:name/firings',
    {
      config: { access: READ },
      schema: {
        summary: 'The past ticks of a schedule with their outcomes, newest first',
        tags: TAGS,
        params: ScheduleParams,
        querystring: FiringQuery,
        response: { 200: FiringList },
      },
    },
    async ({ caller, params, query }) => {
      await visible(services.calls, caller, params.name)
      const { limit = 50, ...rest } = query
      const firings = await viewFirings(services.calls, params.name, { limit, ...rest })
      return {
        firings: firings.map(toFiringBody),
        next: firings.length === limit ? firings[limit - 1]!.id : null,
      }
    },
  )
}

function changingRoutes(server: Server, parts: ServerParts): void {
  server.post(
    '/schedules',
    {
      config: { access: 'jobs:submit' },
      schema: {
        summary: 'Create a schedule',
        tags: TAGS,
        body: ScheduleCreateBody,
        response: { 201: ScheduleBody },
      },
    },
    async (request, reply) => {
      const { name, ...options } = request.body
      const created = await change(parts, request, about('create', name), async (tx) => {
        checkPriorityOf(request.caller, SCHEDULE_FIELDS.priority.read(options.priority))
        await checkLaneOf(tx, request.caller, options.task, options.lane)
        const after = await createSchedule(tx, name, options, request.caller.name)
        await checkIntervalOf(request.caller, tx, after.cron)
        return { result: after, after: scheduleFacts(after) }
      })
      return reply.code(201).header('location', `/api/v1/schedules/${name}`).send(toBody(created))
    },
  )

  server.patch(
    '/schedules/:name',
    {
      config: { access: 'jobs:submit' },
      schema: {
        summary: 'Change a schedule; enabled: false disables it',
        description: 'The change persists until it is reset, whatever files declare.',
        tags: TAGS,
        params: ScheduleParams,
        body: ScheduleChangeBody,
        response: { 200: ScheduleBody },
      },
    },
    async (request) => {
      const { name } = request.params
      return change(parts, request, about('change', name), async (tx) => {
        const before = await changeable(tx, request.caller, name)
        checkPriorityOf(request.caller, SCHEDULE_FIELDS.priority.read(request.body.priority))
        const after = await changeSchedule(tx, name, request.body, request.caller.name)
        const { task, workflow, input, lane } = request.body
        // Without the permission for high priorities, a caller must not repurpose a schedule that has one.
        if ([task, workflow, input].some((each) => each !== undefined))
          checkPriorityOf(request.caller, after.priority)
        if (task !== undefined || lane !== undefined)
          await checkLaneOf(tx, request.caller, after.task, after.lane)
        if (request.body.cron !== undefined) await checkIntervalOf(request.caller, tx, after.cron)
        return { result: toBody(after), before: scheduleFacts(before), after: scheduleFacts(after) }
      })
    },
  )

  server.post(
    '/schedules/:name/reset',
    {
      config: { access: 'jobs:submit' },
      schema: {
        summary: 'Reset a schedule to the values that files and code declare',
        tags: TAGS,
        params: ScheduleParams,
        response: { 200: ScheduleBody },
      },
    },
    async (request) => {
      const { name } = request.params
      return change(parts, request, about('reset', name), async (tx) => {
        const before = await changeable(tx, request.caller, name)
        const after = await resetSchedule(tx, name, request.caller.name)
        return { result: toBody(after), before: scheduleFacts(before), after: scheduleFacts(after) }
      })
    },
  )

  server.delete(
    '/schedules/:name',
    {
      config: { access: 'jobs:submit' },
      schema: {
        summary: 'Delete a schedule; the jobs that it submitted remain',
        description:
          'A schedule that a config file declares exists again when the file is next applied: disable it instead.',
        tags: TAGS,
        params: ScheduleParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      await change(parts, request, about('delete', name), async (tx) => {
        const before = await changeable(tx, request.caller, name)
        await removeSchedule(tx, name)
        return { result: undefined, before: scheduleFacts(before) }
      })
      return reply.code(204).send(null)
    },
  )

  server.post(
    '/schedules/:name/fire',
    {
      config: { access: 'jobs:submit' },
      schema: {
        summary: 'Submit the job of a schedule now, even if it is disabled; its ticks do not change',
        tags: TAGS,
        params: ScheduleParams,
        headers: IdempotencyHeaders,
        response: { 200: FiredBody, 202: FiredBody },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      // A request repeated after a lost response must not submit a second job.
      const fired = await change(parts, request, { ...about('fire', name), once: true }, async (tx) => {
        const { task, lane } = await changeable(tx, request.caller, name)
        await checkLaneOf(tx, request.caller, task, lane)
        const result = await fireNow(tx, name, request.caller.name)
        return { result, after: { jobId: result.id } }
      })
      if (fired.attached && (await hiddenJobs(parts.services.calls, request, [fired.id])).has(fired.id))
        return reply.code(200).send({ ...fired, readable: false })
      return reply
        .code(fired.attached ? 200 : 202)
        .header('location', `/api/v1/jobs/${fired.id}`)
        .send(fired)
    },
  )
}

function about(action: string, name: string) {
  return { action: `schedule.${action}`, target: `schedule ${name}` }
}

function maySee(caller: Caller, { owner }: ScheduleView): boolean {
  return owner === caller.name || seesAll(caller)
}

function seesAll(caller: Caller): boolean {
  return caller.may('jobs:read:all') || caller.may('workers:manage')
}

/**
 * The same error for a schedule that does not exist and for one that the caller may not see. Suggestions contain only visible names.
 *
 * @throws {SluiceError} `SCHEDULE_NOT_FOUND`
 */
async function visible(db: Queryable, caller: Caller, name: string): Promise<ScheduleView> {
  const schedule = await viewSchedule(db, name).catch((error) => {
    if (!hasCode(error, 'SCHEDULE_NOT_FOUND')) throw error
  })
  if (schedule !== undefined && maySee(caller, schedule)) return schedule
  throw new SluiceError('SCHEDULE_NOT_FOUND', `schedule ${JSON.stringify(name)} does not exist`, {
    details: { name },
  })
}

/** @throws {SluiceError} `FORBIDDEN` for a schedule of another owner that the caller may see but not change. */
async function changeable(db: Queryable, caller: Caller, name: string): Promise<ScheduleView> {
  const schedule = await visible(db, caller, name)
  if (schedule.owner === caller.name || caller.may('workers:manage')) return schedule
  throw new SluiceError(
    'FORBIDDEN',
    `schedule ${name} belongs to ${schedule.owner}: only this owner and callers with workers:manage may change or fire it`,
    { details: { needs: ['workers:manage'] } },
  )
}

function toBody(schedule: ScheduleView): ScheduleBody {
  const { tags, nextAt, last, operatorSet, createdAt, updatedAt } = schedule
  return {
    ...schedule,
    tags: [...tags],
    nextAt: orNull(nextAt),
    last: last === null ? null : { ...last, tickAt: last.tickAt.toISOString() },
    operatorSet: [...operatorSet],
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  }
}

function toFiringBody(firing: Firing): FiringBody {
  const { tickAt, since, firedAt } = firing
  return {
    ...firing,
    tickAt: tickAt.toISOString(),
    since: orNull(since),
    firedAt: firedAt.toISOString(),
  }
}
