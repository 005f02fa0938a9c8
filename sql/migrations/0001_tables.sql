-- The tables of Sluice. Everything lives in the schema "sluice", so every statement is a static text.

create schema if not exists sluice;

-- In the order of a job's life: every state from 'completed' on is final.
create type sluice.job_state as enum
  ('awaiting_approval', 'scheduled', 'waiting', 'ready', 'running', 'completed', 'failed', 'cancelled', 'skipped');

-- Jobs that only wait for their children. A job without a kind is a leaf: a task that runs.
create type sluice.composite_kind as enum ('workflow', 'group', 'fanout');

-- Settings shared by all processes, in milliseconds: heartbeat, how long finished jobs and the audit are kept.
create table sluice.settings (
  name         text primary key,
  value        bigint not null check (value > 0),
  operator_set boolean not null default false,
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice'
);
insert into sluice.settings (name, value) values ('heartbeat_ms', 5000), ('retention_ms', 604800000), ('audit_retention_ms', 31536000000),
  ('schedules_per_owner', 1000), ('schedule_interval_ms', 60000), ('children_per_tree', 1000000), ('tree_depth', 1000);

create table sluice.lanes (
  name         text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  slots        integer check (slots >= 0),           -- whole system; null: no limit
  per_worker   integer check (per_worker >= -1),     -- each worker; null: no limit, 0: its cores, -1: its capacity, else its cores
  poll_ms      integer not null default 2000 check (poll_ms between 10 and 3600000),
  stale_ms     integer not null default 15000 check (stale_ms > 0),
  ageing_ms    integer check (ageing_ms >= 10000),   -- +1 priority per period waited; null: off
  enabled      boolean not null default true,
  placement    text not null default 'fill' check (placement in ('fill', 'spread')),   -- which of several free workers gets a job
  prefetch     integer not null default 1000 check (prefetch between 0 and 1000),   -- jobs a worker may be assigned beyond its slots; 0: none
  operator_set text[] not null default '{}',         -- fields an operator changed: files and code leave them alone
  declared     jsonb not null default '{}',          -- what files and code say; a reset goes back to it; {}: only an operator made it
  deleted_at   timestamptz,                          -- the row stays: jobs that ran there refer to it, and files must not bring it back
  deleted_to   text references sluice.lanes (name),  -- where its tasks and jobs go; null: it was in use by nothing
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice'
);
insert into sluice.lanes (name, slots, per_worker, poll_ms) values
  ('default', null, -1, 2000), ('interactive', 2, null, 2000), ('maintenance', 1, null, 15000), ('system', 1, null, 30000);
update sluice.lanes set declared = jsonb_build_object('slots', slots, 'perWorker', per_worker, 'pollMs', poll_ms, 'staleMs', stale_ms,
                                                      'ageingMs', ageing_ms, 'enabled', enabled, 'placement', placement,
                                                      'prefetch', prefetch);

-- Workflows as they were submitted or declared, with everything they refer to, by the hash of their text. A run keeps the graph it began
-- with.
create table sluice.graphs (
  hash  text primary key,
  body  jsonb not null,
  tasks text[] not null default '{}'   -- the names of those that a run can come to
);

-- The workflows that may be submitted by name.
create table sluice.workflows (
  name        text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  graph       text not null references sluice.graphs (hash),
  priority    integer not null default 0 check (priority between -1000000 and 1000000),
  deadline_ms bigint check (deadline_ms between 0 and 3153600000000),
  timeout_ms  bigint check (timeout_ms > 0),
  updated_at  timestamptz not null default clock_timestamp()
);

