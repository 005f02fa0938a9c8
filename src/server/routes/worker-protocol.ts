import type { FastifyRequest } from 'fastify'
import {
  BrokenBody,
  CheckpointAnswer,
  CheckpointBody,
  CloseBody,
  CycleAnswerBody,
  CycleBody,
  DevicesAnswer,
  DevicesBody,
  Done,
  HandBackBody,
  HeartbeatAnswer,
  HeartbeatBody,
  LeaseBody,
  LogsAnswer,
  LogsBody,
  ProcessesAnswer,
  ProcessesBody,
  ProgressAnswer,
  ProgressBody,
  RegisterBody,
  Registered,
  RestoreBody,
  StepAnswer,
  StepBody,
  StepResultBody,
  WithdrawBody,
  WorkerParams,
} from '../../api/worker-protocol.ts'
import type { Queryable } from '../../db/database.ts'
import type { Caller } from '../../engine/access/caller.ts'
import {
  appendRemoteLogs,
  loadRemoteCheckpoint,
  loadRemoteStep,
  reportBroken,
  reportWithdrawn,
  saveRemoteCheckpoint,
  saveRemoteProgress,
  saveRemoteStep,
} from '../../engine/leases/remote-workers.ts'
import { SluiceError } from '../../errors.ts'
import { firstDue } from '../../model/assignment.ts'
import { toStorableText } from '../../model/json.ts'
import { checkWorkerScope } from '../../model/run-scope.ts'
import { defaultDeadline } from '../../model/settings.ts'
import { forbidden } from '../callers/access.ts'
import { identifyAgain } from '../callers/identify-again.ts'
import { highestPriorityOf } from '../callers/priority-cap.ts'
import { onDisconnect } from '../http/on-disconnect.ts'
import { recordingRefusals } from '../limits/refusals.ts'
import type { Server, ServerParts } from '../parts.ts'
import { toPrefetch } from '../remote/prefetch.ts'
import { RemoteWorkers } from '../remote/remote-workers.ts'
import { recordOf, toAnswer, toEnded, toNews, toReadings } from '../remote/wire.ts'

/** Enough for a result of 16 MiB in which every character has to be escaped. */
const PAYLOAD_BYTES = 40 * 1024 * 1024

/** `/workers`: the protocol of workers without access to the database. A key reaches only workers it registered. */
export function workerProtocolRoutes(server: Server, parts: ServerParts): void {
  const workers = new RemoteWorkers(parts)
  server.addHook('preClose', async () => workers.drain())
  server.addHook('onClose', () => workers.stop())
  lifeRoutes(server, parts, workers)
  traceRoutes(server, parts, workers)
  memoryRoutes(server, parts, workers)
}

const tags = ['worker protocol']
const config = { access: 'workers:run' } as const

