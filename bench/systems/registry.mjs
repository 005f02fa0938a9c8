// What can be measured. A system is an adapter file in this folder plus the options it is opened with.
//
// An adapter exports `open({ url, redis, role, options })`, which resolves with:
//   setup()                          creates the schema in an empty database; called once, by the coordinator
//   bulkEnqueue(count, { lanes, call })   resolves when `count` jobs are committed, alternating over `lanes` lanes;
//                                    `call`, where Sluice is measured: how many jobs one call submits
//   enqueueMany(payloads)            one call of the bulk interface; used for arrivals
//   enqueueOne(payload)              resolves when this one job is committed
//   startWorker({ slots, lanes, onJob })   runs jobs in this process until `stop()` of what it resolves with
//   enqueueMixed(count)              where `options.mixed` is set: the jobs of the scenario `mixed`
//   enqueueUrgent(payload)           one job that starts before all others, where a scenario asks for it
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

const GRAPHILE_TUNED = {
  localQueue: 500,
  completeDelay: 0,
  slots: null,
  pool: 10,
  producerPool: 16,
  bulk: 5000,
}

// Many processes share the backlog, so smaller local queues and batches may be better than in one process.
const GRAPHILE_MANY = [
  { slots: null, completeDelay: 0, localQueue: 500 },
  { slots: null, completeDelay: 5, localQueue: 500 },
  { slots: null, completeDelay: 0, localQueue: 100 },
  { slots: null, completeDelay: 5, localQueue: 100 },
  { slots: null, completeDelay: 0, localQueue: 100, pool: 3 },
]
const PGBOSS_MANY = [
  { batchSize: 100, concurrency: 1 },
  { batchSize: 100, concurrency: 2 },
  { batchSize: 500, concurrency: 1 },
  { batchSize: 500, concurrency: 2 },
]
const BULK_CALLS = [{ bulk: 1000 }, { bulk: 5000 }, { bulk: 20_000 }]
const PRODUCER_POOLS = [{ producerPool: 4 }, { producerPool: 8 }, { producerPool: 16 }]

/** @type {Record<string, { adapter: string, label: string, store: 'postgres' | 'redis', options: object,
 *   appendfsync?: string, features: string[], sweep?: Record<string, object[]> }>}
 * `sweep` has the candidates by the name of the sweep: a scenario, and a shape where its shapes are swept apart. A
 * case names the sweep whose best settings its system takes. */
export const SYSTEMS = {
  sluice: {
    adapter: 'sluice',
    label: 'Sluice',
    store: 'postgres',
    options: {},
    features: ['limit', 'lanes', 'history', 'finishDelays'],
  },
  // An earlier commit, built in a folder of its own: --before names it.
  'sluice-before': {
    adapter: 'sluice',
    label: 'Sluice, earlier commit',
    store: 'postgres',
    options: {},
    features: ['limit', 'lanes', 'history', 'finishDelays'],
  },
  graphile: {
    adapter: 'graphile',
    label: 'graphile-worker, defaults',
    store: 'postgres',
    options: { pool: 10, producerPool: 16, bulk: 5000 },
    features: ['lanes'],
    sweep: { bulk: BULK_CALLS, submit: PRODUCER_POOLS },
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
      'workers 8x25': GRAPHILE_MANY,
      'workers 16x5': GRAPHILE_MANY,
    },
  },
  pgboss: {
    adapter: 'pgboss',
    label: 'pg-boss, batches, burst',
    store: 'postgres',
    options: { batchSize: 500, concurrency: 2, notify: false, producerPool: 16, bulk: 5000 },
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
      'workers 8x25': PGBOSS_MANY,
      'workers 16x5': PGBOSS_MANY,
      bulk: BULK_CALLS,
      submit: PRODUCER_POOLS,
    },
  },
  'pgboss-notify': {
    adapter: 'pgboss',
    label: 'pg-boss, LISTEN/NOTIFY on',
    store: 'postgres',
    options: { batchSize: 50, concurrency: 2, notify: true, producerPool: 16, bulk: 5000 },
    features: ['history', 'finishDelays'],
    sweep: { submit: PRODUCER_POOLS },
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
    options: { bulk: 1000, postgres: true, pool: 16, producerPool: 16 },
    features: [],
    sweep: { bulk: [{ bulk: 200 }, { bulk: 1000 }, { bulk: 5000 }], submit: PRODUCER_POOLS },
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

/** Only Sluice has lanes with a limit. */
export function isSluice(system) {
  return SYSTEMS[system].adapter === 'sluice'
}

/** Loads the adapter of a system. */
export async function loadAdapter(name) {
  return import(new URL(`./${SYSTEMS[name].adapter}.mjs`, import.meta.url).href)
}