-- A task without its code: enough to submit it from any language and to decide about a lost attempt.
create table sluice.tasks (
  name        text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  lane        text not null references sluice.lanes (name),   -- where it is: moved there by an operator, else as declared
  declared_lane text,                      -- what files and code say; null: the same
  lane_from   text check (lane_from in ('file', 'code')),   -- who said so; null: nobody did
  lane_fixed  boolean not null default false,   -- no submission may name another lane
  moved_at    timestamptz,                 -- an operator moved it; files and code leave its lane alone
  moved_by    text,
  class_id    integer not null,
  priority    integer not null default 0 check (priority between -1000000 and 1000000),
  approval    boolean not null default false,
  keys        text not null default 'shared' check (keys in ('shared', 'owner')),   -- whether each owner has keys of their own
  deadline_ms bigint check (deadline_ms between 0 and 3153600000000),
  max_losses  integer not null default 3 check (max_losses >= 0),
  on_lost     text not null default 'retry' check (on_lost in ('retry', 'fail')),
  uses        jsonb,                       -- by budget: {devices, each}, or the text of an expression; null: it draws from none
  per_job     jsonb,                       -- with a model: what each job adds to the model's memory
  parallel    integer not null default 1 check (parallel >= 1),   -- jobs at once on one copy of its model
  expressed   boolean not null default false,   -- some amount is an expression on the input
  refusal     jsonb,                       -- why no job of it could ever start; null: nothing is known against it
  updated_at  timestamptz not null default clock_timestamp()
);

-- The unit of claiming: jobs of one class are interchangeable for a worker except for their order.
create table sluice.classes (
  id       integer generated always as identity primary key,
  lane     text not null references sluice.lanes (name),
  task     text not null,
  model    text,
  requires jsonb not null default '{}',
  budgeted boolean not null default false,   -- its task draws from budgets: claimed only as planned
  chosen   boolean not null default false,   -- of jobs whose submission named the lane: they do not follow their task
  unique nulls not distinct (task, lane, model, requires, chosen)
);
create index classes_lane on sluice.classes (lane);
alter table sluice.tasks add foreign key (class_id) references sluice.classes (id);

-- One row per incarnation: a restarted worker is a new row, so it never keeps its predecessor's jobs alive. Its id is
-- unique even after an older state of the database was restored, where a sequence would assign ids again that live workers have. It consists of the
-- microsecond of its registration and 11 random bits. It grows, so that among equals the smaller one registered first.
create table sluice.workers (
  id         bigint primary key default ((extract(epoch from clock_timestamp()) * 1000000)::bigint << 11) + floor(random() * 2048)::bigint,
  name       text not null,
  host       text not null,
  pid        integer not null,
  version    text not null,
  capacity   integer not null check (capacity >= 0),   -- 0: no limit
  cores      integer not null check (cores > 0),
  tasks      text[] not null,
  labels     jsonb not null default '{}',              -- what it offers to tasks with requirements
  pooled     text[] not null default '{}',             -- of the tasks those that need a process of its pool
  process_limit integer check (process_limit > 0),     -- the most processes its process pool takes; null: it does not share the cores of its host
  processes  integer not null default 0 check (processes >= 0),   -- how many it may have now: sluice.share_processes_v1
  key_id     bigint,                                   -- of a worker behind a server: only this key may speak for it
  rank       integer not null default 0,               -- its place among workers, the smallest first; among equals who came first
  pool       text,                                     -- the pool it belongs to; null: it was started by hand
  request    text,                                     -- the request for workers that it was started for
  build      text,                                     -- which build of the program it runs, as that says
  generation uuid,                                     -- the last one of the server in which it said what it runs: sluice.generation
  draining   boolean not null default false,
  stopping   boolean not null default false,           -- asked to end: it leaves once what it runs has ended
  broken     text,                                     -- why it cannot start jobs any more; it is draining then
  leaving    text,                                     -- why it leaves by itself; it is draining then
  returnable boolean not null default false,           -- only its own idleness sends it away: it may be told to stay
  started_at timestamptz not null default clock_timestamp(),
  seen_at    timestamptz not null default clock_timestamp(),
  busy_since timestamptz not null default clock_timestamp(),   -- nothing it runs was claimed before that
  blocked_since timestamptz,                           -- its event loop has not turned since, as of its last heartbeat; null: it turns
  blocking   text[] not null default '{}',             -- the inline tasks it ran then
  done       bigint not null default 0,                -- of a worker of a pool: jobs that it has ended, as of its last heartbeat
  ended_at   timestamptz,
  ended_why  text
) with (fillfactor = 50);
create index workers_alive on sluice.workers (seen_at) where ended_at is null;
create index workers_order on sluice.workers (rank, id) where ended_at is null;
create index workers_processes on sluice.workers (host) where ended_at is null and process_limit is not null;

