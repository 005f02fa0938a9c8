// What can be measured. A system is an adapter file in this folder plus the options it is opened with.
//
// An adapter exports `open({ url, redis, role, options })`, which resolves with:
//   setup()                          creates the schema in an empty database; called once, by the coordinator
//   bulkEnqueue(count, { lanes })    resolves when `count` jobs are committed, alternating over `lanes` lanes
//   enqueueMany(payloads)            one call of the bulk interface; used for arrivals
//   enqueueOne(payload)              resolves when this one job is committed
//   startWorker({ slots, lanes, onJob })   runs jobs in this process until `stop()` of what it resolves with
//   startWorkflows(shape, n)         where `options.workflows` is set; every step runs the handler. `three`: n
//                                    workflows of three steps; `three-bulk`: the same through the bulk call;
//                                    `fan`: a fan-out over n items, 100 at once; `chain`, `tree`: n workflows deep, one
//                                    or two in each, and a step. Resolves when they are committed, or later
//   notCompleted()                   jobs and workflows that are not completed, or failed
//   unfinished()                     0 once every job's outcome is committed; any other number means "not yet"
//   finishDelays()                   optional: per finished job, commit time minus `payload.w`, in ms
//   close()
// `role` is `coordinator` (enqueues the backlog, watches), `producer` or `worker`. A payload is a small
// JSON object; `onJob(payload)` returns a promise. Processes are the harness's business: an adapter
// only ever deals with the process it is in.

const GRAPHILE_TUNED = { localQueue: 500, completeDelay: 0, slots: null, pool: 10, bulk: 5000 }

/** @type {Record<string, { adapter: string, label: string, store: 'postgres' | 'redis', options: object,
 *   appendfsync?: string, features: string[], sweep?: Record<string, object[]> }>} */
export const SYSTEMS = {
  sluice: {
    adapter: 'sluice',
    label: 'Sluice',
    store: 'postgres',
    options: {},
    features: ['limit', 'lanes', 'history', 'finishDelays'],
  },
  graphile: {
    adapter: 'graphile',
    label: 'graphile-worker, defaults',
    store: 'postgres',
    options: { pool: 10, bulk: 5000 },
    features: ['lanes'],
    sweep: { bulk: [{ bulk: 1000 }, { bulk: 5000 }, { bulk: 20_000 }] },
  },
  'graphile-tuned': {
    adapter: 'graphile',
    label: 'graphile-worker, local queue 500, batched completion',
    store: 'postgres',
    options: GRAPHILE_TUNED,
    features: ['lanes'],
    // `slots: 24` runs fewer handlers at once than the scenario asks for: a local queue of 500 feeds
    // them faster than 100 loops that wait on each other.
    sweep: {
      drain: [
        { slots: null, completeDelay: 0 },
        { slots: null, completeDelay: 5 },
        { slots: 24, completeDelay: 0 },
        { slots: 24, completeDelay: 5 },
        { slots: 24, completeDelay: 0, localQueue: 1000 },
        { slots: null, completeDelay: 0, localQueue: 1000 },
        { slots: null, completeDelay: 0, pool: 20 },
      ],
    },
  },
  pgboss: {
    adapter: 'pgboss',
    label: 'pg-boss, batches, burst',
    store: 'postgres',
    options: { batchSize: 500, concurrency: 2, notify: false, bulk: 5000 },
    features: ['history', 'finishDelays'],
    sweep: {
      drain: [
        { batchSize: 100, concurrency: 1 },
        { batchSize: 500, concurrency: 1 },
        { batchSize: 500, concurrency: 2 },
        { batchSize: 500, concurrency: 4 },
        { batchSize: 1000, concurrency: 2 },
        { batchSize: 2000, concurrency: 2 },
      ],
      bulk: [{ bulk: 1000 }, { bulk: 5000 }, { bulk: 20_000 }],
    },
  },
  'pgboss-notify': {
    adapter: 'pgboss',
    label: 'pg-boss, LISTEN/NOTIFY on',
    store: 'postgres',
    options: { batchSize: 50, concurrency: 2, notify: true, bulk: 5000 },
    features: ['history', 'finishDelays'],
  },
  bullmq: {
    adapter: 'bullmq',
    label: 'BullMQ on Redis, appendfsync everysec',
    store: 'redis',
    appendfsync: 'everysec',
    options: { bulk: 1000 },
    features: [],
    sweep: { bulk: [{ bulk: 200 }, { bulk: 1000 }, { bulk: 5000 }] },
  },
  'bullmq-always': {
    adapter: 'bullmq',
    label: 'BullMQ on Redis, appendfsync always',
    store: 'redis',
    appendfsync: 'always',
    options: { bulk: 1000 },
    features: [],
    sweep: { bulk: [{ bulk: 200 }, { bulk: 1000 }, { bulk: 5000 }] },
  },
  'bullmq-postgres': {
    adapter: 'bullmq',
    label: 'BullMQ on its PostgreSQL backend',
    store: 'postgres',
    options: { bulk: 1000, postgres: true, pool: 16 },
    features: [],
    sweep: { bulk: [{ bulk: 200 }, { bulk: 1000 }, { bulk: 5000 }] },
  },
  dbos: {
    adapter: 'dbos',
    label: 'DBOS, workflows started directly',
    store: 'postgres',
    options: { pool: 10, inFlight: 100, queue: null },
    features: ['history'],
    sweep: {
      workflows: [
        { pool: 10, inFlight: 100 },
        { pool: 20, inFlight: 100 },
        { pool: 50, inFlight: 100 },
        { pool: 20, inFlight: 20 },
        { pool: 20, inFlight: null },
      ],
    },
  },
  'dbos-queue': {
    adapter: 'dbos',
    label: 'DBOS, through its queue',
    store: 'postgres',
    options: { pool: 20, inFlight: 100, queue: { workerConcurrency: 100, minPollingIntervalMs: 10 } },
    features: ['history'],
    // The default polls once a second. A global limit counts what runs in the database for every poll.
    sweep: {
      workflows: [
        { pool: 10, queue: { workerConcurrency: 100, minPollingIntervalMs: 10 } },
        { pool: 20, queue: { workerConcurrency: 100, minPollingIntervalMs: 10 } },
        { pool: 20, queue: { workerConcurrency: 100, minPollingIntervalMs: 50 } },
        { pool: 20, queue: { workerConcurrency: 500, minPollingIntervalMs: 10 } },
        { pool: 20, queue: { minPollingIntervalMs: 50 } },
        { pool: 50, queue: { minPollingIntervalMs: 10 } },
      ],
    },
  },
}

/** Every PostgreSQL peer that has jobs: "the best PostgreSQL peer" of a goal is the best of these. */
export const POSTGRES_PEERS = ['graphile', 'graphile-tuned', 'pgboss', 'pgboss-notify', 'bullmq-postgres']

/** Loads the adapter of a system. */
export async function loadAdapter(name) {
  return import(new URL(`./${SYSTEMS[name].adapter}.mjs`, import.meta.url).href)
}