function lifeRoutes(server: Server, parts: ServerParts, workers: RemoteWorkers): void {
  const { services } = parts

  server.post(
    '/workers',
    {
      config,
      schema: { summary: 'Register a worker', tags, body: RegisterBody, response: { 201: Registered } },
    },
    async (request, reply) => {
      const { name, capacity, cores, tasks, labels = {}, host = '', pid = 0, version = '' } = request.body
      const { rank = 0, pool = null, request: askedFor = null, build = null } = request.body
      const { processes: processLimit = null } = request.body
      const names = tasks.map((task) => task.name)
      if (new Set(names).size < names.length)
        throw new SluiceError('INVALID_ARGUMENT', 'tasks: a name appears twice: remove one')
      const pooled = tasks.filter((task) => task.pooled === true).map((task) => task.name)
      const { keyId, runs } = request.caller
      const deadlineMs = defaultDeadline(services.settings)
      const identity = {
        ...{ name, host, pid, version, capacity, cores, tasks: names, labels, pooled, keyId },
        ...{ rank, pool, request: askedFor, build, processLimit },
      }
      const what = { action: 'worker.register', target: `worker ${toStorableText(name, 200)}` }
      const { id, differing } = await recordingRefusals(parts, request, what, async () => {
        checkWorkerScope(runs, { tasks: names, capacity, rank, pool }, keyId)
        return workers.register(
          { identity, lanes: runs.lanes, highestPriority: highestPriorityOf(request.caller) },
          tasks.map((task) => recordOf(task, deadlineMs)),
          recordOf({ name: '' }, deadlineMs),
        )
      })
      const staleMs = Object.fromEntries(await workers.staleByLane())
      reply.code(201)
      const differs = differing.map(({ task, fields }) => ({ task, fields: [...fields] }))
      return { id, heartbeatMs: services.heartbeatMs, staleMs, ...(differs.length > 0 && { differs }) }
    },
  )

  server.post(
    '/workers/:id/cycle',
    {
      config: { ...config, share: 0 },
      bodyLimit: PAYLOAD_BYTES,
      schema: {
        summary: 'Report outcomes and take jobs; waits while there are none',
        tags,
        params: WorkerParams,
        body: CycleBody,
        response: { 200: CycleAnswerBody },
      },
    },
    async (request, reply) => {
      const { ended = [], running, free, freeProcesses = 0, waitMs = 0, resync = false, news } = request.body
      const { limits, prefetch } = request.body
      const receivedAt = performance.now() - reply.elapsedTime
      const reported = ended.map((each) => toEnded(each, receivedAt))
      const told = {
        ...(news !== undefined && { news: toNews(news) }),
        ...(limits !== undefined && { limits: new Map(Object.entries(limits)) }),
        ...(prefetch !== undefined && { prefetch: toPrefetch(prefetch) }),
      }
      const checkRight = async () => {
        await workers.get(request.params.id, await findAllowed(parts.connections.keys, request))
      }
      const cycle = { ended: reported, running, free, freeProcesses, waitMs, resync, checkRight, ...told }
      const onGone = (gone: () => void) => onDisconnect(reply.raw, gone)
      const answer = await workers.cycle(request.params.id, request.caller, cycle, onGone)
      if (reported.length > 0) services.noteEnded(firstDue(reported))
      // Bypasses the serialiser of the schema: this is a hot path, and this program built the response.
      return reply.type('application/json').serializer(JSON.stringify).send(toAnswer(answer))
    },
  )

  server.post(
    '/workers/:id/heartbeat',
    {
      config: { ...config, share: 0 },
      schema: {
        summary: 'Renew the leases of a worker',
        tags,
        params: WorkerParams,
        body: HeartbeatBody,
        response: { 200: HeartbeatAnswer },
      },
    },
    async (request) => {
      const { cancels, stopping, shares, ...beat } = await workers.beat(
        request.params.id,
        request.caller,
        request.body?.blocked,
      )
      return { ...beat, cancel: [...cancels], stop: stopping, ...(shares !== null && { shares }) }
    },
  )

  server.post(
    '/workers/:id/hand-back',
    {
      config,
      schema: {
        summary: 'Take back assigned jobs from a worker whose main loop is blocked',
        tags,
        params: WorkerParams,
        body: HandBackBody,
        response: { 200: Done },
      },
    },
    async ({ params, caller, body }) => {
      await workers.handBack(params.id, caller, body.jobs, body.seen)
      return { done: true }
    },
  )

  server.post(
    '/workers/:id/devices',
    {
      config,
      schema: {
        summary: 'Report the devices that this worker offers to budgets, and their use',
        tags,
        params: WorkerParams,
        body: DevicesBody,
        response: { 200: DevicesAnswer },
      },
    },
    async ({ params, caller, body }) => {
      const budgets = await workers.reportDevices(params.id, caller, toReadings(body))
      return { budgets: budgets.map((each) => ({ ...each, declared: { ...each.declared } })) }
    },
  )

  server.post(
    '/workers/:id/processes',
    {
      config,
      schema: {
        summary: 'Get the share of the cores of its host that this worker may use for its process pool',
        tags,
        params: WorkerParams,
        body: ProcessesBody,
        response: { 200: ProcessesAnswer },
      },
    },
    async ({ params, caller, body }) => {
      return { size: await workers.shareProcesses(params.id, caller, body.held) }
    },
  )

  server.post(
    '/workers/:id/broken',
    {
      config,
      // The body is optional, because the worker may not know the reason.
      preValidation: async (request) => {
        request.body ??= {}
      },
      schema: {
        summary: 'Report that this worker can no longer start jobs',
        tags,
        params: WorkerParams,
        body: BrokenBody,
        response: { 200: Done },
      },
    },
    async (request) => {
      await workers.get(request.params.id, request.caller)
      await reportBroken(services.calls, request.params.id, request.body.why ?? 'it did not say why')
      return { done: true }
    },
  )

  server.post(
    '/workers/:id/withdraw',
    {
      config,
      schema: {
        summary: 'Report that this worker cannot start a task, and when it will retry',
        tags,
        params: WorkerParams,
        body: WithdrawBody,
        response: { 200: Done },
      },
    },
    async ({ params, caller, body }) => {
      await workers.get(params.id, caller)
      await reportWithdrawn(services.calls, params.id, body)
      return { done: true }
    },
  )

  server.post(
    '/workers/:id/restore',
    {
      config,
      schema: {
        summary: 'Report that this worker can start a withdrawn task again',
        tags,
        params: WorkerParams,
        body: RestoreBody,
        response: { 200: Done },
      },
    },
    async ({ params, caller, body }) => {
      await workers.restoreTask(params.id, caller, body.task)
      return { done: true }
    },
  )

  server.post(
    '/workers/:id/close',
    {
      config,
      schema: {
        summary: 'Deregister a worker; it must have reported all outcomes',
        tags,
        params: WorkerParams,
        body: CloseBody,
        response: { 200: Done },
      },
    },
    async (request) => {
      await workers.close(request.params.id, request.caller, request.body.why ?? 'stopped')
      return { done: true }
    },
  )
}