-- Tasks that a worker could not start, and of which it takes no job before retry_at. The row is deleted when it has started one.
create table sluice.withdrawals (
  worker_id bigint not null references sluice.workers (id) on delete cascade,
  task      text not null,
  why       text not null,
  since     timestamptz not null default clock_timestamp(),
  retry_at  timestamptz not null,
  primary key (worker_id, task)
);

-- The slots that a worker holds in a lane with a limit. A lane has no counter: the slots in use are the sum of these rows. The number of busy
-- slots is not stored: a row that changes with every start and end leaves a chain of dead versions while a transaction is held open (in one
-- run, starts slowed from 14 to 474 ms).
create table sluice.holdings (
  worker_id bigint not null references sluice.workers (id) on delete cascade,
  lane      text not null references sluice.lanes (name),
  slots     integer not null default 0 check (slots >= 0),
  epoch     integer not null default 1,
  wants     boolean not null default false,            -- refused for lack of slots at its last try
  asks      integer[],                                 -- the classes it looked for then
  asked_at  timestamptz,                               -- and when, give or take a second
  primary key (worker_id, lane)
) with (fillfactor = 20);
create index holdings_lane on sluice.holdings (lane);

-- A job is spread over narrow tables, so that what happens often writes little:
--
--   job_data   what was submitted, and its position in a tree. Written once; only an operator's changes update it
--   queue      one row while it waits: for a time, an approval, a place in a window, or a worker
--   claims     the jobs that one worker runs, up to 64 a row: the lease
--   outcomes   one row once it has ended
--   job_keys   the keys of jobs that have not ended
--
-- A leaf is in exactly one of queue, claims and outcomes: the transaction that removes it from one inserts it into another. A composite runs
-- while it is in neither queue nor outcomes; composites has its other fields. Readers use the view sluice.jobs, which shows all of them as one
-- table.
--
-- No foreign key refers to job_data: checking one costs as much as the insert, and deleting a job would ask every table that has one. What is kept
-- about a job is written under the lock of what makes it active, or with a key share lock on its row in job_data, and sluice.delete_job_rows_v1
-- deletes it.
create table sluice.job_data (
  id           bigint generated by default as identity primary key,
  submitted_at timestamptz not null default clock_timestamp(),
  deadline_ms  bigint,
  parent_id    bigint,               -- with root_id and idx: its place in a tree
  root_id      bigint,
  class_id     integer,              -- null: nothing to claim, a composite or a step that never ran
  composite    sluice.composite_kind,
  priority     integer not null default 0,
  idx          integer,                      -- among its siblings: the step's place in its workflow, the item's in a fan-out
  task         text not null,                -- of a composite: its workflow, or its place in the graph
  step         text,                         -- its name in the workflow
  key          text,
  key_owner    text,                         -- of a task whose keys are each owner's: whose key it is
  tags         text[],
  input        jsonb,
  submitted_by text,
  policy       jsonb,                        -- what its step says instead of its task: retry, timeoutMs, approval
  superseded_at timestamptz,                 -- a rerun of its tree has put another in its place
  trace        text,                         -- what it was submitted under: a traceparent, and after a space its tracestate
  uses         jsonb,                        -- what it draws from budgets, where that is not the same for all of its task: {uses, perJob}
  chosen_by    text[],                       -- of a root: who else chose what runs; they approve nothing of it, as little as its submitter
  approved_by  text,
  constraint child_has_a_place check ((parent_id is null) = (root_id is null) and (parent_id is null) = (idx is null))
) with (
  -- Rows die by pruning, and a vacuum reads every index in full. After every 20,000 rows, it would read 70,000,000 entries for them.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.2
);
-- Roles that work or operate have rights on tables alone. A role that inserts a row also has to number it.
grant usage on sequence sluice.job_data_id_seq to public;
-- A few wide fan-outs make the planner expect half the table below any parent, and read it all for the next one. Most
-- parents have few children, and none is found faster by reading everything.
alter table sluice.job_data alter column parent_id set (n_distinct = -0.1);
alter table sluice.job_data alter column root_id set (n_distinct = -0.1);

create index job_data_key on sluice.job_data (task, key, id) where key is not null;
create unique index job_data_children on sluice.job_data (parent_id, idx) where parent_id is not null and superseded_at is null;
create index job_data_superseded on sluice.job_data (parent_id) where superseded_at is not null;
-- Trees in which a rerun has replaced jobs. No other tree pays for it.
create index job_data_replaced on sluice.job_data (root_id) where superseded_at is not null;
-- Lists by owner. It has roots only, like every index that serves lists.
create index job_data_owner on sluice.job_data (submitted_by, id) where parent_id is null;
-- Lists by workflow: composites have no class to be found by. Nothing else pays for it.
create index job_data_workflow on sluice.job_data (task, id) where parent_id is null and composite is not null;

create table sluice.queue (
  id           bigint primary key,
  ready_at     timestamptz not null default clock_timestamp(),   -- since when it may start; in the future while scheduled
  started_at   timestamptz,                  -- when its last attempt started; null: it never did
  deadline_at  timestamptz,                  -- must have started by then; null: no deadline, or none running yet
  parent_id    bigint,
  idx          integer,
  class_id     integer,                      -- null: a composite
  state        sluice.job_state not null default 'ready',
  rank         integer not null default 0,   -- smaller first: -priority, plus the age in periods where the lane ages
  attempt      integer not null default 0,   -- starts so far
  failures     smallint not null default 0,
  losses       smallint not null default 0,
  keyed        boolean not null default false,   -- it has a row in job_keys
  guarded      boolean not null default false,   -- while it waits for a place in a window: it needs an approval after that
  certain      boolean not null default false,   -- it must not be prefetched: a worker was lost that may or may not have started it
  error        text,                         -- how its last attempt failed
  -- It waits, and a leaf has a class. One check for both: every insert reads and prepares each check anew, which is a tenth of what it costs to store
  -- a single job.
  constraint waits_and_leaf_has_a_class check (state < 'running' and (class_id is not null or state in ('scheduled', 'waiting')))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_analyze_scale_factor = 0.2, vacuum_index_cleanup = on);
create index queue_ready     on sluice.queue (class_id, rank, id) where state = 'ready';
create index queue_due       on sluice.queue (ready_at) where state = 'scheduled';
-- Jobs that admission counts as scheduled: their first start lies in the future.
create index queue_scheduled_roots on sluice.queue (id) where state = 'scheduled' and started_at is null and parent_id is null;
create index queue_deadline  on sluice.queue (deadline_at) where state = 'ready' and deadline_at is not null;
create index queue_approval  on sluice.queue (id) where state = 'awaiting_approval';
create index queue_waiting   on sluice.queue (parent_id, idx) where state = 'waiting';

-- What one cycle gave a worker of one class, at most 64 jobs: their lease. A claim lists exactly the jobs that run or are assigned: an ending takes
-- its job off the arrays, and a claim without jobs is deleted. A session that decides about such a job has locked its claim. The view sluice.claimed
-- shows the jobs as rows, and sluice.running those that run. An array that would say the same of every job is null: no deadline, the first attempt,
-- no failure, no loss, no parent, no key, no error.
create table sluice.claims (
  worker_id    bigint not null,
  seq          bigint not null,              -- grows with every claim of the worker: microseconds since 1970, or a little more
  class_id     integer not null,
  started_at   timestamptz not null,
  ids          bigint[] not null,
  ready_ats    timestamptz[] not null,
  deadlines    timestamptz[],                -- by when it had to start: a loss does not end its deadline
  attempts     integer[],
  failures     smallint[],
  losses       smallint[],
  parents      bigint[],
  idxs         integer[],
  keyed        boolean[],                    -- it has a row in job_keys
  errors       text[],                       -- how the attempt before it failed
  cancels      jsonb,                        -- {id: {at, error, written}} of those that were asked to stop
  assigned     bigint[],                     -- those of ids that the worker has not reported as started; null: none
  written      xid8 not null default pg_current_xact_id(),   -- what claimed them: the row changes with every ending, and they do not
  primary key (worker_id, seq),
  constraint claim_has_jobs check (cardinality(ids) > 0),
  constraint claim_has_its_assigned check (assigned <@ ids and assigned <> '{}')
) with (
  fillfactor = 50, toast_tuple_target = 8160,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
);
-- Not compressed: they are read often, and are mostly short.
alter table sluice.claims alter column ids set storage plain, alter column ready_ats set storage plain;