function traceRoutes(server: Server, { services }: ServerParts, workers: RemoteWorkers): void {
  server.post(
    '/workers/:id/logs',
    {
      config,
      bodyLimit: PAYLOAD_BYTES,
      schema: {
        summary: 'Store log lines of attempts that this worker runs, or that ended in the last 10 s',
        tags,
        params: WorkerParams,
        body: LogsBody,
        response: { 200: LogsAnswer },
      },
    },
    async (request) => {
      await workers.get(request.params.id, request.caller)
      const refused = await appendRemoteLogs(services.calls, request.params.id, request.body.lines)
      return { refused: [...refused] }
    },
  )

  server.post(
    '/workers/:id/progress',
    {
      config,
      bodyLimit: PAYLOAD_BYTES,
      schema: {
        summary: 'Store the progress of jobs that this worker holds',
        tags,
        params: WorkerParams,
        body: ProgressBody,
        response: { 200: ProgressAnswer },
      },
    },
    async (request) => {
      await workers.get(request.params.id, request.caller)
      const notes = request.body.notes.map(({ message = null, ...note }) => ({ ...note, message }))
      const refused = await saveRemoteProgress(services.calls, request.params.id, notes)
      return { done: refused.length === 0, refused: [...refused] }
    },
  )
}

function memoryRoutes(server: Server, { services }: ServerParts, workers: RemoteWorkers): void {
  const { calls } = services
  const lease = async (
    workerId: string,
    caller: Caller,
    { id, attempt }: { readonly id: string; readonly attempt: number },
  ) => {
    await workers.get(workerId, caller)
    return { jobId: id, attempt, workerId }
  }

  server.post(
    '/workers/:id/steps/load',
    {
      config,
      schema: {
        summary: 'The committed result of a step',
        tags,
        params: WorkerParams,
        body: StepBody,
        response: { 200: StepAnswer },
      },
    },
    async ({ params, caller, body }) => {
      const step = await loadRemoteStep(calls, await lease(params.id, caller, body), body.name)
      return step === undefined ? {} : { result: JSON.stringify(step.result) }
    },
  )

  server.post(
    '/workers/:id/steps/save',
    {
      config,
      bodyLimit: PAYLOAD_BYTES,
      schema: {
        summary: 'Commit the result of a step; returns the first committed result',
        tags,
        params: WorkerParams,
        body: StepResultBody,
        response: { 200: StepAnswer },
      },
    },
    async ({ params, caller, body }) => {
      const held = await lease(params.id, caller, body)
      return { result: JSON.stringify(await saveRemoteStep(calls, held, body.name, body.result)) }
    },
  )

  server.post(
    '/workers/:id/checkpoint/load',
    {
      config,
      schema: {
        summary: 'The last checkpoint of a job',
        tags,
        params: WorkerParams,
        body: LeaseBody,
        response: { 200: CheckpointAnswer },
      },
    },
    async ({ params, caller, body }) => {
      const value = await loadRemoteCheckpoint(calls, await lease(params.id, caller, body))
      return { value: JSON.stringify(value) }
    },
  )

  server.post(
    '/workers/:id/checkpoint/save',
    {
      config,
      bodyLimit: PAYLOAD_BYTES,
      schema: {
        summary: 'Replace the checkpoint of a job',
        tags,
        params: WorkerParams,
        body: CheckpointBody,
        response: { 200: Done },
      },
    },
    async ({ params, caller, body }) => {
      await saveRemoteCheckpoint(calls, await lease(params.id, caller, body), body.value)
      return { done: true }
    },
  )
}

/**
 * Checks again after a long poll, because the key may have been revoked or restricted meanwhile, or its role may have lost the permission.
 *
 * @throws {SluiceError} `UNAUTHENTICATED`, `FORBIDDEN`
 */
async function findAllowed(db: Queryable, request: FastifyRequest): Promise<Caller> {
  const caller = await identifyAgain(db, request)
  if (caller === undefined)
    throw new SluiceError('UNAUTHENTICATED', 'the key or session has expired or was revoked meanwhile')
  if (!caller.may(config.access)) throw forbidden(caller, [config.access])
  return caller
}