-- What a cycle knows of a lane and of a class while it runs. The parts of the cycle pass these on.
create type sluice.cycle_lane_v1 as (
  name       text,
  run        integer,      -- jobs that run once the endings are recorded, and those started since
  ran        integer,      -- the same, without those started
  want       integer,      -- how many it would take at most
  keep       integer,      -- slots it would rather keep than give back
  before     integer,      -- slots held before and after
  slots      integer,
  wanted     boolean,      -- refused at the last try, and at this one
  wants      boolean,
  asked_at   timestamptz,  -- when it was last refused
  lim        integer,      -- slots of the lane; null: no limit
  asked      boolean,      -- another worker waits for slots of the lane
  spare      integer,      -- slots of the lane that nobody holds
  cap        integer,      -- slots to hold at most, once a limit was lowered; null: no such bound
  room       integer,      -- how many more it has, or there are, slots for; null: no limit
  take       integer,      -- how many to take
  yield      integer,      -- slots to leave to workers with other classes
  yielded    boolean,      -- it took less for their sake
  other_rank integer,      -- the first job of those classes
  other_id   bigint
);
create type sluice.cycle_class_v1 as (
  id    integer,
  lane  integer,           -- which of the lanes of the cycle
  most  integer,           -- how many to take at most
  rank  integer,           -- where to start looking: after this entry of the index
  after bigint,
  fresh integer            -- how long ago the worker saw what is ready, in milliseconds
);

create table sluice.outcomes (
  id           bigint primary key,
  finished_at  timestamptz not null default clock_timestamp(),
  ready_at     timestamptz not null,
  started_at   timestamptz,
  deadline_at  timestamptz,
  cancel_at    timestamptz,
  worker_id    bigint,
  class_id     integer,                      -- null: a composite, or a step that never ran
  state        sluice.job_state not null check (state >= 'completed'),
  attempt      integer not null default 0,
  failures     smallint not null default 0,
  losses       smallint not null default 0,
  is_root      boolean not null default true,
  result       jsonb,
  error        text,
  constraint failed_has_an_error check (state not in ('failed', 'cancelled') or error is not null)
) with (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.2
);
-- For lists, which show roots that have ended by task, and those that ended badly. A class has one task; composites have no class.
create index outcomes_class on sluice.outcomes (class_id, id) where is_root;
create index outcomes_bad   on sluice.outcomes (id) where is_root and state > 'completed';

create table sluice.job_keys (
  task   text not null,
  key    text not null,
  owner  text not null default '',           -- of a task whose keys are each owner's: whose key it is
  job_id bigint not null,
  primary key (task, key, owner)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_analyze_scale_factor = 0.2, vacuum_index_cleanup = on);
create index job_keys_job on sluice.job_keys (job_id);

-- The fields that only composites have. Only the process with the latest version may apply its decision.
create table sluice.composites (
  job_id        bigint primary key,
  ready_at      timestamptz not null default clock_timestamp(),
  started_at    timestamptz,                 -- null while it is in the queue
  cancel_at     timestamptz,                 -- when a cancel was asked for while it ran, and why
  cancel_error  text,
  attempt       integer not null default 0,  -- 0, and from a first rerun on one more than there were runs
  ended         boolean not null default false,
  written       xid8 not null default pg_current_xact_id(),   -- who last changed its state: the row changes with its counts too
  graph         text not null references sluice.graphs (hash),
  node          text not null,               -- its place in the graph: 'pipeline', 'pipeline/publish'
  depth         integer not null default 0,  -- how many composites are above it
  taken_until   timestamptz,                 -- somebody is deciding what comes next
  taken_by      uuid,                        -- who may take it again at once: its answer was lost
  version       integer not null default 0,
  window_size   integer check (window_size >= 0),
  window_before integer check (window_before > 0),   -- while it is paused: the size that a resume goes back to
  tokens        integer not null default 0,  -- children in flight, or a few more; only a fan-out with a window counts them
  total         integer,                     -- how many children a fan-out will have
  completed     integer not null default 0,  -- how many of them have ended, as far as wake-ups were read
  failed        integer not null default 0,
  cancelled     integer not null default 0,
  timeout_ms    bigint,                      -- from its start
  closing       sluice.job_state,            -- what it will be once its children have ended; they are being stopped
  closing_error text,
  closed        boolean not null default false,  -- all of them have been told
  held          boolean not null default false   -- a rerun has put children back in line; they start once it runs
) with (fillfactor = 50);
-- Running composites: in neither queue nor outcomes.
create index composites_running on sluice.composites (job_id) where not ended and started_at is not null;
-- Running fan-outs: a search for failing ones must not read every workflow.
create index composites_fanouts on sluice.composites (job_id) where total is not null and not ended and started_at is not null;
-- Fan-outs that an operator paused. A search for them must not read every fan-out.
create index composites_paused on sluice.composites (job_id) where window_size = 0;

-- How many jobs each tree has below the steps of its root, counted when the composite above them is made. A tree without composites has no row.
create table sluice.trees (
  root_id  bigint primary key,
  children bigint not null
) with (fillfactor = 50);

-- Wake-ups of composites: something happened to the children, or a time limit has passed. The row carries what it adds to the counts, so that
-- a worker that finishes a child does not write its parent's row.
create table sluice.wakeups (
  id        bigint generated always as identity primary key,
  job_id    bigint not null,
  due_at    timestamptz not null default clock_timestamp(),
  completed integer not null default 0,
  failed    integer not null default 0,
  cancelled integer not null default 0,
  dropped   integer not null default 0       -- places in the window that no child took over
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index wakeups_due on sluice.wakeups (due_at, id);
create index wakeups_job on sluice.wakeups (job_id);

-- Items of a fan-out that are not yet children.
create table sluice.chunks (
  job_id bigint not null,
  first  integer not null,
  items  jsonb not null,
  primary key (job_id, first)
);

-- Attempts that ended without ending the job. The last attempt is in claims or outcomes.
create table sluice.attempts (
  job_id     bigint not null,
  attempt    integer not null,
  worker_id  bigint,
  started_at timestamptz,
  ended_at   timestamptz not null default clock_timestamp(),
  ending     text not null check (ending in ('failed', 'lost', 'snoozed', 'returned', 'rerun', 'out_of_memory')),
  error      text,
  primary key (job_id, attempt)
);

-- What an attempt threw: class, message, stack, causes and content, at most 16 kB. Of the last attempt too.
create table sluice.attempt_errors (
  job_id   bigint not null,
  attempt  integer not null,
  detail   jsonb not null,
  primary key (job_id, attempt)
);

create table sluice.steps (
  job_id     bigint not null,
  name       text not null,
  attempt    integer not null,
  result     jsonb,
  created_at timestamptz not null default clock_timestamp(),
  primary key (job_id, name)
);

-- What a running job last reported about itself. It survives the attempt, so partial state is kept.
create table sluice.notes (
  job_id     bigint primary key,
  attempt    integer not null,
  progress   real check (progress between 0 and 1),
  message    text,
  checkpoint jsonb,
  updated_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table sluice.logs (
  job_id  bigint not null,
  id      bigint generated always as identity,
  attempt integer not null,
  at      timestamptz not null,
  level   text not null,
  line    text not null,
  primary key (job_id, id)
);

-- How many log lines and steps an attempt has stored, with their bytes, to enforce its limits. What a limit rejected counts too.
create table sluice.traces (
  job_id     bigint not null,
  attempt    integer not null,
  lines      bigint not null default 0,
  bytes      bigint not null default 0,
  steps      bigint not null default 0,
  step_bytes bigint not null default 0,
  primary key (job_id, attempt)
) with (fillfactor = 50);

-- When each duty is due. The process that moves the time forward does the duty in that tick.
create table sluice.duties (
  name      text primary key,
  due_at    timestamptz not null default clock_timestamp(),
  ran_at    timestamptz,
  ran_by    text,
  summary   jsonb,
  failed_at timestamptz,   -- its last failure; not before ran_at: it fails now
  error     text           -- and why
) with (fillfactor = 20);

-- Since when the database has been checked without a break, by any process. After an outage, or when a whole machine was suspended, every
-- worker looks dead, so none is taken over before all had time to report.
create table sluice.watch (
  one     boolean primary key default true check (one),
  since   timestamptz not null default clock_timestamp(),
  last_at timestamptz not null default clock_timestamp(),
  timeline text,                                             -- of the server when sluice.generation last began
  skip_before timestamptz not null default '-infinity',      -- jobs that could start before it may have had an attempt that a crash forgot
  clock_steps integer not null default 0                     -- how often the clock of the server has stepped back
) with (fillfactor = 20);
insert into sluice.watch (timeline) values (left(pg_walfile_name(pg_current_wal_lsn()), 8));

create unlogged table sluice.generations (
  one         boolean primary key default true check (one),
  id          uuid not null default gen_random_uuid(),
  copy_id     text not null,                                    -- sluice.copy_id_v1() when the row was written
  noticed_at  timestamptz not null default clock_timestamp(),
  wait_until  timestamptz,                                      -- after a promotion: until the leases of workers it does not know have ended
  copied      boolean not null default false,                   -- what workers run is not known here: their jobs may be others of the same ids
  claims_open boolean not null default false,
  skip_before timestamptz not null default '-infinity'          -- as in sluice.watch
);
insert into sluice.generations (copy_id, claims_open)
select d.oid || '/' || 'sluice.job_data'::regclass::oid, true from pg_database d where d.datname = current_database();

-- Jobs that were edited and submitted again, and the job that each came from.
create table sluice.resubmissions (
  job_id bigint primary key,
  of_id  bigint not null
);
create index resubmissions_of on sluice.resubmissions (of_id);

-- Depth and oldest wait per class, sampled by a duty; also the record of why waiting jobs were passed over. Samples in a
-- row with the same obstacle are one row, so the record stays small enough to be kept as long as the jobs are.
create table sluice.samples (
  class_id  integer not null,
  at        timestamptz not null default clock_timestamp(),   -- the last of them
  since     timestamptz not null default clock_timestamp(),   -- the first
  times     integer not null default 1,
  depth     integer not null,           -- at the last one, as are the following
  oldest_at timestamptz,
  running   integer not null,
  obstacle  text,                       -- what blocked the jobs, as sample_v1 names it; null: nothing did
  details   jsonb,                      -- what the obstacle is about; why_waiting_text_v1 makes a sentence of both
  primary key (class_id, at)
);

-- Lanes whose jobs wait for capacity, until that has been over for a while. So the log has one line per episode, whichever process runs the
-- duty.
create table sluice.saturation (
  lane       text primary key,
  began_at   timestamptz not null default clock_timestamp(),
  last_at    timestamptz not null default clock_timestamp(),
  deepest    integer not null,
  longest_ms bigint not null
) with (fillfactor = 20);

-- Processes that are waiting for results, so that workers know whether a hint is worth sending.
create unlogged table sluice.waiters (
  process text primary key,
  until   timestamptz not null
) with (fillfactor = 50);

-- Changes of lanes by operators at run time: lanes created and deleted, tasks moved. What files and code declare is stored separately, so that
-- the changes survive deploys and a reset can return to it.
--
-- Jobs whose submission named no lane are in the lane of their task. When the task moves, those that have not started follow in batches.
-- Running ones stay, because their slot is there.

-- The position of the search for jobs that have to follow: jobs up to next_id have been checked. Null: nothing is left to do. It is locked
-- last, after the names.
create table sluice.lane_sweep (
  one     boolean primary key default true check (one),
  next_id bigint
) with (fillfactor = 20);
insert into sluice.lane_sweep default values;

-- Priorities of jobs that wait, and of workflows while they run.
--
-- A composite's children get its priority when they are created. When an operator changes it, the existing ones follow in batches, because a
-- fan-out may have 100,000. The change and the record of the remaining work are one transaction, so another process continues if one dies.

-- Composites whose children still have to get their priority. Written with the composite's row locked: an advance in progress has created its
-- children by then, and a later one creates them with the new priority.
create table sluice.priority_changes (
  job_id   bigint primary key,
  priority integer not null,
  next_idx integer not null default 0,    -- children in places before this one have been looked at
  missed   integer,                       -- the first of them that somebody else had locked
  retry_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
