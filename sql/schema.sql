-- The schema after all migrations. Generated from a migrated database by `npm run schema`; do not edit.
-- Nothing runs this file: it shows reviewers what a migration changes, and `sluice doctor` what a database should be.

--- type sluice.composite_kind
create type sluice.composite_kind as enum ('workflow', 'group', 'fanout');

--- type sluice.job_state
create type sluice.job_state as enum ('awaiting_approval', 'scheduled', 'waiting', 'ready', 'running', 'completed', 'failed', 'cancelled', 'skipped');

--- table sluice.admission
create table sluice.admission (
  one boolean not null default true,
  max_active integer,
  max_scheduled integer,
  scheduled_limit integer generated always as (
CASE
    WHEN (max_scheduled IS NOT NULL) THEN NULLIF(max_scheduled, 0)
    WHEN (max_active IS NOT NULL) THEN 100000
    ELSE NULL::integer
END) stored,
  max_queued jsonb not null default '{}'::jsonb,
  max_per_owner integer,
  limited boolean not null generated always as (((max_active IS NOT NULL) OR (max_per_owner IS NOT NULL) OR (max_queued <> '{}'::jsonb) OR (COALESCE(max_scheduled, 0) > 0))) stored,
  deadline_ms bigint,
  complete boolean not null default false,
  settles_at xid8,
  operator_set text[] not null default '{}'::text[],
  default_set text[] not null default '{}'::text[],
  declared jsonb not null default '{}'::jsonb,
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null default 'sluice'::text,
  constraint admission_deadline_ms_check CHECK (((deadline_ms >= 1) AND (deadline_ms <= '3153600000000'::bigint))),
  constraint admission_max_active_check CHECK ((max_active >= 1)),
  constraint admission_max_per_owner_check CHECK ((max_per_owner >= 1)),
  constraint admission_max_scheduled_check CHECK ((max_scheduled >= 0)),
  constraint admission_one_check CHECK (one),
  constraint admission_pkey PRIMARY KEY (one)
);

--- table sluice.api_keys
create table sluice.api_keys (
  id bigint not null generated always as identity,
  name text not null,
  role text not null,
  runs jsonb,
  hash bytea not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  created_by text not null,
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  revoked_by text,
  constraint api_keys_hash_check CHECK ((length(hash) = 32)),
  constraint api_keys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_role_fkey FOREIGN KEY (role) REFERENCES sluice.roles(name)
) with (fillfactor=70);

--- table sluice.attempt_errors
create table sluice.attempt_errors (
  job_id bigint not null,
  attempt integer not null,
  detail jsonb not null,
  constraint attempt_errors_pkey PRIMARY KEY (job_id, attempt)
);

--- table sluice.attempts
create table sluice.attempts (
  job_id bigint not null,
  attempt integer not null,
  worker_id bigint,
  started_at timestamp with time zone,
  ended_at timestamp with time zone not null default clock_timestamp(),
  ending text not null,
  error text,
  constraint attempts_ending_check CHECK ((ending = ANY (ARRAY['failed'::text, 'lost'::text, 'snoozed'::text, 'returned'::text, 'rerun'::text, 'out_of_memory'::text]))),
  constraint attempts_pkey PRIMARY KEY (job_id, attempt)
);

--- table sluice.audit
create table sluice.audit (
  id bigint not null generated always as identity,
  at timestamp with time zone not null default clock_timestamp(),
  actor text not null,
  key_id bigint,
  action text not null,
  target text,
  before jsonb,
  after jsonb,
  refused text,
  request_id text,
  reason text,
  constraint audit_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_insert_scale_factor=0.2);

--- table sluice.budgets
create table sluice.budgets (
  name text not null,
  kind text not null,
  capacity double precision,
  auto boolean not null default false,
  devices jsonb not null default '{}'::jsonb,
  bytes boolean not null default false,
  safety double precision not null default 0,
  quantum double precision not null default 12,
  max_wait_ms bigint not null default 180000,
  operator_set text[] not null default '{}'::text[],
  declared jsonb not null default '{}'::jsonb,
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null default 'sluice'::text,
  constraint budgets_capacity_check CHECK (((capacity >= (0)::double precision) AND (capacity < 'Infinity'::double precision))),
  constraint budgets_kind_check CHECK ((kind = ANY (ARRAY['shared'::text, 'device'::text]))),
  constraint budgets_max_wait_ms_check CHECK ((max_wait_ms > 0)),
  constraint budgets_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint budgets_pkey PRIMARY KEY (name),
  constraint budgets_quantum_check CHECK (((quantum >= (0)::double precision) AND (quantum <= (1000000)::double precision))),
  constraint budgets_safety_check CHECK (((safety >= (0)::double precision) AND (safety < 'Infinity'::double precision)))
);

--- table sluice.charges
create table sluice.charges (
  seq bigint not null default nextval('sluice.charge_numbers'::regclass),
  base boolean not null default false,
  at timestamp with time zone not null default clock_timestamp(),
  ids bigint[] not null,
  bound integer not null,
  depths jsonb not null,
  counted integer not null,
  scheduled integer,
  length integer not null default 0,
  rate real not null default 0,
  constraint charges_pkey PRIMARY KEY (seq)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000);

--- table sluice.chunks
create table sluice.chunks (
  job_id bigint not null,
  first integer not null,
  items jsonb not null,
  constraint chunks_pkey PRIMARY KEY (job_id, first)
);

--- table sluice.claims
create table sluice.claims (
  worker_id bigint not null,
  seq bigint not null,
  class_id integer not null,
  started_at timestamp with time zone not null,
  ids bigint[] not null,
  ready_ats timestamp with time zone[] not null,
  deadlines timestamp with time zone[],
  attempts integer[],
  failures smallint[],
  losses smallint[],
  parents bigint[],
  idxs integer[],
  keyed boolean[],
  errors text[],
  cancels jsonb,
  assigned bigint[],
  written xid8 not null default pg_current_xact_id(),
  constraint claim_has_its_assigned CHECK (((assigned <@ ids) AND (assigned <> '{}'::bigint[]))),
  constraint claim_has_jobs CHECK ((cardinality(ids) > 0)),
  constraint claims_pkey PRIMARY KEY (worker_id, seq)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, fillfactor=50, toast_tuple_target=8160, vacuum_index_cleanup=on);

--- table sluice.classes
create table sluice.classes (
  id integer not null generated always as identity,
  lane text not null,
  task text not null,
  model text,
  requires jsonb not null default '{}'::jsonb,
  budgeted boolean not null default false,
  chosen boolean not null default false,
  constraint classes_lane_fkey FOREIGN KEY (lane) REFERENCES sluice.lanes(name),
  constraint classes_pkey PRIMARY KEY (id),
  constraint classes_task_lane_model_requires_chosen_key UNIQUE NULLS NOT DISTINCT (task, lane, model, requires, chosen)
);

--- table sluice.composites
create table sluice.composites (
  job_id bigint not null,
  ready_at timestamp with time zone not null default clock_timestamp(),
  started_at timestamp with time zone,
  cancel_at timestamp with time zone,
  cancel_error text,
  attempt integer not null default 0,
  ended boolean not null default false,
  written xid8 not null default pg_current_xact_id(),
  graph text not null,
  node text not null,
  depth integer not null default 0,
  taken_until timestamp with time zone,
  taken_by uuid,
  version integer not null default 0,
  window_size integer,
  window_before integer,
  tokens integer not null default 0,
  total integer,
  completed integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  timeout_ms bigint,
  closing sluice.job_state,
  closing_error text,
  closed boolean not null default false,
  held boolean not null default false,
  constraint composites_graph_fkey FOREIGN KEY (graph) REFERENCES sluice.graphs(hash),
  constraint composites_pkey PRIMARY KEY (job_id),
  constraint composites_window_before_check CHECK ((window_before > 0)),
  constraint composites_window_size_check CHECK ((window_size >= 0))
) with (fillfactor=50);

--- table sluice.deferred_charges
create unlogged table sluice.deferred_charges (
  id bigint not null generated always as identity,
  ids bigint[] not null,
  checked boolean not null,
  constraint deferred_charges_pkey PRIMARY KEY (id)
);

--- table sluice.devices
create table sluice.devices (
  budget text not null,
  key text not null,
  host text,
  name text not null,
  total double precision,
  most double precision,
  measured_free double precision,
  measured_used double precision,
  measured_at timestamp with time zone,
  lost_at timestamp with time zone,
  seen_at timestamp with time zone not null default clock_timestamp(),
  out_of_memory bigint not null default 0,
  constraint devices_budget_fkey FOREIGN KEY (budget) REFERENCES sluice.budgets(name) ON DELETE CASCADE,
  constraint devices_most_check CHECK (((most >= (0)::double precision) AND (most < 'Infinity'::double precision))),
  constraint devices_pkey PRIMARY KEY (budget, key),
  constraint devices_total_check CHECK (((total >= (0)::double precision) AND (total < 'Infinity'::double precision)))
) with (fillfactor=50);

--- table sluice.duties
create table sluice.duties (
  name text not null,
  due_at timestamp with time zone not null default clock_timestamp(),
  ran_at timestamp with time zone,
  ran_by text,
  summary jsonb,
  failed_at timestamp with time zone,
  error text,
  constraint duties_pkey PRIMARY KEY (name)
) with (fillfactor=20);

--- table sluice.firings
create table sluice.firings (
  id bigint not null generated always as identity,
  schedule text not null,
  tick_at timestamp with time zone not null,
  since timestamp with time zone,
  ticks integer not null default 1,
  fired_at timestamp with time zone not null default clock_timestamp(),
  job_id bigint,
  attached boolean not null default false,
  skipped text,
  reason text,
  clock_steps integer not null default 0,
  asked_by text,
  constraint firings_pkey PRIMARY KEY (id),
  constraint firings_schedule_fkey FOREIGN KEY (schedule) REFERENCES sluice.schedules(name) ON DELETE CASCADE,
  constraint firings_skipped_check CHECK ((skipped = ANY (ARRAY['ceiling'::text, 'overlap'::text, 'disabled'::text, 'missed'::text, 'refused'::text]))),
  constraint firings_ticks_check CHECK ((ticks > 0)),
  constraint job_or_reason CHECK (((job_id IS NULL) = (skipped IS NOT NULL)))
);

--- table sluice.fleet_decisions
create table sluice.fleet_decisions (
  id bigint not null generated always as identity,
  pool text not null,
  action text not null,
  count integer not null,
  reason text not null,
  overflow jsonb not null default '[]'::jsonb,
  decided_at timestamp with time zone not null default clock_timestamp(),
  decided_by text not null,
  token text,
  arrive_by timestamp with time zone,
  taken_until timestamp with time zone,
  started integer,
  instances jsonb not null default '[]'::jsonb,
  failures jsonb not null default '[]'::jsonb,
  gone integer not null default 0,
  looked_at timestamp with time zone,
  stop_at timestamp with time zone,
  stop_tries integer not null default 0,
  ended_at timestamp with time zone,
  outcome text,
  ended_why text,
  constraint ended_has_an_outcome CHECK (((ended_at IS NULL) = (outcome IS NULL))),
  constraint fleet_decisions_action_check CHECK ((action = ANY (ARRAY['start'::text, 'bring-back'::text]))),
  constraint fleet_decisions_count_check CHECK ((count > 0)),
  constraint fleet_decisions_outcome_check CHECK ((outcome = ANY (ARRAY['arrived'::text, 'expired'::text, 'failed'::text, 'returned'::text]))),
  constraint fleet_decisions_pkey PRIMARY KEY (id),
  constraint fleet_decisions_pool_fkey FOREIGN KEY (pool) REFERENCES sluice.pools(name) ON DELETE CASCADE,
  constraint fleet_decisions_started_check CHECK ((started >= 0)),
  constraint fleet_decisions_token_key UNIQUE (token),
  constraint start_has_a_token CHECK (((action = 'start'::text) = ((token IS NOT NULL) AND (arrive_by IS NOT NULL) AND (taken_until IS NOT NULL))))
) with (fillfactor=50);

--- table sluice.fleet_samples
create table sluice.fleet_samples (
  pool text not null,
  at timestamp with time zone not null default clock_timestamp(),
  jobs integer not null default 0,
  lanes jsonb not null default '[]'::jsonb,
  since timestamp with time zone,
  overflows bigint not null default 0,
  requests bigint not null default 0,
  failed bigint not null default 0,
  arrived bigint not null default 0,
  returned bigint not null default 0,
  constraint fleet_samples_pkey PRIMARY KEY (pool),
  constraint fleet_samples_pool_fkey FOREIGN KEY (pool) REFERENCES sluice.pools(name) ON DELETE CASCADE
) with (fillfactor=20);

--- table sluice.functions
create table sluice.functions (
  name text not null,
  hash text not null,
  kept text,
  applied_at timestamp with time zone not null default clock_timestamp(),
  constraint functions_pkey PRIMARY KEY (name)
);

--- table sluice.generations
create unlogged table sluice.generations (
  one boolean not null default true,
  id uuid not null default gen_random_uuid(),
  copy_id text not null,
  noticed_at timestamp with time zone not null default clock_timestamp(),
  wait_until timestamp with time zone,
  copied boolean not null default false,
  claims_open boolean not null default false,
  skip_before timestamp with time zone not null default '-infinity'::timestamp with time zone,
  constraint generations_one_check CHECK (one),
  constraint generations_pkey PRIMARY KEY (one)
);

--- table sluice.graphs
create table sluice.graphs (
  hash text not null,
  body jsonb not null,
  tasks text[] not null default '{}'::text[],
  constraint graphs_pkey PRIMARY KEY (hash)
);

--- table sluice.holdings
create table sluice.holdings (
  worker_id bigint not null,
  lane text not null,
  slots integer not null default 0,
  epoch integer not null default 1,
  wants boolean not null default false,
  asks integer[],
  asked_at timestamp with time zone,
  constraint holdings_lane_fkey FOREIGN KEY (lane) REFERENCES sluice.lanes(name),
  constraint holdings_pkey PRIMARY KEY (worker_id, lane),
  constraint holdings_slots_check CHECK ((slots >= 0)),
  constraint holdings_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES sluice.workers(id) ON DELETE CASCADE
) with (fillfactor=20);

--- table sluice.idempotency
create table sluice.idempotency (
  owner text not null,
  key text not null,
  request_hash bytea not null,
  answer jsonb not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint idempotency_pkey PRIMARY KEY (owner, key)
);

--- table sluice.job_data
create table sluice.job_data (
  id bigint not null generated by default as identity,
  submitted_at timestamp with time zone not null default clock_timestamp(),
  deadline_ms bigint,
  parent_id bigint,
  root_id bigint,
  class_id integer,
  composite sluice.composite_kind,
  priority integer not null default 0,
  idx integer,
  task text not null,
  step text,
  key text,
  key_owner text,
  tags text[],
  input jsonb,
  submitted_by text,
  policy jsonb,
  superseded_at timestamp with time zone,
  trace text,
  uses jsonb,
  chosen_by text[],
  approved_by text,
  constraint child_has_a_place CHECK ((((parent_id IS NULL) = (root_id IS NULL)) AND ((parent_id IS NULL) = (idx IS NULL)))),
  constraint job_data_pkey PRIMARY KEY (id)
) with (autovacuum_analyze_scale_factor=0.2, autovacuum_vacuum_insert_scale_factor=0.2, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=20000);

--- table sluice.job_keys
create table sluice.job_keys (
  task text not null,
  key text not null,
  owner text not null default ''::text,
  job_id bigint not null,
  constraint job_keys_pkey PRIMARY KEY (task, key, owner)
) with (autovacuum_analyze_scale_factor=0.2, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, vacuum_index_cleanup=on);

--- table sluice.lane_sweep
create table sluice.lane_sweep (
  one boolean not null default true,
  next_id bigint,
  constraint lane_sweep_one_check CHECK (one),
  constraint lane_sweep_pkey PRIMARY KEY (one)
) with (fillfactor=20);

--- table sluice.lanes
create table sluice.lanes (
  name text not null,
  slots integer,
  per_worker integer,
  poll_ms integer not null default 2000,
  stale_ms integer not null default 15000,
  ageing_ms integer,
  enabled boolean not null default true,
  placement text not null default 'fill'::text,
  prefetch integer not null default 1000,
  operator_set text[] not null default '{}'::text[],
  declared jsonb not null default '{}'::jsonb,
  deleted_at timestamp with time zone,
  deleted_to text,
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null default 'sluice'::text,
  constraint lanes_ageing_ms_check CHECK ((ageing_ms >= 10000)),
  constraint lanes_deleted_to_fkey FOREIGN KEY (deleted_to) REFERENCES sluice.lanes(name),
  constraint lanes_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint lanes_per_worker_check CHECK ((per_worker >= '-1'::integer)),
  constraint lanes_pkey PRIMARY KEY (name),
  constraint lanes_placement_check CHECK ((placement = ANY (ARRAY['fill'::text, 'spread'::text]))),
  constraint lanes_poll_ms_check CHECK (((poll_ms >= 10) AND (poll_ms <= 3600000))),
  constraint lanes_prefetch_check CHECK (((prefetch >= 0) AND (prefetch <= 1000))),
  constraint lanes_slots_check CHECK ((slots >= 0)),
  constraint lanes_stale_ms_check CHECK ((stale_ms > 0))
);

--- table sluice.logs
create table sluice.logs (
  job_id bigint not null,
  id bigint not null generated always as identity,
  attempt integer not null,
  at timestamp with time zone not null,
  level text not null,
  line text not null,
  constraint logs_pkey PRIMARY KEY (job_id, id)
);

--- table sluice.migrations
create table sluice.migrations (
  version integer not null,
  name text not null,
  compatible_since integer not null,
  applied_at timestamp with time zone not null default clock_timestamp(),
  constraint migrations_pkey PRIMARY KEY (version)
);

--- table sluice.models
create table sluice.models (
  name text not null,
  load_ms double precision,
  run_ms double precision,
  rest_ms double precision,
  ran_at timestamp with time zone,
  amounts jsonb not null default '{}'::jsonb,
  pinned boolean not null default false,
  loads bigint not null default 0,
  load_total_ms double precision not null default 0,
  out_of_memory bigint not null default 0,
  swaps_avoided bigint not null default 0,
  declared jsonb not null default '{}'::jsonb,
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint models_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint models_pkey PRIMARY KEY (name)
) with (fillfactor=50);

--- table sluice.notes
create table sluice.notes (
  job_id bigint not null,
  attempt integer not null,
  progress real,
  message text,
  checkpoint jsonb,
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint notes_pkey PRIMARY KEY (job_id),
  constraint notes_progress_check CHECK (((progress >= (0)::double precision) AND (progress <= (1)::double precision)))
) with (fillfactor=50);

--- table sluice.outcomes
create table sluice.outcomes (
  id bigint not null,
  finished_at timestamp with time zone not null default clock_timestamp(),
  ready_at timestamp with time zone not null,
  started_at timestamp with time zone,
  deadline_at timestamp with time zone,
  cancel_at timestamp with time zone,
  worker_id bigint,
  class_id integer,
  state sluice.job_state not null,
  attempt integer not null default 0,
  failures smallint not null default 0,
  losses smallint not null default 0,
  is_root boolean not null default true,
  result jsonb,
  error text,
  constraint failed_has_an_error CHECK (((state <> ALL (ARRAY['failed'::sluice.job_state, 'cancelled'::sluice.job_state])) OR (error IS NOT NULL))),
  constraint outcomes_pkey PRIMARY KEY (id),
  constraint outcomes_state_check CHECK ((state >= 'completed'::sluice.job_state))
) with (autovacuum_analyze_scale_factor=0.2, autovacuum_vacuum_insert_scale_factor=0.2, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=20000);

--- table sluice.owner_charges
create table sluice.owner_charges (
  owner text not null,
  seq bigint not null generated always as identity,
  base boolean not null default false,
  ids bigint[] not null,
  bound integer not null,
  length integer not null default 0,
  constraint owner_charges_pkey PRIMARY KEY (owner, seq)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000);

--- table sluice.pools
create table sluice.pools (
  name text not null,
  provisioner text not null default 'local'::text,
  options jsonb not null default '{}'::jsonb,
  labels jsonb not null default '{}'::jsonb,
  min integer not null default 0,
  max integer not null default 3,
  capacity integer not null default 1,
  idle_ms bigint default 60000,
  lifetime_ms bigint default 86400000,
  cooldown_ms bigint not null default 10000,
  arrival_ms bigint not null default 120000,
  operator_set text[] not null default '{}'::text[],
  declared jsonb not null default '{}'::jsonb,
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null default 'sluice'::text,
  constraint minimum_within_maximum CHECK ((min <= max)),
  constraint pools_arrival_ms_check CHECK ((arrival_ms > 0)),
  constraint pools_capacity_check CHECK ((capacity >= 0)),
  constraint pools_cooldown_ms_check CHECK ((cooldown_ms >= 0)),
  constraint pools_idle_ms_check CHECK ((idle_ms > 0)),
  constraint pools_lifetime_ms_check CHECK ((lifetime_ms > 0)),
  constraint pools_max_check CHECK ((max >= 0)),
  constraint pools_min_check CHECK ((min >= 0)),
  constraint pools_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint pools_pkey PRIMARY KEY (name)
) with (fillfactor=50);

--- table sluice.priority_changes
create table sluice.priority_changes (
  job_id bigint not null,
  priority integer not null,
  next_idx integer not null default 0,
  missed integer,
  retry_at timestamp with time zone not null default clock_timestamp(),
  constraint priority_changes_pkey PRIMARY KEY (job_id)
) with (fillfactor=50);

--- table sluice.queue
create table sluice.queue (
  id bigint not null,
  ready_at timestamp with time zone not null default clock_timestamp(),
  started_at timestamp with time zone,
  deadline_at timestamp with time zone,
  parent_id bigint,
  idx integer,
  class_id integer,
  state sluice.job_state not null default 'ready'::sluice.job_state,
  rank integer not null default 0,
  attempt integer not null default 0,
  failures smallint not null default 0,
  losses smallint not null default 0,
  keyed boolean not null default false,
  guarded boolean not null default false,
  certain boolean not null default false,
  error text,
  constraint queue_pkey PRIMARY KEY (id),
  constraint waits_and_leaf_has_a_class CHECK (((state < 'running'::sluice.job_state) AND ((class_id IS NOT NULL) OR (state = ANY (ARRAY['scheduled'::sluice.job_state, 'waiting'::sluice.job_state])))))
) with (autovacuum_analyze_scale_factor=0.2, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, vacuum_index_cleanup=on);

--- table sluice.recoveries
create table sluice.recoveries (
  id bigint not null generated always as identity,
  at timestamp with time zone not null default clock_timestamp(),
  kind text not null,
  worker text,
  lane text,
  jobs integer not null default 0,
  requeued integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  job_ids bigint[] not null default '{}'::bigint[],
  detail text,
  constraint recoveries_kind_check CHECK ((kind = ANY (ARRAY['taken_over'::text, 'late_write'::text, 'orphan'::text, 'drift'::text, 'healed'::text]))),
  constraint recoveries_pkey PRIMARY KEY (id)
);

--- table sluice.reservations
create table sluice.reservations (
  worker_id bigint not null,
  job_id bigint not null,
  attempt integer not null,
  budget text not null,
  device text not null,
  amount double precision not null,
  constraint reservations_amount_check CHECK (((amount >= (0)::double precision) AND (amount < 'Infinity'::double precision))),
  constraint reservations_pkey PRIMARY KEY (job_id, attempt, budget, device)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);

--- table sluice.residents
create table sluice.residents (
  worker_id bigint not null,
  model text not null,
  device text not null,
  budget text not null,
  amount double precision not null,
  devices text[] not null,
  claimed_at timestamp with time zone not null default clock_timestamp(),
  loaded_at timestamp with time zone,
  unloading_at timestamp with time zone,
  idle_since timestamp with time zone,
  constraint residents_amount_check CHECK (((amount >= (0)::double precision) AND (amount < 'Infinity'::double precision))),
  constraint residents_pkey PRIMARY KEY (worker_id, model, device, budget),
  constraint residents_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES sluice.workers(id) ON DELETE CASCADE
) with (fillfactor=50);

--- table sluice.resubmissions
create table sluice.resubmissions (
  job_id bigint not null,
  of_id bigint not null,
  constraint resubmissions_pkey PRIMARY KEY (job_id)
);

--- table sluice.roles
create table sluice.roles (
  name text not null,
  permissions text[] not null,
  built_in boolean not null default false,
  created_at timestamp with time zone not null default clock_timestamp(),
  created_by text not null default 'sluice'::text,
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null default 'sluice'::text,
  constraint roles_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint roles_pkey PRIMARY KEY (name)
);

--- table sluice.samples
create table sluice.samples (
  class_id integer not null,
  at timestamp with time zone not null default clock_timestamp(),
  since timestamp with time zone not null default clock_timestamp(),
  times integer not null default 1,
  depth integer not null,
  oldest_at timestamp with time zone,
  running integer not null,
  obstacle text,
  details jsonb,
  constraint samples_pkey PRIMARY KEY (class_id, at)
);

--- table sluice.saturation
create table sluice.saturation (
  lane text not null,
  began_at timestamp with time zone not null default clock_timestamp(),
  last_at timestamp with time zone not null default clock_timestamp(),
  deepest integer not null,
  longest_ms bigint not null,
  constraint saturation_pkey PRIMARY KEY (lane)
) with (fillfactor=20);

--- table sluice.schedules
create table sluice.schedules (
  name text not null,
  task text,
  workflow text,
  cron text not null,
  timezone text not null,
  input jsonb,
  options jsonb not null default '{}'::jsonb,
  enabled boolean not null,
  overlap text not null,
  catch_up integer not null,
  overlapped integer not null default 0,
  next_at timestamp with time zone,
  clock_steps integer not null default 0,
  version integer not null default 1,
  declared jsonb,
  changed jsonb not null default '{}'::jsonb,
  owner text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null,
  input_by text not null,
  task_by text not null,
  constraint runs_one_thing CHECK ((num_nonnulls(task, workflow) = 1)),
  constraint schedules_catch_up_check CHECK (((catch_up >= 0) AND (catch_up <= 100))),
  constraint schedules_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint schedules_overlap_check CHECK ((overlap = ANY (ARRAY['allow'::text, 'skip'::text]))),
  constraint schedules_pkey PRIMARY KEY (name)
) with (fillfactor=50);

--- table sluice.sessions
create table sluice.sessions (
  id bigint not null generated always as identity,
  key_id bigint not null,
  hash bytea not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  expires_at timestamp with time zone not null,
  constraint sessions_hash_check CHECK ((length(hash) = 32)),
  constraint sessions_key_id_fkey FOREIGN KEY (key_id) REFERENCES sluice.api_keys(id) ON DELETE CASCADE,
  constraint sessions_pkey PRIMARY KEY (id)
);

--- table sluice.settings
create table sluice.settings (
  name text not null,
  value bigint not null,
  operator_set boolean not null default false,
  updated_at timestamp with time zone not null default clock_timestamp(),
  updated_by text not null default 'sluice'::text,
  constraint settings_pkey PRIMARY KEY (name),
  constraint settings_value_check CHECK ((value > 0))
);

--- table sluice.sign_ins
create table sluice.sign_ins (
  hash bytea not null,
  key_id bigint not null,
  expires_at timestamp with time zone not null,
  constraint sign_ins_hash_check CHECK ((length(hash) = 32)),
  constraint sign_ins_key_id_fkey FOREIGN KEY (key_id) REFERENCES sluice.api_keys(id) ON DELETE CASCADE,
  constraint sign_ins_pkey PRIMARY KEY (hash)
);

--- table sluice.snapshots
create table sluice.snapshots (
  at timestamp with time zone not null default clock_timestamp(),
  snapshot jsonb not null,
  constraint snapshots_pkey PRIMARY KEY (at)
);

--- table sluice.steps
create table sluice.steps (
  job_id bigint not null,
  name text not null,
  attempt integer not null,
  result jsonb,
  created_at timestamp with time zone not null default clock_timestamp(),
  constraint steps_pkey PRIMARY KEY (job_id, name)
);

--- table sluice.tallies
create table sluice.tallies (
  name text not null,
  minute timestamp with time zone not null,
  n bigint not null,
  constraint tallies_pkey PRIMARY KEY (name, minute)
) with (fillfactor=50);

--- table sluice.tasks
create table sluice.tasks (
  name text not null,
  lane text not null,
  declared_lane text,
  lane_from text,
  lane_fixed boolean not null default false,
  moved_at timestamp with time zone,
  moved_by text,
  class_id integer not null,
  priority integer not null default 0,
  approval boolean not null default false,
  keys text not null default 'shared'::text,
  deadline_ms bigint,
  max_losses integer not null default 3,
  on_lost text not null default 'retry'::text,
  uses jsonb,
  per_job jsonb,
  parallel integer not null default 1,
  expressed boolean not null default false,
  refusal jsonb,
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint tasks_class_id_fkey FOREIGN KEY (class_id) REFERENCES sluice.classes(id),
  constraint tasks_deadline_ms_check CHECK (((deadline_ms >= 0) AND (deadline_ms <= '3153600000000'::bigint))),
  constraint tasks_keys_check CHECK ((keys = ANY (ARRAY['shared'::text, 'owner'::text]))),
  constraint tasks_lane_fkey FOREIGN KEY (lane) REFERENCES sluice.lanes(name),
  constraint tasks_lane_from_check CHECK ((lane_from = ANY (ARRAY['file'::text, 'code'::text]))),
  constraint tasks_max_losses_check CHECK ((max_losses >= 0)),
  constraint tasks_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint tasks_on_lost_check CHECK ((on_lost = ANY (ARRAY['retry'::text, 'fail'::text]))),
  constraint tasks_parallel_check CHECK ((parallel >= 1)),
  constraint tasks_pkey PRIMARY KEY (name),
  constraint tasks_priority_check CHECK (((priority >= '-1000000'::integer) AND (priority <= 1000000)))
);

--- table sluice.traces
create table sluice.traces (
  job_id bigint not null,
  attempt integer not null,
  lines bigint not null default 0,
  bytes bigint not null default 0,
  steps bigint not null default 0,
  step_bytes bigint not null default 0,
  constraint traces_pkey PRIMARY KEY (job_id, attempt)
) with (fillfactor=50);

--- table sluice.trees
create table sluice.trees (
  root_id bigint not null,
  children bigint not null,
  constraint trees_pkey PRIMARY KEY (root_id)
) with (fillfactor=50);

--- table sluice.waiters
create unlogged table sluice.waiters (
  process text not null,
  until timestamp with time zone not null,
  constraint waiters_pkey PRIMARY KEY (process)
) with (fillfactor=50);

--- table sluice.wakeups
create table sluice.wakeups (
  id bigint not null generated always as identity,
  job_id bigint not null,
  due_at timestamp with time zone not null default clock_timestamp(),
  completed integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  dropped integer not null default 0,
  constraint wakeups_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000);

--- table sluice.watch
create table sluice.watch (
  one boolean not null default true,
  since timestamp with time zone not null default clock_timestamp(),
  last_at timestamp with time zone not null default clock_timestamp(),
  timeline text,
  skip_before timestamp with time zone not null default '-infinity'::timestamp with time zone,
  clock_steps integer not null default 0,
  constraint watch_one_check CHECK (one),
  constraint watch_pkey PRIMARY KEY (one)
) with (fillfactor=20);

--- table sluice.withdrawals
create table sluice.withdrawals (
  worker_id bigint not null,
  task text not null,
  why text not null,
  since timestamp with time zone not null default clock_timestamp(),
  retry_at timestamp with time zone not null,
  constraint withdrawals_pkey PRIMARY KEY (worker_id, task),
  constraint withdrawals_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES sluice.workers(id) ON DELETE CASCADE
);

--- table sluice.worker_devices
create table sluice.worker_devices (
  worker_id bigint not null,
  budget text not null,
  device text not null,
  constraint worker_devices_pkey PRIMARY KEY (worker_id, budget, device),
  constraint worker_devices_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES sluice.workers(id) ON DELETE CASCADE
);

--- table sluice.workers
create table sluice.workers (
  id bigint not null default ((((EXTRACT(epoch FROM clock_timestamp()) * (1000000)::numeric))::bigint << 11) + (floor((random() * (2048)::double precision)))::bigint),
  name text not null,
  host text not null,
  pid integer not null,
  version text not null,
  capacity integer not null,
  cores integer not null,
  tasks text[] not null,
  labels jsonb not null default '{}'::jsonb,
  pooled text[] not null default '{}'::text[],
  process_limit integer,
  processes integer not null default 0,
  key_id bigint,
  rank integer not null default 0,
  pool text,
  request text,
  build text,
  generation uuid,
  draining boolean not null default false,
  stopping boolean not null default false,
  broken text,
  leaving text,
  returnable boolean not null default false,
  started_at timestamp with time zone not null default clock_timestamp(),
  seen_at timestamp with time zone not null default clock_timestamp(),
  busy_since timestamp with time zone not null default clock_timestamp(),
  blocked_since timestamp with time zone,
  blocking text[] not null default '{}'::text[],
  done bigint not null default 0,
  ended_at timestamp with time zone,
  ended_why text,
  constraint workers_capacity_check CHECK ((capacity >= 0)),
  constraint workers_cores_check CHECK ((cores > 0)),
  constraint workers_pkey PRIMARY KEY (id),
  constraint workers_process_limit_check CHECK ((process_limit > 0)),
  constraint workers_processes_check CHECK ((processes >= 0))
) with (fillfactor=50);

--- table sluice.workflows
create table sluice.workflows (
  name text not null,
  graph text not null,
  priority integer not null default 0,
  deadline_ms bigint,
  timeout_ms bigint,
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint workflows_deadline_ms_check CHECK (((deadline_ms >= 0) AND (deadline_ms <= '3153600000000'::bigint))),
  constraint workflows_graph_fkey FOREIGN KEY (graph) REFERENCES sluice.graphs(hash),
  constraint workflows_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'::text)),
  constraint workflows_pkey PRIMARY KEY (name),
  constraint workflows_priority_check CHECK (((priority >= '-1000000'::integer) AND (priority <= 1000000))),
  constraint workflows_timeout_ms_check CHECK ((timeout_ms > 0))
);

--- index sluice.api_keys_lookup
CREATE INDEX api_keys_lookup ON sluice.api_keys USING btree ("substring"(hash, 1, 8));

--- index sluice.api_keys_role
CREATE INDEX api_keys_role ON sluice.api_keys USING btree (role);

--- index sluice.audit_jobs
CREATE INDEX audit_jobs ON sluice.audit USING btree (target, id) WHERE (action = ANY (ARRAY['job.retry'::text, 'job.cancel'::text]));

--- index sluice.audit_lanes
CREATE INDEX audit_lanes ON sluice.audit USING btree (target, id) WHERE (action = ANY (ARRAY['lane.change'::text, 'lane.reset'::text]));

--- index sluice.classes_lane
CREATE INDEX classes_lane ON sluice.classes USING btree (lane);

--- index sluice.composites_fanouts
CREATE INDEX composites_fanouts ON sluice.composites USING btree (job_id) WHERE ((total IS NOT NULL) AND (NOT ended) AND (started_at IS NOT NULL));

--- index sluice.composites_paused
CREATE INDEX composites_paused ON sluice.composites USING btree (job_id) WHERE (window_size = 0);

--- index sluice.composites_running
CREATE INDEX composites_running ON sluice.composites USING btree (job_id) WHERE ((NOT ended) AND (started_at IS NOT NULL));

--- index sluice.firings_age
CREATE INDEX firings_age ON sluice.firings USING btree (fired_at);

--- index sluice.firings_latest
CREATE INDEX firings_latest ON sluice.firings USING btree (schedule, id);

--- index sluice.firings_tick
CREATE UNIQUE INDEX firings_tick ON sluice.firings USING btree (schedule, tick_at, clock_steps) WHERE (asked_by IS NULL);

--- index sluice.fleet_decisions_open
CREATE UNIQUE INDEX fleet_decisions_open ON sluice.fleet_decisions USING btree (pool) WHERE (ended_at IS NULL);

--- index sluice.fleet_decisions_pool
CREATE INDEX fleet_decisions_pool ON sluice.fleet_decisions USING btree (pool, id);

--- index sluice.fleet_decisions_stop
CREATE INDEX fleet_decisions_stop ON sluice.fleet_decisions USING btree (pool, stop_at) WHERE (stop_at IS NOT NULL);

--- index sluice.holdings_lane
CREATE INDEX holdings_lane ON sluice.holdings USING btree (lane);

--- index sluice.idempotency_age
CREATE INDEX idempotency_age ON sluice.idempotency USING btree (created_at);

--- index sluice.job_data_children
CREATE UNIQUE INDEX job_data_children ON sluice.job_data USING btree (parent_id, idx) WHERE ((parent_id IS NOT NULL) AND (superseded_at IS NULL));

--- index sluice.job_data_key
CREATE INDEX job_data_key ON sluice.job_data USING btree (task, key, id) WHERE (key IS NOT NULL);

--- index sluice.job_data_owner
CREATE INDEX job_data_owner ON sluice.job_data USING btree (submitted_by, id) WHERE (parent_id IS NULL);

--- index sluice.job_data_replaced
CREATE INDEX job_data_replaced ON sluice.job_data USING btree (root_id) WHERE (superseded_at IS NOT NULL);

--- index sluice.job_data_superseded
CREATE INDEX job_data_superseded ON sluice.job_data USING btree (parent_id) WHERE (superseded_at IS NOT NULL);

--- index sluice.job_data_workflow
CREATE INDEX job_data_workflow ON sluice.job_data USING btree (task, id) WHERE ((parent_id IS NULL) AND (composite IS NOT NULL));

--- index sluice.job_keys_job
CREATE INDEX job_keys_job ON sluice.job_keys USING btree (job_id);

--- index sluice.outcomes_bad
CREATE INDEX outcomes_bad ON sluice.outcomes USING btree (id) WHERE (is_root AND (state > 'completed'::sluice.job_state));

--- index sluice.outcomes_class
CREATE INDEX outcomes_class ON sluice.outcomes USING btree (class_id, id) WHERE is_root;

--- index sluice.outcomes_failed
CREATE INDEX outcomes_failed ON sluice.outcomes USING btree (finished_at, id) WHERE (state = 'failed'::sluice.job_state);

--- index sluice.owner_charges_bound
CREATE INDEX owner_charges_bound ON sluice.owner_charges USING btree (bound DESC, seq DESC) INCLUDE (owner);

--- index sluice.queue_approval
CREATE INDEX queue_approval ON sluice.queue USING btree (id) WHERE (state = 'awaiting_approval'::sluice.job_state);

--- index sluice.queue_deadline
CREATE INDEX queue_deadline ON sluice.queue USING btree (deadline_at) WHERE ((state = 'ready'::sluice.job_state) AND (deadline_at IS NOT NULL));

--- index sluice.queue_due
CREATE INDEX queue_due ON sluice.queue USING btree (ready_at) WHERE (state = 'scheduled'::sluice.job_state);

--- index sluice.queue_ready
CREATE INDEX queue_ready ON sluice.queue USING btree (class_id, rank, id) WHERE (state = 'ready'::sluice.job_state);

--- index sluice.queue_scheduled_roots
CREATE INDEX queue_scheduled_roots ON sluice.queue USING btree (id) WHERE ((state = 'scheduled'::sluice.job_state) AND (started_at IS NULL) AND (parent_id IS NULL));

--- index sluice.queue_waiting
CREATE INDEX queue_waiting ON sluice.queue USING btree (parent_id, idx) WHERE (state = 'waiting'::sluice.job_state);

--- index sluice.recoveries_at
CREATE INDEX recoveries_at ON sluice.recoveries USING btree (at);

--- index sluice.reservations_device
CREATE INDEX reservations_device ON sluice.reservations USING btree (budget, device);

--- index sluice.residents_device
CREATE INDEX residents_device ON sluice.residents USING btree (budget, device);

--- index sluice.resubmissions_of
CREATE INDEX resubmissions_of ON sluice.resubmissions USING btree (of_id);

--- index sluice.schedules_next
CREATE INDEX schedules_next ON sluice.schedules USING btree (next_at);

--- index sluice.schedules_owner
CREATE INDEX schedules_owner ON sluice.schedules USING btree (owner) WHERE (declared IS NULL);

--- index sluice.sessions_key
CREATE INDEX sessions_key ON sluice.sessions USING btree (key_id);

--- index sluice.sessions_lookup
CREATE INDEX sessions_lookup ON sluice.sessions USING btree ("substring"(hash, 1, 8));

--- index sluice.sign_ins_key
CREATE INDEX sign_ins_key ON sluice.sign_ins USING btree (key_id);

--- index sluice.wakeups_due
CREATE INDEX wakeups_due ON sluice.wakeups USING btree (due_at, id);

--- index sluice.wakeups_job
CREATE INDEX wakeups_job ON sluice.wakeups USING btree (job_id);

--- index sluice.workers_alive
CREATE INDEX workers_alive ON sluice.workers USING btree (seen_at) WHERE (ended_at IS NULL);

--- index sluice.workers_order
CREATE INDEX workers_order ON sluice.workers USING btree (rank, id) WHERE (ended_at IS NULL);

--- index sluice.workers_pool
CREATE INDEX workers_pool ON sluice.workers USING btree (pool, id) WHERE (pool IS NOT NULL);

--- index sluice.workers_processes
CREATE INDEX workers_processes ON sluice.workers USING btree (host) WHERE ((ended_at IS NULL) AND (process_limit IS NOT NULL));

--- index sluice.workers_request
CREATE INDEX workers_request ON sluice.workers USING btree (split_part(request, '.'::text, 1)) WHERE (request IS NOT NULL);

--- view sluice.claimed
create view sluice.claimed as
 SELECT j.id,
    c.worker_id,
    c.seq,
    c.started_at,
    j.ready_at,
    j.deadline_at,
    (((c.cancels -> (j.id)::text) ->> 'at'::text))::timestamp with time zone AS cancel_at,
    j.parent_id,
    j.idx,
    c.class_id,
    COALESCE(j.attempt, 1) AS attempt,
    COALESCE(j.failures, (0)::smallint) AS failures,
    COALESCE(j.losses, (0)::smallint) AS losses,
    COALESCE(j.keyed, false) AS keyed,
    COALESCE(((c.cancels -> (j.id)::text) ->> 'error'::text), j.error) AS error,
    COALESCE((j.id = ANY (c.assigned)), false) AS assigned
   FROM (sluice.claims c
     CROSS JOIN LATERAL UNNEST(c.ids, c.ready_ats, c.deadlines, c.attempts, c.failures, c.losses, c.parents, c.idxs, c.keyed, c.errors) j(id, ready_at, deadline_at, attempt, failures, losses, parent_id, idx, keyed, error));;

--- view sluice.generation
create view sluice.generation as
 SELECT one,
    id,
    copy_id,
    noticed_at,
    wait_until,
    copied,
    claims_open,
    skip_before
   FROM sluice.generations g
  WHERE (copy_id = sluice.copy_id_v1());;

--- view sluice.jobs
create view sluice.jobs as
 SELECT d.id,
    d.submitted_at,
        CASE
            WHEN (o.id IS NOT NULL) THEN o.ready_at
            WHEN (q.id IS NOT NULL) THEN q.ready_at
            WHEN (d.composite IS NULL) THEN r.ready_at
            ELSE c.ready_at
        END AS ready_at,
        CASE
            WHEN (o.id IS NOT NULL) THEN o.started_at
            WHEN (q.id IS NOT NULL) THEN q.started_at
            WHEN (d.composite IS NOT NULL) THEN c.started_at
            WHEN (NOT r.assigned) THEN r.started_at
            ELSE NULL::timestamp with time zone
        END AS started_at,
    o.finished_at,
        CASE
            WHEN (o.id IS NOT NULL) THEN o.deadline_at
            WHEN (q.id IS NOT NULL) THEN q.deadline_at
            ELSE r.deadline_at
        END AS deadline_at,
        CASE
            WHEN (o.id IS NOT NULL) THEN o.cancel_at
            WHEN (d.composite IS NULL) THEN r.cancel_at
            ELSE c.cancel_at
        END AS cancel_at,
    d.deadline_ms,
    COALESCE(o.worker_id, r.worker_id) AS worker_id,
    d.parent_id,
    d.root_id,
    d.class_id,
    COALESCE(o.state, q.state, (
        CASE
            WHEN ((d.composite IS NULL) AND (d.id IN ( SELECT unnest(l.assigned) AS unnest
               FROM sluice.claims l
              WHERE (l.assigned IS NOT NULL)))) THEN 'ready'::text
            ELSE 'running'::text
        END)::sluice.job_state) AS state,
    d.composite,
    COALESCE(q.rank, 0) AS rank,
    d.priority,
    COALESCE(o.attempt, q.attempt, r.attempt, c.attempt, 0) AS attempt,
    d.idx,
    COALESCE(o.failures, q.failures, r.failures, (0)::smallint) AS failures,
    COALESCE(o.losses, q.losses, r.losses, (0)::smallint) AS losses,
    d.task,
    d.step,
    d.key,
    d.key_owner,
    d.tags,
    d.input,
    o.result,
        CASE
            WHEN (o.id IS NOT NULL) THEN o.error
            WHEN (q.id IS NOT NULL) THEN q.error
            WHEN (d.composite IS NULL) THEN r.error
            ELSE c.cancel_error
        END AS error,
    d.submitted_by,
    d.policy,
    d.superseded_at,
    d.trace,
    d.uses,
    d.chosen_by,
    d.approved_by
   FROM ((((sluice.job_data d
     LEFT JOIN sluice.outcomes o ON ((o.id = d.id)))
     LEFT JOIN sluice.queue q ON ((q.id = d.id)))
     LEFT JOIN LATERAL ( SELECT min(j.ready_at) AS ready_at,
            min(j.started_at) AS started_at,
            min(j.deadline_at) AS deadline_at,
            min(j.cancel_at) AS cancel_at,
            min(j.worker_id) AS worker_id,
            min(j.attempt) AS attempt,
            min(j.failures) AS failures,
            min(j.losses) AS losses,
            min(j.error) AS error,
            bool_or(j.assigned) AS assigned
           FROM (( SELECT l_1.worker_id,
                    l_1.seq
                   FROM sluice.claims l_1
                  WHERE ((o.id IS NULL) AND (q.id IS NULL) AND (d.composite IS NULL) AND (d.id = ANY (l_1.ids)))
                 LIMIT 1) l
             JOIN sluice.claimed j ON (((j.worker_id = l.worker_id) AND (j.seq = l.seq) AND (j.id = d.id))))) r ON (true))
     LEFT JOIN sluice.composites c ON ((c.job_id = d.id)));;

--- view sluice.misplaced
create view sluice.misplaced as
 SELECT c.id AS class_id,
    m.lane
   FROM ((((sluice.classes c
     JOIN sluice.lanes l ON ((l.name = c.lane)))
     LEFT JOIN sluice.tasks t ON ((t.name = c.task)))
     LEFT JOIN sluice.lanes own ON ((own.name = t.lane)))
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN ((NOT c.chosen) AND (own.deleted_at IS NULL) AND (own.name IS NOT NULL)) THEN own.name
                    WHEN ((NOT c.chosen) AND (own.deleted_at IS NOT NULL)) THEN COALESCE(own.deleted_to, 'default'::text)
                    WHEN (l.deleted_at IS NOT NULL) THEN COALESCE(l.deleted_to, 'default'::text)
                    ELSE NULL::text
                END AS lane) m)
  WHERE (m.lane <> c.lane);;

--- view sluice.running
create view sluice.running as
 SELECT id,
    worker_id,
    seq,
    started_at,
    ready_at,
    deadline_at,
    cancel_at,
    parent_id,
    idx,
    class_id,
    attempt,
    failures,
    losses,
    keyed,
    error
   FROM sluice.claimed r
  WHERE (NOT assigned);;

--- function sluice.acquire_slots_v1(INOUT lanes sluice.cycle_lane_v1[], OUT locked text[])
CREATE OR REPLACE FUNCTION sluice.acquire_slots_v1(INOUT lanes sluice.cycle_lane_v1[], OUT locked text[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_lane    sluice.cycle_lane_v1;
  v_limit   integer;
  v_held    integer;
  v_timeout text;
begin
  for i in 1 .. cardinality(lanes) loop
    v_lane := lanes[i];
    continue when v_lane.lim is null or v_lane.run + v_lane.take <= v_lane.slots;
    begin
      v_timeout := current_setting('lock_timeout');
      perform set_config('lock_timeout', '50ms', true);
      select s.slots into v_limit from sluice.lanes s where s.name = v_lane.name and s.enabled and s.slots is not null for no key update;
      perform set_config('lock_timeout', v_timeout, true);   -- what else is waited for has its own bounds
      if v_limit is not null then
        select sum(h.slots)::integer into v_held from sluice.holdings h where h.lane = v_lane.name;
        v_lane.slots := v_lane.slots + greatest(0, least(v_lane.run + v_lane.take - v_lane.slots, v_limit - v_held));
        v_lane.wants := v_lane.run + v_lane.take > v_lane.slots;
      end if;
    exception when lock_not_available then
      locked := locked || v_lane.name;
    end;
    v_lane.take := greatest(0, v_lane.slots - v_lane.run);
    lanes[i] := v_lane;
  end loop;
end $function$;

--- function sluice.active_roots_v1(p_set sluice.admission)
CREATE OR REPLACE FUNCTION sluice.active_roots_v1(p_set sluice.admission)
 RETURNS bigint[]
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  select array(
    select u.id from sluice.unended_root_ids_v1() u
     where u.is_active
       and (p_set.max_active is not null or exists (select 1 from sluice.job_data d where d.id = u.id and p_set.max_queued ? d.task)))
$function$;

--- function sluice.admission_v1(p_look integer)
CREATE OR REPLACE FUNCTION sluice.admission_v1(p_look integer DEFAULT NULL::integer)
 RETURNS TABLE(max_active integer, max_scheduled integer, max_queued jsonb, deadline_ms bigint, operator_set text[], default_set text[], active integer, scheduled integer, queued jsonb, rate real, max_per_owner integer, owners jsonb)
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  with listed as materialized (
    select distinct u.id from sluice.ledger_v1() l, unnest(l.ids) u(id)
  ), live as materialized (
    select d.task, q.id is not null as waits
      from listed g join sluice.job_data d on d.id = g.id left join sluice.outcomes o on o.id = g.id left join sluice.queue q on q.id = g.id
     where o.id is null and (q.id is null or q.state <> 'scheduled' or q.started_at is not null)
  )
  select a.max_active, a.scheduled_limit, a.max_queued, a.deadline_ms, array_replace(a.operator_set, 'deadlineMs', 'deadline'),
         array(select replace(f, 'deadlineMs', 'deadline') from unnest(a.default_set) f where f <> all (a.operator_set)),
         case when a.max_active is not null then (select count(*)::integer from live) end,
         case when a.scheduled_limit is not null then sluice.count_scheduled_v1(
           case when a.complete and (select c.scheduled from sluice.charges c order by c.seq desc limit 1) < a.scheduled_limit then p_look end) end,
         coalesce((select jsonb_object_agg(t.task, (select count(*) from live v where v.task = t.task and v.waits))
                     from jsonb_object_keys(a.max_queued) t(task)), '{}'),
         coalesce((select max(l.rate) from sluice.ledger_v1() l), 0),
         a.max_per_owner,
         case when a.max_per_owner is not null then coalesce((
           select jsonb_object_agg(o.owner, o.owned)
             from (select b.owner, b.owned from sluice.busiest_owners_v1() b where b.owned > 0 order by b.owned desc, b.owner limit 5) o), '{}') end
    from sluice.admission a
$function$;

--- function sluice.admit_v1(p_ids bigint[], p_when text, p_checked boolean)
CREATE OR REPLACE FUNCTION sluice.admit_v1(p_ids bigint[], p_when text, p_checked boolean DEFAULT true)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_limited boolean;
begin
  if cardinality(p_ids) = 0 then
    return;
  end if;
  -- Where only some tasks have a limit, jobs of the others are none of its business; nor are those that start now where only scheduled
  -- ones have. The statement that calls this for COMMIT may be the one that schedules them: their new state cannot be seen yet.
  select a.max_active is not null or a.max_per_owner is not null
         or a.limited and exists (select 1 from sluice.job_data d where d.id = any (p_ids) and a.max_queued ? d.task)
         or a.scheduled_limit is not null and (p_when = 'commit' or cardinality(sluice.scheduled_of_v1(p_ids)) > 0)
    into v_limited from sluice.admission a;
  if p_when = 'commit' then
    -- With a snapshot that is older than now, a limit may be there that cannot be seen.
    if v_limited or current_setting('transaction_isolation') <> 'read committed' then
      insert into sluice.deferred_charges (ids, checked) values (p_ids, p_checked);
    end if;
  elsif v_limited then
    perform sluice.charge_v1(p_ids, p_checked);
  end if;
end $function$;

--- function sluice.admit_worker_v1()
CREATE OR REPLACE FUNCTION sluice.admit_worker_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_max   integer;
  v_live  integer;
  v_asked sluice.fleet_decisions;
begin
  select p.max into v_max from sluice.pools p where p.name = new.pool for no key update;
  if not found and new.key_id is null then
    return new;
  end if;
  select * into v_asked from sluice.fleet_decisions d where d.token = split_part(new.request, '.', 1);
  -- Nobody could tell which instance it is: that of another member would be stopped as one whose worker did not come.
  if found and (v_asked.pool <> new.pool or new.request !~ '^[^.]+[.][1-9][0-9]{0,8}$'
                or split_part(new.request, '.', 2)::integer > v_asked.count) then
    raise exception 'worker % of pool % was not asked for: the request is for % of pool %', new.request, new.pool, v_asked.count, v_asked.pool
      using errcode = 'SL009', detail = new.pool;
  end if;
  if new.key_id is not null and v_asked.id is null
     and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1)
                        and w.request = new.request and w.pool = new.pool and w.key_id = new.key_id) then
    raise exception 'pool % has not asked for this worker: start it with the SLUICE_REQUEST that the pool gives, or without a pool', new.pool
      using errcode = 'SL009', detail = new.pool;
  end if;
  -- One that was there before has lost its leases and starts over.
  if (v_asked.stop_tries > 0 or v_asked.outcome in ('failed', 'expired'))
     and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1) and w.request = new.request)
         then
    raise exception 'worker % of pool % has come too late: its request has ended', new.request, new.pool using errcode = 'SL009', detail = new.pool;
  end if;
  if exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1)
                and w.request = new.request and w.ended_at is null) then
    raise exception 'worker % of pool % has come already', new.request, new.pool using errcode = 'SL009', detail = new.pool;
  end if;
  select count(*) into v_live from sluice.workers w where w.pool = new.pool and w.ended_at is null;
  if v_live >= v_max then
    raise exception 'pool % has % workers and may have %', new.pool, v_live, v_max using errcode = 'SL009', detail = new.pool;
  end if;
  return new;
end $function$;

--- function sluice.advance_and_take_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb, p_limit integer, p_ms integer, p_taker uuid, p_bytes bigint)
CREATE OR REPLACE FUNCTION sluice.advance_and_take_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb, p_limit integer, p_ms integer, p_taker uuid, p_bytes bigint)
 RETURNS TABLE(job_id bigint, version integer, kind sluice.composite_kind, state sluice.job_state, graph text, node text, input jsonb, window_size integer, total integer, completed integer, failed integer, cancelled integer, closing sluice.job_state, closing_error text, closed boolean, timed_out boolean, chunk integer, chunk_items jsonb, children jsonb, wakeups bigint[])
 LANGUAGE plpgsql
AS $function$
declare
  v_commit text := current_setting('synchronous_commit');
begin
  perform sluice.advance_v1(p_batch, p_children, p_chunks);
  if p_limit is not null then
    return query select * from sluice.take_composites_v1(p_limit, p_ms, p_taker, p_bytes);
    -- A crash may forget what was taken, but not what was advanced.
    perform set_config('synchronous_commit', v_commit, true);
  end if;
end $function$;

--- function sluice.advance_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb)
CREATE OR REPLACE FUNCTION sluice.advance_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_now   timestamptz := clock_timestamp();
  v_jobs  bigint[];
  v_woken boolean := false;   -- a composite is to be woken
begin
  select array_agg(k.job_id) into v_jobs from (
    select c.job_id from sluice.composites c
      join jsonb_to_recordset(p_batch) as b(job bigint, version integer) on b.job = c.job_id and b.version = c.version
     order by c.job_id for no key update of c) k;
  if v_jobs is null then
    return;
  end if;

  with entries as materialized (
    select b.* from jsonb_to_recordset(p_batch) as b(job bigint, wakeups bigint[], close jsonb) where b.job = any (v_jobs)
  ), seen as (
    delete from sluice.wakeups w where w.id = any (array(select unnest(b.wakeups) from entries b))
    returning w.job_id, w.completed, w.failed, w.cancelled, w.dropped
  ), sums as (
    select s.job_id, sum(s.completed) as completed, sum(s.failed) as failed, sum(s.cancelled) as cancelled, sum(s.dropped) as dropped
      from seen s group by s.job_id
  )
  update sluice.composites c
     set taken_until = null, version = c.version + 1,
         completed = c.completed + coalesce(s.completed, 0), failed = c.failed + coalesce(s.failed, 0),
         cancelled = c.cancelled + coalesce(s.cancelled, 0), tokens = c.tokens - coalesce(s.dropped, 0),
         closing = coalesce(c.closing, (b.close ->> 'state')::sluice.job_state),
         closing_error = case when c.closing is null then b.close ->> 'error' else c.closing_error end
    from entries b left join sums s on s.job_id = b.job
   where c.job_id = b.job;

  if jsonb_array_length(p_children) > 0 then
    v_woken := sluice.make_children_v1(v_jobs, p_children, p_chunks, v_now);
  end if;

  with done as (
    delete from sluice.chunks k using jsonb_to_recordset(p_batch) as b(job bigint, chunk integer)
     where b.job = any (v_jobs) and k.job_id = b.job and k.first = b.chunk
  ), kept as (
    insert into sluice.chunks (job_id, first, items)
    select b.job, b.chunk + b.made, b.rest from jsonb_to_recordset(p_batch) as b(job bigint, chunk integer, made integer, rest jsonb)
     where b.job = any (v_jobs) and b.rest is not null
  )
  insert into sluice.wakeups (job_id)
  select b.job from jsonb_to_recordset(p_batch) as b(job bigint, again boolean) where b.job = any (v_jobs) and b.again;
  v_woken := v_woken or found;
  v_woken := sluice.start_or_stop_children_v1(v_jobs, v_now) or v_woken;
  if not sluice.settle_composites_v1(v_jobs, p_batch, v_now) and v_woken then
    perform sluice.hint_v1('wake', 'soon');
  end if;
  return query select unnest(v_jobs);
end $function$;

--- function sluice.allowance_v1(p_worker bigint, p_now timestamp with time zone, p_free integer, p_capacity integer, p_cores integer, p_classes integer[], INOUT lanes sluice.cycle_lane_v1[], OUT others sluice.cycle_class_v1[])
CREATE OR REPLACE FUNCTION sluice.allowance_v1(p_worker bigint, p_now timestamp with time zone, p_free integer, p_capacity integer, p_cores integer, p_classes integer[], INOUT lanes sluice.cycle_lane_v1[], OUT others sluice.cycle_class_v1[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_lane sluice.cycle_lane_v1;
  v_row  record;
begin
  for v_row in
    select l.ordinality as ord, s.slots as lim, s.enabled, sluice.per_worker_v1(s.per_worker, p_capacity, p_cores) as per_worker, t.held, t.asked,
           t.elsewhere
      from unnest(lanes) with ordinality l
      join sluice.lanes s on s.name = l.name
      left join lateral (select sum(h.slots)::integer as held, bool_or(h.wants and h.worker_id <> p_worker) as asked,
                                bool_or(h.wants and h.worker_id <> p_worker and not h.asks <@ p_classes) as elsewhere
                           from sluice.holdings h where h.lane = l.name) t on s.slots is not null
     where l.want > 0 or l.slots > 0 or l.wanted
  loop
    v_lane := lanes[v_row.ord];
    v_lane.lim := v_row.lim;
    v_lane.asked := coalesce(v_row.asked, false);
    if v_row.lim is not null then
      v_lane.spare := greatest(0, v_row.lim - v_row.held);
      v_lane.room := greatest(0, v_lane.slots - v_lane.run) + v_lane.spare;
    end if;
    if v_row.held > v_row.lim then
      -- Over the limit since it was lowered: what ends is given back until the sum fits again.
      v_lane.cap := greatest(0, v_lane.slots - (v_row.held - v_row.lim));
    end if;
    if v_row.enabled and p_free > 0 then
      v_lane.take := greatest(0, least(v_lane.want, p_free, v_lane.cap - v_lane.run, v_row.per_worker - v_lane.run));
    end if;
    lanes[v_row.ord] := v_lane;
    if v_row.elsewhere and v_lane.take > 0 then
      -- A worker that repeats its request at every poll is free to take what this one yields. One that is busy elsewhere does not repeat it, and must
      -- not keep a whole lane waiting.
      others := others || array(
        select row(o.id, v_row.ord, 2147483647, -2147483648, 0, 0)::sluice.cycle_class_v1
          from (select distinct a.id from sluice.holdings h
                  join sluice.lanes s on s.name = h.lane
                  join sluice.workers w on w.id = h.worker_id and w.ended_at is null and not w.draining
                 cross join lateral unnest(h.asks) a(id)
                 where h.lane = v_lane.name and h.wants and h.worker_id <> p_worker and a.id <> all (p_classes)
                   and h.asked_at > p_now - make_interval(secs => 2 + 2 * s.poll_ms / 1000.0)) o);
    end if;
  end loop;
  if others is null then
    return;
  end if;
  for v_row in
    select distinct on (o.lane) o.lane, x.rank, x.id from unnest(others) o cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1) x
     order by o.lane, x.rank, x.id
  loop
    lanes[v_row.lane].other_rank := v_row.rank;
    lanes[v_row.lane].other_id := v_row.id;
  end loop;
end $function$;

--- function sluice.amount_text_v1(p_amount double precision, p_bytes boolean)
CREATE OR REPLACE FUNCTION sluice.amount_text_v1(p_amount double precision, p_bytes boolean)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((NOT p_bytes) OR (p_amount < (1024)::double precision)) THEN (p_amount)::text WHEN (p_amount < ((1024)::double precision ^ (2)::double precision)) THEN ((round(((p_amount / (1024)::double precision))::numeric, 1))::double precision || 'KB'::text) WHEN (p_amount < ((1024)::double precision ^ (3)::double precision)) THEN ((round(((p_amount / ((1024)::double precision ^ (2)::double precision)))::numeric, 1))::double precision || 'MB'::text) WHEN (p_amount < ((1024)::double precision ^ (4)::double precision)) THEN ((round(((p_amount / ((1024)::double precision ^ (3)::double precision)))::numeric, 1))::double precision || 'GB'::text) ELSE ((round(((p_amount / ((1024)::double precision ^ (4)::double precision)))::numeric, 1))::double precision || 'TB'::text) END;

--- function sluice.approve_job_v1(p_id bigint, p_by text)
CREATE OR REPLACE FUNCTION sluice.approve_job_v1(p_id bigint, p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_state  sluice.job_state;
  v_parent bigint;
begin
  update sluice.queue q
     set state = case when q.ready_at > clock_timestamp() then 'scheduled' else 'ready' end::sluice.job_state,
         ready_at = greatest(q.ready_at, clock_timestamp()),
         deadline_at = greatest(q.ready_at, clock_timestamp())
                       + make_interval(secs => (select d.deadline_ms from sluice.job_data d where d.id = q.id) / 1000.0)
   where q.id = p_id and q.state = 'awaiting_approval'
  returning q.state, q.parent_id into v_state, v_parent;
  if not found then
    return false;
  end if;
  update sluice.job_data d set approved_by = p_by where d.id = p_id;
  perform pg_notify('sluice', 'ready');
  if v_state = 'scheduled' and v_parent is null then
    -- Until its time it is scheduled, and no longer active.
    perform sluice.admit_v1(array[p_id], 'commit', false);
  end if;
  return true;
end $function$;

--- function sluice.ask_for_workers_v1(p_pool text, p_seen bigint, p_token text, p_count integer, p_reason text, p_overflow jsonb, p_by text, p_call_ms integer)
CREATE OR REPLACE FUNCTION sluice.ask_for_workers_v1(p_pool text, p_seen bigint, p_token text, p_count integer, p_reason text, p_overflow jsonb, p_by text, p_call_ms integer)
 RETURNS TABLE(id bigint, count integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_pool sluice.pools;
  v_room integer;
begin
  select * into v_pool from sluice.pools p where p.name = p_pool for no key update;
  if not found or p_seen <> coalesce((select max(d.id) from sluice.fleet_decisions d where d.pool = p_pool), 0)
     or exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null) then
    return;
  end if;
  v_room := v_pool.max - (select count(*) from sluice.workers w where w.pool = p_pool and w.ended_at is null);
  if v_room <= 0 then
    return;
  end if;
  insert into sluice.fleet_samples as s (pool, requests) values (p_pool, 1)
    on conflict (pool) do update set requests = s.requests + 1;
  return query
  insert into sluice.fleet_decisions as d (pool, action, count, reason, overflow, decided_by, token, arrive_by, taken_until)
    values (p_pool, 'start', least(p_count, v_room), p_reason, p_overflow, p_by, p_token,
            clock_timestamp() + make_interval(secs => v_pool.arrival_ms / 1000.0),
            clock_timestamp() + make_interval(secs => p_call_ms / 1000.0))
    returning d.id, d.count;
end $function$;

--- function sluice.ask_to_stop_v1(p_workers bigint[], p_seqs bigint[], p_ids bigint[], p_error text)
CREATE OR REPLACE FUNCTION sluice.ask_to_stop_v1(p_workers bigint[], p_seqs bigint[], p_ids bigint[], p_error text)
 RETURNS TABLE(id bigint, state sluice.job_state)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'on'
AS $function$
#variable_conflict use_column
begin
  return query
  with listed as materialized (
    select g.worker_id, g.seq, g.id, g.id = any (g.assigned) as is_assigned
      from (select c.worker_id, c.seq, c.assigned, unnest(c.ids) as id from unnest(p_workers, p_seqs) l(worker_id, seq)
              join sluice.claims c on c.worker_id = l.worker_id and c.seq = l.seq) g
     where g.id in (select unnest(p_ids))
  ), asked as (
    update sluice.claims c set cancels = l.cancels || coalesce(c.cancels, '{}')
      from (select j.worker_id, j.seq,
                   jsonb_object_agg(j.id, jsonb_build_object('at', clock_timestamp(), 'error', p_error, 'written', pg_current_xact_id())) as cancels
              from listed j group by j.worker_id, j.seq) l
     where c.worker_id = l.worker_id and c.seq = l.seq
  )
  select j.id, case when j.is_assigned then 'ready' else 'running' end::sluice.job_state from listed j;
  if found then
    perform pg_notify('sluice', 'cancel');
  end if;
end $function$;

--- function sluice.assign_v1(p_worker bigint, p_now timestamp with time zone, p_run integer, p_capacity integer, p_cores integer, p_ready sluice.cycle_class_v1[], p_classes integer[], p_ahead integer[], p_lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.assign_v1(p_worker bigint, p_now timestamp with time zone, p_run integer, p_capacity integer, p_cores integer, p_ready sluice.cycle_class_v1[], p_classes integer[], p_ahead integer[], p_lanes sluice.cycle_lane_v1[])
 RETURNS tid[]
 LANGUAGE plpgsql
AS $function$
declare
  v_class  record;
  v_open   sluice.cycle_class_v1[] := '{}';   -- classes to assign from
  v_counts integer[];                      -- how many of each
  v_now    timestamptz := clock_timestamp();   -- a cycle may have waited since it began
  v_since  timestamptz;
  v_end    record;                         -- the first job of the lane that waits for a free slot
  v_rows   tid[];
  v_must   boolean[];
  v_picked tid[] := '{}';
  -- All of its capacity is in use, so that one lane can only take more if another takes less.
  v_shared boolean := p_capacity > 0 and p_run >= p_capacity;
begin
  for v_class in
    select c.id, c.lane, c.rank, c.after, c.fresh, a.ahead, s.prefetch
      from unnest(p_ready) c
      join unnest(p_classes, p_ahead) a(id, ahead) on a.id = c.id and a.ahead > 0
      join sluice.lanes s on s.name = p_lanes[c.lane].name and s.enabled and s.prefetch > 0 and s.slots is distinct from 1 and s.placement = 'fill'
      join sluice.workers w on w.id = p_worker
      -- Where the first job must start at once, nothing of the class is assigned.
      join lateral (select sluice.must_start_v1(v_now, p_now - make_interval(secs => c.fresh / 1000.0), q.certain, q.deadline_at, q.ready_at,
                                                q.parent_id) as must_start
                      from sluice.queue q where q.class_id = c.id and q.state = 'ready' and (q.rank, q.id) > (c.rank, c.after)
                     order by q.rank, q.id limit 1) h on h.must_start is not true
     where p_lanes[c.lane].run > 0 and p_lanes[c.lane].cap is null and not p_lanes[c.lane].asked
       and (s.slots is null or p_lanes[c.lane].run <= p_lanes[c.lane].slots)
       and coalesce(p_lanes[c.lane].run <= sluice.per_worker_v1(s.per_worker, p_capacity, p_cores), true)
       and not exists (select 1 from sluice.classes k left join sluice.tasks t on t.name = k.task
                        where k.id = c.id and (k.budgeted or t.on_lost = 'fail' or k.task = any (w.pooled)))
       and not (v_shared and exists (
         select 1 from unnest(p_ready) o cross join lateral (select (p_lanes[o.lane]).*) l join sluice.lanes t on t.name = l.name and t.enabled
          where l.run < p_lanes[c.lane].run - p_lanes[c.lane].run / 8
            and coalesce(l.run < sluice.per_worker_v1(t.per_worker, p_capacity, p_cores), true)
            and exists (select 1 from sluice.ready_v1(o.id, o.rank, o.after, 1))
            and (t.slots is null or l.run < l.slots or t.slots > (select sum(h.slots) from sluice.holdings h where h.lane = t.name))))
  loop
    v_open := v_open || row(v_class.id, v_class.lane, v_class.ahead, v_class.rank, v_class.after, v_class.fresh)::sluice.cycle_class_v1;
    p_lanes[v_class.lane].take := v_class.prefetch;
  end loop;
  if v_open = '{}' then
    return v_picked;
  end if;
  v_counts := sluice.count_ahead_v1(p_now, v_now, v_open, p_lanes);
  for i in 1 .. cardinality(v_open) loop
    continue when v_counts[i] = 0;
    select h.rank, h.id into v_end
      from unnest(p_ready) o join unnest(p_classes, p_ahead) a(id, ahead) on a.id = o.id and a.ahead < 0
     cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1) h
     where o.lane = v_open[i].lane order by h.rank, h.id limit 1;
    v_since := p_now - make_interval(secs => v_open[i].fresh / 1000.0);
    select coalesce(array_agg(q.ctid), '{}'), array_agg(q.must_start) into v_rows, v_must
      from (select q.ctid, sluice.must_start_v1(v_now, v_since, q.certain, q.deadline_at, q.ready_at, q.parent_id) as must_start
              from sluice.queue q where q.class_id = v_open[i].id and q.state = 'ready' and (q.rank, q.id) > (v_open[i].rank, v_open[i].after)
               and (v_end.id is null or (q.rank, q.id) < (v_end.rank, v_end.id))
             order by q.rank, q.id limit v_counts[i] for update skip locked) q;
    v_picked := v_picked || v_rows[:coalesce(array_position(v_must, true) - 1, v_counts[i])];
  end loop;
  return v_picked;
end $function$;

--- function sluice.assigned_jobs_v1()
CREATE OR REPLACE FUNCTION sluice.assigned_jobs_v1()
 RETURNS SETOF sluice.claimed
 LANGUAGE sql
 STABLE ROWS 50
 SET jit TO 'off'
 SET enable_seqscan TO 'on'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  select j.* from sluice.claims c join sluice.claimed j on j.worker_id = c.worker_id and j.seq = c.seq and j.assigned
   where c.assigned is not null
$function$;

--- function sluice.audit_submissions_v1(p_jobs jsonb, p_ids bigint[], p_attached boolean[])
CREATE OR REPLACE FUNCTION sluice.audit_submissions_v1(p_jobs jsonb, p_ids bigint[], p_attached boolean[] DEFAULT NULL::boolean[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_bulk jsonb := p_jobs #> '{0,audit}';
begin
  if not has_table_privilege(session_user, 'sluice.audit', 'insert') then
    insert into sluice.audit (actor, action, target, after, reason)
    select session_user, 'job.submit',
           case count(*) when 1 then 'job ' || min(j.id) else 'jobs ' || min(j.id) || ' to ' || max(j.id) end,
           case count(*) when 1 then jsonb_strip_nulls(jsonb_build_object(
                  'task', min(j.task), 'key', min(j.key), 'by', nullif(min(j.submitted_by), session_user::text)))
                else jsonb_build_object('jobs', count(*), 'tasks', (array_agg(distinct j.task))[:20]) end,
           left(v_bulk ->> 'reason', 500)
      from sluice.job_data j
     where j.id in (select u.id from unnest(p_ids, p_attached) u(id, attached) where u.attached is not true) and age(j.xmin) <= 0
    having count(*) > 0;
  elsif v_bulk ? 'tasks' then
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select v_bulk ->> 'actor', (v_bulk ->> 'keyId')::bigint, 'job.submit',
           case count(*) when 1 then 'job ' || min(u.id) else 'jobs ' || min(u.id) || ' to ' || max(u.id) end,
           jsonb_build_object('jobs', count(*), 'tasks',
             -- With thousands of jobs it takes time to look: only where some may have no part in it.
             case when true = any (p_attached) then
               (select to_jsonb((array_agg(distinct g.job ->> 'task'))[:20]) from jsonb_array_elements(p_jobs) with ordinality g(job, ord)
                 where p_attached[g.ord] is not true)
             else v_bulk -> 'tasks' end),
           v_bulk ->> 'requestId', v_bulk ->> 'reason'
      from unnest(p_ids, p_attached) u(id, attached) where u.attached is not true
    having count(*) > 0;
  else
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select g.job #>> '{audit,actor}', (g.job #>> '{audit,keyId}')::bigint, 'job.submit', 'job ' || p_ids[g.ord],
           jsonb_strip_nulls(jsonb_build_object('task', g.job -> 'task', 'key', g.job -> 'key',
                                                'by', nullif(g.job ->> 'by', g.job #>> '{audit,actor}'))),
           g.job #>> '{audit,requestId}', g.job #>> '{audit,reason}'
      from jsonb_array_elements(p_jobs) with ordinality g(job, ord)
     where g.job ? 'audit' and p_attached[g.ord] is not true
     order by g.ord;
  end if;
end $function$;

--- function sluice.busiest_owners_v1()
CREATE OR REPLACE FUNCTION sluice.busiest_owners_v1()
 RETURNS TABLE(owner text, bound integer, owned integer)
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  v_row  record;
  v_seen text[] := '{}';
  v_most integer[] := '{}';   -- of the five who have the most so far, the highest first
  v_read bigint := 0;
begin
  for v_row in select c.owner, c.bound from sluice.owner_charges c order by c.bound desc, c.seq desc loop
    continue when v_row.owner = any (v_seen);
    exit when cardinality(v_seen) >= 5 and (v_most[5] >= v_row.bound or cardinality(v_seen) >= 100 or v_read >= 50000);
    owner := v_row.owner;
    bound := v_row.bound;
    owned := cardinality(sluice.jobs_of_owner_v1(owner, true));
    return next;
    v_seen := v_seen || owner;
    v_most := array(select n from unnest(v_most || owned) n order by n desc limit 5);
    v_read := v_read + bound;
  end loop;
end $function$;

--- function sluice.cancel_held_v1(p_parents bigint[], p_error text)
CREATE OR REPLACE FUNCTION sluice.cancel_held_v1(p_parents bigint[], p_error text)
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_level bigint[] := p_parents;
begin
  while cardinality(v_level) > 0 loop
    -- Composites by their own rows first, as everybody locks them.
    perform 1 from sluice.composites c join sluice.job_data d on d.id = c.job_id
      where d.parent_id = any (v_level) and d.superseded_at is null and d.composite is not null and not c.ended
      order by c.job_id for no key update of c;
    select array_agg(e.id) filter (where e.is_composite) into v_level
      from sluice.end_queued_v1(array(select q.id from sluice.queue q join sluice.job_data d on d.id = q.id
                                       where q.parent_id = any (v_level) and q.state = 'waiting' and d.superseded_at is null
                                       order by q.id for update of q), 'cancelled', p_error, true) e;
  end loop;
end $function$;

--- function sluice.cancel_job_v1(p_id bigint, p_reason text)
CREATE OR REPLACE FUNCTION sluice.cancel_job_v1(p_id bigint, p_reason text)
 RETURNS sluice.job_state
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_error     text := 'cancelled: ' || p_reason;
  v_composite boolean;
  v_job       record;
  v_state     sluice.job_state;
begin
  perform 1 from sluice.composites c where c.job_id = p_id for no key update;
  v_composite := found;
  -- A claim or an ending may move it from one table to another between two looks: then it is looked for again.
  for v_try in 1 .. 100 loop
    select e.* into v_job from sluice.end_queued_v1(array[p_id], 'cancelled', v_error, true) e;
    if found then
      if v_composite then
        perform sluice.cancel_held_v1(array[p_id], v_error);
      end if;
      if v_job.before = 'waiting' then
        -- It had no place in the window yet: there is none to pass on.
        insert into sluice.wakeups (job_id, cancelled) values (v_job.parent_id, 1);
        perform sluice.hint_v1('wake', 'soon');
      elsif v_job.parent_id is not null then
        perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array['cancelled'::sluice.job_state]);
      end if;
      perform pg_notify('sluice', 'done');
      return 'cancelled';
    end if;
    if v_composite then
      update sluice.composites c
         set cancel_error = case when c.cancel_at is null then v_error else c.cancel_error end,
             closing_error = case when c.closing is null then case when c.cancel_at is null then v_error else c.cancel_error end
                                  else c.closing_error end,
             closing = coalesce(c.closing, 'cancelled'), cancel_at = coalesce(c.cancel_at, clock_timestamp())
       where c.job_id = p_id and not c.ended and c.started_at is not null;
      if found then
        insert into sluice.wakeups (job_id) values (p_id);
        perform pg_notify('sluice', 'wake');
        return 'running';
      end if;
    else
      select s.state into v_state from sluice.stop_running_v1(array[p_id], v_error) s;
      if found then
        return v_state;
      end if;
    end if;
    if exists (select 1 from sluice.outcomes o where o.id = p_id) or not exists (select 1 from sluice.job_data d where d.id = p_id) then
      return null;
    end if;
  end loop;
  raise exception 'job % moved 100 times while it was to be cancelled', p_id using errcode = '40001';
end $function$;

--- function sluice.cancel_jobs_v1(p_ids bigint[], p_reason text)
CREATE OR REPLACE FUNCTION sluice.cancel_jobs_v1(p_ids bigint[], p_reason text)
 RETURNS TABLE(id bigint, before sluice.job_state, after sluice.job_state)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_error text := 'cancelled: ' || p_reason;
  v_left  bigint[];   -- leaves that are still to be cancelled
  v_rows  bigint[];   -- those of them that wait, locked
  v_ended record;
  v_stop  bigint[];   -- those of them that run or are assigned, and the states of these
  v_states sluice.job_state[];
begin
  -- Of a composite that waits, cancel_held_v1 ends what waits below it.
  v_rows := array(
    with recursive held as (
      select c.job_id as id from sluice.composites c where c.job_id = any (p_ids)
      union
      select d.id from held h join sluice.queue q on q.id = h.id
        join sluice.job_data d on d.parent_id = h.id and d.superseded_at is null and d.composite is not null
    )
    select h.id from held h);
  perform 1 from sluice.composites c where c.job_id = any (v_rows) order by c.job_id for no key update;
  -- The queue first: what is claimed before it is locked is locked where it runs.
  v_rows := array(select q.id from sluice.queue q
                   where q.id = any (array(select unnest(p_ids || v_rows)
                                     union select w.id from sluice.queue w where w.parent_id = any (v_rows) and w.state = 'waiting'))
                   order by q.id for update);
  return query
  select k.id, k.state, c.state
    from (select j.id, j.state from sluice.jobs j where j.id = any (p_ids) and j.composite is not null and j.state < 'completed'
           order by j.id offset 0) k
   cross join lateral (select sluice.cancel_job_v1(k.id, p_reason) as state) c
   where c.state is not null;

  v_left := array(select distinct d.id from sluice.job_data d where d.id = any (p_ids) and d.composite is null
                     and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0));
  for v_try in 1 .. 20 loop
    exit when v_left = '{}';
    if v_try > 2 then
      -- Whoever has locked what is left is about to commit, and without a pause all looks would be over before that.
      perform pg_sleep(0.01);
    end if;
    if v_try > 1 then
      v_rows := array(select q.id from sluice.queue q where q.id = any (v_left) order by q.id for update skip locked);
    end if;
    select array_agg(e.id) as ids, array_agg(e.before) as befores, array_agg(e.parent_id) as parents, array_agg(e.idx) as idxs into v_ended
      from sluice.end_queued_v1(array(select unnest(v_rows) intersect select unnest(v_left)), 'cancelled', v_error, true) e;
    perform sluice.children_ended_v1(array_agg(e.parent_id), array_agg(e.idx), array_agg('cancelled'::sluice.job_state))
       from unnest(v_ended.ids, v_ended.befores, v_ended.parents, v_ended.idxs) e(id, before, parent_id, idx)
      where e.parent_id is not null and e.before <> 'waiting' having count(*) > 0;
    -- Those that wait for a place in a window have none to pass on.
    insert into sluice.wakeups (job_id, cancelled)
    select e.parent_id, count(*) from unnest(v_ended.befores, v_ended.parents) e(before, parent_id) where e.before = 'waiting' group by e.parent_id;
    if found then
      perform sluice.hint_v1('wake', 'soon');
    end if;
    if v_ended.ids is not null then
      perform pg_notify('sluice', 'done');
    end if;
    return query
    select e.id, e.before, 'cancelled'::sluice.job_state from unnest(v_ended.ids, v_ended.befores) e(id, before) order by e.id;
    v_left := array(select d.id from sluice.job_data d where d.id = any (v_left)
                       and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0));
    select coalesce(array_agg(s.id), '{}'), array_agg(s.state) into v_stop, v_states from sluice.stop_running_v1(v_left, v_error, v_try = 1) s;
    return query select s.id, s.state, s.state from unnest(v_stop, v_states) s(id, state) order by s.id;
    v_left := array(select d.id from sluice.job_data d where d.id = any (array(select unnest(v_left) except select unnest(v_stop)))
                       and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0));
  end loop;
  if v_left <> '{}' then
    raise exception 'job % moved, or was locked, at every look while it was to be cancelled', v_left[1] using errcode = '40001';
  end if;
end $function$;

--- function sluice.capacity_v1(p_device sluice.devices)
CREATE OR REPLACE FUNCTION sluice.capacity_v1(p_device sluice.devices)
 RETURNS double precision
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((p_device).most IS NULL) THEN (p_device).total ELSE LEAST((p_device).most, (p_device).total) END;

--- function sluice.catalogue_stamp_v1()
CREATE OR REPLACE FUNCTION sluice.catalogue_stamp_v1()
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (((SELECT ((count(*) || '/'::text) || COALESCE(sum(hashint4(c.id)) FILTER (WHERE c.budgeted), (0)::bigint)) FROM sluice.classes c) || '/'::text) || (SELECT sum(EXTRACT(epoch FROM l.updated_at)) AS sum FROM sluice.lanes l));

--- function sluice.change_admission_v1(p_given jsonb, p_by text, p_operator boolean, p_default boolean)
CREATE OR REPLACE FUNCTION sluice.change_admission_v1(p_given jsonb, p_by text, p_operator boolean, p_default boolean DEFAULT false)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_old     sluice.admission;
  v_new     sluice.admission;
  v_given   jsonb := sluice.flat_limits_v1(p_given - 'implied');
  v_implied boolean := coalesce((p_given ->> 'implied')::boolean, false);
  v_tasks   text[];
  v_was     jsonb;   -- tasks whose depths come with their uses
  v_kept    jsonb;
  v_before  jsonb;
  v_row     jsonb;
begin
  select * into v_old from sluice.admission for no key update;
  if p_default then
    v_given := v_given - array(select jsonb_object_keys(v_old.declared)) - v_old.operator_set;
  end if;
  v_tasks := array(select substr(k, 11) from jsonb_object_keys(v_given) k where k like 'maxQueued.%');
  v_was := coalesce(v_old.declared -> 'implied', '{}');
  v_kept := case when p_operator then v_was else v_was - v_tasks || (
    select coalesce(jsonb_object_agg(t, true), '{}') from unnest(v_tasks) t
     where v_implied and (v_was ? t or not v_old.declared ? ('maxQueued.' || t))) end;
  v_before := (to_jsonb(v_old) - 'max_queued')
              || (select coalesce(jsonb_object_agg('maxQueued.' || t, v_old.max_queued -> t), '{}')
                    from (select unnest(v_tasks) union select jsonb_object_keys(v_old.max_queued)) k(t));
  v_row := sluice.overlay_v1(v_before, v_given, p_by, p_operator);
  if v_row <> v_before or v_kept <> v_was then
    if not p_operator then
      v_row := jsonb_set(v_row, '{declared,implied}', v_kept);
    end if;
    v_new := jsonb_populate_record(v_old, v_row || jsonb_build_object('max_queued', (
      select coalesce(jsonb_object_agg(substr(f.key, 11), f.value) filter (where f.value <> 'null'), '{}')
        from jsonb_each(v_row) f where f.key like 'maxQueued.%')));
    v_new.default_set := array(select f from unnest(v_old.default_set) f where p_operator or not v_given ? f
                               union select f from jsonb_object_keys(v_given) f where p_default and f not like 'maxQueued.%' order by 1);
    perform sluice.write_row_v1('sluice.admission', to_jsonb(v_old), to_jsonb(v_new), 'one');
  end if;
  -- What was not charged so far is not in the ledger.
  update sluice.admission a set complete = false, settles_at = null
   where not a.limited or a.max_active is not null and v_old.max_active is null
      or a.scheduled_limit is not null and v_old.scheduled_limit is null
      or a.max_per_owner is not null and v_old.max_per_owner is null
      or a.max_active is null and not (a.max_queued - array(select jsonb_object_keys(v_old.max_queued))) = '{}';
  if not (select a.limited from sluice.admission a) then
    delete from sluice.charges;
  end if;
  if (select a.max_per_owner is null from sluice.admission a) then
    delete from sluice.owner_charges;
  end if;
end $function$;

--- function sluice.change_budget_v1(p_name text, p_given jsonb, p_by text, p_operator boolean)
CREATE OR REPLACE FUNCTION sluice.change_budget_v1(p_name text, p_given jsonb, p_by text, p_operator boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_old sluice.budgets;
  v_new sluice.budgets;
begin
  if not p_operator then
    insert into sluice.budgets (name, kind, updated_by) values (p_name, p_given ->> 'kind', p_by) on conflict do nothing;
  end if;
  select * into v_old from sluice.budgets b where b.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given - 'limits', p_by, p_operator));
  if v_new is not distinct from v_old then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  perform sluice.write_row_v1('sluice.budgets', to_jsonb(v_old), to_jsonb(v_new));
  if v_new.kind = 'shared' then
    insert into sluice.devices (budget, key, name, total) values (p_name, '', p_name, v_new.capacity)
      on conflict (budget, key) do update set total = excluded.total;
  else
    delete from sluice.devices d where d.budget = p_name and d.key = '';
    update sluice.devices d set total = (v_new.devices ->> d.name)::double precision
     where d.budget = p_name and not v_new.auto and v_new.devices ? d.name and d.total is distinct from (v_new.devices ->> d.name)::double precision;
    update sluice.devices d set most = (p_given #>> array['limits', d.key])::double precision
     where d.budget = p_name and p_given -> 'limits' ? d.key;
  end if;
  if v_new.kind <> v_old.kind then
    perform sluice.check_models_v1(jsonb_agg(jsonb_build_object('name', t.name, 'model', c.model, 'uses', t.uses, 'perJob', t.per_job)))
       from sluice.tasks t join sluice.classes c on c.id = t.class_id
      where (t.uses ? p_name or t.per_job ? p_name) and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
     having count(*) > 0;
  end if;
  perform sluice.refuse_impossible_tasks_v1();
  perform pg_notify('sluice', 'lane');
  perform pg_notify('sluice', 'ready');
  return true;
end $function$;

--- function sluice.change_lane_v1(p_name text, p_given jsonb, p_by text, p_operator boolean)
CREATE OR REPLACE FUNCTION sluice.change_lane_v1(p_name text, p_given jsonb, p_by text, p_operator boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_old sluice.lanes;
  v_new sluice.lanes;
begin
  select * into v_old from sluice.lanes l where l.name = p_name;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given, p_by, p_operator));
  -- Every start of every program comes by here: as a rule nothing is new, nobody is told, and a lane that somebody has locked is not waited for.
  if v_new is not distinct from v_old then
    return true;
  end if;
  if v_new.ageing_ms is distinct from v_old.ageing_ms then
    -- Before the lane's row is locked: jobs come before lanes.
    perform sluice.rerank_v1(p_name, v_new.ageing_ms, false);
  end if;
  select * into v_old from sluice.lanes l where l.name = p_name for no key update;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given, p_by, p_operator));
  if v_old.slots is null and v_new.slots is not null then
    -- FOR UPDATE keeps new workers out, whose holdings refer to this row. Cycles do not ask for it while there is no limit.
    perform 1 from sluice.lanes l where l.name = p_name for update;
    perform 1 from sluice.holdings h where h.lane = p_name order by h.worker_id for no key update;
    update sluice.holdings h
       set slots = (select greatest(count(*) filter (where not r.assigned), least(count(*), nullif(w.capacity, 0)))
                      from sluice.claimed r join sluice.classes c on c.id = r.class_id
                     where r.worker_id = w.id and c.lane = p_name)
      from sluice.workers w where w.id = h.worker_id and h.lane = p_name;
  end if;
  if v_new.ageing_ms is distinct from v_old.ageing_ms then
    -- What has come since; a bulk change takes a while.
    perform sluice.rerank_v1(p_name, v_new.ageing_ms, true);
  end if;
  perform sluice.write_row_v1('sluice.lanes', to_jsonb(v_old), to_jsonb(v_new));
  perform pg_notify('sluice', 'lane');
  return true;
end $function$;

--- function sluice.change_pool_v1(p_name text, p_given jsonb, p_by text, p_operator boolean)
CREATE OR REPLACE FUNCTION sluice.change_pool_v1(p_name text, p_given jsonb, p_by text, p_operator boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_old sluice.pools;
  v_new sluice.pools;
begin
  if not p_operator then
    insert into sluice.pools (name, updated_by) values (p_name, p_by) on conflict do nothing;
    if found then
      update sluice.pools p set declared = sluice.fields_v1(to_jsonb(p)) where p.name = p_name;
    end if;
  end if;
  select * into v_old from sluice.pools p where p.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given, p_by, p_operator));
  if not p_operator and v_new.min > v_new.max then
    if 'max' = any (v_old.operator_set) then
      v_new.min := v_new.max;
    elsif 'min' = any (v_old.operator_set) then
      v_new.max := v_new.min;
    end if;
  end if;
  if v_new.min > v_new.max then
    if p_given ? 'max' then
      raise exception 'max is %, less than min, which is %; write at least %, or lower min', v_new.max, v_new.min, v_new.min
        using errcode = 'SL005', detail = p_name;
    end if;
    raise exception 'min is %, more than max, which is %; write at most %, or raise max', v_new.min, v_new.max, v_new.max
      using errcode = 'SL005', detail = p_name;
  end if;
  if not p_operator and v_new.declared = v_old.declared and sluice.fields_v1(to_jsonb(v_new)) = sluice.fields_v1(to_jsonb(v_old)) then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  perform sluice.write_row_v1('sluice.pools', to_jsonb(v_old), to_jsonb(v_new));
  perform pg_notify('sluice', 'workers');
  return true;
end $function$;

--- function sluice.charge_deferred_v1()
CREATE OR REPLACE FUNCTION sluice.charge_deferred_v1()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  delete from sluice.deferred_charges d where d.id = new.id;
  perform sluice.charge_v1(new.ids, new.checked);
  return null;
end $function$;

--- function sluice.charge_owners_v1(p_set sluice.admission, p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.charge_owners_v1(p_set sluice.admission, p_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_new    record;
  v_last   sluice.owner_charges;
  v_active bigint[];
begin
  for v_new in
    select d.submitted_by as owner, array_agg(d.id) as ids, count(*)::integer as count
      from sluice.job_data d where d.id = any (p_ids) and d.submitted_by is not null group by d.submitted_by order by d.submitted_by
  loop
    select * into v_last from sluice.owner_charges c where c.owner = v_new.owner order by c.seq desc limit 1;
    if p_set.complete and v_last.length < 100 + v_last.bound / 10 and v_last.bound + v_new.count <= p_set.max_per_owner then
      insert into sluice.owner_charges (owner, ids, bound, length) values (v_new.owner, v_new.ids, v_last.bound + v_new.count, v_last.length + 1);
      continue;
    end if;
    v_active := array(select unnest(sluice.jobs_of_owner_v1(v_new.owner, p_set.complete))
                      except select unnest(v_new.ids));
    if cardinality(v_active) + v_new.count > p_set.max_per_owner then
      perform sluice.refuse_v1(jsonb_build_object('owner', v_new.owner, 'maxPerOwner', p_set.max_per_owner, 'owned', cardinality(v_active)),
                               v_new.count, cardinality(v_active) + v_new.count - p_set.max_per_owner, 0);
    end if;
    delete from sluice.owner_charges c where c.owner = v_new.owner;
    insert into sluice.owner_charges (owner, base, ids, bound)
      values (v_new.owner, true, v_active || v_new.ids, cardinality(v_active) + v_new.count);
  end loop;
end $function$;

--- function sluice.charge_v1(p_ids bigint[], p_checked boolean)
CREATE OR REPLACE FUNCTION sluice.charge_v1(p_ids bigint[], p_checked boolean)
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  v_fixed  boolean := current_setting('transaction_isolation') <> 'read committed';
  v_set    sluice.admission;
  v_last   sluice.charges;
  v_depths jsonb;
  v_later  bigint[];    -- those of them that are scheduled
  v_most   integer;     -- the bound up to which nobody has to be looked up
  v_active integer;
  v_fits   boolean;
  v_within boolean;     -- the limits of their tasks
  v_all    bigint[];
  v_owned  boolean;
begin
  if v_fixed then
    perform 1 from sluice.admission a where not a.limited for share;
    if found then
      return;
    end if;
  end if;
  select * into v_set from sluice.admission for no key update;
  if not v_set.limited then
    return;
  end if;
  v_all := p_ids;
  v_later := sluice.scheduled_of_v1(p_ids);
  if cardinality(v_later) > 0 then
    p_ids := array(select unnest(p_ids) except select unnest(v_later));
  end if;
  if v_set.scheduled_limit is null then
    v_later := '{}';
  end if;
  if v_set.max_active is null then
    p_ids := array(select d.id from sluice.job_data d where d.id = any (p_ids) and v_set.max_queued ? d.task);
  end if;
  -- Jobs that were accepted before are listed with their owners since then.
  v_owned := p_checked and v_set.max_per_owner is not null;
  if cardinality(p_ids) + cardinality(v_later) = 0 and not v_owned then
    return;
  end if;
  select * into v_last from sluice.charges c order by c.seq desc limit 1;
  if v_fixed and v_last.seq is distinct from (select n.last_value from sluice.charge_numbers n) then
    raise exception 'could not serialize access: others have submitted since this transaction began'
      using errcode = '40001', hint = 'run the transaction again';
  end if;
  if v_owned then
    perform sluice.charge_owners_v1(v_set, v_all);
  end if;
  if cardinality(v_later) > 0 and (not v_set.complete or v_last.scheduled is null
                                   or p_checked and v_last.scheduled + cardinality(v_later) > v_set.scheduled_limit) then
    v_last.scheduled := sluice.count_scheduled_v1() - cardinality(v_later);
    if p_checked and v_last.scheduled + cardinality(v_later) > v_set.scheduled_limit then
      perform sluice.refuse_scheduled_v1(v_set.scheduled_limit, v_last.scheduled, v_later);
    end if;
  end if;
  -- Many jobs may be due at once. While far more than may be are active, some of them are enough to refuse.
  if p_checked and v_set.complete and cardinality(p_ids) > 0 and v_last.bound > 2::bigint * v_set.max_active + 1000 then
    v_active := sluice.some_active_v1(2 * v_set.max_active + 1000, p_ids);
    if v_active + cardinality(p_ids) > v_set.max_active then
      perform sluice.refuse_v1(jsonb_build_object('ceiling', v_set.max_active, 'active', v_active, 'atLeast', true), cardinality(p_ids),
                               v_last.bound + cardinality(p_ids) - v_set.max_active, coalesce((select max(l.rate) from sluice.ledger_v1() l), 0));
    end if;
  end if;
  v_depths := v_last.depths;
  v_most := case when v_set.max_active is null or not p_checked then greatest(v_set.max_active, 2 * v_last.counted + 1000) else v_set.max_active end;
  -- The ledger stays about as short as the list of active jobs, also where rows list none.
  v_fits := v_set.complete and v_last.seq is not null and v_last.length < v_last.counted + 1000
    and (cardinality(p_ids) = 0 or v_last.bound + cardinality(p_ids) <= v_most);
  if v_fits and v_set.max_queued <> '{}' and cardinality(p_ids) > 0 then
    -- A task that got its limit since the last look is not in it yet.
    select coalesce(bool_and(n.depth <= (v_set.max_queued ->> n.task)::integer), true),
           v_last.depths || coalesce(jsonb_object_agg(n.task, n.depth) filter (where n.depth is not null), '{}')
      into v_within, v_depths
      from (select d.task, coalesce((v_last.depths ->> d.task)::bigint, 2147483647) + count(*) as depth
              from sluice.queue q cross join lateral (select x.task from sluice.job_data x where x.id = q.id offset 0) d
             where q.id = any (p_ids) and v_set.max_queued ? d.task
             group by d.task) n;
    v_fits := v_within or not p_checked;
  end if;
  if v_fits then
    insert into sluice.charges (ids, bound, depths, counted, scheduled, length)
      values (p_ids, v_last.bound + cardinality(p_ids), v_depths, v_last.counted,
              case when v_set.scheduled_limit is not null then v_last.scheduled + cardinality(v_later) end, v_last.length + 1);
  else
    perform sluice.recount_v1(v_set, p_ids, v_last.scheduled + cardinality(v_later), p_checked);
  end if;
end $function$;

--- function sluice.check_models_v1(p_tasks jsonb, p_added boolean)
CREATE OR REPLACE FUNCTION sluice.check_models_v1(p_tasks jsonb, p_added boolean DEFAULT false)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_row record;
begin
  for v_row in
    with given as materialized (
      select g.* from jsonb_to_recordset(p_tasks) as g(name text, model text, uses jsonb, "perJob" jsonb)
       where not (p_added and exists (select 1 from sluice.tasks t where t.name = g.name))
    ), everyone as (
      select g.name, g.model, g.uses from given g
      union all
      select t.name, c.model, t.uses from sluice.tasks t join sluice.classes c on c.id = t.class_id
       where c.model in (select g.model from given g) and t.name not in (select g.name from given g)
         and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
    ), drawn as (
      select g.name, g.model, u.key as budget, u.value as amount from everyone g, jsonb_each(g.uses) u
       where not exists (select 1 from sluice.budgets b where b.name = u.key and b.kind = 'shared')
    )
    select 1 as rule, d.name, d.model, d.budget, null as other, null::jsonb as amount, null::jsonb as others
      from drawn d join given g on g.name = d.name where d.model is not null and jsonb_typeof(d.amount) = 'string'
    union all
    select 2, g.name, g.model, p.key, null, null, null
      from given g, jsonb_object_keys(g."perJob") p(key)
     where g.model is not null and not g.uses ? p.key and exists (select 1 from drawn d where d.name = g.name)
       and not exists (select 1 from sluice.budgets b where b.name = p.key and b.kind = 'shared')
    union all
    select 3, g.name, g.model, d.budget, o.name, m.amount, x.amount
      from given g join everyone o on o.model = g.model and o.name <> g.name
      join (select distinct k.model, k.budget from drawn k) d on d.model = g.model
      left join drawn m on m.name = g.name and m.budget = d.budget
      left join drawn x on x.name = o.name and x.budget = d.budget
     where g.uses is not null and o.uses is not null and m.amount is distinct from x.amount
     order by 1, 2, 4, 5 limit 1
  loop
    raise exception '%', case v_row.rule
      when 1 then format('task %s: uses.%s is an expression, but model %s is loaded once for all its jobs; give what the model takes, and what '
                         'depends on the input as perJob', v_row.name, v_row.budget, v_row.model)
      when 2 then format('task %s: perJob.%s is of a budget that uses does not name, so model %s lies on none of its devices; add uses.%s, '
                         '0 if the model itself takes nothing', v_row.name, v_row.budget, v_row.model, v_row.budget)
      else format('tasks %s and %s share model %s, which is loaded once for both, but differ in what it uses of %s: %s and %s; say the same in '
                  'both, or give one of them another model', v_row.name, v_row.other, v_row.model, v_row.budget,
                  sluice.stored_amount_text_v1(v_row.budget, v_row.amount), sluice.stored_amount_text_v1(v_row.budget, v_row.others)) end
      using errcode = 'SL005', detail = v_row.name;
  end loop;
end $function$;

--- function sluice.check_submitter_v1()
CREATE OR REPLACE FUNCTION sluice.check_submitter_v1()
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_role name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  if not has_table_privilege(v_role, 'sluice.jobs', 'insert') then
    raise exception 'role % may not submit jobs', quote_ident(v_role) using errcode = '42501', hint = 'grant select, insert on sluice.jobs to it';
  end if;
end $function$;

--- function sluice.checked_uses_v1(p_task text, p_refusal jsonb, p_uses jsonb)
CREATE OR REPLACE FUNCTION sluice.checked_uses_v1(p_task text, p_refusal jsonb, p_uses jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_refusal jsonb := case when p_uses is null then p_refusal else sluice.uses_refusal_v1(p_uses -> 'uses', p_uses -> 'perJob') end;
begin
  if v_refusal is not null then
    raise exception 'task % %', p_task, v_refusal ->> 'text'
      using errcode = 'SL008', detail = (v_refusal - 'text' || jsonb_build_object('task', p_task))::text;
  end if;
  return p_uses;
end $function$;

--- function sluice.children_ended_v1(p_parents bigint[], p_idxs integer[], p_states sluice.job_state[], p_started bigint[])
CREATE OR REPLACE FUNCTION sluice.children_ended_v1(p_parents bigint[], p_idxs integer[], p_states sluice.job_state[], p_started bigint[] DEFAULT '{}'::bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_windowed bigint[];
  v_row      record;
  v_passed   integer;
  v_hint     boolean;
begin
  v_windowed := array(select c.job_id from sluice.composites c where c.job_id = any (p_parents) and c.window_size is not null);
  insert into sluice.wakeups (job_id, completed, failed, cancelled)
  select g.parent, count(*) filter (where g.state = 'completed'), count(*) filter (where g.state = 'failed'),
         count(*) filter (where g.state = 'cancelled')
    from unnest(p_parents, p_states) g(parent, state) where g.parent <> all (v_windowed) group by g.parent;
  v_hint := found;
  for v_row in
    select g.parent, max(g.idx) as last, count(*)::integer as ended, count(*) filter (where g.state = 'completed') as completed,
           count(*) filter (where g.state = 'failed') as failed, count(*) filter (where g.state = 'cancelled') as cancelled,
           (select count(*)::integer from unnest(p_started) s where s = g.parent) as started,
           (select c.window_size >= c.tokens and c.closing is null from sluice.composites c where c.job_id = g.parent) as passes
      from unnest(p_parents, p_idxs, p_states) g(parent, idx, state)
     where g.parent = any (v_windowed) group by g.parent order by g.parent
  loop
    v_passed := v_row.started;
    if v_row.passes and v_passed < v_row.ended then
      v_passed := v_passed + sluice.start_waiting_children_v1(v_row.parent, v_row.last, v_row.ended - v_passed);
    end if;
    -- Who hears of the first one that can wait looks again after it is due, and finds the others with it.
    v_hint := v_hint or v_passed < v_row.ended
           or not exists (select 1 from sluice.wakeups w where w.job_id = v_row.parent and w.completed + w.failed + w.cancelled > 0);
    insert into sluice.wakeups (job_id, due_at, completed, failed, cancelled, dropped)
      values (v_row.parent, clock_timestamp() + case when v_passed < v_row.ended then interval '0' else interval '25 milliseconds' end,
              v_row.completed, v_row.failed, v_row.cancelled, v_row.ended - v_passed);
  end loop;
  if v_hint then
    perform sluice.hint_v1('wake', 'soon');
  end if;
end $function$;

--- function sluice.choose_jobs_v1(p_worker bigint, p_now timestamp with time zone, p_free integer, p_turn integer, p_budget jsonb, p_ready sluice.cycle_class_v1[], p_others sluice.cycle_class_v1[], INOUT lanes sluice.cycle_lane_v1[], OUT picked tid[], OUT devices jsonb, OUT locked text[])
CREATE OR REPLACE FUNCTION sluice.choose_jobs_v1(p_worker bigint, p_now timestamp with time zone, p_free integer, p_turn integer, p_budget jsonb, p_ready sluice.cycle_class_v1[], p_others sluice.cycle_class_v1[], INOUT lanes sluice.cycle_lane_v1[], OUT picked tid[], OUT devices jsonb, OUT locked text[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_part   record;
  v_counts integer[];
begin
  if p_others <> '{}' then
    lanes := sluice.yield_v1(p_ready, p_others, lanes);
  end if;
  lanes := sluice.share_lanes_v1(p_ready, p_free, p_turn % cardinality(lanes) + 1, lanes);
  v_part := sluice.acquire_slots_v1(lanes);
  lanes := v_part.lanes; locked := v_part.locked;
  if clock_timestamp() > p_now + interval '100 milliseconds' then
    lanes := sluice.recheck_limits_v1(lanes);
  end if;
  v_counts := sluice.count_by_class_v1(p_ready, lanes);
  if p_budget is not null then
    v_part := sluice.claim_budgeted_v1(p_worker, p_now, p_budget, p_ready, v_counts, lanes);
    lanes := v_part.lanes; v_counts := v_part.counts; picked := v_part.picked; devices := v_part.devices;
  end if;
  v_part := sluice.lock_jobs_v1(p_now, p_ready, v_counts, lanes);
  lanes := v_part.lanes; picked := coalesce(picked || v_part.picked, '{}');
  if v_part.expired then
    perform sluice.hint_v1('ready', 'soon');
  end if;
end $function$;

--- function sluice.claim_budgeted_v1(p_worker bigint, p_now timestamp with time zone, p_budget jsonb, p_classes sluice.cycle_class_v1[], INOUT counts integer[], INOUT lanes sluice.cycle_lane_v1[], OUT picked tid[], OUT devices jsonb)
CREATE OR REPLACE FUNCTION sluice.claim_budgeted_v1(p_worker bigint, p_now timestamp with time zone, p_budget jsonb, p_classes sluice.cycle_class_v1[], INOUT counts integer[], INOUT lanes sluice.cycle_lane_v1[], OUT picked tid[], OUT devices jsonb)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_offers   jsonb;
  v_seen     jsonb;
  v_room     jsonb;           -- by budget and device; null: without bounds
  v_left     jsonb;
  v_starts   jsonb;
  v_start    jsonb;
  v_class    integer;
  v_ord      integer;
  v_count    integer;
  v_job      record;
  v_row      record;
  v_fits     boolean;
  v_first    boolean;
  v_devices  jsonb;
  v_key      text;
  v_new      jsonb := '[]';   -- reservations and residents to be written
  v_copies   jsonb := '[]';
  v_opened   text[] := '{}';  -- copies whose memory has been charged here
  v_copy     text;
  v_late     bigint[] := '{}';   -- jobs past their start deadline: they fail instead of starting
begin
  picked := '{}'; devices := '{}';
  if p_budget ? 'oom' then
    perform sluice.raise_jobs_v1(p_worker, p_budget -> 'oom');
  end if;
  perform 1 from sluice.devices d
    where d.key = any (array(select p ->> 'device' from jsonb_path_query(p_budget, '$.starts[*].deviceUses[*]') p
                             union select jsonb_path_query(p_budget, '$.*[*].devices[*]') #>> '{}'
                             union select p ->> 'device' from jsonb_path_query(p_budget, '$.unloaded[*]') p))
       or d.key = '' and d.budget = any (array(select s.budget from jsonb_path_query(p_budget, '$.starts[*].shared') x,
                                                      lateral jsonb_object_keys(x) s(budget)))
    order by d.budget, d.key for no key update;
  if p_budget - '{starts,hint}'::text[] <> '{}' then
    perform sluice.record_models_v1(p_worker, p_now, p_budget);
  end if;
  if (p_budget ->> 'hint')::boolean then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if coalesce(jsonb_array_length(p_budget -> 'starts'), 0) = 0 then
    return;
  end if;

  delete from sluice.reservations r using sluice.devices_of_plan_v1(p_budget) d
   where r.budget = d.budget and r.device = d.device
     and not exists (select 1 from sluice.running j where j.worker_id = r.worker_id and j.id = r.job_id and j.attempt = r.attempt offset 0);
  select jsonb_object_agg(d.key, sluice.device_room_v1(d.budget, d.device)) into v_room from sluice.devices_of_plan_v1(p_budget) d;
  v_offers := sluice.device_capacity_v1(p_worker);

  for v_class in select (s.start ->> 'class')::integer from jsonb_array_elements(p_budget -> 'starts') with ordinality s(start, ord)
                  group by 1 order by min(s.ord) loop
    v_ord := (select c.ord from unnest(p_classes) with ordinality c(id, lane, most, rank, after, fresh, ord) where c.id = v_class);
    continue when v_ord is null;
    select jsonb_agg(s.start order by s.ord), least(sum((s.start ->> 'count')::integer), counts[v_ord])::integer into v_starts, v_count
      from jsonb_array_elements(p_budget -> 'starts') with ordinality s(start, ord) where (s.start ->> 'class')::integer = v_class;
    counts[v_ord] := 0;
    continue when coalesce(v_count, 0) <= 0;
    v_seen := (select m.amounts from sluice.models m where m.name = v_starts -> 0 ->> 'model');
    for v_job in
      select q.ctid, q.id, q.attempt, d.uses, q.deadline_at <= clock_timestamp() as late
        from sluice.queue q join sluice.job_data d on d.id = q.id
       where q.class_id = v_class and q.state = 'ready' and (d.uses is null or sluice.could_run_v1(d.uses, v_offers, v_seen))
       order by q.rank, q.id limit v_count for update of q skip locked
    loop
      if v_job.late then
        v_late := v_late || v_job.id;
        continue;
      end if;
      v_fits := false;
      for i in 0 .. jsonb_array_length(v_starts) - 1 loop
        v_start := v_starts -> i;
        continue when (v_start ->> 'count')::integer <= 0 or v_job.uses is null and (v_start ->> 'expressed')::boolean;
        select jsonb_agg(distinct p ->> 'device') into v_devices from jsonb_array_elements(v_start -> 'deviceUses') p;
        v_first := false;
        if v_start ->> 'model' is not null and jsonb_array_length(v_start -> 'deviceUses') > 0 then
          v_copy := (v_start ->> 'model') || chr(31) || v_devices::text;
          if not v_copy = any (v_opened) then
            select count(*) filter (where r.unloading_at is not null) as unloading, count(*) as present into v_row
              from sluice.residents r
             where r.worker_id = p_worker and r.model = v_start ->> 'model' and v_devices ? r.device;
            continue when v_row.unloading > 0 or v_row.present = 0 and not (v_start ->> 'new')::boolean;
            v_first := v_row.present = 0;
          end if;
        end if;
        -- All of it or nothing.
        v_fits := true;
        v_left := v_room;
        for v_row in select * from sluice.job_reservations_v1(v_start, v_job.uses, v_first, jsonb_array_length(v_devices)) loop
          v_key := v_row.budget || chr(31) || v_row.device;
          if v_row.amount is null or not v_left ? v_key or (v_left ->> v_key)::double precision < v_row.amount then
            v_fits := false;
            exit;
          end if;
          if v_left -> v_key <> 'null' then
            v_left := v_left || jsonb_build_object(v_key, (v_left ->> v_key)::double precision - v_row.amount);
          end if;
        end loop;
        continue when not v_fits;
        v_room := v_left;
        v_starts := jsonb_set(v_starts, array[i::text, 'count'], to_jsonb((v_start ->> 'count')::integer - 1));
        if v_first then
          v_opened := v_opened || v_copy;
          v_copies := v_copies || jsonb_build_array(v_start || jsonb_build_object('devices', v_devices));
        end if;
        picked := picked || v_job.ctid;
        lanes[p_classes[v_ord].lane].run := lanes[p_classes[v_ord].lane].run + 1;
        devices := devices || jsonb_build_object(v_job.id::text, coalesce(v_devices, '[]'));
        -- A task that has just lost its uses draws nothing: without coalesce nobody's would be written.
        v_new := v_new || (select coalesce(jsonb_agg(jsonb_build_object('job', v_job.id, 'attempt', v_job.attempt + 1, 'budget', d.budget,
                                                                        'device', d.device,
                                                                        'amount', d.amount)), '[]')
                             from sluice.job_reservations_v1(v_start, v_job.uses, false, jsonb_array_length(v_devices)) d);
        exit;
      end loop;
      exit when not v_fits;
    end loop;
  end loop;

  if v_late <> '{}' then
    perform sluice.expire_start_deadlines_v1(1000, v_late);
    perform sluice.hint_v1('ready', 'soon');   -- it was planned for these; what comes after them is planned next
  end if;
  insert into sluice.residents (worker_id, model, device, budget, amount, devices, claimed_at)
  select p_worker, c ->> 'model', p.device, p.budget, p.resident, array(select jsonb_array_elements_text(c -> 'devices') x order by x), p_now
    from jsonb_array_elements(v_copies) c, jsonb_to_recordset(c -> 'deviceUses') as p(budget text, device text, resident double precision);
  insert into sluice.reservations (worker_id, job_id, attempt, budget, device, amount)
  select p_worker, r.* from jsonb_to_recordset(v_new) as r(job bigint, attempt integer, budget text, device text, amount double precision);
end $function$;

--- function sluice.claim_names_v1(p_names text[], p_kind text)
CREATE OR REPLACE FUNCTION sluice.claim_names_v1(p_names text[], p_kind text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_taken text;
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  if p_kind = 'task' then
    select min(w.name) into v_taken from sluice.workflows w where w.name = any (p_names);
  else
    select min(t.name) into v_taken from sluice.tasks t where t.name = any (p_names);
  end if;
  if v_taken is not null then
    raise exception '% is the name of a %, so it cannot be a % too. Choose another name, or delete the other first: sluice tasks delete %',
      v_taken, case p_kind when 'task' then 'workflow' else 'task' end, p_kind, v_taken using errcode = 'SL010', detail = v_taken;
  end if;
  return true;
end $function$;

--- function sluice.claims_of_v1(p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.claims_of_v1(p_ids bigint[])
 RETURNS TABLE(id bigint, worker_id bigint, seq bigint)
 LANGUAGE plpgsql
 STABLE ROWS 50
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'on'
 SET enable_hashjoin TO 'on'
 SET enable_mergejoin TO 'off'
 SET enable_nestloop TO 'on'
 SET enable_sort TO 'on'
AS $function$
#variable_conflict use_column
begin
  if coalesce(cardinality(p_ids), 0) = 0 then
    return;
  elsif cardinality(p_ids) <= 16 then
    return query
    select j.id, c.worker_id, c.seq from sluice.claims c cross join lateral unnest(c.ids) j(id) where c.ids && p_ids and j.id = any (p_ids);
  else
    return query
    select j.id, j.worker_id, j.seq from (select c.worker_id, c.seq, unnest(c.ids) as id from sluice.claims c) j
     where j.id in (select unnest(p_ids));
  end if;
end $function$;

--- function sluice.class_in_lane_v1(p_class integer, p_lane text)
CREATE OR REPLACE FUNCTION sluice.class_in_lane_v1(p_class integer, p_lane text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_class sluice.classes;
begin
  select * into v_class from sluice.classes c where c.id = p_class;
  if exists (select 1 from sluice.tasks t where t.name = v_class.task and t.lane_fixed and sluice.live_lane_v1(p_lane) <> t.lane) then
    raise exception 'task % fixes its lane, %: submit without a lane, or let an operator move the task', to_json(v_class.task), to_json(v_class.lane)
      using errcode = 'SL011', detail = v_class.task;
  end if;
  return sluice.intern_class_v1(v_class.task, p_lane, v_class.model, v_class.requires, null, true);
end $function$;

--- function sluice.close_children_v1(p_parent bigint, p_error text)
CREATE OR REPLACE FUNCTION sluice.close_children_v1(p_parent bigint, p_error text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_now    timestamptz := clock_timestamp();
  v_groups bigint[];
  v_leaves bigint[];
  v_locked bigint[];
  v_held   bigint[];
  v_ended  integer;
  v_told   integer;
  v_asked  bigint[];   -- they run, and were asked to stop before
  v_workers bigint[];   -- the claims of what runs below it
  v_seqs   bigint[];
  v_running bigint[];
  v_stops  integer;
  v_woken  integer;
begin
  v_groups := array(select c.job_id from sluice.composites c join sluice.job_data d on d.id = c.job_id
                     where d.parent_id = p_parent and d.superseded_at is null and d.composite is not null and not c.ended and c.cancel_at is null
                     order by c.job_id limit 1000);
  -- Composites by their own rows first, as everybody locks them.
  v_locked := array(select c.job_id from sluice.composites c where c.job_id = any (v_groups) and not c.ended and c.cancel_at is null
                     order by c.job_id for no key update skip locked);
  select array_agg(e.id), count(*) into v_held, v_ended from sluice.end_queued_v1(v_locked, 'cancelled', p_error, true) e;
  insert into sluice.wakeups (job_id)
  select c.job_id from sluice.composites c where c.job_id = any (v_locked) and not c.ended and c.closing is null;
  get diagnostics v_woken = row_count;
  update sluice.composites c
     set cancel_at = v_now, cancel_error = p_error, closing = coalesce(c.closing, 'cancelled'),
         closing_error = case when c.closing is null then p_error else c.closing_error end
   where c.job_id = any (v_locked) and not c.ended;
  perform sluice.cancel_held_v1(v_held, p_error);

  v_asked := array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.parents @> array[p_parent]);
  v_leaves := array(select d.id from sluice.job_data d
                     where d.parent_id = p_parent and d.superseded_at is null and d.composite is null
                       -- One by one: joined, a plan made while a table was empty reads all of it for every child.
                       and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0)
                       and d.id <> all (v_asked)
                     order by d.idx limit 2000);
  select v_ended + count(*), count(*) into v_ended, v_told
    from sluice.end_queued_v1(array(select q.id from sluice.queue q where q.id = any (v_leaves) order by q.id for update skip locked),
                              'cancelled', p_error, true);
  -- In a statement of its own, which sees what has started since.
  select array_agg(c.worker_id), array_agg(c.seq) into v_workers, v_seqs
    from (select c.worker_id, c.seq from sluice.claims c where c.parents @> array[p_parent]
           order by c.worker_id, c.seq for no key update skip locked) c;
  v_running := array(select r.id from unnest(v_workers, v_seqs) c(worker_id, seq) join sluice.claimed r on r.worker_id = c.worker_id and r.seq = c.seq
                      where r.parent_id = p_parent and r.cancel_at is null);
  v_stops := (select count(*) from sluice.ask_to_stop_v1(v_workers, v_seqs, v_running, p_error));
  if v_ended > 0 then
    insert into sluice.wakeups (job_id, cancelled) values (p_parent, v_ended);
  end if;
  if v_woken + v_ended > 0 then
    perform pg_notify('sluice', 'wake');
  end if;
  -- Who is just starting or ending was left out, and of very many some are left.
  return cardinality(v_groups) < 1000 and cardinality(v_leaves) < 2000
     and cardinality(v_locked) = cardinality(v_groups) and v_told + v_stops = cardinality(v_leaves);
end $function$;

--- function sluice.columns_v1(p_fields jsonb)
CREATE OR REPLACE FUNCTION sluice.columns_v1(p_fields jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (SELECT COALESCE(jsonb_object_agg(CASE WHEN (f.key ~~ '%.%'::text) THEN f.key ELSE lower(regexp_replace(f.key, '([A-Z])'::text, '_\1'::text, 'g'::text)) END, f.value), '{}'::jsonb) AS "coalesce" FROM jsonb_each(columns_v1.p_fields) f(key, value));

--- function sluice.concerns_v1()
CREATE OR REPLACE FUNCTION sluice.concerns_v1()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  select sluice.worker_concerns_v1() || sluice.tree_concerns_v1() || sluice.late_concerns_v1() || sluice.schedule_concerns_v1()
$function$;

--- function sluice.copy_id_v1()
CREATE OR REPLACE FUNCTION sluice.copy_id_v1()
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (SELECT ((d.oid || '/'::text) || ('sluice.job_data'::regclass)::oid) FROM pg_database d WHERE (d.datname = current_database()));

--- function sluice.could_run_v1(p_uses jsonb, p_offers jsonb, p_seen jsonb)
CREATE OR REPLACE FUNCTION sluice.could_run_v1(p_uses jsonb, p_offers jsonb, p_seen jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  return not exists (
    select 1 from (
      select u.key as budget, (u.value ->> 'devices')::integer as devices,
             greatest((u.value ->> 'each')::double precision, (p_seen ->> u.key)::double precision) as each from jsonb_each(p_uses -> 'uses') u
      union all
      select u.key, (u.value ->> 'devices')::integer, (u.value ->> 'each')::double precision from jsonb_each(p_uses -> 'perJob') u) a
     group by a.budget
    having coalesce((p_offers -> a.budget ->> max(a.devices) - 1)::double precision < sum(a.each), true));
end $function$;

--- function sluice.count_ahead_v1(p_begun timestamp with time zone, p_now timestamp with time zone, p_classes sluice.cycle_class_v1[], p_lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.count_ahead_v1(p_begun timestamp with time zone, p_now timestamp with time zone, p_classes sluice.cycle_class_v1[], p_lanes sluice.cycle_lane_v1[])
 RETURNS integer[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return array(
    select coalesce(n.jobs, 0)
      from unnest(p_classes) with ordinality c
      left join (
        select h.ord, count(*)::integer as jobs
          from (select s.ord, s.lane, row_number() over (partition by s.lane order by s.rank, s.id) as place
                  from (select c.ordinality as ord, c.lane, x.rank, x.id,
                               bool_or(x.must_start) over (partition by c.ordinality order by x.rank, x.id) as is_behind
                          from unnest(p_classes) with ordinality c
                         cross join lateral (
                           select q.rank, q.id, sluice.must_start_v1(p_now, p_begun - make_interval(secs => c.fresh / 1000.0), q.certain,
                                                                     q.deadline_at,
                                                                     q.ready_at, q.parent_id) as must_start
                             from sluice.queue q where q.class_id = c.id and q.state = 'ready' and (q.rank, q.id) > (c.rank, c.after)
                            order by q.rank, q.id limit least(p_lanes[c.lane].take, c.most)) x) s
                 where s.is_behind is not true) h
         where h.place <= p_lanes[h.lane].take group by h.ord) n on n.ord = c.ordinality
     order by c.ordinality);
end $function$;

--- function sluice.count_by_class_v1(p_classes sluice.cycle_class_v1[], p_lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.count_by_class_v1(p_classes sluice.cycle_class_v1[], p_lanes sluice.cycle_lane_v1[])
 RETURNS integer[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if cardinality(p_classes) = 1 then
    return array[least(p_lanes[p_classes[1].lane].take, p_classes[1].most)];
  end if;
  if (select count(distinct c.lane) from unnest(p_classes) c) = cardinality(p_classes) then
    return array(select least(p_lanes[c.lane].take, c.most) from unnest(p_classes) c);
  end if;
  return array(
    select coalesce(n.taken, 0)
      from unnest(p_classes) with ordinality c
      left join (
        select h.id, count(*)::integer as taken
          from (select c.id, c.lane, row_number() over (partition by c.lane order by x.rank, x.id) as place
                  from unnest(p_classes) c
                 cross join lateral sluice.ready_v1(c.id, c.rank, c.after, least(p_lanes[c.lane].take, c.most)) x) h
         where h.place <= p_lanes[h.lane].take group by h.id) n on n.id = c.id
     order by c.ordinality);
end $function$;

--- function sluice.count_claims_v1(p_rows tid[], p_classes integer)
CREATE OR REPLACE FUNCTION sluice.count_claims_v1(p_rows tid[], p_classes integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN (p_classes * ((cardinality(p_rows) + 63) / 64));

--- function sluice.count_scheduled_v1(p_most integer)
CREATE OR REPLACE FUNCTION sluice.count_scheduled_v1(p_most integer DEFAULT NULL::integer)
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
  select count(*)::integer
    from (select 1 from sluice.queue q where q.state = 'scheduled' and q.started_at is null and q.parent_id is null limit p_most) x
$function$;

--- function sluice.create_budget_v1(p_name text, p_given jsonb, p_bytes boolean, p_by text)
CREATE OR REPLACE FUNCTION sluice.create_budget_v1(p_name text, p_given jsonb, p_bytes boolean, p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  insert into sluice.budgets (name, kind, bytes, declared, updated_by)
    values (p_name, 'shared', p_bytes, jsonb_build_object('capacity', p_given -> 'capacity'), p_by) on conflict do nothing;
  if not found then
    return false;
  end if;
  return sluice.change_budget_v1(p_name, p_given, p_by, true);
end $function$;

--- function sluice.create_first_key_v1(p_name text, p_role text, p_hash bytea, p_lives_ms bigint)
CREATE OR REPLACE FUNCTION sluice.create_first_key_v1(p_name text, p_role text, p_hash bytea, p_lives_ms bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_id bigint;
  v_expires_at timestamptz;
begin
  lock table sluice.api_keys in share row exclusive mode;
  if exists (select 1 from sluice.api_keys) then return null; end if;
  insert into sluice.api_keys (name, role, hash, created_by, expires_at)
    values (p_name, p_role, p_hash, 'sluice', statement_timestamp() + make_interval(secs => p_lives_ms::float8 / 1000))
    returning id, expires_at into v_id, v_expires_at;
  insert into sluice.audit (actor, key_id, action, target, after)
    values ('sluice', v_id, 'key.create', 'key ' || v_id,
      jsonb_build_object('name', p_name, 'role', p_role, 'expiresAt', v_expires_at));
  return v_id;
end $function$;

--- function sluice.create_lane_v1(p_name text, p_lane jsonb, p_given text[], p_by text)
CREATE OR REPLACE FUNCTION sluice.create_lane_v1(p_name text, p_lane jsonb, p_given text[], p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_is_new boolean;
begin
  insert into sluice.lanes (name, updated_by) values (p_name, p_by) on conflict do nothing;
  v_is_new := found;
  if not v_is_new and not exists (select 1 from sluice.lanes l where l.name = p_name and l.deleted_at is not null) then
    return false;
  end if;
  begin
    -- Jobs may still run in one that was deleted: what a limit means for them is seen to as for any change. It locks jobs before the lane, so
    -- only now is it certain that nobody else created the lane; if somebody did, the change is undone.
    perform sluice.change_lane_v1(p_name, p_lane, p_by, true);
    if v_is_new then
      update sluice.lanes l set operator_set = p_given where l.name = p_name;
      return true;
    end if;
    perform pg_advisory_xact_lock(1936485737, hashtext('names'));
    update sluice.lanes l set operator_set = p_given, deleted_at = null, deleted_to = null where l.name = p_name and l.deleted_at is not null;
    if not found then
      raise exception 'lane % exists', p_name using errcode = 'unique_violation';
    end if;
  exception when unique_violation then
    return false;
  end;
  perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.declared_lane = p_name and t.moved_at is null));
  return true;
end $function$;

--- function sluice.cycle_v1(p_worker bigint, p_epoch integer, p_known bigint, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_endings jsonb, p_begun bigint[], p_begun_seqs bigint[], p_lanes text[], p_ended integer[], p_run integer[], p_want integer[], p_keep integer[], p_free integer, p_turn integer, p_classes integer[], p_class_lane integer[], p_class_max integer[], p_class_ahead integer[], p_after_rank integer[], p_after_id bigint[], p_fresh integer[], p_hint boolean, p_budget jsonb, p_ordered boolean, p_hears boolean)
CREATE OR REPLACE FUNCTION sluice.cycle_v1(p_worker bigint, p_epoch integer, p_known bigint, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_endings jsonb, p_begun bigint[], p_begun_seqs bigint[], p_lanes text[], p_ended integer[], p_run integer[], p_want integer[], p_keep integer[], p_free integer, p_turn integer, p_classes integer[], p_class_lane integer[], p_class_max integer[], p_class_ahead integer[], p_after_rank integer[], p_after_id bigint[], p_fresh integer[], p_hint boolean, p_budget jsonb, p_ordered boolean, p_hears boolean)
 RETURNS TABLE(id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer, submitted_at timestamp with time zone, key text, tags text[], input jsonb, seq bigint, policy jsonb, trace text, devices jsonb, assigned boolean, report jsonb)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_now      timestamptz := clock_timestamp();
  v_seq      bigint      := greatest(p_known + 1, sluice.microseconds_v1(v_now));
  v_reports  boolean     := p_done is not null or p_endings is not null;
  v_assigns  boolean     := 0 < any (p_class_ahead);
  v_whole    boolean := true;          -- the worker held all that it sent
  v_free     integer     := p_free;
  v_fresh    integer[]   := case when p_ordered then p_fresh end;
  v_most     integer[]   := p_class_max;
  v_lane     integer[];                -- beside p_classes: which of the lanes below
  v_lanes    sluice.cycle_lane_v1[];
  v_ready    sluice.cycle_class_v1[] := '{}';
  v_names    text[]      := p_lanes;   -- of the lanes below
  v_others   sluice.cycle_class_v1[];     -- what other workers wait for and this one does not serve
  v_part     record;                   -- what a part of the cycle answers
  v_may      record;
  v_parents  bigint[];                 -- of the children that completed, and their indexes
  v_idxs     integer[];
  v_ids      integer[];                -- classes that are ready
  v_rows     tid[];                    -- jobs to assign
  v_ahead    integer;
  v_wait     integer;
  v_more     boolean;                  -- classes were left out, and it can take more
  v_locked   text[];
  v_yield    jsonb;                    -- jobs to leave slots to, by lane
  v_scan_ms  numeric     := 0;
begin
  if v_free > 0 or v_assigns then
    v_ready := sluice.ready_classes_v1(v_now, p_classes, p_class_lane, p_class_max, p_after_rank, p_after_id, v_fresh, p_turn, p_endings is null);
    v_scan_ms := 1000 * extract(epoch from clock_timestamp() - v_now);
    if p_ordered and v_free > 0 and v_ready <> '{}' then
      v_part := sluice.yield_to_workers_v1(p_worker, v_now, p_lanes, p_run, p_want, p_free, p_hears, v_ready);
      v_ahead := v_part.ahead; v_wait := v_part.wait_ms;
      if v_ahead is not null then
        select array_agg(least(c.most, r.most) order by c.ord), (select array_agg(x) from unnest(v_part.classes) x where x.most > 0)
          into v_most, v_ready
          from unnest(p_classes, p_class_max) with ordinality c(id, most, ord) left join unnest(v_part.classes) r on r.id = c.id;
        v_ready := coalesce(v_ready, '{}');
      end if;
    end if;
  end if;
  if not v_reports and p_begun is null and p_budget is null and v_ready = '{}' and sluice.is_idle_v1(p_worker, p_known, p_lanes, p_run, p_keep) then
    -- Nothing is locked or written.
    if p_ordered and p_free > 0 and v_ahead is null then
      v_ahead := sluice.free_before_v1(p_worker, v_now);
    end if;
    if v_ahead is not null then
      report := jsonb_build_object('ahead', v_ahead, 'waitMs', v_wait);
    end if;
    if v_scan_ms > 5 then
      report := coalesce(report, '{}') || jsonb_build_object('scanMs', v_scan_ms);
    end if;
    if report is not null then
      return next;
    end if;
    return;
  end if;
  if not v_reports and coalesce(jsonb_array_length(p_budget -> 'starts'), 0) = 0 then
    -- A claim that a crash forgets is given back when its worker says what it runs; only endings have to be on disk, and what was drawn
    -- from budgets, which the worker could not tell.
    perform set_config('synchronous_commit', 'off', true);
  end if;

  v_lanes := sluice.hold_lanes_v1(p_worker, p_epoch, p_lanes, p_ended, p_run, p_want, p_keep, v_ready);
  v_may := sluice.may_claim_v1(p_worker, p_known, v_free, p_run);
  if v_reports or p_begun is not null then
    v_part := sluice.record_report_v1(p_worker, v_now, p_done, p_done_seqs, p_results, p_ran, p_endings, p_begun, p_begun_seqs,
                               p_hint and v_may.is_waited_for);
    v_whole := v_part.is_whole; v_parents := v_part.parents; v_idxs := v_part.idxs;
  end if;
  v_free := case when v_whole then v_may.free else 0 end;

  if cardinality(v_lanes) < cardinality(p_lanes) then
    -- From here on lanes are those of this cycle.
    v_names := array(select l.name from unnest(v_lanes) l);
    v_ready := array(select row(c.id, array_position(v_names, p_lanes[c.lane]), c.most, c.rank, c.after, c.fresh)::sluice.cycle_class_v1
                       from unnest(v_ready) c);
  end if;
  v_part := sluice.allowance_v1(p_worker, v_now, v_free, v_may.capacity, v_may.cores, p_classes, v_lanes);
  v_lanes := v_part.lanes; v_others := v_part.others;
  if v_parents is not null then
    v_lane := array(select array_position(v_names, p_lanes[c.lane]) from unnest(p_class_lane) with ordinality c(lane, ord) order by c.ord);
    v_part := sluice.pass_window_slots_v1(v_parents, v_idxs, p_classes, v_lane, v_ready, v_lanes, v_free, v_most);
    v_lanes := v_part.lanes; v_free := v_part.free; v_most := v_part.most;
    if v_part.picked <> '{}' then
      return query select s.*, null::jsonb from sluice.start_jobs_v1(p_worker, v_now, v_seq, v_part.picked, p_classes) s;
      v_seq := v_seq + sluice.count_claims_v1(v_part.picked, cardinality(p_classes));
    end if;
    perform sluice.children_ended_v1(v_parents, v_idxs,
                                     array_fill('completed'::sluice.job_state, array[cardinality(v_parents)]), v_part.started);
    if v_free > 0 then
      -- Jobs that their endings made ready are looked at too.
      v_ready := sluice.ready_classes_v1(v_now, p_classes, v_lane, v_most, p_after_rank, p_after_id, v_fresh, p_turn);
    end if;
  end if;

  v_ids := array(select c.id from unnest(v_ready) c);
  if v_free > 0 and v_ready <> '{}' then
    v_part := sluice.choose_jobs_v1(p_worker, v_now, v_free, p_turn, p_budget, v_ready, v_others, v_lanes);
    v_lanes := v_part.lanes; v_locked := v_part.locked;
    if v_part.picked <> '{}' then
      return query select s.*, null::jsonb from sluice.start_jobs_v1(p_worker, v_now, v_seq, v_part.picked, v_ids, v_may.skip, v_part.devices) s;
      v_seq := v_seq + sluice.count_claims_v1(v_part.picked, cardinality(v_ids));
    end if;
  elsif p_budget is not null then
    -- Nothing can be taken, but there is something to note.
    perform sluice.claim_budgeted_v1(p_worker, v_now, p_budget - 'starts', '{}', '{}', '{}');
  end if;
  if v_assigns and v_whole and v_may.is_open and v_ahead is null and v_ready <> '{}' then
    v_rows := sluice.assign_v1(p_worker, v_now, ((select sum(r) from unnest(p_run) r) + (select sum(l.run - l.ran) from unnest(v_lanes) l))::integer,
                               v_may.capacity, v_may.cores, v_ready, p_classes, p_class_ahead, v_lanes);
    if v_rows <> '{}' then
      return query select s.*, null::jsonb from sluice.start_jobs_v1(p_worker, v_now, v_seq, v_rows, v_ids, v_may.skip, null, 0) s;
    end if;
  end if;
  if v_assigns and v_whole and v_ahead is null and -1 = any (p_class_ahead) then
    v_yield := sluice.jobs_to_yield_to_v1(v_ready, p_classes, p_class_lane, p_class_ahead, p_lanes, v_lanes);
  end if;
  v_more := v_whole and cardinality(p_classes) > 64 and cardinality(v_ready) >= 64
    and (select sum(l.run - l.ran) from unnest(v_lanes) l) < v_may.free;
  perform sluice.save_holdings_v1(p_worker, v_now, case when v_whole then v_may.free else 0 end, p_lanes, p_classes, p_class_lane, v_ready, v_lanes);

  if not v_whole then
    report := jsonb_build_object('resync', true);
  elsif v_wait is not null then
    report := jsonb_build_object('ahead', v_ahead, 'waitMs', v_wait);
  end if;
  if v_more then
    report := coalesce(report, '{}') || '{"more": true}';
  end if;
  if v_yield is not null then
    report := coalesce(report, '{}') || jsonb_build_object('yieldTo', v_yield);
  end if;
  if v_locked <> '{}' then
    report := coalesce(report, '{}') || jsonb_build_object('locked', v_locked);
  end if;
  if v_scan_ms > 5 then
    report := coalesce(report, '{}') || jsonb_build_object('scanMs', v_scan_ms);
  end if;
  if report is not null then
    return next;
  end if;
end $function$;

--- function sluice.declare_models_v1(p_models jsonb)
CREATE OR REPLACE FUNCTION sluice.declare_models_v1(p_models jsonb)
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into sluice.models as m (name, load_ms, pinned, declared)
  select g.name, g."loadMs", coalesce(g.pinned, false), to_jsonb(g) - 'name'
    from jsonb_to_recordset(p_models) as g(name text, "loadMs" double precision, pinned boolean) order by g.name
  on conflict (name) do update
     set load_ms = case when m.loads = 0 then coalesce(excluded.load_ms, m.load_ms) else m.load_ms end,
         pinned = excluded.pinned, declared = excluded.declared, updated_at = clock_timestamp()
   where m.declared is distinct from excluded.declared;
$function$;

--- function sluice.delete_budget_v1(p_name text)
CREATE OR REPLACE FUNCTION sluice.delete_budget_v1(p_name text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_tasks text[];
  v_pools text[];
  v_jobs  integer;
begin
  perform 1 from sluice.budgets b where b.name = p_name for update;   -- its devices refer to it: whoever adds one comes before or after
  if not found then
    return '{"found": false, "tasks": [], "pools": [], "jobs": 0}';
  end if;
  -- Whoever draws from it holds one of these: nobody begins to from here on.
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  with users as materialized (
    select t.name from sluice.tasks t where t.uses ? p_name or t.per_job ? p_name
  ), in_pools as materialized (
    select u.name, p.name as pool from sluice.pools p
     cross join lateral (select w.tasks from sluice.workers w where w.pool = p.name order by w.id desc limit 1) n
      join users u on u.name = any (n.tasks) where p.max > 0
  )
  select array(select u.name from users u
                where exists (select 1 from sluice.workers w where w.ended_at is null and u.name = any (w.tasks))
                   or exists (select 1 from in_pools i where i.name = u.name)
                   or exists (select 1 from sluice.classes c
                               where c.task = u.name and (exists (select 1 from sluice.queue q where q.class_id = c.id)
                                                          or exists (select 1 from sluice.running r where r.class_id = c.id)))
                order by u.name),
         array(select distinct i.pool from in_pools i order by i.pool)
    into v_tasks, v_pools;
  v_jobs := (select count(distinct j.id)::integer from sluice.reservations r
               join sluice.running j on j.worker_id = r.worker_id and j.id = r.job_id and j.attempt = r.attempt
              where r.budget = p_name);
  if v_tasks = '{}' and v_jobs = 0 then
    delete from sluice.residents r where r.budget = p_name;
    delete from sluice.reservations r where r.budget = p_name;
    delete from sluice.worker_devices d where d.budget = p_name;
    delete from sluice.budgets b where b.name = p_name;
    perform sluice.refuse_impossible_tasks_v1();
    perform pg_notify('sluice', 'ready');
  end if;
  return jsonb_build_object('found', true, 'tasks', v_tasks, 'pools', v_pools, 'jobs', v_jobs);
end $function$;

--- function sluice.delete_job_rows_v1(p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.delete_job_rows_v1(p_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_low     bigint := (select min(i) from unnest(p_ids) i);
  v_high    bigint := (select max(i) from unnest(p_ids) i);
  v_deleted integer;
begin
  delete from sluice.job_data d where d.id = any (p_ids);
  get diagnostics v_deleted = row_count;
  if exists (select 1 from sluice.attempts a where a.job_id between v_low and v_high) then
    delete from sluice.attempts a where a.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.attempt_errors e where e.job_id between v_low and v_high) then
    delete from sluice.attempt_errors e where e.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.steps s where s.job_id between v_low and v_high) then
    delete from sluice.steps s where s.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.notes n where n.job_id between v_low and v_high) then
    delete from sluice.notes n where n.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.logs l where l.job_id between v_low and v_high) then
    delete from sluice.logs l where l.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.traces t where t.job_id between v_low and v_high) then
    delete from sluice.traces t where t.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.composites c where c.job_id between v_low and v_high) then
    delete from sluice.composites c where c.job_id = any (p_ids);
    delete from sluice.chunks h where h.job_id = any (p_ids);
    delete from sluice.priority_changes m where m.job_id = any (p_ids);
  end if;
  return v_deleted;
end $function$;

--- function sluice.delete_lane_v1(p_name text, p_to text, p_by text)
CREATE OR REPLACE FUNCTION sluice.delete_lane_v1(p_name text, p_to text, p_by text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  v_use text;
begin
  perform 1 from sluice.lanes l where l.name in (p_name, p_to) order by l.name for no key update;
  -- Before the look at what uses it: a task that is saved meanwhile is seen.
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  v_use := case when p_to is null then sluice.lane_use_v1(p_name) end;
  if v_use is not null then
    return v_use;
  end if;
  update sluice.lanes l
     set deleted_at = clock_timestamp(), deleted_to = p_to, enabled = false, operator_set = '{}', updated_at = clock_timestamp(), updated_by = p_by
   where l.name = p_name and l.deleted_at is null
     and (p_to is null or exists (select 1 from sluice.lanes k where k.name = p_to and k.deleted_at is null));
  if not found then
    raise exception 'lane % or % was deleted meanwhile', p_name, p_to using errcode = '40001';
  end if;
  update sluice.lanes l set deleted_to = p_to where l.deleted_to = p_name;
  perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.lane = p_name));
  perform pg_notify('sluice', 'lane');
  return null;
end $function$;

--- function sluice.delete_name_v1(p_name text)
CREATE OR REPLACE FUNCTION sluice.delete_name_v1(p_name text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  delete from sluice.tasks t where t.name = p_name and not t.approval;
  if found then
    return 'task';
  end if;
  if exists (select 1 from sluice.tasks t where t.name = p_name) then
    return 'guarded';
  end if;
  delete from sluice.workflows w where w.name = p_name;
  return case when found then 'workflow' end;
end $function$;

--- function sluice.delete_pool_v1(p_name text)
CREATE OR REPLACE FUNCTION sluice.delete_pool_v1(p_name text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_workers  integer;
  v_requests integer;
begin
  perform 1 from sluice.pools p where p.name = p_name for update;
  if not found then
    return '{"found": false, "workers": 0, "requests": 0}';
  end if;
  v_workers := (select count(*) from sluice.workers w where w.pool = p_name and w.ended_at is null);
  v_requests := (select count(*) from sluice.fleet_decisions d
                  where d.pool = p_name and (d.ended_at is null or d.stop_at is not null));
  if v_workers = 0 and v_requests = 0 then
    delete from sluice.pools p where p.name = p_name;
    perform pg_notify('sluice', 'workers');
  end if;
  return jsonb_build_object('found', true, 'workers', v_workers, 'requests', v_requests);
end $function$;

--- function sluice.delete_trees_v1(p_roots bigint[])
CREATE OR REPLACE FUNCTION sluice.delete_trees_v1(p_roots bigint[])
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_level bigint[];
  v_all   bigint[] := '{}';
  v_busy  bigint[] := '{}';
begin
  if cardinality(p_roots) = 0 then
    return 0;   -- most looks of the prune duty
  end if;
  -- In everybody's order; a root may have been put in motion again since somebody found it finished.
  perform 1 from sluice.composites c where c.job_id = any (p_roots) order by c.job_id for no key update;
  -- A rerun deletes the outcome, so none can begin while it is locked.
  v_level := array(select o.id from sluice.outcomes o where o.id = any (p_roots) and o.is_root order by o.id for update);
  while cardinality(v_level) > 0 loop
    v_all := v_all || v_level;
    -- Two questions, because there are two indexes on parents.
    with below as materialized (
      select k.id, k.root_id from sluice.job_data k where k.parent_id = any (v_level) and k.superseded_at is null
      union all
      select k.id, k.root_id from sluice.job_data k where k.parent_id = any (v_level) and k.superseded_at is not null
    )
    select array(select b.id from below b),
           v_busy || array(select distinct b.root_id from below b where not exists (select 1 from sluice.outcomes o where o.id = b.id offset 0))
      into v_level, v_busy;
  end loop;
  if cardinality(v_busy) > 0 then
    v_all := array(select j.id from sluice.job_data j where j.id = any (v_all) and coalesce(j.root_id, j.id) <> all (v_busy));
  end if;
  perform 1 from sluice.composites c where c.job_id = any (v_all) order by c.job_id for no key update;
  delete from sluice.wakeups w where w.job_id = any (v_all);
  delete from sluice.trees t where t.root_id = any (v_all);
  delete from sluice.outcomes o where o.id = any (v_all);
  return sluice.delete_job_rows_v1(v_all);
end $function$;

--- function sluice.device_capacity_v1(p_worker bigint)
CREATE OR REPLACE FUNCTION sluice.device_capacity_v1(p_worker bigint)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(jsonb_object_agg(g.budget, g.capacities), '{}') from (
    select d.budget, jsonb_agg(coalesce(sluice.capacity_v1(d), 1e300) order by coalesce(sluice.capacity_v1(d), 1e300) desc) as capacities
      from sluice.worker_devices o join sluice.devices d on d.budget = o.budget and d.key = o.device
     where o.worker_id = p_worker and d.lost_at is null group by d.budget
    union all
    select d.budget, jsonb_build_array(coalesce(sluice.capacity_v1(d) * (1 + 1e-9), 1e300)) from sluice.devices d where d.key = '') g
$function$;

--- function sluice.device_room_v1(p_budget text, p_device text, p_worker bigint, p_ended bigint[], p_unloaded jsonb)
CREATE OR REPLACE FUNCTION sluice.device_room_v1(p_budget text, p_device text, p_worker bigint DEFAULT 0, p_ended bigint[] DEFAULT '{}'::bigint[], p_unloaded jsonb DEFAULT '[]'::jsonb)
 RETURNS double precision
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_device   sluice.devices;
  v_safety   double precision;
  v_capacity double precision;
  v_held     record;
begin
  select d.* into v_device from sluice.devices d where d.budget = p_budget and d.key = p_device;
  if not found or v_device.lost_at is not null then
    return 0;
  end if;
  v_capacity := sluice.capacity_v1(v_device);
  if v_capacity is null and v_device.measured_at is null then
    return null;
  end if;
  select b.safety into v_safety from sluice.budgets b where b.name = p_budget;
  select * into v_held from sluice.device_use_v1(p_budget, p_device, v_device.measured_at, p_worker, p_ended, p_unloaded);
  v_capacity := least(
    v_capacity * (1 + 1e-9) - v_held.by_jobs - v_held.by_models,
    case when sluice.is_fresh_v1(v_device.measured_at) then v_device.measured_free - v_safety - v_held.unseen end);
  return case when v_capacity is not null then greatest(0, v_capacity) end;
end $function$;

--- function sluice.device_use_v1(p_budget text, p_device text, p_since timestamp with time zone, p_worker bigint, p_ended bigint[], p_unloaded jsonb, OUT by_jobs double precision, OUT by_models double precision, OUT unseen double precision, OUT running integer)
CREATE OR REPLACE FUNCTION sluice.device_use_v1(p_budget text, p_device text, p_since timestamp with time zone DEFAULT NULL::timestamp with time zone, p_worker bigint DEFAULT 0, p_ended bigint[] DEFAULT '{}'::bigint[], p_unloaded jsonb DEFAULT '[]'::jsonb, OUT by_jobs double precision, OUT by_models double precision, OUT unseen double precision, OUT running integer)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_unseen double precision;
begin
  select coalesce(sum(r.amount), 0), coalesce(sum(r.amount) filter (where j.started_at > p_since), 0), count(*)::integer
    into by_jobs, unseen, running
    from sluice.reservations r
   -- For each of them in the claims of its worker: what runs is not read as a whole.
   cross join lateral (select x.started_at from sluice.running x
                        where x.worker_id = r.worker_id and x.id = r.job_id and x.attempt = r.attempt offset 0) j
   where r.budget = p_budget and r.device = p_device and r.job_id <> all (p_ended);
  select coalesce(sum(r.amount), 0), coalesce(sum(r.amount) filter (where r.loaded_at is null or r.loaded_at > p_since), 0)
    into by_models, v_unseen
    from sluice.residents r join sluice.workers w on w.id = r.worker_id
   where r.budget = p_budget and r.device = p_device and w.ended_at is null
     and not (r.worker_id = p_worker and p_unloaded @> jsonb_build_array(jsonb_build_object('model', r.model, 'device', r.device)));
  unseen := unseen + v_unseen;
end $function$;

--- function sluice.devices_of_plan_v1(p_budget jsonb)
CREATE OR REPLACE FUNCTION sluice.devices_of_plan_v1(p_budget jsonb)
 RETURNS TABLE(key text, budget text, device text)
 LANGUAGE sql
 STABLE
AS $function$
  select distinct d.budget || chr(31) || d.device, d.budget, d.device
    from (select p.budget, p.device from jsonb_path_query(p_budget, '$.starts[*].deviceUses[*]') x, jsonb_to_record(x) as p(budget text, device text)
          union all
          select s.budget, '' from jsonb_path_query(p_budget, '$.starts[*].shared') x, lateral jsonb_object_keys(x) s(budget)) d
$function$;

--- function sluice.drop_ended_v1(p_workers bigint[])
CREATE OR REPLACE FUNCTION sluice.drop_ended_v1(p_workers bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_row record;
begin
  for v_row in
    select r.worker_id, r.seq, array_agg(r.id) as ids from sluice.claimed r
     where r.worker_id = any (p_workers) and exists (select 1 from sluice.outcomes o where o.id = r.id offset 0)
     group by r.worker_id, r.seq
  loop
    perform 1 from sluice.claims c where c.worker_id = v_row.worker_id and c.seq = v_row.seq for update skip locked;
    if found then
      perform sluice.remove_from_claims_v1(v_row.worker_id, array[v_row.seq], v_row.ids);
    end if;
  end loop;
end $function$;

--- function sluice.end_abandoned_requests_v1(p_grace_ms integer)
CREATE OR REPLACE FUNCTION sluice.end_abandoned_requests_v1(p_grace_ms integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_before timestamptz := clock_timestamp() - make_interval(secs => p_grace_ms / 1000.0);
  v_ended  integer;
begin
  select count(*) filter (where sluice.end_request_v1(d.id, 'expired', 'no server looks after pool ' || d.pool || ' any more')) into v_ended
    from (select f.id, f.pool from sluice.fleet_decisions f where f.ended_at is null and f.arrive_by < v_before order by f.id) d;
  update sluice.fleet_samples s set jobs = 0, lanes = '[]', since = null where s.since is not null and s.at < v_before;
  return v_ended;
end $function$;

--- function sluice.end_attempts_v1(p_worker bigint, p_endings jsonb)
CREATE OR REPLACE FUNCTION sluice.end_attempts_v1(p_worker bigint, p_endings jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_now     timestamptz := clock_timestamp();
  v_seqs    bigint[] := array(select e.seq from jsonb_to_recordset(p_endings) as e(seq bigint));
  v_ids     bigint[];
  v_parents bigint[];
  v_idxs    integer[];
  v_states  sluice.job_state[];
  v_ready   boolean;       -- some are ready again
begin
  with given as materialized (
    select e.id, e.seq, e.error, e.detail, e."delayMs", e."ranMs",
           case when e.ending = 'out_of_memory' and (select count(*) from sluice.attempts a where a.job_id = e.id and a.ending = e.ending) >= 5
                then 'failed' else e.ending end as ending
      from jsonb_to_recordset(p_endings) as e(id bigint, seq bigint, ending text, error text, detail jsonb, "delayMs" bigint,
                                              "ranMs" double precision)
  ), wanted as (
    select r.id, r.worker_id, r.ready_at, r.deadline_at, r.cancel_at, r.parent_id, r.idx, r.class_id, r.failures, r.losses, r.keyed, r.error,
           case when e.ending <> 'unstarted' then r.attempt else r.attempt - 1 end as attempt,
           -- One that was not started keeps the start of the attempt before.
           case when e.ending <> 'unstarted' then greatest(r.started_at, statement_timestamp() - make_interval(secs => e."ranMs" / 1000))
                when r.attempt > 1 then (select max(a.started_at) from sluice.attempts a where a.job_id = r.id) end as started_at,
           e.ending, e.detail, e.error as said, coalesce(e."delayMs", 0) as delay_ms,
           case
             -- A cancel that was asked for wins over going back to the queue.
             when e.ending = 'cancelled' or (r.cancel_at is not null and e.ending <> 'failed') then 'cancelled'
             when e.ending = 'failed' then 'failed'
             when coalesce(e."delayMs", 0) > 0 then 'scheduled'
             else 'ready' end::sluice.job_state as next
      from given e join sluice.claimed r on r.worker_id = p_worker and r.seq = e.seq and r.id = e.id
  ), judged as materialized (
    select w.* from wanted w where w.next > 'running' or not exists (select 1 from sluice.outcomes o where o.id = w.id offset 0)
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
    select j.id, j.attempt, j.worker_id, j.started_at, v_now, case j.ending when 'retry' then 'failed' else j.ending end, j.said
      from judged j where j.next < 'running' and j.ending <> 'unstarted'
  ), thrown as (
    insert into sluice.attempt_errors (job_id, attempt, detail)
    select j.id, j.attempt, j.detail from judged j where j.detail is not null
    on conflict (job_id, attempt) do update set detail = excluded.detail
  ), back as (
    insert into sluice.queue (id, state, ready_at, started_at, deadline_at, parent_id, idx, class_id, rank, attempt, failures, losses, keyed, error)
    select j.id, j.next,
           case when j.ending in ('returned', 'unstarted', 'out_of_memory') then j.ready_at
                else v_now + make_interval(secs => j.delay_ms / 1000.0) end,
           j.started_at,
           -- It has started in time; from here on only retries decide. Not so where it, or its program, has not been started.
           case when j.ending = 'unstarted' or j.ending = 'returned' and j.said is not null then j.deadline_at end,
           -- Written out: sluice.rank_in_class_v1 would not be inlined.
           j.parent_id, j.idx, d.class_id, sluice.rank_v1(d.priority, l.ageing_ms, d.submitted_at),
           j.attempt, j.failures + case when j.ending = 'retry' then 1 else 0 end, j.losses, j.keyed,
           case when j.ending = 'retry' then j.said else j.error end
      from judged j join sluice.job_data d on d.id = j.id join sluice.classes c on c.id = d.class_id join sluice.lanes l on l.name = c.lane
     where j.next < 'running'
  ), kept as (
    insert into sluice.outcomes (id, state, finished_at, ready_at, started_at, cancel_at, worker_id, class_id, attempt, failures, losses, is_root,
                                 error)
    select j.id, j.next, v_now, j.ready_at, j.started_at, j.cancel_at, j.worker_id, j.class_id, j.attempt,
           j.failures + case when j.ending in ('failed', 'retry') then 1 else 0 end, j.losses, j.parent_id is null,
           case when j.cancel_at is not null and j.ending <> 'failed' then j.error   -- the reason given with the cancel
                else coalesce(j.said, j.error) end
      from judged j where j.next > 'running'
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select j.id from judged j where j.keyed and j.next > 'running'))
  )
  select array_agg(j.id), array_agg(j.parent_id) filter (where j.final), array_agg(j.idx) filter (where j.final),
         array_agg(j.next) filter (where j.final), bool_or(j.next = 'ready')
    into v_ids, v_parents, v_idxs, v_states, v_ready
    from (select *, parent_id is not null and next > 'running' as final from judged) j;
  if v_ids is not null then
    perform sluice.remove_from_claims_v1(p_worker, v_seqs, v_ids);
  end if;
  if v_ready then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, v_states);
  end if;
  return coalesce(cardinality(v_ids), 0);
end $function$;

--- function sluice.end_lost_claims_v1(p_worker bigint, p_seqs bigint[], p_why text, OUT ids bigint[], OUT requeued integer, OUT failed integer, OUT cancelled integer)
CREATE OR REPLACE FUNCTION sluice.end_lost_claims_v1(p_worker bigint, p_seqs bigint[], p_why text, OUT ids bigint[], OUT requeued integer, OUT failed integer, OUT cancelled integer)
 RETURNS record
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_parents bigint[];
  v_idxs    integer[];
  v_states  sluice.job_state[];
begin
  perform sluice.drop_ended_v1(array[p_worker]);
  with gone as (
    delete from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs)
  ), judged as materialized (
    select g.*, d.class_id as class_now, d.priority, d.submitted_at, clock_timestamp() as now,
           case when g.cancel_at is not null then 'cancelled'
                when g.assigned and t.on_lost is distinct from 'fail' then 'ready'
                when t.on_lost = 'fail' or g.losses + 1 > t.max_losses then 'failed' else 'ready' end::sluice.job_state as next,
           case when not g.assigned then 'lost: ' || p_why || ' during attempt ' || g.attempt
                when t.on_lost = 'fail' then 'lost: ' || p_why || ' after attempt ' || g.attempt
                    || ' had been assigned; it may have started' end as what,
           g.losses + case when g.assigned then 0 else 1 end as losses_now
      from sluice.claimed g join sluice.job_data d on d.id = g.id left join sluice.tasks t on t.name = d.task
     where g.worker_id = p_worker and g.seq = any (p_seqs)
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ending, error)
    select j.id, j.attempt, j.worker_id, j.started_at, case when j.assigned then 'returned' else 'lost' end,
           coalesce(j.what, 'assigned, and not known to have started: ' || p_why)
      from judged j where j.next = 'ready'
  ), back as (
    -- A loss does not end its start deadline.
    insert into sluice.queue (id, state, ready_at, started_at, deadline_at, parent_id, idx, class_id, rank, attempt, failures, losses, keyed,
                              certain, error)
    select j.id, 'ready', j.now, j.started_at, j.deadline_at, j.parent_id, j.idx, j.class_now,
           sluice.rank_in_class_v1(j.class_now, j.priority, j.submitted_at), j.attempt, j.failures, j.losses_now, j.keyed,
           j.assigned, coalesce(j.what, j.error)
      from judged j where j.next = 'ready'
  ), kept as (
    insert into sluice.outcomes (id, state, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt, failures, losses,
                                 is_root, error)
    select j.id, j.next, j.now, j.ready_at, j.started_at, j.deadline_at, j.cancel_at, j.worker_id, j.class_id, j.attempt, j.failures, j.losses_now,
           j.parent_id is null, case j.next when 'cancelled' then j.error else j.what end
      from judged j where j.next > 'running'
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select j.id from judged j where j.keyed and j.next > 'running'))
  )
  select array_agg(j.id), (count(*) filter (where j.next = 'ready'))::integer, (count(*) filter (where j.next = 'failed'))::integer,
         (count(*) filter (where j.next = 'cancelled'))::integer,
         array_agg(j.parent_id) filter (where j.final), array_agg(j.idx) filter (where j.final), array_agg(j.next) filter (where j.final)
    into ids, requeued, failed, cancelled, v_parents, v_idxs, v_states
    from (select *, parent_id is not null and next > 'running' as final from judged) j;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, v_states);
  end if;
end $function$;

--- function sluice.end_queued_v1(p_ids bigint[], p_state sluice.job_state, p_error text, p_cancel boolean)
CREATE OR REPLACE FUNCTION sluice.end_queued_v1(p_ids bigint[], p_state sluice.job_state, p_error text, p_cancel boolean DEFAULT false)
 RETURNS TABLE(id bigint, before sluice.job_state, parent_id bigint, idx integer, is_composite boolean)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
begin
  return query
  with gone as (
    delete from sluice.queue q where q.id = any (p_ids) returning q.*
  ), kept as (
    insert into sluice.outcomes (id, state, error, cancel_at, ready_at, started_at, deadline_at, class_id, attempt, failures, losses, is_root)
    select g.id, p_state, p_error, case when p_cancel then clock_timestamp() end, g.ready_at, g.started_at, g.deadline_at, g.class_id,
           g.attempt, g.failures, g.losses, g.parent_id is null
      from gone g
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select g.id from gone g where g.keyed))
  ), closed as (
    update sluice.composites c set ended = true where c.job_id = any (array(select g.id from gone g where g.class_id is null))
  )
  select g.id, g.state, g.parent_id, g.idx, g.class_id is null from gone g;
end $function$;

--- function sluice.end_request_v1(p_id bigint, p_outcome text, p_why text)
CREATE OR REPLACE FUNCTION sluice.end_request_v1(p_id bigint, p_outcome text, p_why text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_pool    text;
  v_arrived integer;
begin
  update sluice.fleet_decisions d
     set ended_at = clock_timestamp(), outcome = p_outcome, ended_why = p_why,
         stop_at = case when d.instances <> '[]' then clock_timestamp() end
   where d.id = p_id and d.ended_at is null
  returning d.pool, (select count(distinct w.request) from sluice.workers w where split_part(w.request, '.', 1) = d.token) into v_pool, v_arrived;
  if not found then
    return false;
  end if;
  insert into sluice.fleet_samples as s (pool, failed, arrived) values (v_pool, (p_outcome <> 'arrived')::integer, v_arrived)
    on conflict (pool) do update set failed = s.failed + excluded.failed, arrived = s.arrived + excluded.arrived;
  return true;
end $function$;

--- function sluice.end_worker_v1(p_worker bigint, p_why text)
CREATE OR REPLACE FUNCTION sluice.end_worker_v1(p_worker bigint, p_why text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for no key update;
  if exists (select 1 from sluice.claimed r where r.worker_id = p_worker) then
    return false;
  end if;
  if exists (select 1 from sluice.holdings h join sluice.holdings o on o.lane = h.lane and o.wants and o.worker_id <> p_worker
              where h.worker_id = p_worker and (h.slots > 0 or h.wants)) then
    perform pg_notify('sluice', 'slots');
  end if;
  delete from sluice.holdings h where h.worker_id = p_worker;
  update sluice.workers w set ended_at = clock_timestamp(), ended_why = coalesce(w.leaving, p_why) where w.id = p_worker and w.ended_at is null;
  if found and exists (select 1 from sluice.residents r where r.worker_id = p_worker) then
    perform pg_notify('sluice', 'ready');   -- the room of its models is free
  end if;
  if exists (select 1 from sluice.workers w where w.id = p_worker and w.processes > 0) then
    perform pg_notify('sluice', 'workers');   -- so are its cores
  end if;
  return true;
end $function$;

--- function sluice.error_detail_v1(p_id bigint, p_attempt integer, p_state sluice.job_state, p_error text)
CREATE OR REPLACE FUNCTION sluice.error_detail_v1(p_id bigint, p_attempt integer, p_state sluice.job_state, p_error text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select e.detail
    from sluice.attempt_errors e left join sluice.attempts a on a.job_id = e.job_id and a.attempt = e.attempt
   where e.job_id = p_id
     and (a.error = p_error or a.job_id is null and e.attempt = p_attempt and p_state >= 'completed')
   order by e.attempt desc limit 1
$function$;

--- function sluice.error_pattern_v1(p_error text)
CREATE OR REPLACE FUNCTION sluice.error_pattern_v1(p_error text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN regexp_replace(regexp_replace(regexp_replace("left"(p_error, 400), '"[^"]*"|''[^'']*''|`[^`]*`'::text, '...'::text, 'g'::text), '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\m0x[0-9a-fA-F]+\M|(?<!/)(/[[:alnum:]_.@-]+){2,}'::text, '...'::text, 'g'::text), '\m[0-9a-fA-F]*[0-9][0-9a-fA-F]*\M|[0-9]+'::text, 'N'::text, 'g'::text);

--- function sluice.expire_start_deadlines_v1(p_limit integer, p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.expire_start_deadlines_v1(p_limit integer, p_ids bigint[] DEFAULT '{}'::bigint[])
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_late    bigint[];
  v_count   integer;
  v_parents bigint[];
  v_idxs    integer[];
begin
  -- statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read, and every
  -- job with a deadline would be looked at.
  v_late := array(select k.id from sluice.queue k
                   where k.state = 'ready' and k.deadline_at is not null and k.deadline_at <= statement_timestamp()
                   order by k.deadline_at limit p_limit for update skip locked) || p_ids;
  if v_late = '{}' then
    return 0;
  end if;
  -- What kept jobs from starting is known by class.
  select count(*)::integer, array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null)
    into v_count, v_parents, v_idxs
    from (select q.class_id, array_agg(q.id) as ids from sluice.queue q where q.id = any (v_late) group by q.class_id) c
   cross join lateral sluice.end_queued_v1(c.ids, 'failed', 'capacity: not started by its deadline'
           || coalesce(': ' || (select sluice.why_waiting_text_v1(s.obstacle, s.details) from sluice.samples s
                                 where s.class_id = c.class_id and s.obstacle is not null order by s.at desc limit 1), '')) e;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  perform pg_notify('sluice', 'done');
  return v_count;
end $function$;

--- function sluice.fanout_v1(p_id bigint)
CREATE OR REPLACE FUNCTION sluice.fanout_v1(p_id bigint)
 RETURNS TABLE(total integer, completed integer, failed integer, cancelled integer, window_size integer, in_flight integer, window_before integer)
 LANGUAGE sql
 STABLE
AS $function$
  select c.total, (c.completed + w.completed)::integer, (c.failed + w.failed)::integer, (c.cancelled + w.cancelled)::integer, c.window_size,
         (case when c.window_size is not null then c.tokens - w.dropped
               else c.total - c.completed - c.failed - c.cancelled - w.completed - w.failed - w.cancelled end)::integer, c.window_before
    from sluice.composites c
   cross join lateral (
     select coalesce(sum(u.completed), 0) as completed, coalesce(sum(u.failed), 0) as failed,
            coalesce(sum(u.cancelled), 0) as cancelled, coalesce(sum(u.dropped), 0) as dropped
       from sluice.wakeups u where u.job_id = c.job_id) w
   where c.job_id = p_id and c.total is not null
$function$;

--- function sluice.fields_v1(p_row jsonb)
CREATE OR REPLACE FUNCTION sluice.fields_v1(p_row jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (SELECT jsonb_object_agg((SELECT string_agg(CASE w.place WHEN 1 THEN w.word ELSE initcap(w.word) END, ''::text ORDER BY w.place) AS string_agg FROM unnest(string_to_array(f.key, '_'::text)) WITH ORDINALITY w(word, place)), f.value) AS jsonb_object_agg FROM jsonb_each((fields_v1.p_row - '{name,operator_set,declared,updated_at,updated_by}'::text[])) f(key, value));

--- function sluice.finish_some_v1(p_worker bigint, p_now timestamp with time zone, p_over bigint[], p_seqs bigint[], p_ids bigint[], p_results jsonb, p_ran double precision[], OUT ended integer, OUT parents bigint[], OUT idxs integer[], OUT keyed bigint[])
CREATE OR REPLACE FUNCTION sluice.finish_some_v1(p_worker bigint, p_now timestamp with time zone, p_over bigint[], p_seqs bigint[], p_ids bigint[], p_results jsonb, p_ran double precision[], OUT ended integer, OUT parents bigint[], OUT idxs integer[], OUT keyed bigint[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_seqs bigint[];
  v_done bigint[];
begin
  with sent as (
    select e.seq, array_agg(e.id) as ids, array_agg(e.ord) as ords from unnest(p_seqs, p_ids) with ordinality e(seq, id, ord)
     where coalesce(e.seq <> all (p_over), true) group by e.seq
  ), done as materialized (
    select c.seq, c.class_id, c.started_at, e.id, e.ord, c.ready_ats[x.at] as ready_at, c.deadlines[x.at] as deadline_at,
           (c.cancels -> e.id::text ->> 'at')::timestamptz as cancel_at, c.parents[x.at] as parent_id, c.idxs[x.at] as idx,
           coalesce(c.attempts[x.at], 1) as attempt, coalesce(c.failures[x.at], 0) as failures, coalesce(c.losses[x.at], 0) as losses,
           c.keyed[x.at] as keyed
      from sent s
      join sluice.claims c on c.worker_id = p_worker and c.seq = s.seq
     cross join lateral unnest(s.ids, s.ords) e(id, ord)
     cross join lateral (select array_position(c.ids, e.id) as at offset 0) x
     where x.at is not null
  ), kept as (
    insert into sluice.outcomes (id, state, result, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt,
                                 failures, losses, is_root)
    select d.id, 'completed', nullif(p_results -> (d.ord - 1)::integer, 'null'), p_now, d.ready_at,
           greatest(d.started_at, statement_timestamp() - make_interval(secs => p_ran[d.ord] / 1000)), d.deadline_at, d.cancel_at,
           p_worker, d.class_id, d.attempt, d.failures, d.losses, d.parent_id is null
      from done d
  )
  select count(*)::integer, array_agg(d.parent_id) filter (where d.parent_id is not null), array_agg(d.idx) filter (where d.parent_id is not null),
         array_agg(d.id) filter (where d.keyed), array_agg(distinct d.seq), array_agg(d.id)
    into ended, parents, idxs, keyed, v_seqs, v_done from done d;
  if v_done is not null then
    perform sluice.remove_from_claims_v1(p_worker, v_seqs, v_done);
  end if;
end $function$;

--- function sluice.finish_v1(p_worker bigint, p_now timestamp with time zone, p_seqs bigint[], p_ids bigint[], p_results jsonb, p_ran double precision[], OUT ended integer, OUT parents bigint[], OUT idxs integer[])
CREATE OR REPLACE FUNCTION sluice.finish_v1(p_worker bigint, p_now timestamp with time zone, p_seqs bigint[], p_ids bigint[], p_results jsonb, p_ran double precision[], OUT ended integer, OUT parents bigint[], OUT idxs integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_over  bigint[];   -- claims that are over
  v_keyed bigint[];
  v_rest  record;
begin
  with sent as materialized (
    select s.seq, s.n, s.before, p_ids[s.before + 1 : s.before + s.n] as ids
      from (select c.seq, cardinality(c.ids) as n, array_position(p_ids, c.ids[1]) - 1 as before
              from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs) offset 0) s
     where p_seqs[s.before + 1 : s.before + s.n] = array_fill(s.seq, array[s.n])
  ), over as (
    delete from sluice.claims c using sent s where c.worker_id = p_worker and c.seq = s.seq and c.ids = s.ids
    returning c.*, s.n, s.before
  ), kept as (
    insert into sluice.outcomes (id, state, result, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt,
                                 failures, losses, is_root)
    select c.ids[i], 'completed', nullif(p_results -> (c.before + i - 1), 'null'), p_now, c.ready_ats[i],
           -- From when the endings arrived: reading large results takes a while.
           case when p_ran is null then c.started_at
                else greatest(c.started_at, statement_timestamp() - make_interval(secs => p_ran[c.before + i] / 1000)) end,
           c.deadlines[i],
           case when c.cancels is not null then (c.cancels -> c.ids[i]::text ->> 'at')::timestamptz end, p_worker, c.class_id,
           coalesce(c.attempts[i], 1), coalesce(c.failures[i], 0), coalesce(c.losses[i], 0), c.parents[i] is null
      from over c cross join lateral generate_series(1, c.n) i
  )
  select coalesce(sum(cardinality(c.ids)), 0), array_agg(c.seq),
         (select array_agg(j.parent_id) from over p cross join lateral unnest(p.parents) j(parent_id)
           where p.parents is not null and j.parent_id is not null),
         (select array_agg(j.idx) from over p cross join lateral unnest(p.parents, p.idxs) j(parent_id, idx)
           where p.parents is not null and j.parent_id is not null),
         (select array_agg(j.id) from over p cross join lateral unnest(p.ids, p.keyed) j(id, keyed) where p.keyed is not null and j.keyed)
    into ended, v_over, parents, idxs, v_keyed from over c;
  if ended < cardinality(p_ids) then
    v_rest := sluice.finish_some_v1(p_worker, p_now, v_over, p_seqs, p_ids, p_results, p_ran);
    ended := ended + v_rest.ended;
    parents := nullif(parents || v_rest.parents, '{}');
    idxs := nullif(idxs || v_rest.idxs, '{}');
    v_keyed := v_keyed || v_rest.keyed;
  end if;
  if v_keyed is not null then
    delete from sluice.job_keys k where k.job_id = any (v_keyed);
  end if;
end $function$;

--- function sluice.fire_schedule_now_v1(p_name text, p_by text)
CREATE OR REPLACE FUNCTION sluice.fire_schedule_now_v1(p_name text, p_by text)
 RETURNS TABLE(job_id bigint, attached boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_schedule sluice.schedules;
begin
  -- Until its firing is written nobody deletes it.
  select * into v_schedule from sluice.schedules s where s.name = p_name for key share;
  if not found then
    return;
  end if;
  select s.id, s.attached into job_id, attached from sluice.submit_v1(jsonb_build_array(
    v_schedule.options || jsonb_build_object('task', coalesce(v_schedule.task, v_schedule.workflow), 'input', v_schedule.input,
                                             'by', p_by)), 'soon') s;
  perform sluice.record_input_author_v1(job_id, n, p_by)
    from unnest(array[v_schedule.owner, v_schedule.input_by, v_schedule.task_by]) n where not attached;
  insert into sluice.firings (schedule, tick_at, job_id, attached, asked_by)
    values (p_name, clock_timestamp(), job_id, attached, p_by);
  return next;
end $function$;

--- function sluice.fire_schedule_v1(p_name text, p_version integer, p_next_at timestamp with time zone, p_then timestamp with time zone, p_tick timestamp with time zone, p_passed integer, p_passed_since timestamp with time zone, p_passed_last timestamp with time zone, p_passed_why text)
CREATE OR REPLACE FUNCTION sluice.fire_schedule_v1(p_name text, p_version integer, p_next_at timestamp with time zone, p_then timestamp with time zone, p_tick timestamp with time zone, p_passed integer, p_passed_since timestamp with time zone, p_passed_last timestamp with time zone, p_passed_why text)
 RETURNS TABLE(tick_at timestamp with time zone, job_id bigint, attached boolean, skipped text, reason text, overlapped integer)
 LANGUAGE plpgsql
 SET lock_timeout TO '2s'
AS $function$
#variable_conflict use_column
declare
  v_schedule sluice.schedules;
  v_busy     bigint;
begin
  select * into v_schedule from sluice.schedules s
   where s.name = p_name and s.version = p_version and s.next_at = p_next_at for no key update skip locked;
  if not found then
    return;
  end if;
  update sluice.schedules s set next_at = p_then where s.name = p_name;
  if p_passed > 0 then
    -- While a schedule is disabled its ticks go by in one row.
    update sluice.firings f set tick_at = p_passed_last, since = coalesce(f.since, f.tick_at), ticks = f.ticks + p_passed,
                                fired_at = clock_timestamp()
     where p_passed_why = 'disabled' and f.skipped = 'disabled'
       and f.id = (select max(g.id) from sluice.firings g where g.schedule = p_name and g.asked_by is null);
    if not found then
      insert into sluice.firings (schedule, tick_at, since, ticks, skipped, clock_steps)
        values (p_name, p_passed_last, nullif(p_passed_since, p_passed_last), p_passed, p_passed_why, v_schedule.clock_steps);
    end if;
    return query select p_passed_last, null::bigint, false, p_passed_why, null::text, 0;
  end if;
  if p_tick is null then
    return;
  end if;
  tick_at := p_tick;
  attached := false;
  if v_schedule.overlap = 'skip' then
    -- Of the latest hundred: more would have to have been started while overlapping was allowed.
    select j.id into v_busy
      from (select f.job_id from sluice.firings f where f.schedule = p_name and f.job_id is not null order by f.id desc limit 100) f
      join sluice.jobs j on j.id = f.job_id and j.state < 'completed' limit 1;
    if found then
      skipped := 'overlap';
      reason := 'job ' || v_busy || ' of this schedule has not ended';
    end if;
  end if;
  if skipped is null then
    begin
      select s.id, s.attached into job_id, attached from sluice.submit_v1(jsonb_build_array(
        v_schedule.options || jsonb_build_object('task', coalesce(v_schedule.task, v_schedule.workflow), 'input', v_schedule.input,
                                                 'by', v_schedule.owner)), 'soon') s;
      perform sluice.record_input_author_v1(job_id, n, v_schedule.owner)
        from unnest(array[v_schedule.input_by, v_schedule.task_by]) n where not attached;
    exception when others then
      -- What would be refused again is recorded; what was bad luck is undone as a whole, and tried again.
      if sqlstate !~ '^(SL|22|23)' then
        raise;
      end if;
      attached := false;
      skipped := case sqlstate when 'SL007' then 'ceiling' else 'refused' end;
      -- The job that has the key may be of somebody who is no business of the schedule's owner.
      reason := left(case sqlstate when 'SL004' then format('key %L of task %s is held by a job that has another input',
                       v_schedule.options ->> 'key', coalesce(v_schedule.task, v_schedule.workflow)) else sqlerrm end, 1000);
    end;
  end if;
  insert into sluice.firings (schedule, tick_at, job_id, attached, skipped, reason, clock_steps)
    values (p_name, p_tick, job_id, attached, skipped, reason, v_schedule.clock_steps);
  overlapped := v_schedule.overlapped + (skipped is not distinct from 'overlap')::integer;
  if overlapped > 0 then
    update sluice.schedules s set overlapped = case skipped when 'overlap' then v_schedule.overlapped + 1 else 0 end where s.name = p_name;
  end if;
  return next;
end $function$;

--- function sluice.fire_schedules_v1(p_ticks jsonb)
CREATE OR REPLACE FUNCTION sluice.fire_schedules_v1(p_ticks jsonb)
 RETURNS TABLE(schedule text, tick_at timestamp with time zone, job_id bigint, attached boolean, skipped text, reason text, overlapped integer)
 LANGUAGE plpgsql
 SET lock_timeout TO '2s'
AS $function$
#variable_conflict use_column
declare
  v_names    text[];
  v_at       timestamptz[];
  v_then     timestamptz[];
  v_jobs     jsonb[];
  v_busy     bigint[];
  v_overlapped integer[];
  v_ids      bigint[];
  v_attached boolean[];
  v_editors  text[];   -- of the input
  v_others   text[];   -- of the task
begin
  select array_agg(d.name), array_agg(d.tick), array_agg(d.then_at), array_agg(d.job), array_agg(d.busy), array_agg(d.overlapped),
         array_agg(d.editor) filter (where d.busy is null), array_agg(d.other) filter (where d.busy is null)
    into v_names, v_at, v_then, v_jobs, v_busy, v_overlapped, v_editors, v_others
    from (select s.name, s.overlapped, i.tick, i.then_at, nullif(s.input_by, s.owner) as editor, nullif(s.task_by, s.owner) as other,
                 s.options || jsonb_build_object('task', coalesce(s.task, s.workflow), 'input', s.input, 'by', s.owner) as job,
                 case when s.overlap = 'skip' then
                   (select j.id
                      from (select f.job_id from sluice.firings f where f.schedule = s.name and f.job_id is not null order by f.id desc limit 100) f
                      join sluice.jobs j on j.id = f.job_id and j.state < 'completed' limit 1)
                 end as busy
            from jsonb_to_recordset(p_ticks) i(name text, version integer, next_at timestamptz, then_at timestamptz, tick timestamptz)
            join sluice.schedules s on s.name = i.name and s.version = i.version and s.next_at = i.next_at
           order by s.name for no key update of s skip locked) d;
  if v_names is null then
    return;
  end if;
  update sluice.schedules s set next_at = u.then_at, overlapped = case when u.busy is null then 0 else s.overlapped + 1 end
    from unnest(v_names, v_then, v_busy) u(name, then_at, busy) where s.name = u.name;
  select array_agg(s.id order by s.ord), array_agg(s.attached order by s.ord) into v_ids, v_attached
    from sluice.submit_v1((select coalesce(jsonb_agg(u.job order by u.ord), '[]') from unnest(v_jobs, v_busy) with ordinality u(job, busy, ord)
                            where u.busy is null), 'soon') s;
  perform sluice.record_input_author_v1(u.id, n, '') from unnest(v_ids, v_attached, v_editors, v_others) u(id, attached, editor, other)
    cross join unnest(array[u.editor, u.other]) n where n is not null and not u.attached;
  return query
  with recorded as (
  insert into sluice.firings as f (schedule, tick_at, job_id, attached, skipped, reason, clock_steps)
  select u.name, u.tick, v_ids[u.place], coalesce(v_attached[u.place], false),
         case when u.place is null then 'overlap' end, 'job ' || u.busy || ' of this schedule has not ended',
         (select s.clock_steps from sluice.schedules s where s.name = u.name)
    from (select t.*, case when t.busy is null then count(*) filter (where t.busy is null) over (order by t.ord) end as place
            from unnest(v_names, v_at, v_busy) with ordinality t(name, tick, busy, ord)) u
   order by u.ord
  returning f.schedule, f.tick_at, f.job_id, f.attached, f.skipped, f.reason
  )
  select r.schedule, r.tick_at, r.job_id, r.attached, r.skipped, r.reason, o.before + (r.skipped is not distinct from 'overlap')::integer
    from recorded r join unnest(v_names, v_overlapped) o(name, before) on o.name = r.schedule;
end $function$;

--- function sluice.flat_limits_v1(p_limits jsonb)
CREATE OR REPLACE FUNCTION sluice.flat_limits_v1(p_limits jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_limits - 'maxQueued'::text) || CASE WHEN ((p_limits -> 'maxScheduled'::text) = 'null'::jsonb) THEN '{"maxScheduled": 0}'::jsonb ELSE '{}'::jsonb END) || (SELECT COALESCE(jsonb_object_agg(('maxQueued.'::text || q.key), q.value), '{}'::jsonb) AS "coalesce" FROM jsonb_each(COALESCE((flat_limits_v1.p_limits -> 'maxQueued'::text), '{}'::jsonb)) q(key, value)));

--- function sluice.follow_clock_v1()
CREATE OR REPLACE FUNCTION sluice.follow_clock_v1()
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_now  timestamptz;
  v_step interval;
begin
  if not exists (select 1 from sluice.watch k where k.last_at > clock_timestamp() + interval '1 second') then
    return null;
  end if;
  -- One does it; whoever comes at the same time finds it done.
  perform 1 from sluice.generation g for no key update;
  perform 1 from sluice.watch k for no key update;
  v_now := clock_timestamp();
  v_step := (select k.last_at - v_now from sluice.watch k);
  if v_step <= interval '1 second' then
    return null;
  end if;
  update sluice.watch k set since = v_now, last_at = v_now, clock_steps = k.clock_steps + 1,
                            skip_before = case when k.skip_before > v_now then v_now else k.skip_before end;
  update sluice.generation g set noticed_at = least(g.noticed_at, v_now), wait_until = g.wait_until - v_step,
                                 skip_before = case when g.skip_before > v_now then v_now else g.skip_before end;
  -- What is locked is being written by the new clock.
  update sluice.workers w set seen_at = v_now
   where w.id in (select o.id from sluice.workers o where o.ended_at is null and o.seen_at > v_now for no key update skip locked);
  update sluice.holdings h set asked_at = v_now
   where (h.worker_id, h.lane) in (select o.worker_id, o.lane from sluice.holdings o where o.asked_at > v_now for no key update skip locked);
  update sluice.composites c set taken_until = c.taken_until - v_step
   where c.job_id in (select o.job_id from sluice.composites o where o.taken_until > v_now for no key update skip locked);
  -- Retries and snoozes. A job that has not started waits for a time that somebody named.
  update sluice.queue q set ready_at = greatest(v_now, q.ready_at - v_step)
   where q.id in (select o.id from sluice.queue o where o.state = 'scheduled' and o.ready_at > v_now and o.attempt > 0
                  for no key update skip locked);
  update sluice.queue q set ready_at = v_now
   where q.id in (select o.id from sluice.queue o where o.state = 'ready' and o.ready_at > v_now for no key update skip locked);
  update sluice.wakeups w set due_at = greatest(v_now, w.due_at - v_step)
   where w.id in (select o.id from sluice.wakeups o where o.due_at > v_now for no key update skip locked);
  update sluice.fleet_decisions d set taken_until = d.taken_until - v_step, arrive_by = d.arrive_by - v_step, stop_at = d.stop_at - v_step
   where d.id in (select o.id from sluice.fleet_decisions o where o.ended_at is null or o.stop_at > v_now for no key update skip locked);
  update sluice.priority_changes m set retry_at = m.retry_at - v_step
   where m.job_id in (select o.job_id from sluice.priority_changes o where o.retry_at > v_now for no key update skip locked);
  update sluice.withdrawals d set retry_at = d.retry_at - v_step
   where (d.worker_id, d.task) in (select o.worker_id, o.task from sluice.withdrawals o where o.retry_at > v_now for no key update skip locked);
  perform sluice.hint_v1('ready', 'soon');
  perform sluice.hint_v1('wake', 'soon');
  return (extract(epoch from v_step) * 1000)::bigint;
end $function$;

--- function sluice.free_before_v1(p_worker bigint, p_now timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.free_before_v1(p_worker bigint, p_now timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_self record;
  v_peer record;
  v_free integer := 0;
begin
  select w.rank, w.tasks, p_now - make_interval(secs => s.value / 1000.0) as alive into v_self
    from sluice.workers w, sluice.settings s where w.id = p_worker and s.name = 'heartbeat_ms';
  for v_peer in
    select w.id, w.capacity, w.busy_since from sluice.workers w
     where w.ended_at is null and not w.draining and w.seen_at > v_self.alive and w.tasks && v_self.tasks
       and (w.rank, w.id) < (v_self.rank, p_worker)
     order by w.rank desc, w.id desc limit 64
  loop
    if v_peer.capacity = 0 or (
         select coalesce(sum(sluice.started_in_v1(c)), 0) from sluice.claims c
          where c.worker_id = v_peer.id and c.seq >= sluice.microseconds_v1(v_peer.busy_since)) < v_peer.capacity then
      v_free := v_free + 1;
      exit when v_free = 4;
    end if;
  end loop;
  return v_free;
end $function$;

--- function sluice.hand_back_v1(p_worker bigint, p_ids bigint[], p_known bigint, p_epoch integer)
CREATE OR REPLACE FUNCTION sluice.hand_back_v1(p_worker bigint, p_ids bigint[], p_known bigint, p_epoch integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET lock_timeout TO '50ms'
AS $function$
declare
  v_endings   jsonb;
  v_cancelled boolean;
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for share;
  if not exists (select 1 from sluice.holdings h where h.worker_id = p_worker and h.epoch = p_epoch) then
    return 0;
  end if;
  perform 1 from sluice.claims c where c.worker_id = p_worker and (c.assigned && p_ids or c.seq > p_known and c.assigned is not null)
    order by c.seq for update;
  select jsonb_agg(jsonb_build_object('id', r.id, 'seq', r.seq, 'ending', 'unstarted')), bool_or(r.cancel_at is not null) into v_endings, v_cancelled
    from sluice.claimed r where r.worker_id = p_worker and r.assigned and (r.id = any (p_ids) or r.seq > p_known);
  if v_endings is null then
    return 0;
  end if;
  if v_cancelled then
    -- These end: whoever waits for them hears of it.
    perform pg_notify('sluice', 'done');
  end if;
  return sluice.end_attempts_v1(p_worker, v_endings);
end $function$;

--- function sluice.has_window_v1(p_composite bigint)
CREATE OR REPLACE FUNCTION sluice.has_window_v1(p_composite bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT 1 FROM sluice.composites c WHERE ((c.job_id = has_window_v1.p_composite) AND (c.window_size IS NOT NULL))));

--- function sluice.heartbeat_v1(p_worker bigint, p_blocked_ms double precision, p_blocking text[])
CREATE OR REPLACE FUNCTION sluice.heartbeat_v1(p_worker bigint, p_blocked_ms double precision DEFAULT NULL::double precision, p_blocking text[] DEFAULT '{}'::text[])
 RETURNS TABLE(lanes text[], cancels bigint[], draining boolean, stopping boolean, peers integer, ahead integer, idle_ms double precision, expired boolean, offer text, shares text, resync boolean)
 LANGUAGE plpgsql
AS $function$
begin
  perform set_config('synchronous_commit', 'off', true);
  return query
  update sluice.workers w
     set seen_at = clock_timestamp(),
         blocked_since = clock_timestamp() - make_interval(secs => p_blocked_ms / 1000.0), blocking = p_blocking,
         -- Who counts what it runs looks no further back: behind a transaction held open lie the entries of all that has ended.
         -- A claim under way is not seen yet, and has its time from before it is committed.
         busy_since = least(clock_timestamp() - interval '10 seconds',
                            (select c.started_at from sluice.claims c where c.worker_id = p_worker and c.seq >= sluice.microseconds_v1(w.busy_since)
                                order by c.worker_id, c.seq limit 1))
   where w.id = p_worker and w.ended_at is null
  returning array(select h.lane from sluice.holdings h where h.worker_id = p_worker order by h.lane),
            array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.worker_id = p_worker),
            w.draining, sluice.must_stop_v1(w),
            (select count(*)::integer from sluice.workers p where p.ended_at is null),
            (select count(*)::integer from sluice.workers p where p.ended_at is null and (p.rank, p.id) < (w.rank, w.id)),
            (select p.idle_ms::double precision from sluice.pools p where p.name = w.pool),
            coalesce((select w.started_at < clock_timestamp() - make_interval(secs => p.lifetime_ms / 1000.0) from sluice.pools p
                       where p.name = w.pool), false),
            sluice.catalogue_stamp_v1(), sluice.process_shares_v1(w), not exists (select 1 from sluice.generation g where g.id = w.generation);
end $function$;

--- function sluice.heartbeats_v1(p_workers bigint[])
CREATE OR REPLACE FUNCTION sluice.heartbeats_v1(p_workers bigint[])
 RETURNS TABLE(id bigint, lanes text[], cancels bigint[], draining boolean, stopping boolean, peers integer, ahead integer, idle_ms double precision, expired boolean, offer text, shares text, resync boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_offer text;
begin
  perform set_config('synchronous_commit', 'off', true);
  v_offer := sluice.catalogue_stamp_v1();   -- once for all of them
  return query
  with own as materialized (
    select w.id from sluice.workers w where w.id = any (p_workers) and w.ended_at is null order by w.id for no key update skip locked
  ), placed as materialized (
    select p.id, (row_number() over (order by p.rank, p.id))::integer - 1 as ahead, (count(*) over ())::integer as peers
      from sluice.workers p where p.ended_at is null
  )
  update sluice.workers w
     set seen_at = clock_timestamp(), blocked_since = null, blocking = '{}',
         busy_since = least(clock_timestamp() - interval '10 seconds',
                            (select c.started_at from sluice.claims c where c.worker_id = w.id and c.seq >= sluice.microseconds_v1(w.busy_since)
                                order by c.worker_id, c.seq limit 1))
    from own join placed on placed.id = own.id left join sluice.pools p on p.name = (select x.pool from sluice.workers x where x.id = own.id)
   where w.id = own.id
  returning w.id, array(select h.lane from sluice.holdings h where h.worker_id = w.id order by h.lane),
            array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.worker_id = w.id),
            w.draining, sluice.must_stop_v1(w), placed.peers, placed.ahead, p.idle_ms::double precision,
            coalesce(w.started_at < clock_timestamp() - make_interval(secs => p.lifetime_ms / 1000.0), false), v_offer, sluice.process_shares_v1(w),
            not exists (select 1 from sluice.generation g where g.id = w.generation);
end $function$;

--- function sluice.hint_v1(p_what text, p_when text)
CREATE OR REPLACE FUNCTION sluice.hint_v1(p_what text, p_when text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if p_when = 'commit' or (p_when = 'soon' and pg_try_advisory_xact_lock(1936485737, hashtext(p_what))) then
    perform pg_notify('sluice', p_what);
  end if;
end $function$;

--- function sluice.hold_lanes_v1(p_worker bigint, p_epoch integer, p_lanes text[], p_ended integer[], p_run integer[], p_want integer[], p_keep integer[], p_ready sluice.cycle_class_v1[])
CREATE OR REPLACE FUNCTION sluice.hold_lanes_v1(p_worker bigint, p_epoch integer, p_lanes text[], p_ended integer[], p_run integer[], p_want integer[], p_keep integer[], p_ready sluice.cycle_class_v1[])
 RETURNS sluice.cycle_lane_v1[]
 LANGUAGE plpgsql
AS $function$
declare
  v_few   boolean := cardinality(p_lanes) <= 8;
  v_about text[];
  v_lanes sluice.cycle_lane_v1[];
begin
  if not v_few then
    v_about := array(select l.name from unnest(p_lanes, p_ended) with ordinality l(name, ended, ord)
                      where l.ord = 1 or l.ended > 0 or exists (select 1 from unnest(p_ready) r where r.lane = l.ord));
  end if;
  -- Read along the worker's holdings, with the position looked up only of those that count: joined with the lanes, a plan made while there were few
  -- compares each with each.
  v_lanes := array(
    select row(h.lane, p_run[l.ord], p_run[l.ord], p_want[l.ord], p_keep[l.ord], h.slots, h.slots, h.wants, false, h.asked_at,
               null, false, 0, null, null, 0, 0, false, null, null)::sluice.cycle_lane_v1
      from sluice.holdings h cross join lateral (select array_position(p_lanes, h.lane) as ord offset 0) l
     where h.worker_id = p_worker and h.epoch = p_epoch and (v_few or h.lane = any (v_about) or h.wants or h.slots > 0) and l.ord is not null
     order by h.lane for no key update of h);
  if v_few and cardinality(v_lanes) < cardinality(p_lanes) then
    raise exception 'worker % no longer holds its lanes under epoch %', p_worker, p_epoch using errcode = 'SL001';
  elsif not v_few then
    if exists (select 1 from unnest(v_about) a(name) where a.name <> all (array(select l.name from unnest(v_lanes) l))) then
      raise exception 'worker % no longer holds its lanes under epoch %', p_worker, p_epoch using errcode = 'SL001';
    end if;
  end if;
  return v_lanes;
end $function$;

--- function sluice.id_at_v1(p_at timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.id_at_v1(p_at timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_low  bigint := (select j.id from sluice.job_data j order by j.id limit 1);
  v_high bigint := (select j.id + 1 from sluice.job_data j order by j.id desc limit 1);
  v_mid  bigint;
  v_row  record;
begin
  while v_low < v_high loop
    v_mid := v_low + (v_high - v_low) / 2;
    select j.id, j.submitted_at into v_row from sluice.job_data j where j.id >= v_mid order by j.id limit 1;
    if v_row.id is null or v_row.submitted_at >= p_at then
      v_high := v_mid;
    else
      v_low := v_row.id + 1;
    end if;
  end loop;
  return coalesce(v_low, 0);
end $function$;

--- function sluice.insert_alike_v1(p_job jsonb, p_inputs jsonb, p_hint text)
CREATE OR REPLACE FUNCTION sluice.insert_alike_v1(p_job jsonb, p_inputs jsonb, p_hint text)
 RETURNS bigint[]
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  -- Numbered before limits are looked for: sluice.maintain_ledger_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_now  timestamptz := clock_timestamp();
  v_jobs jsonb := jsonb_build_array(p_job);
  v_line boolean;
  v_more boolean;
  v_ids  bigint[];
  r      record;
begin
  perform sluice.check_submitter_v1();
  if p_job ->> 'key' is not null then
    raise exception 'key: jobs that are stored by one bulk call cannot have a key. Submit this job by itself' using errcode = 'SL005', detail = 'key';
  end if;
  v_line := sluice.leaves_audit_entry_v1(v_jobs);
  select v_line or a.max_active is not null or a.max_per_owner is not null or a.limited and a.max_queued ? (p_job ->> 'task')
         or a.scheduled_limit is not null and p_job ?| array['runAt', 'delayMs']
    into v_more from sluice.admission a;
  select j.* into r from sluice.read_jobs_v1(v_jobs, v_now) j;
  if not found then
    perform sluice.store_jobs_v1(v_jobs);   -- it says what is wrong with the task
  end if;
  with stored as (
    insert into sluice.job_data (submitted_at, task, class_id, input, priority, deadline_ms, tags, submitted_by, trace, uses)
    -- No input is stored as no value.
    select v_now, r.task, r.class_id, nullif(i.input, 'null'), r.priority, r.deadline_ms, r.tags, r.owner, r.trace, r.uses
      from jsonb_array_elements(p_inputs) i(input)
    returning id
  ), queued as (
    insert into sluice.queue (id, class_id, rank, state, ready_at, deadline_at)
    select s.id, r.class_id, r.rank, r.state, r.due, r.deadline_at from stored s
  )
  select coalesce(array_agg(s.id), '{}') into v_ids from stored s;
  if v_more then
    if v_line then
      perform sluice.audit_submissions_v1(
        case when p_job ? 'audit' then jsonb_set(v_jobs, '{0,audit,tasks}', jsonb_build_array(r.task)) else v_jobs end, v_ids);
    end if;
    perform sluice.admit_v1(v_ids, p_hint);
  end if;
  perform sluice.hint_v1(case cardinality(v_ids) when 1 then 'one' else 'ready' end, p_hint);
  return v_ids;
end $function$;

--- function sluice.insert_job_v1(p_task text, p_input jsonb, p_owner text, p_audit jsonb, p_hint text)
CREATE OR REPLACE FUNCTION sluice.insert_job_v1(p_task text, p_input jsonb, p_owner text, p_audit jsonb, p_hint text)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  -- Numbered before limits are looked for: sluice.maintain_ledger_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_now  timestamptz := clock_timestamp();
  v_id   bigint;
begin
  perform sluice.check_submitter_v1();
  with given as materialized (
    select nextval('sluice.job_data_id_seq') as id, t.class_id, t.priority, nullif(coalesce(t.deadline_ms, a.deadline_ms), 0) as deadline_ms,
           sluice.rank_v1(t.priority, l.ageing_ms, v_now) as rank
      -- In a plain join all lanes would be read and sorted.
      from sluice.tasks t cross join lateral (select l.ageing_ms from sluice.lanes l where l.name = t.lane offset 0) l cross join sluice.admission a
     where t.name = p_task and not t.approval and t.refusal is null and not sluice.leaves_audit_entry_v1('[]')
       and a.max_active is null and a.max_per_owner is null and not (a.limited and a.max_queued ? p_task)
  ), stored as (
    insert into sluice.job_data (id, submitted_at, task, class_id, input, priority, deadline_ms, submitted_by)
    -- No input is stored as no value.
    select g.id, v_now, p_task, g.class_id, nullif(p_input, 'null'), g.priority, g.deadline_ms, coalesce(p_owner, session_user::text) from given g
  ), queued as (
    insert into sluice.queue (id, class_id, rank, ready_at, deadline_at)
    select g.id, g.class_id, g.rank, v_now, v_now + make_interval(secs => g.deadline_ms / 1000.0) from given g
  ), audited as (
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select p_audit ->> 'actor', (p_audit ->> 'keyId')::bigint, 'job.submit', 'job ' || g.id,
           jsonb_strip_nulls(jsonb_build_object('task', p_task, 'by', nullif(p_owner, p_audit ->> 'actor'))),
           p_audit ->> 'requestId', p_audit ->> 'reason'
      from given g where p_audit is not null
  )
  select g.id into v_id from given g;
  if v_id is null then
    return (select i from sluice.insert_jobs_v1(jsonb_build_array(jsonb_build_object('task', p_task, 'input', p_input, 'by', p_owner)
              || case when p_audit is null then '{}' else jsonb_build_object('audit', p_audit) end), p_hint) i);
  end if;
  perform sluice.hint_v1('one', p_hint);
  return v_id;
end $function$;

--- function sluice.insert_jobs_v1(p_jobs jsonb, p_hint text)
CREATE OR REPLACE FUNCTION sluice.insert_jobs_v1(p_jobs jsonb, p_hint text)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  -- Numbered before limits are looked for: sluice.maintain_ledger_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_line boolean;
  v_more boolean;
  v_ids  bigint[];
begin
  perform sluice.check_submitter_v1();
  v_line := sluice.leaves_audit_entry_v1(p_jobs);
  -- Where only some tasks have a limit, jobs of the others take the short way.
  select v_line or a.max_active is not null or a.max_per_owner is not null
         or a.limited and a.max_queued ?| array(select distinct g.task from jsonb_to_recordset(p_jobs) as g(task text))
         or a.scheduled_limit is not null and jsonb_path_exists(p_jobs, '$[*] ? (exists (@.runAt) || exists (@.delayMs))')
    into v_more from sluice.admission a;
  if v_more then
    -- Only where the ids are needed: to collect them is a tenth of the time of a single job.
    v_ids := array(select sluice.store_jobs_v1(p_jobs));
    if v_line then
      perform sluice.audit_submissions_v1(p_jobs, v_ids);
    end if;
    perform sluice.admit_v1(v_ids, p_hint);
    return query select unnest(v_ids);
  else
    return query select sluice.store_jobs_v1(p_jobs);
  end if;
  perform sluice.hint_v1(case jsonb_array_length(p_jobs) when 1 then 'one' else 'ready' end, p_hint);
end $function$;

--- function sluice.insert_one_v1(p_job jsonb)
CREATE OR REPLACE FUNCTION sluice.insert_one_v1(p_job jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select 1 from sluice.workflows w where w.name = p_job ->> 'task') then
    return sluice.insert_workflow_v1(p_job);
  end if;
  return (select i from sluice.store_jobs_v1(jsonb_build_array(p_job)) i);
end $function$;

--- function sluice.insert_workflow_v1(p_job jsonb)
CREATE OR REPLACE FUNCTION sluice.insert_workflow_v1(p_job jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_now timestamptz := clock_timestamp();
  v_id  bigint;
  v_missing text;
  v_due timestamptz := greatest(v_now, (p_job ->> 'runAt')::timestamptz,
                                v_now + make_interval(secs => (p_job ->> 'delayMs')::bigint / 1000.0));
begin
  if p_job ->> 'lane' is not null then
    raise exception 'lane: a workflow takes no slot, so it is in no lane; its tasks are' using errcode = 'SL005', detail = 'lane';
  end if;
  select string_agg(quote_literal(n), ', ' order by n) into v_missing
    from sluice.workflows w join sluice.graphs g on g.hash = w.graph cross join unnest(g.tasks) n
   where w.name = p_job ->> 'task' and not exists (select 1 from sluice.tasks t where t.name = n);
  if v_missing is not null then
    raise exception 'workflow % runs what nobody has brought yet: no task named %; start a worker or program that has it',
      quote_literal(p_job ->> 'task'), v_missing using errcode = 'SL002', detail = p_job ->> 'task';
  end if;
  insert into sluice.job_data (task, composite, key, input, priority, submitted_at, deadline_ms, tags, submitted_by, trace)
  select w.name, 'workflow', p_job ->> 'key', nullif(p_job -> 'input', 'null'), coalesce((p_job ->> 'priority')::integer, w.priority), v_now,
         coalesce((p_job ->> 'deadlineMs')::bigint, w.deadline_ms),
         case when p_job ? 'tags' then array(select jsonb_array_elements_text(p_job -> 'tags')) end,
         coalesce(p_job ->> 'by', session_user::text),
         p_job ->> 'trace'
    from sluice.workflows w where w.name = p_job ->> 'task'
  returning id into v_id;
  if p_job ->> 'key' is not null then
    insert into sluice.job_keys (task, key, job_id) values (p_job ->> 'task', p_job ->> 'key', v_id);
  end if;
  insert into sluice.composites (job_id, ready_at, started_at, graph, node, timeout_ms)
  select v_id, v_due, case when v_due <= v_now then v_now end, w.graph, w.name, w.timeout_ms
    from sluice.workflows w where w.name = p_job ->> 'task';
  if v_due > v_now then
    insert into sluice.queue (id, ready_at, state, keyed) values (v_id, v_due, 'scheduled', p_job ->> 'key' is not null);
  else
    perform sluice.start_composite_v1(v_id);
  end if;
  return v_id;
end $function$;

--- function sluice.intern_class_v1(p_task text, p_lane text, p_model text, p_requires jsonb, p_budgeted boolean, p_chosen boolean)
CREATE OR REPLACE FUNCTION sluice.intern_class_v1(p_task text, p_lane text, p_model text, p_requires jsonb, p_budgeted boolean DEFAULT NULL::boolean, p_chosen boolean DEFAULT false)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_id       integer;
  v_budgeted boolean;
  v_lane     text := sluice.live_lane_v1(p_lane);
begin
  loop
    select c.id, c.budgeted into v_id, v_budgeted from sluice.classes c
     where c.task = p_task and c.lane = v_lane and c.model is not distinct from p_model and c.requires = p_requires and c.chosen = p_chosen;
    exit when found;
    if v_lane is null then
      raise exception 'lane % does not exist; existing lanes: %', to_json(p_lane),
        (select string_agg(l.name, ', ' order by l.name)
           from (select k.name from sluice.lanes k where k.deleted_at is null order by k.name limit 20) l)
        using errcode = 'SL003', detail = p_lane;
    end if;
    insert into sluice.classes (task, lane, model, requires, budgeted, chosen)
      values (p_task, v_lane, p_model, p_requires,
              coalesce(p_budgeted, exists (select 1 from sluice.tasks t where t.name = p_task and t.uses is not null)), p_chosen)
      on conflict do nothing;
    perform pg_notify('sluice', 'classes');
  end loop;
  if v_budgeted <> p_budgeted then
    update sluice.classes c set budgeted = p_budgeted where c.id = v_id;
    perform pg_notify('sluice', 'classes');
  end if;
  return v_id;
end $function$;

--- function sluice.is_cause_v1(p_job sluice.jobs)
CREATE OR REPLACE FUNCTION sluice.is_cause_v1(p_job sluice.jobs)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_job.parent_id is not null and sluice.is_replaced_v1(p_job.superseded_at, p_job.root_id, p_job.parent_id) then
    return false;
  elsif p_job.composite is null then
    return true;
  elsif p_job.composite = 'fanout' then
    return coalesce((select c.failed = 0 from sluice.composites c where c.job_id = p_job.id), true);
  end if;
  return not exists (select 1 from sluice.jobs k where k.parent_id = p_job.id and k.superseded_at is null and k.state = 'failed');
end $function$;

--- function sluice.is_fresh_v1(p_measured_at timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.is_fresh_v1(p_measured_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
RETURN COALESCE((p_measured_at > (clock_timestamp() - '00:00:15'::interval)), false);

--- function sluice.is_idle_v1(p_worker bigint, p_known bigint, p_lanes text[], p_run integer[], p_keep integer[])
CREATE OR REPLACE FUNCTION sluice.is_idle_v1(p_worker bigint, p_known bigint, p_lanes text[], p_run integer[], p_keep integer[])
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return not exists (select 1 from sluice.holdings h cross join lateral (select array_position(p_lanes, h.lane) as ord offset 0) l
                      where h.worker_id = p_worker and (h.wants or h.slots > 0)
                        and (h.wants or h.slots > greatest(p_run[l.ord], p_keep[l.ord])))
     and not exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.seq > p_known);
end $function$;

--- function sluice.is_replaced_v1(p_superseded_at timestamp with time zone, p_root bigint, p_parent bigint)
CREATE OR REPLACE FUNCTION sluice.is_replaced_v1(p_superseded_at timestamp with time zone, p_root bigint, p_parent bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_at    bigint := p_parent;
  v_since timestamptz := p_superseded_at;
begin
  if v_since is null and v_at is not null then
    perform 1 from sluice.job_data s where s.root_id = p_root and s.superseded_at is not null limit 1;
    if not found then
      return false;
    end if;
  end if;
  while v_since is null and v_at is not null loop
    select j.parent_id, j.superseded_at into v_at, v_since from sluice.job_data j where j.id = v_at;
  end loop;
  return v_since is not null;
end $function$;

--- function sluice.job_reservations_v1(p_start jsonb, p_uses jsonb, p_first boolean, p_devices integer)
CREATE OR REPLACE FUNCTION sluice.job_reservations_v1(p_start jsonb, p_uses jsonb, p_first boolean, p_devices integer)
 RETURNS TABLE(budget text, device text, amount double precision)
 LANGUAGE sql
 STABLE
AS $function$
  select p.budget, p.device,
         case when p_first then p.resident else 0 end
         + case when p_uses is null then p."perJob"
                else o.amount end
    from jsonb_to_recordset(p_start -> 'deviceUses') as p(budget text, device text, resident double precision, "perJob" double precision)
   cross join lateral (
     select case when coalesce(max((a.amount ->> 'devices')::integer), 1) = p_devices
                 then coalesce(sum((a.amount ->> 'each')::double precision) filter (where a.each_job), 0) end as amount
       from (select u.key, u.value, p_start ->> 'model' is null from jsonb_each(p_uses -> 'uses') u
             union all select u.key, u.value, true from jsonb_each(p_uses -> 'perJob') u) a(budget, amount, each_job)
      where a.budget = p.budget) o
  union all
  select s.key, '', case when p_uses is null then s.value::double precision else coalesce((
           select sum((a.amount ->> 'each')::double precision)
             from (select * from jsonb_each(p_uses -> 'uses') union all select * from jsonb_each(p_uses -> 'perJob')) a(budget, amount)
            where a.budget = s.key), 0) end
    from jsonb_each_text(p_start -> 'shared') s
$function$;

--- function sluice.jobs_by_id_v1(p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.jobs_by_id_v1(p_ids bigint[])
 RETURNS SETOF sluice.jobs
 LANGUAGE plpgsql
 STABLE ROWS 50
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  -- Leaves that neither wait nor have ended: they run, or are assigned.
  v_held bigint[] := array(
    select d.id from sluice.job_data d
     where d.id = any (p_ids) and d.composite is null and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0)
       and not exists (select 1 from sluice.queue q where q.id = d.id offset 0));
begin
  return query
  select j.* from sluice.jobs j where j.id = any (array(select unnest(p_ids) except select unnest(v_held)));
  if v_held <> '{}' then
    return query
    select d.id, d.submitted_at, r.ready_at, case when not r.assigned then r.started_at end, null::timestamptz, r.deadline_at, r.cancel_at,
           d.deadline_ms, r.worker_id,
           d.parent_id, d.root_id, d.class_id,
           case when r.assigned then 'ready' else 'running' end::sluice.job_state, d.composite, 0, d.priority, r.attempt, d.idx, r.failures, r.losses,
           d.task, d.step, d.key, d.key_owner, d.tags, d.input, null::jsonb, r.error, d.submitted_by, d.policy, d.superseded_at, d.trace,
           d.uses, d.chosen_by, d.approved_by
      from sluice.claims_of_v1(v_held) f
      join sluice.claimed r on r.worker_id = f.worker_id and r.seq = f.seq and r.id = f.id
      join sluice.job_data d on d.id = f.id;
  end if;
end $function$;

--- function sluice.jobs_of_owner_v1(p_owner text, p_listed boolean)
CREATE OR REPLACE FUNCTION sluice.jobs_of_owner_v1(p_owner text, p_listed boolean)
 RETURNS bigint[]
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
begin
  if p_listed then
    return array(select distinct d.id from sluice.owner_charges c, unnest(c.ids) u(id), sluice.job_data d
                  where c.owner = p_owner and d.id = u.id and not exists (select 1 from sluice.outcomes o where o.id = d.id));
  end if;
  return array(select r.id from sluice.unended_roots_v1() r where r.submitted_by = p_owner);
end $function$;

--- function sluice.jobs_to_yield_to_v1(p_ready sluice.cycle_class_v1[], p_classes integer[], p_class_lane integer[], p_ahead integer[], p_names text[], p_lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.jobs_to_yield_to_v1(p_ready sluice.cycle_class_v1[], p_classes integer[], p_class_lane integer[], p_ahead integer[], p_names text[], p_lanes sluice.cycle_lane_v1[])
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  with ready as materialized (
    select c.id, c.lane, c.rank, c.after, c.most, a.ahead < 0 as is_yielded_to
      from unnest(p_ready) c join unnest(p_classes, p_ahead) a(id, ahead) on a.id = c.id
     where c.most > 0)
  select jsonb_object_agg(y.name, y.jobs)
    from (select p_lanes[c.lane].name as name,
                 jsonb_agg(jsonb_build_object('rank', f.rank, 'id', f.id::text) order by f.rank, f.id) as jobs
            from ready c
            left join lateral (select h.rank, h.id
                                 from ready o cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1) h
                                where o.lane = c.lane and not o.is_yielded_to order by h.rank, h.id limit 1) n on true
           cross join lateral (select h.rank, h.id from sluice.ready_v1(c.id, c.rank, c.after, least(16, c.most)) h
                                where n.id is null or (h.rank, h.id) < (n.rank, n.id)) f
           where c.is_yielded_to and p_lanes[c.lane].run > 0
             and not exists (select 1 from sluice.classes k where k.id = c.id and k.budgeted)
             and exists (select 1 from unnest(p_class_lane, p_ahead) a(lane, ahead) where a.ahead >= 0 and p_names[a.lane] = p_lanes[c.lane].name)
           group by 1) y
$function$;

--- function sluice.lane_locks_v1()
CREATE OR REPLACE FUNCTION sluice.lane_locks_v1()
 RETURNS TABLE(lane text, pid integer)
 LANGUAGE plpgsql
AS $function$
declare
  v_held  jsonb := (select coalesce(jsonb_object_agg(k.transactionid::text, k.pid), '{}')
                      from pg_locks k left join pg_stat_activity a on a.pid = k.pid
                     where k.locktype = 'transactionid' and k.granted and k.pid is distinct from pg_backend_pid()
                       and coalesce(a.xact_start < clock_timestamp() - interval '1 second', true));
  v_found text;
begin
  if v_held = '{}' then
    return;
  end if;
  for lane, v_found in select l.name, l.xmax::text from sluice.lanes l where l.deleted_at is null and l.xmax <> '0'::xid order by l.name loop
    if not v_held ? v_found then
      begin
        select m.xid::text into v_found from pg_get_multixact_members(v_found::xid) m where m.mode <> 'keysh' and v_held ? m.xid::text limit 1;
      exception when others then
        v_found := null;   -- no multixact, or one of long ago
      end;
    end if;
    if v_held ? v_found then
      perform 1 from sluice.lanes l where l.name = lane for no key update skip locked;
      if not found then
        pid := (v_held ->> v_found)::integer;
        return next;
      end if;
    end if;
  end loop;
end $function$;

--- function sluice.lane_use_v1(p_name text)
CREATE OR REPLACE FUNCTION sluice.lane_use_v1(p_name text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_tasks   text[] := array(select t.name from sluice.tasks t where p_name in (t.lane, t.declared_lane) order by t.name limit 4);
  v_classes integer[] := array(select c.id from sluice.classes c where c.lane = p_name);
begin
  return case
    when v_tasks <> '{}' then 'tasks run in it: ' || array_to_string(v_tasks[:3], ', ')
                              || case when cardinality(v_tasks) > 3 then ' and others' else '' end
    when exists (select 1 from sluice.claimed r where r.class_id = any (v_classes)) then 'jobs run in it'
    -- A state at a time, as the indexes have them.
    when exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'ready')
      or exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'scheduled')
      or exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'awaiting_approval')
      or exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'waiting') then 'jobs wait in it'
    when exists (select 1 from sluice.lanes l where l.name = p_name and l.declared <> '{}') then 'a file or a program declares it' end;
end $function$;

--- function sluice.largest_v1(p_budget text)
CREATE OR REPLACE FUNCTION sluice.largest_v1(p_budget text)
 RETURNS double precision
 LANGUAGE sql
 STABLE
AS $function$
  select nullif(max(coalesce(sluice.capacity_v1(d), 'Infinity')), 'Infinity') from sluice.devices d where d.budget = p_budget
$function$;

--- function sluice.late_concerns_v1()
CREATE OR REPLACE FUNCTION sluice.late_concerns_v1()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  with near as materialized (
    select f.* from (
      select q.id, d.task, q.deadline_at, coalesce(d.deadline_ms, extract(epoch from q.deadline_at - q.ready_at) * 1000) as allowed_ms,
             extract(epoch from q.deadline_at - clock_timestamp()) * 1000 as left_ms
        from (select j.id, j.deadline_at, j.ready_at from sluice.queue j
               where j.state = 'ready' and j.deadline_at is not null order by j.deadline_at limit 100) q
        join sluice.job_data d on d.id = q.id) f
     where f.left_ms <= f.allowed_ms / 5
  ), overdue(name, late_ms) as materialized (
    select o.name, extract(epoch from clock_timestamp() - o.since) * 1000 - o.grace_ms from (
      select 'promote', (select min(j.ready_at) from sluice.queue j where j.state = 'scheduled'), 0
      union all
      select 'expire', (select min(j.deadline_at) from sluice.queue j where j.state = 'ready' and j.deadline_at is not null), 0
      union all
      -- After an outage nobody is taken over before all had time to report.
      select 'recover', (select greatest(min(w.seen_at), (select k.since from sluice.watch k))
                           -- Asked of each worker: as a join, all claims would be opened for each.
                           from (select x.seen_at, exists (select 1 from sluice.running j where j.worker_id = x.id) as busy
                                   from sluice.workers x where x.ended_at is null offset 0) w
                          where w.busy having count(*) > 0),
             (select max(l.stale_ms) from sluice.lanes l)
      union all
      select 'sample', d.ran_at, 2000 from sluice.duties d
       where d.name = 'sample' and exists (select 1 from sluice.classes c
                                            where exists (select 1 from sluice.queue x where x.class_id = c.id and x.state = 'ready'))
      union all
      select d.name, d.ran_at, case d.name when 'prune' then 60000 else 30000 end from sluice.duties d where d.name in ('reconcile', 'prune')
    ) o(name, since, grace_ms) where o.since is not null
  )
  select jsonb_build_object(
    'deadline', (select jsonb_build_object('id', n.id::text, 'task', n.task, 'leftMs', round(n.left_ms), 'allowedMs', n.allowed_ms,
                                           'others', (select count(*) - 1 from near))
                   from near n order by n.deadline_at limit 1),
    'unattendedMs', (select round(extract(epoch from clock_timestamp() - k.last_at) * 1000) from sluice.watch k),
    'duties', (select coalesce(jsonb_agg(jsonb_build_object('name', d.name, 'lateMs', d.late_ms, 'error', d.error) order by d.name), '[]')
                 from (select coalesce(o.name, f.name) as name, coalesce(round(greatest(o.late_ms, 0)), 0) as late_ms, f.error
                         from overdue o
                         full join (select k.name, k.error from sluice.duties k where k.failed_at >= k.ran_at) f on f.name = o.name
                        where o.late_ms > 10000 or f.name is not null) d))
$function$;

--- function sluice.leaves_audit_entry_v1(p_jobs jsonb)
CREATE OR REPLACE FUNCTION sluice.leaves_audit_entry_v1(p_jobs jsonb)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (jsonb_path_exists(p_jobs, '$[*]."audit"'::jsonpath) OR (NOT has_table_privilege(SESSION_USER, 'sluice.audit'::text, 'insert'::text)));

--- function sluice.ledger_v1()
CREATE OR REPLACE FUNCTION sluice.ledger_v1()
 RETURNS SETOF sluice.charges
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  v_row sluice.charges;
begin
  for v_row in select * from sluice.charges c order by c.seq desc loop
    return next v_row;
    exit when v_row.base;
  end loop;
end $function$;

--- function sluice.limit_schedules()
CREATE OR REPLACE FUNCTION sluice.limit_schedules()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_limit bigint := (select s.value from sluice.settings s where s.name = 'schedules_per_owner');
  v_owner text;
begin
  for v_owner in select distinct a.owner from added a where a.declared is null order by 1 loop
    -- Two that create at once would not count each other.
    perform pg_advisory_xact_lock(1936485737, hashtext('schedules of ' || v_owner));
    if (select count(*) from sluice.schedules s where s.owner = v_owner and s.declared is null) > v_limit then
      raise exception '% has as many schedules as one owner may have: %. Delete one, or raise schedulesPerOwner', v_owner, v_limit
        using errcode = 'SL012', detail = jsonb_build_object('owner', v_owner, 'limit', v_limit);
    end if;
  end loop;
  return null;
end $function$;

--- function sluice.list_active_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_match jsonb, p_before bigint, p_after bigint, p_look integer)
CREATE OR REPLACE FUNCTION sluice.list_active_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_match jsonb, p_before bigint, p_after bigint, p_look integer)
 RETURNS bigint[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_looks text[] := '{}';
  v_state sluice.job_state;
  v_found bigint[];
  v_seen  bigint;
begin
  foreach v_state in array '{ready,scheduled,awaiting_approval,running}'::sluice.job_state[] loop
    continue when p_filter ? 'states' and not v_state = any (p_states);
    -- The order is that of the index of the state. The conditions need whole rows of ready jobs, which sluice.ready_v1 does not answer.
    v_looks := v_looks || case v_state
      when 'running' then
        case when p_filter ? 'unstarted' then '{}'
             else array[format('(select r.id, %s as fits from sluice.running r limit %s)', p_match ->> 'r', p_look)] end
        || array[format('(select c.job_id, %s from sluice.composites c where not c.ended and c.started_at is not null order by c.job_id limit %s)',
               p_match ->> 'c', p_look)]
      when 'ready' then array[
        format('(select r.id, %s as fits from sluice.assigned_jobs_v1() r limit %s)', p_match ->> 'r', p_look),
        case when p_classes is null
        then format('(select q.id, %s as fits from sluice.queue q where q.state = ''ready'' order by q.class_id, q.rank, q.id limit %s)',
                    p_match ->> 'q', p_look)
        else format('(select q.id, %s as fits from unnest(%L::integer[]) k(id) cross join lateral (
                        select * from sluice.queue q where q.state = ''ready'' and q.class_id = k.id
                         order by q.class_id, q.rank, q.id limit %3$s) q limit %3$s)',
                    p_match ->> 'q', p_classes, p_look) end]
      else array[format('(select q.id, %s as fits from sluice.queue q where q.state = %L order by %s limit %s)', p_match ->> 'q', v_state,
                        case v_state when 'scheduled' then 'q.ready_at' else 'q.id' end, p_look)] end;
  end loop;
  if v_looks = '{}' then
    return v_looks;
  end if;
  execute format('select count(*), array_agg(a.id) filter (where a.fits and a.id < %s and a.id > %s) from (%s) a(id, fits)',
                 p_before, p_after, array_to_string(v_looks, ' union all '))
     into v_seen, v_found;
  return case when v_seen < p_look then coalesce(v_found, '{}') end;
end $function$;

--- function sluice.list_conditions_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_active boolean, OUT match jsonb, OUT rest text, OUT by_life boolean)
CREATE OR REPLACE FUNCTION sluice.list_conditions_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_active boolean, OUT match jsonb, OUT rest text, OUT by_life boolean)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_children boolean := p_filter ? 'children';
  v_lives    jsonb;     -- what is asked of the row that has the state, by the letter of its table
  v_data     text;      -- what is asked of job_data, as d; the task and the lane come beside it
  v_kept     text;      -- where children are asked for: whether a rerun has left it in its place
  v_at       text;
begin
  select jsonb_object_agg(t, sluice.list_life_v1(p_filter, p_states, t)) into v_lives from unnest(array['o', 'q', 'r', 'c']) t;
  v_data := case when p_filter ? 'key' then format(' and d.key = %L', p_filter ->> 'key') else '' end
    || case when p_filter ? 'tag' then format(' and %L = any (d.tags)', p_filter ->> 'tag') else '' end
    || case when p_filter ? 'by' then format(' and d.submitted_by = %L', p_filter ->> 'by') else '' end
    || case when p_filter ? 'submittedFrom' then format(' and d.submitted_at >= %L', p_filter ->> 'submittedFrom') else '' end
    || case when p_filter ? 'submittedTo' then format(' and d.submitted_at < %L', p_filter ->> 'submittedTo') else '' end;
  v_kept := case when v_children then '(d.parent_id is null or not sluice.is_replaced_v1(d.superseded_at, d.root_id, d.parent_id))' end;
  -- Only what has ended can have been replaced.
  rest := v_data || coalesce(' and ' || v_kept, '');
  by_life := p_filter ?| array['states', 'unstarted'] or v_lives ->> 'o' <> '' or v_lives ->> 'r' <> '';

  match := jsonb_build_object(
    'd', coalesce(v_kept, 'd.parent_id is null')
      || case when p_filter ? 'task' then format(' and d.task = %L', p_filter ->> 'task') else '' end
      || case when p_filter ? 'lane' then format(' and d.class_id = any (%L::integer[])', p_classes) else '' end
      || v_data,
    'c', case when p_filter ? 'lane' then 'false' else 'true' end || (v_lives ->> 'c')
      || format(' and (select true%s from sluice.job_data d where d.id = c.job_id)',
           case when v_children then '' else ' and d.parent_id is null' end
           || case when p_filter ? 'task' then format(' and d.task = %L', p_filter ->> 'task') else '' end || v_data));
  foreach v_at in array array['o', 'q', 'r'] loop
    match := match || jsonb_build_object(v_at, case when v_children then 'true' when v_at = 'o' then 'o.is_root' else v_at || '.parent_id is null' end
      || (v_lives ->> v_at)
      -- A class has one task, and composites have no class.
      || case when p_classes is null then ''
              when p_filter ? 'lane' then format(' and %s.class_id = any (%L::integer[])', v_at, p_classes)
              else format(' and case when %1$s.class_id is not null then %1$s.class_id = any (%2$L::integer[])
                                     else (select d.task = %3$L from sluice.job_data d where d.id = %1$s.id) end', v_at, p_classes,
                                     p_filter ->> 'task') end);
    if v_at <> 'o' and v_data <> '' then
      match := match || jsonb_build_object(v_at,
        format('case when %s then (select true%s from sluice.job_data d where d.id = %s.id) else false end', match ->> v_at, v_data, v_at));
    end if;
  end loop;
  if by_life then
    -- Most have ended: that is one look.
    match := match || jsonb_build_object('d', format(
      'case when %s then coalesce((select coalesce(true%s, false) from sluice.outcomes o where o.id = d.id), %s) else false end',
      match ->> 'd', v_lives ->> 'o', case when p_active then sluice.list_unended_v1(p_filter, p_states, v_lives) else 'false' end));
  end if;
end $function$;

--- function sluice.list_jobs_v1(p_filter jsonb, p_before bigint, p_limit integer, p_look integer, OUT ids bigint[], OUT next bigint)
CREATE OR REPLACE FUNCTION sluice.list_jobs_v1(p_filter jsonb, p_before bigint, p_limit integer, p_look integer, OUT ids bigint[], OUT next bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET hash_mem_multiplier TO '16'
AS $function$
declare
  c_slack   constant interval := '1 minute';   -- twice as long as a statement that stores jobs may take
  v_states  sluice.job_state[] := array(select s::sluice.job_state from jsonb_array_elements_text(p_filter -> 'states') s);
  v_before  bigint      := coalesce(p_before, 9223372036854775807);
  v_after   bigint      := 0;
  v_classes integer[];              -- where a task or a lane is asked for: the classes it has
  v_active  boolean     := true;    -- jobs that have not ended may match; jobs that have
  v_ended   boolean     := true;
  v_asked   record;                 -- what a row has to fulfil
  v_all     text;                   -- all jobs downwards; all that have ended
  v_all_ended text;
  v_part    record;                 -- what a part of this answers
  v_sources text[];
  v_source  text;
  v_rest    text;
  v_dense   boolean;
  v_listed  bigint[]    := '{}';
  v_stop    bigint      := 0;       -- below it nothing is known
begin
  if p_filter ? 'states' then
    v_active := exists (select 1 from unnest(v_states) s where s < 'completed');
    v_ended := exists (select 1 from unnest(v_states) s where s >= 'completed');
  end if;
  v_active := v_active and not p_filter ?| array['finishedFrom', 'finishedTo'];
  if p_filter ?| array['task', 'lane'] then
    select coalesce(array_agg(c.id), '{}') into v_classes from sluice.classes c
     where (not p_filter ? 'task' or c.task = p_filter ->> 'task') and (not p_filter ? 'lane' or c.lane = p_filter ->> 'lane');
  end if;
  if p_filter ?| array['submittedTo', 'finishedTo'] then
    v_before := least(v_before, sluice.id_at_v1(
      least((p_filter ->> 'submittedTo')::timestamptz, (p_filter ->> 'finishedTo')::timestamptz) + c_slack));
  end if;
  if p_filter ? 'submittedFrom' then
    v_after := sluice.id_at_v1((p_filter ->> 'submittedFrom')::timestamptz - c_slack) - 1;
  end if;

  v_asked := sluice.list_conditions_v1(p_filter, v_states, v_classes, v_active);
  v_all := format('d from sluice.job_data d where d.id < %s and d.id > %s order by d.id desc', v_before, v_after);
  v_all_ended := format('o from sluice.outcomes o where o.id < %s and o.id > %s order by o.id desc', v_before, v_after);
  v_part := sluice.list_sources_v1(p_filter, v_states, v_classes, v_active, v_ended, v_asked.by_life, v_all, v_all_ended, v_before, v_after);
  v_sources := v_part.sources;
  if v_part.adds_active then
    v_listed := sluice.list_active_v1(p_filter, v_states, v_classes, v_asked.match, v_before, v_after, p_look);
    if v_listed is null then
      v_sources := array[v_all];   -- too many to sort: all jobs are read downwards instead
      v_listed := '{}';
    end if;
  end if;

  foreach v_source in array v_sources loop
    v_rest := case when left(v_source, 1) = 'o' then v_asked.rest else '' end;
    v_dense := v_source in (v_all, v_all_ended);
    -- Where each outcome costs a look at its job as well, a third as many: before PostgreSQL 17 they are found one by one.
    v_part := sluice.read_source_v1(v_source, v_asked.match ->> left(v_source, 1), v_rest, p_limit,
                                    greatest(case when v_dense then p_look else p_look / 5 end / case when v_rest <> '' then 3 else 1 end, 1),
                                    v_dense and not p_filter ? 'children');
    v_listed := v_listed || v_part.ids;
    v_stop := greatest(v_stop, v_part.stop);
  end loop;

  ids := array(select distinct a from unnest(v_listed) a where a >= v_stop order by a desc limit p_limit + 1);
  if cardinality(ids) > p_limit then
    next := ids[p_limit];
    ids := ids[:p_limit];
  elsif v_stop > 0 then
    next := v_stop;
  end if;
end $function$;

--- function sluice.list_life_v1(p_filter jsonb, p_states sluice.job_state[], p_table text)
CREATE OR REPLACE FUNCTION sluice.list_life_v1(p_filter jsonb, p_states sluice.job_state[], p_table text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return case when p_filter ? 'states' and p_table = 'o' then format(' and o.state = any (%L::sluice.job_state[])', p_states) else '' end
    || case when p_filter ? 'finishedFrom' and p_table = 'o' then format(' and o.finished_at >= %L', p_filter ->> 'finishedFrom') else '' end
    || case when p_filter ? 'finishedTo' and p_table = 'o' then format(' and o.finished_at < %L', p_filter ->> 'finishedTo') else '' end
    -- A composite that runs has neither failures nor losses.
    || case when not p_filter ? 'again' then ''
            when p_table = 'c' then case p_filter ->> 'again' when 'true' then ' and false' else '' end
            when p_filter ->> 'again' = 'true' then format(' and (%1$s.failures > 0 or %1$s.losses > 0)', p_table)
            else format(' and %1$s.failures = 0 and %1$s.losses = 0', p_table) end
    || case when p_filter ? 'error'
            then format(' and strpos(lower(%s), %L) > 0',
                        case p_table when 'c' then 'c.cancel_error' else p_table || '.error' end, p_filter ->> 'error')
            else '' end;
end $function$;

--- function sluice.list_line_v1(p_filter jsonb, p_rank integer, p_after bigint, p_limit integer, p_look integer, OUT ids bigint[], OUT next_rank integer, OUT next_id bigint)
CREATE OR REPLACE FUNCTION sluice.list_line_v1(p_filter jsonb, p_rank integer, p_after bigint, p_limit integer, p_look integer, OUT ids bigint[], OUT next_rank integer, OUT next_id bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  c_assigned constant integer := -2147483648;   -- before every rank
  v_rank     integer := coalesce(p_rank, c_assigned);
  v_after    bigint  := coalesce(p_after, 0);
  v_classes  integer[];
  v_match    jsonb;
  v_look     integer;
  v_page     record;
begin
  select coalesce(array_agg(c.id), '{}') into v_classes from sluice.classes c
   where (not p_filter ? 'task' or c.task = p_filter ->> 'task') and (not p_filter ? 'lane' or c.lane = p_filter ->> 'lane');
  select c.match into v_match
    from sluice.list_conditions_v1(p_filter, '{ready}', case when p_filter ?| array['task', 'lane'] then v_classes end, true) c;
  v_look := case when p_filter ? 'children' and not p_filter ?| array['key', 'tag', 'by', 'submittedFrom', 'submittedTo', 'error', 'again']
                 then p_limit + 1 else greatest(p_look, p_limit + 1) end;
  execute format(
    'with looked as materialized (
       select l.id, l.rank, l.fits
         from ((select r.id, %1$s as rank, %2$s as fits from sluice.assigned_jobs_v1() r
                 where %4$s = %1$s and r.id > %5$s order by r.id limit %6$s)
               union all
               (select q.id, q.rank, %3$s
                  from unnest($1) k(id) cross join lateral (
                    select * from sluice.queue q
                     where q.state = ''ready'' and q.class_id = k.id and (q.rank, q.id) > (%4$s, case when %4$s = %1$s then 0 else %5$s end)
                     order by q.class_id, q.rank, q.id limit %6$s) q
                 order by q.rank, q.id limit %6$s)) l
        order by l.rank, l.id limit %6$s),
     found as materialized (select l.id, l.rank from looked l where l.fits order by l.rank, l.id limit %7$s)
     select array(select f.id from found f order by f.rank, f.id) as ids, array(select f.rank from found f order by f.rank, f.id) as ranks,
            (select count(*) from looked) as seen,
            (select array[l.rank, l.id] from looked l order by l.rank desc, l.id desc limit 1) as last',
    c_assigned, v_match ->> 'r', v_match ->> 'q', v_rank, v_after, v_look, p_limit + 1)
    into v_page using v_classes;
  ids := v_page.ids[:p_limit];
  if cardinality(v_page.ids) > p_limit then
    next_rank := v_page.ranks[p_limit];
    next_id := v_page.ids[p_limit];
  elsif v_page.seen >= v_look then
    next_rank := v_page.last[1];
    next_id := v_page.last[2];
  end if;
end $function$;

--- function sluice.list_sources_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_active boolean, p_ended boolean, p_by_life boolean, p_all text, p_all_ended text, p_before bigint, p_after bigint, OUT sources text[], OUT adds_active boolean)
CREATE OR REPLACE FUNCTION sluice.list_sources_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_active boolean, p_ended boolean, p_by_life boolean, p_all text, p_all_ended text, p_before bigint, p_after bigint, OUT sources text[], OUT adds_active boolean)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  c_most constant integer := 20;   -- classes that are asked one by one
begin
  adds_active := p_active;
  if p_filter ? 'key' then
    -- The index of keys begins with the task: without one, it is asked for each task that has keys.
    sources := array(
      with recursive named as (
        (select d.task from sluice.job_data d where d.key is not null order by d.task limit 1)
        union all
        select (select d.task from sluice.job_data d where d.key is not null and d.task > n.task order by d.task limit 1)
          from named n where n.task is not null)
      select format('d from sluice.job_data d where d.key is not null and (d.task, d.key, d.id) < (%1$L, %2$L, %3$s)
                                                         and (d.task, d.key, d.id) > (%1$L, %2$L, %4$s)
                     order by d.task desc, d.key desc, d.id desc', t.task, p_filter ->> 'key', p_before, p_after)
        from (select p_filter ->> 'task' as task where p_filter ? 'task'
              union all
              select distinct c.task from sluice.classes c where c.id = any (p_classes) and not p_filter ? 'task'
              union all
              select n.task from named n where p_classes is null and n.task is not null) t);
    adds_active := false;
  elsif not p_ended then
    sources := '{}';
  elsif p_filter ? 'children' then
    -- No index has children by anything but their place.
    sources := array[case when p_active or p_filter ?| array['tag', 'submittedFrom', 'submittedTo'] then p_all else p_all_ended end];
    adds_active := false;
  elsif p_filter ? 'error' or p_filter ? 'states' and not exists (select 1 from unnest(p_states) s where s <= 'completed') then
    sources := array[format('o from sluice.outcomes o where o.is_root and o.state > ''completed'' and o.id < %s and o.id > %s order by o.id desc',
                            p_before, p_after)];
  elsif p_filter ? 'by' then
    sources := array[format('d from sluice.job_data d where d.parent_id is null
                               and (d.submitted_by, d.id) < (%1$L, %2$s) and (d.submitted_by, d.id) > (%1$L, %3$s)
                             order by d.submitted_by desc, d.id desc', p_filter ->> 'by', p_before, p_after)];
    adds_active := false;
  elsif cardinality(p_classes) <= c_most then
    sources := array(select format('o from sluice.outcomes o where o.is_root and (o.class_id, o.id) < (%1$s, %2$s)
                                                          and (o.class_id, o.id) > (%1$s, %3$s)
                                    order by o.class_id desc, o.id desc', c, p_before, p_after) from unnest(p_classes) c);
    if not p_filter ? 'lane' then
      sources := sources || format('d from sluice.job_data d where d.parent_id is null and d.composite is not null
                                      and (d.task, d.id) < (%1$L, %2$s) and (d.task, d.id) > (%1$L, %3$s)
                                    order by d.task desc, d.id desc', p_filter ->> 'task', p_before, p_after);
    end if;
  elsif p_by_life and not p_filter ?| array['tag', 'submittedFrom', 'submittedTo'] then
    sources := array[p_all_ended];
  else
    sources := array[p_all];
    adds_active := false;
  end if;
end $function$;

--- function sluice.list_unended_v1(p_filter jsonb, p_states sluice.job_state[], p_lives jsonb)
CREATE OR REPLACE FUNCTION sluice.list_unended_v1(p_filter jsonb, p_states sluice.job_state[], p_lives jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_held text;   -- what is asked of a leaf that a worker has
begin
  v_held := case
    when p_filter ? 'unstarted' then
      case when not p_filter ? 'states' or 'ready' = any (p_states)
           then format('d.id in (select r.id from sluice.assigned_jobs_v1() r where true%s)', p_lives ->> 'r') else 'false' end
    when not p_filter ? 'states' or p_states @> '{ready,running}' then
      case p_lives ->> 'r' when '' then 'true' else format('d.id in (select r.id from sluice.claimed r where true%s)', p_lives ->> 'r') end
    when 'ready' = any (p_states) then format('d.id in (select r.id from sluice.assigned_jobs_v1() r where true%s)', p_lives ->> 'r')
    when not 'running' = any (p_states) then 'false'
    when p_lives ->> 'r' = '' then 'd.id not in (select r.id from sluice.assigned_jobs_v1() r)'
    else format('d.id in (select r.id from sluice.running r where true%s)', p_lives ->> 'r') end;
  return format('coalesce((select coalesce(%s%s, false) from sluice.queue q where q.id = d.id), case when d.composite is null then %s else %s end)',
    case when p_filter ? 'states' then format('q.state = any (%L::sluice.job_state[])', p_states) else 'true' end, p_lives ->> 'q',
    v_held,
    case when p_filter ? 'states' and not 'running' = any (p_states) then 'false'
         else format('(select coalesce(true%s, false) from sluice.composites c where c.job_id = d.id)', p_lives ->> 'c') end);
end $function$;

--- function sluice.live_lane_v1(p_name text)
CREATE OR REPLACE FUNCTION sluice.live_lane_v1(p_name text)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (SELECT CASE WHEN (l.deleted_at IS NULL) THEN l.name ELSE l.deleted_to END AS deleted_to FROM sluice.lanes l WHERE (l.name = live_lane_v1.p_name));

--- function sluice.lock_jobs_v1(p_now timestamp with time zone, p_classes sluice.cycle_class_v1[], p_counts integer[], INOUT lanes sluice.cycle_lane_v1[], OUT picked tid[], OUT expired boolean)
CREATE OR REPLACE FUNCTION sluice.lock_jobs_v1(p_now timestamp with time zone, p_classes sluice.cycle_class_v1[], p_counts integer[], INOUT lanes sluice.cycle_lane_v1[], OUT picked tid[], OUT expired boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_lanes integer[];
  v_late  bigint[];
begin
  expired := false;
  loop
    select array_agg(x.ctid) filter (where not x.late), array_agg(c.lane) filter (where not x.late), array_agg(x.id) filter (where x.late)
      into picked, v_lanes, v_late
      from unnest(p_classes) with ordinality c
     cross join lateral (select q.ctid, q.id, coalesce(q.deadline_at <= clock_timestamp(), false) as late
                           from sluice.queue q where q.class_id = c.id and q.state = 'ready' and (q.rank, q.id) > (c.rank, c.after)
                          order by q.rank, q.id limit p_counts[c.ordinality] for update skip locked) x
     -- A class that draws from budgets is taken only as planned, also by a worker that has not heard yet that it does.
     where p_counts[c.ordinality] > 0 and not exists (select 1 from sluice.classes k where k.id = c.id and k.budgeted);
    exit when v_late is null;
    perform sluice.expire_start_deadlines_v1(1000, v_late);
    expired := true;
    exit when clock_timestamp() > p_now + interval '200 milliseconds';
  end loop;
  for i in 1 .. cardinality(lanes) loop
    lanes[i].run := lanes[i].run + coalesce(cardinality(array_positions(v_lanes, i)), 0);
  end loop;
end $function$;

--- function sluice.log_bound_v1(OUT bound bigint, OUT writers text[])
CREATE OR REPLACE FUNCTION sluice.log_bound_v1(OUT bound bigint, OUT writers text[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
begin
  -- The bound first: a writer that comes later gets higher ids.
  select case when s.is_called then s.last_value else 0 end into bound from sluice.logs_id_seq s;
  writers := array(select l.virtualtransaction from pg_locks l
                    where l.locktype = 'relation' and l.relation = 'sluice.logs'::regclass and l.mode = 'RowExclusiveLock' and l.granted
                      and l.database = (select d.oid from pg_database d where d.datname = current_database())
                      and l.pid is distinct from pg_backend_pid());
end $function$;

--- function sluice.maintain_ledger_v1()
CREATE OR REPLACE FUNCTION sluice.maintain_ledger_v1()
 RETURNS boolean
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  v_set  sluice.admission;
  v_last sluice.charges;
begin
  select * into v_set from sluice.admission;
  if not v_set.limited then
    return true;
  end if;
  if v_set.settles_at is null and not v_set.complete then
    if pg_current_xact_id_if_assigned() is null then
      update sluice.admission a set settles_at = pg_current_xact_id() where a.limited and not a.complete and a.settles_at is null;
    end if;
    return false;
  end if;
  if v_set.complete and v_set.max_per_owner is not null then
    perform sluice.maintain_owners_v1();
  end if;
  select * into v_last from sluice.charges c order by c.seq desc limit 1;
  if v_set.complete and v_last.seq = (select n.last_value from sluice.charge_numbers n)
     and v_last.bound < coalesce(v_set.max_active / 2, 2147483647) then
    return true;
  end if;
  select * into v_set from sluice.admission for no key update;
  if v_set.limited and not v_set.complete and v_set.settles_at <= pg_snapshot_xmin(pg_current_snapshot()) then
    update sluice.admission a set complete = true;
    if v_set.max_per_owner is not null then
      delete from sluice.owner_charges;
      insert into sluice.owner_charges (owner, base, ids, bound)
      select r.submitted_by, true, array_agg(r.id), count(*) from sluice.unended_roots_v1() r
       where r.submitted_by is not null group by r.submitted_by;
    end if;
    -- Counted anew once more, with what those transactions left.
    perform sluice.recount_v1(v_set, '{}', null, false);
    return true;
  elsif v_set.limited then
    perform sluice.recount_v1(v_set, '{}', null, false);
  end if;
  return v_set.complete;
end $function$;

--- function sluice.maintain_owners_v1()
CREATE OR REPLACE FUNCTION sluice.maintain_owners_v1()
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
declare
  v_idle   text[] := array(select b.owner from sluice.busiest_owners_v1() b where b.owned * 2 < b.bound limit 20);
  v_owner  text;
  v_active bigint[];
begin
  if v_idle = '{}' or not (select a.complete and a.max_per_owner is not null from sluice.admission a for no key update) then
    return;
  end if;
  foreach v_owner in array v_idle loop
    v_active := sluice.jobs_of_owner_v1(v_owner, true);
    delete from sluice.owner_charges c where c.owner = v_owner;
    insert into sluice.owner_charges (owner, base, ids, bound)
    select v_owner, true, v_active, cardinality(v_active) where v_active <> '{}';
  end loop;
end $function$;

--- function sluice.make_children_v1(p_jobs bigint[], p_children jsonb, p_chunks jsonb, p_now timestamp with time zone, OUT has_woken boolean)
CREATE OR REPLACE FUNCTION sluice.make_children_v1(p_jobs bigint[], p_children jsonb, p_chunks jsonb, p_now timestamp with time zone, OUT has_woken boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_ready boolean;
  v_first jsonb;   -- children of those that were made
begin
  with given as materialized (
    select g.*, g.first is not null and (select c.closing is null from sluice.composites c where c.job_id = g.parent) as begins
      from jsonb_to_recordset(p_children) as g(parent bigint, idx integer, step text, kind sluice.composite_kind, task text, node text,
             input jsonb, state sluice.job_state, error text, "deadlineMs" bigint, "timeoutMs" bigint, policy jsonb, "window" integer,
             total integer, first jsonb)
     where g.parent = any (p_jobs)
  ), refused as materialized (
    select r.* from sluice.refuse_composites_v1(p_children, p_jobs) r
  ), made as materialized (
    -- Numbered in order: the ids of siblings follow their places.
    select nextval('sluice.job_data_id_seq') as id, n.* from (
      select g.parent as parent_id, coalesce(p.root_id, p.id) as root_id, g.idx, g.step, g.kind as composite, g.task, t.class_id, g.input,
             p.priority, sluice.rank_v1(p.priority, l.ageing_ms, p_now) as rank, s.state, d.ms as deadline_ms,
             case when s.state = 'failed' then coalesce(g.error, r.error, 'budget: it ' || (t.refusal ->> 'text'),
                                                        'internal: no task named ' || g.task)
                  else g.error end as error,
             case when t.approval then coalesce(g.policy, '{}') || '{"approval": true}' else g.policy end as policy, p.submitted_by, p.trace
        from given g
        join sluice.job_data p on p.id = g.parent
        left join refused r on r.parent = g.parent and r.idx = g.idx
        left join sluice.tasks t on g.kind is null and t.name = g.task
        left join sluice.lanes l on l.name = t.lane
       cross join lateral (select coalesce(g."deadlineMs", t.deadline_ms, p.deadline_ms, (select a.deadline_ms from sluice.admission a)) as said) c
       -- A composite keeps that there is none, for what is made below it.
       cross join lateral (select case when g.kind is null then nullif(c.said, 0) else c.said end as ms) d
       cross join lateral (select case
           when g.state >= 'completed' then g.state
           when r.error is not null or g.kind is null and (t.name is null or t.refusal is not null) then 'failed'::sluice.job_state
           when g.state = 'waiting' then g.state
           when g.kind is not null then 'running'::sluice.job_state
           when t.approval then 'awaiting_approval'::sluice.job_state
           else 'ready'::sluice.job_state end as state) s
       order by g.parent, g.idx) n
  ), data as (
    insert into sluice.job_data (id, parent_id, root_id, idx, step, composite, task, class_id, input, priority, submitted_at, deadline_ms, policy,
                                 submitted_by, trace)
    select m.id, m.parent_id, m.root_id, m.idx, m.step, m.composite, m.task, m.class_id, m.input, m.priority, p_now, m.deadline_ms, m.policy,
           m.submitted_by, m.trace
      from made m
  ), lined as (
    insert into sluice.queue (id, ready_at, deadline_at, parent_id, idx, class_id, state, rank, guarded)
    select m.id, p_now, case when m.state = 'ready' then p_now + make_interval(secs => m.deadline_ms / 1000.0) end, m.parent_id, m.idx,
           m.class_id, m.state, m.rank, coalesce(m.policy ? 'approval', false)
      from made m where m.state < 'running'
  ), over as (
    insert into sluice.outcomes (id, finished_at, ready_at, class_id, state, is_root, error)
    select m.id, p_now, p_now, m.class_id, m.state, false, m.error from made m where m.state >= 'completed'
  ), halves as (
    insert into sluice.composites (job_id, ready_at, started_at, graph, node, depth, window_size, total, timeout_ms)
    select m.id, p_now, case when m.state = 'running' then p_now end, c.graph, g.node, c.depth + 1, g."window", g.total, g."timeoutMs"
      from made m join given g on g.parent = m.parent_id and g.idx = m.idx join sluice.composites c on c.job_id = m.parent_id
     where m.composite is not null and m.state < 'completed'
    returning job_id, timeout_ms
  ), items as (
    insert into sluice.chunks (job_id, first, items)
    select m.id, k.first, k.items from jsonb_to_recordset(p_chunks) as k(parent bigint, idx integer, first integer, items jsonb)
      join made m on m.parent_id = k.parent and m.idx = k.idx and m.state < 'completed'
  ), woken as (
    insert into sluice.wakeups (job_id, due_at, completed, failed)
    select m.id, p_now, 0, 0 from made m join given g on g.parent = m.parent_id and g.idx = m.idx
     where m.composite is not null and m.state = 'running' and not g.begins
    union all
    select h.job_id, p_now + make_interval(secs => h.timeout_ms / 1000.0), 0, 0
      from halves h join made m on m.id = h.job_id where h.timeout_ms is not null and m.state = 'running'
    union all
    -- What ended as it was made. The parent of a step knows already, except when the task turned out to be unknown.
    select m.parent_id, p_now, 0, count(*)::integer from made m where m.state = 'failed' group by m.parent_id
    returning 1
  )
  select exists (select 1 from made m where m.state = 'ready'), exists (select 1 from woken),
         (select jsonb_agg(f.step || jsonb_build_object('parent', m.id))
            from made m join given g on g.parent = m.parent_id and g.idx = m.idx cross join lateral jsonb_array_elements(g.first) f(step)
           where m.state = 'running' and g.begins)
    into v_ready, has_woken, v_first;
  if v_ready then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_first is not null then
    has_woken := sluice.make_children_v1(array(select (f ->> 'parent')::bigint from jsonb_array_elements(v_first) f), v_first, '[]', p_now)
        or has_woken;
  end if;
end $function$;

--- function sluice.may_claim_v1(p_worker bigint, p_known bigint, p_free integer, p_run integer[], OUT free integer, OUT is_open boolean, OUT capacity integer, OUT cores integer, OUT skip timestamp with time zone, OUT is_waited_for boolean)
CREATE OR REPLACE FUNCTION sluice.may_claim_v1(p_worker bigint, p_known bigint, p_free integer, p_run integer[], OUT free integer, OUT is_open boolean, OUT capacity integer, OUT cores integer, OUT skip timestamp with time zone, OUT is_waited_for boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_row record;
begin
  select w.draining, w.capacity, w.cores, g.skip_before, coalesce(g.claims_open, false) as is_open,
         coalesce(g.id = w.generation, false) as has_reported,
         -- By the bound it looks at nothing old: under a transaction held open the entries of all that has ended since are still there.
         exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.seq > p_known offset 0) as has_newer,
         exists (select 1 from sluice.waiters x where x.until > clock_timestamp() offset 0) as is_waited_for
    into v_row from (select 1) one left join sluice.workers w on w.id = p_worker left join sluice.generation g on g.one;
  if v_row.has_newer then
    raise exception 'worker % runs jobs it does not know of', p_worker using errcode = 'SL001';
  end if;
  if not v_row.is_open and not v_row.has_reported then
    raise exception 'the server has recovered from a crash, and worker % has not said yet what it runs', p_worker using errcode = 'SL001';
  end if;
  is_open := v_row.is_open and not v_row.draining;
  capacity := v_row.capacity;
  cores := v_row.cores;
  skip := v_row.skip_before;
  is_waited_for := v_row.is_waited_for;
  free := case when not is_open then 0
               when v_row.capacity > 0 then least(p_free, v_row.capacity - (select sum(r)::integer from unnest(p_run) r))
               else p_free end;
end $function$;

--- function sluice.memory_budgets_v1(p_names text[])
CREATE OR REPLACE FUNCTION sluice.memory_budgets_v1(p_names text[])
 RETURNS SETOF text
 LANGUAGE sql
 STABLE
AS $function$
  select g.name from (select b.name, b.auto or b.bytes as sized, bool_or(b.auto or b.bytes) over () as any_sized
                        from sluice.budgets b where b.name = any (p_names) and b.kind = 'device') g
   where g.sized or not g.any_sized
$function$;

--- function sluice.merge_amounts_v1(p_all jsonb)
CREATE OR REPLACE FUNCTION sluice.merge_amounts_v1(p_all jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select jsonb_object_agg(g.key, g.amount) from (
    select e.key, max(e.value::double precision) as amount from jsonb_array_elements(p_all) a, jsonb_each_text(a) e group by e.key) g
$function$;

--- function sluice.microseconds_v1(p_at timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.microseconds_v1(p_at timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 STABLE
RETURN ((EXTRACT(epoch FROM p_at) * (1000000)::numeric))::bigint;

--- function sluice.move_jobs_with_tasks_v1(p_limit integer, OUT moved integer, OUT more boolean)
CREATE OR REPLACE FUNCTION sluice.move_jobs_with_tasks_v1(p_limit integer, OUT moved integer, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET jit TO 'off'
AS $function$
declare
  v_classes integer[];
  v_lanes   text[];
  v_targets integer[];
  v_ids     bigint[] := '{}';
  v_found   bigint[];
  v_last    bigint;
  v_next    bigint;
  v_seen    integer;
begin
  moved := 0;
  more := false;
  select s.next_id into v_next from sluice.lane_sweep s;
  select array_agg(m.class_id order by m.class_id), array_agg(m.lane order by m.class_id) into v_classes, v_lanes from sluice.misplaced m
   where v_next is not null or exists (select 1 from sluice.queue q where q.class_id = m.class_id and q.state = 'ready');
  if v_classes is not null then
    -- Before jobs are locked: a class that somebody else is making is waited for.
    v_targets := array(select sluice.intern_class_v1(c.task, m.lane, c.model, c.requires, null, c.chosen)
                         from unnest(v_classes, v_lanes) with ordinality m(id, lane, ord) join sluice.classes c on c.id = m.id order by m.ord);
    -- It locks the jobs, which sluice.ready_v1 cannot.
    v_ids := array(select x.id from unnest(v_classes) m(id)
                    cross join lateral (select q.id from sluice.queue q where q.class_id = m.id and q.state = 'ready'
                                         order by q.rank, q.id limit p_limit for no key update skip locked) x limit p_limit);
  end if;
  if v_next is not null and cardinality(v_ids) < p_limit then
    if v_classes is not null then
      select array_agg(x.id) filter (where x.class_id = any (v_classes)), max(x.id), count(*)
        into v_found, v_last, v_seen
        from (select q.id, q.class_id from sluice.queue q where q.id > v_next order by q.id limit 5 * p_limit) x;
      v_ids := v_ids || array(select q.id from sluice.queue q where q.id = any (v_found) for no key update skip locked);
    end if;
    -- A session that restarts the search at this instant is not waited for, because it may wait for what this transaction holds.
    update sluice.lane_sweep s set next_id = case when v_seen = 5 * p_limit then v_last end
     where s.one in (select k.one from sluice.lane_sweep k where k.next_id = v_next for no key update skip locked);
    more := found and v_seen is not distinct from 5 * p_limit;
  end if;
  if cardinality(v_ids) > 0 then
    with replaced as (
      update sluice.queue q
         set class_id = m.target, rank = sluice.rank_v1(d.priority, l.ageing_ms, d.submitted_at)
        from unnest(v_classes, v_targets) m(class, target)
        join sluice.classes c on c.id = m.target
        join sluice.lanes l on l.name = c.lane
        cross join sluice.job_data d
       where q.id = any (v_ids) and q.class_id = m.class and d.id = q.id
      returning q.id, q.class_id
    )
    update sluice.job_data d set class_id = m.class_id from replaced m where d.id = m.id;
    get diagnostics moved = row_count;
  end if;
  if moved > 0 then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  more := more or moved > 0;
end $function$;

--- function sluice.move_task_v1(p_task text, p_lane text, p_by text)
CREATE OR REPLACE FUNCTION sluice.move_task_v1(p_task text, p_lane text, p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if p_lane is not null then
    -- So that nobody deletes it meanwhile.
    perform 1 from sluice.lanes l where l.name = p_lane and l.deleted_at is null for no key update;
    if not found then
      raise exception 'lane % does not exist', to_json(p_lane) using errcode = 'SL003', detail = p_lane;
    end if;
  end if;
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  update sluice.tasks t
     set moved_at = case when p_lane is not null then clock_timestamp() end, moved_by = case when p_lane is not null then p_by end,
         declared_lane = coalesce(t.declared_lane, t.lane), lane = coalesce(p_lane, t.lane),
         class_id = case when p_lane is null then t.class_id
                         else (select sluice.intern_class_v1(t.name, p_lane, c.model, c.requires, t.uses is not null) from sluice.classes c
                                where c.id = t.class_id) end
   where t.name = p_task;
  if not found then
    return false;
  end if;
  perform sluice.place_tasks_v1(array[p_task]);
  return true;
end $function$;

--- function sluice.must_start_v1(p_now timestamp with time zone, p_since timestamp with time zone, p_certain boolean, p_deadline timestamp with time zone, p_ready timestamp with time zone, p_parent bigint)
CREATE OR REPLACE FUNCTION sluice.must_start_v1(p_now timestamp with time zone, p_since timestamp with time zone, p_certain boolean, p_deadline timestamp with time zone, p_ready timestamp with time zone, p_parent bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (p_certain OR (p_deadline < (p_now + '00:00:01'::interval)) OR (p_ready > p_since) OR ((p_parent IS NOT NULL) AND sluice.has_window_v1(p_parent)));

--- function sluice.must_stop_v1(p_worker sluice.workers)
CREATE OR REPLACE FUNCTION sluice.must_stop_v1(p_worker sluice.workers)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((p_worker).stopping OR (((p_worker).leaving IS NOT NULL) AND (p_worker).draining AND (NOT (EXISTS (SELECT 1 FROM sluice.claimed r WHERE (r.worker_id = (must_stop_v1.p_worker).id))))));

--- function sluice.notice_generation_v1()
CREATE OR REPLACE FUNCTION sluice.notice_generation_v1()
 RETURNS uuid
 LANGUAGE plpgsql
AS $function$
declare
  v_id       uuid := (select g.id from sluice.generation g);
  v_timeline text;
  v_copied   boolean;
begin
  if v_id is not null then
    return v_id;
  end if;
  v_timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  delete from sluice.generations g where g.copy_id <> sluice.copy_id_v1();
  v_copied := found;
  insert into sluice.generations (copy_id, wait_until, copied, skip_before)
    select sluice.copy_id_v1(),
           case when k.timeline is distinct from v_timeline and not v_copied
                then clock_timestamp() + (select max(l.stale_ms) from sluice.lanes l) * interval '1 millisecond' end, v_copied, k.skip_before
      from sluice.watch k
    on conflict do nothing returning id into v_id;
  if v_id is null then
    return (select g.id from sluice.generation g);
  end if;
  if v_copied then
    -- No id names two jobs, also not one that was given out since the copy was made.
    perform setval(pg_get_serial_sequence('sluice.job_data', 'id'), nextval(pg_get_serial_sequence('sluice.job_data', 'id')) + 1000000000);
  end if;
  update sluice.watch k set timeline = v_timeline;
  update sluice.holdings h set slots = least(h.slots, n.running)
    from (select o.worker_id, o.lane,
                 (select count(*)::integer from sluice.claimed r join sluice.classes c on c.id = r.class_id
                   where r.worker_id = o.worker_id and c.lane = o.lane) as running
            from sluice.holdings o where o.slots > 0 for no key update of o skip locked) n
   where h.worker_id = n.worker_id and h.lane = n.lane;
  return v_id;
end $function$;

--- function sluice.obstacle_brief_v1(p_obstacle text, p_details jsonb)
CREATE OR REPLACE FUNCTION sluice.obstacle_brief_v1(p_obstacle text, p_details jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE p_obstacle WHEN 'crash'::text THEN 'recovery from a database crash'::text WHEN 'lane_paused'::text THEN 'lane paused'::text WHEN 'lane_closed'::text THEN 'lane has 0 slots'::text WHEN 'no_worker'::text THEN ('no live worker runs '::text || (p_details ->> 'task'::text)) WHEN 'labels'::text THEN ('no worker has '::text || (SELECT string_agg(((r.key || '='::text) || r.value), ', '::text ORDER BY r.key) AS string_agg FROM jsonb_each_text((obstacle_brief_v1.p_details -> 'requires'::text)) r(key, value))) WHEN 'draining'::text THEN ('all workers draining'::text || CASE WHEN ((p_details ? 'broken'::text) AND ((p_details ->> 'broken'::text) IS NOT NULL)) THEN ' or broken'::text ELSE ''::text END) WHEN 'withdrawn'::text THEN ((('worker '::text || ((p_details -> 'first'::text) ->> 'worker'::text)) || ' cannot start '::text) || (p_details ->> 'task'::text)) WHEN 'lane_full'::text THEN ((((p_details ->> 'running'::text) || ' of '::text) || (p_details ->> 'slots'::text)) || ' slots busy'::text) WHEN 'lane_held'::text THEN ((((((p_details ->> 'held'::text) || ' of '::text) || (p_details ->> 'slots'::text)) || ' slots held, '::text) || (p_details ->> 'idle'::text)) || ' idle'::text) WHEN 'capacity'::text THEN 'all workers at capacity'::text WHEN 'per_worker'::text THEN 'limit per worker reached'::text WHEN 'processes'::text THEN CASE WHEN (((p_details ->> 'processes'::text))::integer > 0) THEN (('all '::text || (p_details ->> 'processes'::text)) || ' processes busy'::text) ELSE 'no worker has a share of the cores'::text END WHEN 'silent'::text THEN 'all workers silent'::text WHEN 'budget'::text THEN ('budget '::text || (p_details ->> 'budgets'::text)) ELSE NULL::text END;

--- function sluice.open_claims_v1()
CREATE OR REPLACE FUNCTION sluice.open_claims_v1()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_row  sluice.generation;
  v_skip timestamptz;
begin
  if exists (select 1 from sluice.generation g where g.claims_open) then
    return true;
  end if;
  -- Whoever resyncs at the same time has committed by then, and the look below sees it.
  select * into v_row from sluice.generation g where not g.claims_open for no key update;
  if not found then
    return exists (select 1 from sluice.generation g where g.claims_open);
  end if;
  if v_row.wait_until > clock_timestamp()
     or exists (select 1 from sluice.workers w where w.ended_at is null and w.generation is distinct from v_row.id) then
    return false;
  end if;
  if v_row.wait_until is not null or v_row.copied
     or exists (select 1 from sluice.workers w where w.ended_at >= v_row.noticed_at and w.ended_why = 'stopped answering'
                   and w.generation is distinct from v_row.id) then
    v_skip := clock_timestamp();
    update sluice.watch k set skip_before = v_skip;
  end if;
  update sluice.generation g set claims_open = true, skip_before = coalesce(v_skip, g.skip_before);
  perform pg_notify('sluice', 'ready');
  return true;
end $function$;

--- function sluice.overlay_v1(p_row jsonb, p_given jsonb, p_by text, p_operator boolean)
CREATE OR REPLACE FUNCTION sluice.overlay_v1(p_row jsonb, p_given jsonb, p_by text, p_operator boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_set text[] := array(select jsonb_array_elements_text(p_row -> 'operator_set'));
  v_row jsonb;
begin
  if p_given is null then
    v_row := p_row || sluice.columns_v1(p_row -> 'declared') || '{"operator_set": []}';
  elsif p_operator then
    v_row := p_row || sluice.columns_v1(p_given) || jsonb_build_object(
      'operator_set', array(select distinct f from unnest(v_set || array(select jsonb_object_keys(p_given))) f order by f));
  else
    v_row := p_row || sluice.columns_v1(p_given - v_set) || jsonb_build_object('declared', (p_row -> 'declared') || p_given);
    if v_row = p_row then
      return p_row;
    end if;
  end if;
  return v_row || jsonb_build_object('updated_at', clock_timestamp(), 'updated_by', p_by);
end $function$;

--- function sluice.pass_window_slots_v1(p_parents bigint[], p_idxs integer[], p_classes integer[], p_class_lane integer[], p_ready sluice.cycle_class_v1[], INOUT lanes sluice.cycle_lane_v1[], INOUT free integer, INOUT most integer[], OUT picked tid[], OUT started bigint[])
CREATE OR REPLACE FUNCTION sluice.pass_window_slots_v1(p_parents bigint[], p_idxs integer[], p_classes integer[], p_class_lane integer[], p_ready sluice.cycle_class_v1[], INOUT lanes sluice.cycle_lane_v1[], INOUT free integer, INOUT most integer[], OUT picked tid[], OUT started bigint[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_first  record;      -- the first ready job, and its lane; 0 for several lanes
  v_row    record;
  v_lane   sluice.cycle_lane_v1;
  v_count  integer;
  v_taken  tid[];
  -- By a statement of its own: joined below, a plan that was made while there were few workflows reads all of them for every ending.
  v_open   bigint[] := array(select c.job_id from sluice.composites c
                              where c.job_id = any (p_parents) and c.window_size >= c.tokens and c.closing is null);
begin
  picked := '{}';
  started := '{}';
  if v_open <> '{}' then
    select case when min(c.lane) < max(c.lane) then 0 else min(c.lane) end as lane,
           (array_agg(x.rank order by x.rank, x.id))[1] as rank, (array_agg(x.id order by x.rank, x.id))[1] as id
      into v_first
      from unnest(p_ready) c cross join lateral sluice.ready_v1(c.id, c.rank, c.after, 1) x
     where lanes[c.lane].take > 0;
    for v_row in
      select n.parent, n.last, n.ended, k.ord, p_class_lane[k.ord] as lane
        from (select g.parent, max(g.idx) as last, count(*)::integer as ended
                from unnest(p_parents, p_idxs) g(parent, idx) where g.parent = any (v_open) group by g.parent) n
       cross join lateral (select array_position(p_classes, q.class_id) as ord from sluice.queue q
                            where q.parent_id = n.parent and q.state = 'waiting' and q.idx > n.last order by q.idx limit 1) k
       where k.ord is not null
         and not exists (select 1 from sluice.classes c where c.id = p_classes[k.ord] and c.budgeted)
       order by n.parent
    loop
      continue when v_row.lane is null;   -- a lane that this cycle is not about
      v_lane := lanes[v_row.lane];
      v_count := least(v_row.ended, free, v_lane.take, most[v_row.ord], case when v_lane.lim is not null then v_lane.slots - v_lane.run end);
      continue when v_count is null or v_count <= 0 or v_first.lane <> v_row.lane;
      v_taken := array(
        select n.ctid from (select q.ctid, q.id, q.class_id, q.rank, q.guarded from sluice.queue q
                             where q.parent_id = v_row.parent and q.state = 'waiting' and q.idx > v_row.last
                             order by q.idx limit v_count for update skip locked) n
         where n.class_id = p_classes[v_row.ord] and not n.guarded
           and (v_first.lane is null or (n.rank, n.id) < (v_first.rank, v_first.id))
           and (v_lane.other_id is null or (n.rank, n.id) < (v_lane.other_rank, v_lane.other_id)));
      v_count := cardinality(v_taken);
      picked := picked || v_taken;
      started := started || array_fill(v_row.parent, array[v_count]);
      most[v_row.ord] := most[v_row.ord] - v_count;
      free := free - v_count;
      lanes[v_row.lane].run := v_lane.run + v_count;
      lanes[v_row.lane].take := v_lane.take - v_count;
    end loop;
  end if;
  for i in 1 .. cardinality(lanes) loop
    lanes[i].take := least(lanes[i].take, free);
  end loop;
end $function$;

--- function sluice.per_worker_v1(p_per_worker integer, p_capacity integer, p_cores integer)
CREATE OR REPLACE FUNCTION sluice.per_worker_v1(p_per_worker integer, p_capacity integer, p_cores integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_per_worker > 0) THEN p_per_worker WHEN ((p_per_worker = '-1'::integer) AND (p_capacity > 0)) THEN p_capacity WHEN (p_per_worker IS NOT NULL) THEN p_cores ELSE NULL::integer END;

--- function sluice.place_tasks_v1(p_names text[])
CREATE OR REPLACE FUNCTION sluice.place_tasks_v1(p_names text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update sluice.tasks t
     set lane = n.lane, class_id = sluice.intern_class_v1(t.name, n.lane, n.model, n.requires, t.uses is not null)
    from (select k.name, c.model, c.requires,
                 sluice.live_lane_v1(case when k.moved_at is not null then k.lane else coalesce(k.declared_lane, k.lane) end) as lane
            from sluice.tasks k join sluice.classes c on c.id = k.class_id where k.name = any (p_names) order by k.name for no key update of k) n
   where t.name = n.name and t.lane <> n.lane;
end $function$;

--- function sluice.plan_input_copies_v1(p_worker bigint, p_models text[], p_devices text[], p_ended bigint[], p_unloaded jsonb)
CREATE OR REPLACE FUNCTION sluice.plan_input_copies_v1(p_worker bigint, p_models text[], p_devices text[], p_ended bigint[], p_unloaded jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object('worker', r.worker_id::text, 'model', r.model, 'devices', r.devices, 'shares', r.shares,
             'loadedAt', extract(epoch from r.loaded_at) * 1000, 'unloading', r.unloading, 'running', u.running,
             'idleSince', case when u.running = 0 then extract(epoch from coalesce(r.idle_since, r.loaded_at, r.claimed_at)) * 1000 end,
             'pinned', coalesce(m.pinned, false))), '[]')
      from (select x.worker_id, x.model, x.devices, min(x.device) as device, min(x.budget) as budget,
                   jsonb_agg(jsonb_build_object('budget', x.budget, 'device', x.device, 'amount', x.amount)) as shares,
                   case when bool_and(x.loaded_at is not null) then max(x.loaded_at) end as loaded_at,
                   bool_or(x.unloading_at is not null) as unloading,
                   max(x.idle_since) as idle_since, min(x.claimed_at) as claimed_at
              from sluice.residents x join sluice.workers w on w.id = x.worker_id and w.ended_at is null
             where (x.worker_id = p_worker or x.model = any (p_models) or x.devices && p_devices)
               and not (x.worker_id = p_worker and p_unloaded @> jsonb_build_array(jsonb_build_object('model', x.model, 'device', x.device)))
             group by x.worker_id, x.model, x.devices) r
      left join sluice.models m on m.name = r.model
     cross join lateral (select count(distinct v.job_id)::integer as running from sluice.reservations v
                          cross join lateral (select y.worker_id, y.class_id from sluice.running y
                                               where y.worker_id = v.worker_id and y.id = v.job_id and y.attempt = v.attempt offset 0) j
                           join sluice.classes c on c.id = j.class_id
                          where v.device = r.device and v.budget = r.budget
                            and j.worker_id = r.worker_id and c.model = r.model and v.job_id <> all (p_ended)) u);
end $function$;

--- function sluice.plan_input_queues_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_depth integer, p_job bigint, p_offers jsonb, p_now timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.plan_input_queues_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_depth integer, p_job bigint, p_offers jsonb, p_now timestamp with time zone)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    select jsonb_agg(jsonb_build_object('class', c.id, 'task', c.task, 'model', c.model, 'depth', n.depth, 'priority',
             case when l.ageing_ms is null then -h.rank else floor(extract(epoch from p_now) * 1000 / l.ageing_ms)::integer - h.rank end,
             'since', extract(epoch from h.ready_at) * 1000,
             'own', coalesce((select d.uses from sluice.job_data d where d.id = p_job and d.class_id = c.id), h.uses),
             'uses', t.uses, 'perJob', t.per_job, 'parallel', t.parallel,
             'expressed', t.expressed,
             'most', case when not l.enabled then 0 else least(
                2147483647, l.slots - coalesce(u.others, 0) - u.mine, sluice.per_worker_v1(l.per_worker, w.capacity, w.cores) - u.mine) end,
             'unread', case when t.expressed then (
                select jsonb_agg(jsonb_build_object('id', x.id::text, 'input', d.input)) from (
                  select j.id from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                     and (j.rank, j.id) >= (h.rank, h.id) order by j.rank, j.id limit 20) x
                  join sluice.job_data d on d.id = x.id
                 where d.uses is null) end))
      from unnest(p_classes) k(id)
      join sluice.classes c on c.id = k.id
      join sluice.tasks t on t.name = c.task
      join sluice.lanes l on l.name = c.lane
      join sluice.workers w on w.id = p_worker
      left join sluice.models m on m.name = c.model
     cross join lateral (select j.rank, j.id, j.ready_at, (select d.uses from sluice.job_data d where d.id = j.id) as uses
                           from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                          order by j.rank, j.id limit 1) f
     cross join lateral (
       select y.* from (
         (select x.rank, x.id, x.ready_at, x.uses, x.place - 1 as passed
            from (select j.rank, j.id, j.ready_at, (select d.uses from sluice.job_data d where d.id = j.id) as uses,
                         row_number() over (order by j.rank, j.id) as place
                    from sluice.queue j where j.class_id = c.id and j.state = 'ready' order by j.rank, j.id limit 1000) x
           where f.uses is not null and (x.uses is null or sluice.could_run_v1(x.uses, p_offers, m.amounts))
           order by x.rank, x.id limit 1)
         union all select f.rank, f.id, f.ready_at, f.uses, 0) y limit 1) h
     cross join lateral (select (count(*) - h.passed)::integer as depth
                           from (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready' limit p_depth + h.passed) x) n
     cross join lateral (select (select sum(o.slots) from sluice.holdings o where o.lane = c.lane and o.worker_id <> p_worker)::integer as others,
                                (select count(*) from sluice.running j join sluice.classes jc on jc.id = j.class_id
                                  where j.worker_id = p_worker and jc.lane = c.lane and j.id <> all (p_ended))::integer as mine) u);
end $function$;

--- function sluice.plan_input_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_unloaded jsonb, p_depth integer, p_job bigint)
CREATE OR REPLACE FUNCTION sluice.plan_input_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_unloaded jsonb, p_depth integer, p_job bigint DEFAULT NULL::bigint)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_now     timestamptz := clock_timestamp();
  v_queues  jsonb;
  v_devices text[];
  v_models  text[];
begin
  -- Queues first: an idle worker need not know more.
  v_queues := sluice.plan_input_queues_v1(p_worker, p_classes, p_ended, p_depth, p_job, sluice.device_capacity_v1(p_worker), v_now);
  v_devices := array(select distinct d.device from sluice.worker_devices d where d.worker_id = p_worker);
  v_models := array(select distinct q ->> 'model' from jsonb_array_elements(v_queues) q where q ->> 'model' is not null);
  return jsonb_build_object(
    'now', extract(epoch from v_now) * 1000,
    'queues', coalesce(v_queues, '[]'),
    'devices', (select coalesce(jsonb_agg(jsonb_build_object('key', d.key, 'budget', d.budget, 'capacity', sluice.capacity_v1(d), 'room', r.room,
                        -- Only without room can more be held than there is.
                        'over', case when r.room = 0 then coalesce((
                          select greatest(0, h.by_jobs + h.by_models - sluice.capacity_v1(d) * (1 + 1e-9))
                            from sluice.device_use_v1(d.budget, d.key, null, p_worker, p_ended, p_unloaded) h), 0) else 0 end)
                            order by d.budget, d.key),
                            '[]')
                  from sluice.worker_devices o join sluice.devices d on d.budget = o.budget and d.key = o.device
                 cross join lateral (select sluice.device_room_v1(d.budget, d.key, p_worker, p_ended, p_unloaded) as room) r
                 where o.worker_id = p_worker and d.lost_at is null
                   and (v_queues is not null or exists (select 1 from sluice.residents x where x.worker_id = p_worker))),
    'budgets', (select coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'kind', b.kind, 'quantum', b.quantum, 'maxWaitMs', b.max_wait_ms,
                        'room', case when b.kind = 'shared' then sluice.device_room_v1(b.name, '', p_worker, p_ended, p_unloaded) end)), '[]')
                  from sluice.budgets b where v_queues is not null),
    'residents', sluice.plan_input_copies_v1(p_worker, v_models, v_devices, p_ended, p_unloaded),
    'models', (select coalesce(jsonb_object_agg(m.name,
                                                jsonb_build_object('loadMs', m.load_ms, 'runMs', m.run_ms, 'restMs', m.rest_ms,
                                                                   'amounts', m.amounts)), '{}')
                 from sluice.models m));
end $function$;

--- function sluice.pool_overflow_v1(p_pool text, p_moment_ms integer)
CREATE OR REPLACE FUNCTION sluice.pool_overflow_v1(p_pool text, p_moment_ms integer)
 RETURNS TABLE(lane text, jobs integer, waited_ms double precision, per_worker integer, reason text, classes integer[])
 LANGUAGE sql
 STABLE
AS $function$
  with newest as (
    select w.tasks, w.labels, w.capacity, w.cores, w.started_at from sluice.workers w
     where w.pool = p_pool and w.started_at > clock_timestamp() - interval '1 hour' order by w.id desc limit 1
  ), waiting as (
    select s.class_id, s.lane, s.reason, s.obstacle, s.oldest_at,
           (select count(*)::integer from (
              select 1 from sluice.queue j where j.class_id = s.class_id and j.state = 'ready'
                 and j.ready_at <= clock_timestamp() - make_interval(secs => p_moment_ms / 1000.0) limit 1000) x) as jobs
      from sluice.sample_v1(1000) s
     where s.depth > 0 and s.obstacle in ('no_worker', 'labels', 'draining', 'capacity', 'per_worker')
       and s.oldest_at <= clock_timestamp() - make_interval(secs => p_moment_ms / 1000.0)
  ), suitable as (
    select q.* from waiting q
      join sluice.classes c on c.id = q.class_id
      join sluice.pools p on p.name = p_pool
      left join newest n on true
     where q.jobs > 0 and c.requires <@ (p.labels || coalesce(n.labels, '{}'))
       and (not c.budgeted or q.obstacle not in ('capacity', 'per_worker'))
       and (n.tasks is null or c.task = any (n.tasks)
            or n.started_at < coalesce((select t.updated_at from sluice.tasks t where t.name = c.task), '-infinity'))
  )
  select l.name, least(s.jobs, l.slots - (select coalesce(sum(h.slots), 0) from sluice.holdings h where h.lane = l.name))::integer,
         s.waited_ms, case when l.per_worker > 0 then l.per_worker
                           else (select sluice.per_worker_v1(l.per_worker, n.capacity, n.cores) from newest n) end,
         s.reason, s.classes
    from (select q.lane, sum(q.jobs)::integer as jobs, extract(epoch from clock_timestamp() - min(q.oldest_at))::double precision * 1000 as waited_ms,
                 (array_agg(q.reason order by q.jobs desc))[1] as reason, array_agg(q.class_id) as classes
            from suitable q group by q.lane) s
    join sluice.lanes l on l.name = s.lane
   order by l.name
$function$;

--- function sluice.pool_snapshot_v1(p_pool text, p_moment_ms integer)
CREATE OR REPLACE FUNCTION sluice.pool_snapshot_v1(p_pool text, p_moment_ms integer)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  with overflow as materialized (
    select * from sluice.pool_overflow_v1(p_pool, p_moment_ms) o where o.jobs > 0
  ), live as materialized (
    select w.id, w.draining, w.returnable from sluice.workers w where w.pool = p_pool and w.ended_at is null
  ), open as materialized (
    select d.*, array(select split_part(w.request, '.', 2)::integer from sluice.workers w
                       where split_part(w.request, '.', 1) = d.token and split_part(w.request, '.', 2) ~ '^\d{1,9}$' group by 1 order by 1) as members
      from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null
  ), past as (
    select max(d.id) as newest, max(d.ended_at) filter (where d.action = 'start') as ended_at,
           count(*) filter (where d.action = 'start' and d.outcome in ('expired', 'failed')
                              and d.id > coalesce((select max(g.id) from sluice.fleet_decisions g
                                                where g.pool = p_pool and g.outcome = 'arrived'), 0)) as failures
      from sluice.fleet_decisions d where d.pool = p_pool
  ), elsewhere as (
    -- Workers on their way for other pools that fit some of what waits. One whose provisioner is silent is waited for only as long as
    -- most take to answer. What its workers run is known as in pool_overflow_v1.
    select p.capacity, greatest(0, coalesce(d.started, d.count)
                                   - (select count(distinct w.request) from sluice.workers w
                                       where split_part(w.request, '.', 1) = d.token)) as coming
      from sluice.fleet_decisions d join sluice.pools p on p.name = d.pool
      left join lateral (select w.tasks, w.labels, w.started_at from sluice.workers w
                          where w.pool = d.pool and w.started_at > clock_timestamp() - interval '1 hour' order by w.id desc limit 1) n on true
     where d.ended_at is null and d.pool <> p_pool and d.arrive_by > clock_timestamp()
       and (d.started is not null or d.decided_at > clock_timestamp() - interval '5 seconds')
       and exists (select 1 from overflow o join sluice.classes c on c.id = any (o.classes)
                    where c.requires <@ (p.labels || coalesce(n.labels, '{}'))
                      and (n.tasks is null or c.task = any (n.tasks)
                           or n.started_at < coalesce((select t.updated_at from sluice.tasks t where t.name = c.task), '-infinity')))
  )
  select jsonb_build_object(
    'min', p.min, 'max', p.max, 'capacity', p.capacity, 'labels', p.labels, 'cooldownMs', p.cooldown_ms,
    'taking', (select count(*) from live w where not w.draining),
    'leaving', (select count(*) from live w where w.draining),
    'returnable', (select count(*) from live w where w.returnable),
    'overflow', coalesce((select jsonb_agg(jsonb_build_object('lane', o.lane, 'jobs', o.jobs, 'waitedMs', o.waited_ms,
                                                              'perWorker', o.per_worker, 'reason', o.reason) order by o.lane) from overflow o), '[]'),
    'expected', coalesce((select case when bool_or(e.capacity = 0 and e.coming > 0) then 1000000 else sum(e.coming * e.capacity) end
                            from elsewhere e), 0),
    'stops', exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.stop_at <= clock_timestamp()),
    'newest', coalesce(past.newest, 0)::text, 'failures', past.failures,
    'sinceLastMs', extract(epoch from clock_timestamp() - past.ended_at) * 1000,
    'request', (select jsonb_build_object(
        'id', d.id::text, 'token', d.token, 'wanted', d.count, 'started', d.started, 'arrived', cardinality(d.members), 'members', d.members,
        'instances', d.instances, 'gone', d.gone, 'abandoned', d.taken_until < clock_timestamp(), 'overdue', d.arrive_by < clock_timestamp(),
        'lookedMs', extract(epoch from clock_timestamp() - coalesce(d.looked_at, d.decided_at)) * 1000) from open d))
    from sluice.pools p cross join past where p.name = p_pool
$function$;

--- function sluice.process_shares_v1(p_worker sluice.workers)
CREATE OR REPLACE FUNCTION sluice.process_shares_v1(p_worker sluice.workers)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((p_worker).process_limit IS NOT NULL) THEN (SELECT string_agg((((w.id || ':'::text) || w.processes) || CASE WHEN w.draining THEN 'd'::text ELSE ''::text END), ' '::text ORDER BY w.id) AS string_agg FROM sluice.workers w WHERE ((w.host = (process_shares_v1.p_worker).host) AND (w.ended_at IS NULL) AND (w.process_limit IS NOT NULL))) ELSE NULL::text END;

--- function sluice.promote_due_v1(p_limit integer)
CREATE OR REPLACE FUNCTION sluice.promote_due_v1(p_limit integer)
 RETURNS TABLE(promoted integer, next_in_ms double precision)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_count      integer;
  v_composites bigint[];
  v_roots      bigint[];
begin
  -- The least, because the planner takes a third of what is scheduled to be due, and would read the table until it finds one.
  if (select min(q.ready_at) from sluice.queue q where q.state = 'scheduled') <= statement_timestamp() then
    with due as materialized (
      select q.id, q.class_id is null as is_composite, q.parent_id is null and (q.started_at is null or q.class_id is null) as is_root
        from sluice.queue q where q.state = 'scheduled' and q.ready_at <= statement_timestamp()
       order by q.ready_at limit p_limit for update skip locked
    ), free as materialized (
      -- Everybody else locks a composite's own row before its place in the queue. This is the other way round, so it does not wait.
      select c.job_id from sluice.composites c where c.job_id = any (array(select d.id from due d where d.is_composite))
       order by c.job_id for no key update skip locked
    ), made_ready as (
      update sluice.queue q set state = 'ready' where q.id = any (array(select d.id from due d where not d.is_composite))
    ), taken as (
      delete from sluice.queue q where q.id = any (array(select f.job_id from free f)) returning q.id, q.ready_at, q.attempt
    ), begun as (
      update sluice.composites c set started_at = clock_timestamp(), ready_at = t.ready_at, attempt = t.attempt from taken t where c.job_id = t.id
    )
    select count(*)::integer, array_agg(d.id) filter (where d.is_composite), coalesce(array_agg(d.id) filter (where d.is_root), '{}')
      into v_count, v_composites, v_roots from due d where not d.is_composite or d.id in (select f.job_id from free f);
    perform sluice.start_composite_v1(c.id) from unnest(v_composites) c(id);
    if v_composites is not null then
      perform sluice.hint_v1('wake', 'soon');
    end if;
    if v_count > 0 then
      perform sluice.hint_v1('ready', 'soon');
    end if;
    perform sluice.admit_v1(v_roots, 'soon', false);
  end if;
  return query select coalesce(v_count, 0),
    (select extract(epoch from min(q.ready_at) - clock_timestamp())::double precision * 1000 from sluice.queue q where q.state = 'scheduled');
end $function$;

--- function sluice.prune_jobs_v1(p_after bigint, p_window integer, OUT pruned integer, OUT last bigint, OUT done boolean)
CREATE OR REPLACE FUNCTION sluice.prune_jobs_v1(p_after bigint, p_window integer, OUT pruned integer, OUT last bigint, OUT done boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  c_most   constant integer := 100000;   -- log lines and steps in one transaction, or those of one job
  v_cutoff timestamptz := (select statement_timestamp() - make_interval(secs => s.value / 1000.0) from sluice.settings s
                            where s.name = 'retention_ms');
  v_first  bigint;
  v_leaves bigint[];
  v_trees  bigint[];
  v_full   bigint;
begin
  select min(w.id), max(w.id), array_agg(w.id) filter (where w.is_leaf), coalesce(array_agg(w.id) filter (where not w.is_leaf), '{}')
    into v_first, last, v_leaves, v_trees
    from (select o.id, case when o.is_root and o.finished_at < v_cutoff then o.class_id is not null end as is_leaf
            from sluice.outcomes o where o.id > p_after order by o.id limit p_window) w;
  done := v_first is null or coalesce((select d.submitted_at from sluice.job_data d where d.id = v_first) > v_cutoff, false);
  pruned := 0;
  if v_leaves is not null then
    select min(s.job_id) into v_full
      from (select t.job_id, sum(least(t.lines, 10001) + least(t.steps, 10001)) over (order by t.job_id) as rows
              from sluice.traces t where t.job_id between v_first and last and t.job_id = any (v_leaves)) s
     where s.rows > c_most;
    if v_full < last then
      last := v_full;
      done := false;
      v_leaves := array(select i from unnest(v_leaves) i where i <= v_full);
      v_trees := array(select i from unnest(v_trees) i where i <= v_full);
    end if;
    with gone as (
      -- Of a job that runs again meanwhile the outcome is gone, or younger.
      delete from sluice.outcomes o where o.id = any (v_leaves) and o.finished_at < v_cutoff returning o.id
    )
    select array_agg(g.id) into v_leaves from gone g;
  end if;
  if v_leaves is not null then
    pruned := sluice.delete_job_rows_v1(v_leaves);
  end if;
  pruned := pruned + sluice.delete_trees_v1(v_trees);
end $function$;

--- function sluice.put_back_composites_v1(p_root bigint, p_composites bigint[], p_priority integer, p_now timestamp with time zone, p_due timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.put_back_composites_v1(p_root bigint, p_composites bigint[], p_priority integer, p_now timestamp with time zone, p_due timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  delete from sluice.outcomes o where o.id = any (p_composites);
  update sluice.job_data d set priority = p_priority where d.id = any (p_composites) and d.priority <> p_priority;
  insert into sluice.job_keys (task, key, owner, job_id)
  select d.task, d.key, coalesce(d.key_owner, ''), d.id from sluice.job_data d where d.id = any (p_composites) and d.key is not null;
  insert into sluice.queue (id, ready_at, parent_id, idx, state, attempt, keyed)
  select d.id, case when d.id = p_root then p_due else p_now end, d.parent_id, d.idx,
         case when d.id = p_root then 'scheduled'::sluice.job_state else 'waiting'::sluice.job_state end,
         greatest(c.attempt, 1) + 1, d.key is not null
    from sluice.job_data d join sluice.composites c on c.job_id = d.id
   where d.id = any (p_composites) and (d.id <> p_root or p_due > p_now);

  -- The children are counted again: what wake-ups had still to tell is in their states.
  delete from sluice.wakeups w where w.job_id = any (p_composites);
  update sluice.composites c
     set ready_at = case when c.job_id = p_root then p_due else p_now end, started_at = case when c.job_id = p_root and p_due <= p_now then p_now end,
         cancel_at = null, cancel_error = null, attempt = greatest(c.attempt, 1) + 1, ended = false,
         taken_until = null, version = c.version + 1, tokens = 0, held = c.window_size is null, closing = null, closing_error = null,
         closed = false, total = case when c.total is not null then n.children + n.items end,
         completed = n.completed, failed = n.failed, cancelled = n.cancelled
    from (select p.id, coalesce(k.children, 0) as children, coalesce(k.completed, 0) as completed, coalesce(k.failed, 0) as failed,
                 coalesce(k.cancelled, 0) as cancelled,
                 (select coalesce(sum(jsonb_array_length(h.items)), 0) from sluice.chunks h where h.job_id = p.id) as items
            from unnest(p_composites) p(id)
           cross join lateral (
             select count(*) as children, count(*) filter (where o.state = 'completed') as completed,
                    count(*) filter (where o.state = 'failed') as failed, count(*) filter (where o.state = 'cancelled') as cancelled
               from sluice.job_data d left join sluice.outcomes o on o.id = d.id where d.parent_id = p.id and d.superseded_at is null) k) n
   where c.job_id = n.id;
end $function$;

--- function sluice.put_back_leaves_v1(p_leaves bigint[], p_priority integer, p_now timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.put_back_leaves_v1(p_leaves bigint[], p_priority integer, p_now timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_count integer;
begin
  -- What was approved is asked for again, and so is what has been guarded since.
  update sluice.job_data d
     set class_id = coalesce(d.class_id, t.class_id), priority = p_priority, approved_by = null,
         policy = case when t.approval then coalesce(d.policy, '{}') || '{"approval": true}' else d.policy end
    from sluice.job_data k left join sluice.tasks t on t.name = k.task
   where k.id = any (p_leaves) and d.id = k.id and exists (select 1 from sluice.outcomes o where o.id = k.id and o.state in ('failed', 'cancelled'))
     and (k.class_id is null or k.priority <> p_priority or k.approved_by is not null or t.approval and not coalesce(k.policy ? 'approval', false));
  with again as (
    delete from sluice.outcomes o where o.id = any (p_leaves) and o.state in ('failed', 'cancelled') returning o.id, o.attempt
  )
  insert into sluice.queue (id, ready_at, parent_id, idx, class_id, state, rank, attempt, guarded)
  select d.id, p_now, d.parent_id, d.idx, d.class_id, 'waiting', sluice.rank_in_class_v1(d.class_id, d.priority, d.submitted_at), a.attempt,
         coalesce(d.policy ? 'approval', false)
    from again a join sluice.job_data d on d.id = a.id;
  get diagnostics v_count = row_count;
  return v_count;
end $function$;

--- function sluice.raise_jobs_v1(p_worker bigint, p_oom jsonb)
CREATE OR REPLACE FUNCTION sluice.raise_jobs_v1(p_worker bigint, p_oom jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_row    record;
  v_part   text;
  v_raised jsonb;
begin
  for v_row in
    select o.id, o.model, o.needed, coalesce(d.uses, jsonb_build_object('uses', t.uses, 'perJob', coalesce(t.per_job, '{}'))) as own,
           m.amounts as seen
      from jsonb_to_recordset(p_oom) as o(id bigint, model text, needed double precision, loading boolean)
      join sluice.queue q on q.id = o.id and q.state in ('ready', 'scheduled')
      join sluice.job_data d on d.id = q.id
      join sluice.tasks t on t.name = d.task and t.uses is not null
      join sluice.attempts a on a.job_id = q.id and a.attempt = q.attempt and a.worker_id = p_worker and a.ending = 'out_of_memory'
      left join sluice.models m on m.name = o.model
     where o.model is null or not o.loading order by o.id
  loop
    v_part := case when v_row.model is null then 'uses' else 'perJob' end;
    select jsonb_object_agg(g.budget, jsonb_build_object('devices', g.devices, 'each',
             greatest(g.own, least(greatest(1.25 * g.own, case when v_row.model is not null then 0.1 * g.beside end, v_row.needed),
                                   coalesce(sluice.largest_v1(g.budget), 'Infinity') - g.beside))))
      into v_raised
      from (select u.key as budget, coalesce((u.value ->> 'devices')::integer, 1) as devices,
                   coalesce((v_row.own -> v_part -> u.key ->> 'each')::double precision, 0) as own,
                   case when v_row.model is not null then greatest((u.value ->> 'each')::double precision, (v_row.seen ->> u.key)::double precision)
                        else coalesce((v_row.own -> 'perJob' -> u.key ->> 'each')::double precision, 0) end as beside
              from jsonb_each(v_row.own -> 'uses') u
              join sluice.memory_budgets_v1(array(select jsonb_object_keys(v_row.own -> 'uses'))) b(name) on b.name = u.key
             where jsonb_typeof(u.value) = 'object') g;
    update sluice.job_data d set uses = v_row.own || jsonb_build_object(v_part, (v_row.own -> v_part) || coalesce(v_raised, '{}'))
     where d.id = v_row.id;
  end loop;
end $function$;

--- function sluice.raise_models_v1(p_worker bigint, p_now timestamp with time zone, p_oom jsonb)
CREATE OR REPLACE FUNCTION sluice.raise_models_v1(p_worker bigint, p_now timestamp with time zone, p_oom jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_row    record;
  v_raised jsonb := '{}';
begin
  for v_row in
    select o.* from jsonb_to_recordset(p_oom) as o(id bigint, model text, devices text[], needed double precision, loading boolean)
     order by o.model, o.id
  loop
    update sluice.devices d set out_of_memory = d.out_of_memory + 1
     where d.key = any (v_row.devices)
       and d.budget in (select sluice.memory_budgets_v1(array(select x.budget from sluice.devices x where x.key = any (v_row.devices))));
    continue when v_row.model is null;
    update sluice.residents r set unloading_at = coalesce(r.unloading_at, p_now)
     where r.worker_id = p_worker and r.model = v_row.model and r.devices = v_row.devices;
    continue when not v_row.loading;
    v_raised := v_raised || jsonb_build_object(v_row.model, sluice.merge_amounts_v1(jsonb_build_array(coalesce(v_raised -> v_row.model, '{}'), (
      select coalesce(jsonb_object_agg(r.budget, r.amount), '{}') from (
        select x.budget, greatest(max(x.amount), least(greatest(v_row.needed, 1.25 * max(x.amount)),
                                                       coalesce(sluice.largest_v1(x.budget), 'Infinity'))) as amount
          from sluice.residents x
         where x.worker_id = p_worker and x.model = v_row.model and x.devices = v_row.devices
           and x.budget in (select sluice.memory_budgets_v1(array(select y.budget from sluice.residents y where y.worker_id = p_worker
                                                                     and y.model = v_row.model and y.devices = v_row.devices)))
         group by x.budget) r))));
  end loop;
  return v_raised;
end $function$;

--- function sluice.rank_in_class_v1(p_class integer, p_priority integer, p_since timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.rank_in_class_v1(p_class integer, p_priority integer, p_since timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (SELECT sluice.rank_v1(rank_in_class_v1.p_priority, l.ageing_ms, rank_in_class_v1.p_since) AS rank_v1 FROM (sluice.classes c JOIN sluice.lanes l ON ((l.name = c.lane))) WHERE (c.id = rank_in_class_v1.p_class));

--- function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (CASE WHEN (p_ageing_ms IS NULL) THEN 0 ELSE (floor(((EXTRACT(epoch FROM p_since) * (1000)::numeric) / (p_ageing_ms)::numeric)))::integer END - p_priority);

--- function sluice.read_jobs_v1(p_jobs jsonb, p_now timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.read_jobs_v1(p_jobs jsonb, p_now timestamp with time zone)
 RETURNS TABLE(task text, class_id integer, key text, key_owner text, input jsonb, priority integer, rank integer, state sluice.job_state, due timestamp with time zone, deadline_ms bigint, deadline_at timestamp with time zone, tags text[], owner text, trace text, uses jsonb)
 LANGUAGE sql
 STABLE
AS $function$
  select g.task,
         case when p.own_lane then t.class_id else sluice.class_in_lane_v1(t.class_id, g.lane) end as class_id,
         g.key, case when g.key is not null and t.keys = 'owner' then coalesce(g."by", session_user::text) end as key_owner, g.input, p.priority,
         case when p.own_lane then sluice.rank_v1(p.priority, t.ageing_ms, p_now)
              else (select sluice.rank_v1(p.priority, l.ageing_ms, p_now) from sluice.lanes l where l.name = sluice.live_lane_v1(g.lane)) end as rank,
         case when t.approval then 'awaiting_approval'::sluice.job_state when p.due > p_now then 'scheduled'::sluice.job_state
              else 'ready'::sluice.job_state end as state,
         p.due, p.deadline_ms,
         case when not t.approval then p.due + make_interval(secs => p.deadline_ms / 1000.0) end as deadline_at,
         g.tags, coalesce(g."by", session_user::text) as owner, g.trace,
         case when t.refusal is not null or g.uses is not null then sluice.checked_uses_v1(t.name, t.refusal, g.uses) end as uses
    from rows from (jsonb_to_recordset(p_jobs) as (task text, input jsonb, key text, priority integer, lane text, "runAt" timestamptz,
                                                   "delayMs" bigint, "deadlineMs" bigint, tags text[], "by" text, trace text,
                                                   uses jsonb))
         with ordinality as g(task, input, key, priority, lane, "runAt", "delayMs", "deadlineMs", tags, "by", trace, uses, ord)
    join (select t.*, l.ageing_ms from sluice.tasks t join sluice.lanes l on l.name = t.lane) t on t.name = g.task
   cross join lateral (select coalesce(g.priority, t.priority) as priority,
                              nullif(coalesce(g."deadlineMs", t.deadline_ms, (select a.deadline_ms from sluice.admission a)), 0) as deadline_ms,
                              greatest(p_now, g."runAt", p_now + make_interval(secs => g."delayMs" / 1000.0)) as due,
                              g.lane is null as own_lane) p
   order by g.ord   -- a join may turn the order round
$function$;

--- function sluice.read_source_v1(p_source text, p_match text, p_rest text, p_limit integer, p_look integer, p_is_dense boolean, OUT ids bigint[], OUT stop bigint)
CREATE OR REPLACE FUNCTION sluice.read_source_v1(p_source text, p_match text, p_rest text, p_limit integer, p_look integer, p_is_dense boolean, OUT ids bigint[], OUT stop bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_at    text := left(p_source, 1);
  v_range text := substr(p_source, 3);
  v_query text;
  v_last  bigint;
  v_seen  bigint;
begin
  stop := 0;
  -- Most pages are full after a short look.
  v_query := format('select %1$s.id from (select %1$s.* %2$s limit %3$s) %1$s where %4$s', v_at, v_range, least(p_look, 10 * p_limit), p_match);
  -- Of what has ended the ids are gathered first: their jobs mostly lie side by side, and are found together.
  if p_rest <> '' then
    v_query := format('select d.id from sluice.job_data d where d.id = any (array(%s))%s order by d.id desc', v_query, p_rest);
  end if;
  execute format('select array(%s limit %s)', v_query, p_limit + 1) into ids;
  if cardinality(ids) <= p_limit then
    execute format('select array_agg(%1$s.id order by %1$s.id desc) filter (where %4$s), min(%1$s.id), count(*)
                      from (select %1$s.* %2$s limit %3$s) %1$s',
                   v_at, v_range, p_look, p_match) into ids, v_last, v_seen;
    if p_rest <> '' then
      execute format('select array(select d.id from sluice.job_data d where d.id = any ($1)%s order by d.id desc)', p_rest) into ids using ids;
    end if;
    if v_seen = p_look then
      -- Below it may lie the rest of a fan-out: looked at like this, 100,000 children are 20 pages without a row.
      stop := case when p_is_dense then sluice.skip_children_v1(v_last) else v_last end;
    end if;
  end if;
  if cardinality(ids) > p_limit then
    stop := greatest(stop, ids[p_limit + 1]);
  end if;
end $function$;

--- function sluice.read_steady_lane_v1(p_worker bigint, p_known bigint, p_done_seqs bigint[], p_lane text, p_run integer, p_free integer, p_ahead integer, p_class integer, p_rank integer, p_after bigint, p_now timestamp with time zone, p_since timestamp with time zone, p_slots integer, p_wants boolean, p_has_asked boolean, p_classes integer[])
CREATE OR REPLACE FUNCTION sluice.read_steady_lane_v1(p_worker bigint, p_known bigint, p_done_seqs bigint[], p_lane text, p_run integer, p_free integer, p_ahead integer, p_class integer, p_rank integer, p_after bigint, p_now timestamp with time zone, p_since timestamp with time zone, p_slots integer, p_wants boolean, p_has_asked boolean, p_classes integer[])
 RETURNS TABLE(skip_before timestamp with time zone, ahead integer, free integer, is_waited_for boolean, is_asked boolean, is_steady boolean, first_rank integer, first_id bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select g.skip_before,
         -- What becomes ready from here on may belong to workers that come first.
         case when q.id is null and p_since is not null or l.slots = 1 or o.asked or l.placement = 'spread' or t.on_lost = 'fail'
                   or k.task = any (w.pooled) then 0
              else least(p_ahead, l.prefetch) end,
         case when q.id is null and p_since is not null then 0 when l.slots is null then p_free else least(p_free, p_slots - p_run) end,
         exists (select 1 from sluice.waiters x where x.until > p_now offset 0),
         coalesce(l.slots is not null and o.asked, false),
         g.claims_open and not w.draining and l.enabled and not k.budgeted
         and (w.capacity = 0 or p_run + p_free <= w.capacity)
         and coalesce(p_run + p_free <= sluice.per_worker_v1(l.per_worker, w.capacity, w.cores), true)
         -- It uses no more slots than it holds. Nobody else waits for slots, or there are jobs for all it has free; and it has as many as it asks
         -- for, or was refused a moment ago and there are still no more, or has enough for all that is ready.
         and (l.slots is null or p_run <= p_slots and o.held <= l.slots
                                 and (not coalesce(o.asked, false)
                                      or not o.elsewhere and p_free > 0 and p_run + p_free <= p_slots
                                         and exists (select 1 from sluice.ready_v1(p_class, p_rank, p_after, p_free) offset p_free - 1))
                                 and (p_run + p_free <= p_slots and not p_wants or p_has_asked and o.held = l.slots
                                      or not p_wants and not exists (select 1 from sluice.ready_v1(p_class, p_rank, p_after, p_slots - p_run + 1)
                                                                     offset p_slots - p_run)))
         and (q.id is null or coalesce(q.ready_at <= p_since, true) and coalesce(q.deadline_at > p_now, true))
         -- It knows of all its claims, and none that ends has a place in a window, which the general cycle gives to the next child at once.
         and not exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.seq > p_known offset 0)
         and not exists (select 1 from sluice.claims c
                          where c.worker_id = p_worker and c.seq = any (p_done_seqs) and c.parents is not null
                            and exists (select 1 from sluice.composites w
                                         where w.job_id = any (c.parents) and w.window_size is not null offset 0) offset 0),
         case when l.slots is distinct from 1 then q.rank end, case when l.slots is distinct from 1 then q.id end
    from sluice.workers w
    join sluice.generation g on g.one
    join sluice.lanes l on l.name = p_lane
    join sluice.classes k on k.id = p_class
    left join sluice.tasks t on t.name = k.task
   cross join lateral (select sum(h.slots) as held, bool_or(h.wants and h.worker_id <> p_worker) as asked,
                                bool_or(h.wants and h.worker_id <> p_worker and not coalesce(h.asks <@ p_classes, false)) as elsewhere
                         from sluice.holdings h where h.lane = p_lane) o
    left join lateral sluice.ready_v1(p_class, p_rank, p_after, 1) q on true
   where w.id = p_worker
$function$;

--- function sluice.readopt_v1(p_worker bigint, p_generation uuid, p_named jsonb)
CREATE OR REPLACE FUNCTION sluice.readopt_v1(p_worker bigint, p_generation uuid, p_named jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_worker  sluice.workers;
  v_lane    record;
  v_held    record;    -- what it has of a lane, or of all
  v_fits    integer;   -- how many of those that run are given back
  v_starts  integer;   -- and how many of them as started
  v_slots   integer;   -- its slots of the lane
  v_spare   integer;   -- slots of the lane that nobody has
  v_free    integer;   -- its capacity, less what runs
  v_unused  integer;   -- its capacity, less what has started by the database
  v_running bigint[] := array(select n.id from jsonb_to_recordset(p_named) n(id bigint, ended boolean) where n.ended is not true);
  v_over    bigint[] := array(select n.id from jsonb_to_recordset(p_named) n(id bigint, ended boolean) where n.ended);
  v_starting bigint[] := '{}';
  v_assigned bigint[] := '{}';
  v_ids      bigint[];
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  if v_worker.generation is distinct from p_generation and not (select g.copied from sluice.generation g) then
    select count(*) filter (where case when r.assigned then r.id = any (v_running) else r.id <> all (v_over) end)::integer as running,
           count(*) filter (where not r.assigned)::integer as started into v_held
      from sluice.claimed r where r.worker_id = p_worker;
    v_free := case v_worker.capacity when 0 then 2147483647 else v_worker.capacity - v_held.running end;
    v_unused := case v_worker.capacity when 0 then 2147483647 else v_worker.capacity - v_held.started end;
    for v_lane in
      select c.lane, l.slots, coalesce(array_agg(j.id order by j.rank, j.id) filter (where n.ended is not true), '{}') as running,
             coalesce(array_agg(j.id order by j.rank, j.id) filter (where n.ended), '{}') as over
        from jsonb_to_recordset(p_named) n(id bigint, attempt integer, ended boolean)
        join sluice.queue j on j.id = n.id and j.state is not distinct from 'ready' and n.attempt between j.attempt + 1 and j.attempt + 2
        join sluice.classes c on c.id = j.class_id and c.task = any (v_worker.tasks) and not c.budgeted
        join sluice.holdings h on h.worker_id = p_worker and h.lane = c.lane
        join sluice.lanes l on l.name = c.lane
       group by c.lane, l.slots order by c.lane
    loop
      v_fits := greatest(0, least(cardinality(v_lane.running), v_free));
      v_starts := greatest(0, least(v_fits, v_unused));
      if v_lane.slots is not null and v_fits > 0 then
        perform 1 from sluice.lanes l where l.name = v_lane.lane for no key update;
        select count(*) filter (where case when r.assigned then r.id = any (v_running) else r.id <> all (v_over) end)::integer as running,
               count(*) filter (where not r.assigned)::integer as started into v_held
          from sluice.claimed r join sluice.classes c on c.id = r.class_id where r.worker_id = p_worker and c.lane = v_lane.lane;
        select greatest(0, v_lane.slots - sum(h.slots)), sum(h.slots) filter (where h.worker_id = p_worker)
          into v_spare, v_slots from sluice.holdings h where h.lane = v_lane.lane;
        v_fits := least(v_fits, greatest(0, v_slots - v_held.running) + v_spare);
        -- At every commit: no more has started than it has slots. The others start for the database with the next cycle, which records the endings.
        v_starts := least(v_starts, v_fits, greatest(0, v_slots - v_held.started) + v_spare);
        -- It grows by no more than the lane has left, whatever runs already.
        update sluice.holdings h set slots = h.slots
          + least(v_spare, greatest(0, v_held.running + v_fits - h.slots, v_held.started + v_starts - h.slots))
          where h.worker_id = p_worker and h.lane = v_lane.lane;
      end if;
      v_starting := v_starting || v_lane.running[:v_starts];
      v_assigned := v_assigned || v_lane.running[v_starts + 1:v_fits] || v_lane.over;
      v_free := v_free - v_fits;
      v_unused := v_unused - v_starts;
    end loop;
    v_ids := v_starting || v_assigned;
    -- Under the number that the worker has for the attempt.
    update sluice.queue q set attempt = n.attempt - 1 from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
     where q.id = any (v_ids) and n.id = q.id;
    perform sluice.start_jobs_v1(p_worker, clock_timestamp(),
                                 greatest(sluice.microseconds_v1(clock_timestamp()),
                                          (select max(c.seq) + 1 from sluice.claims c where c.worker_id = p_worker)),
                                 array(select q.ctid from unnest(v_ids) with ordinality i(id, ord) join sluice.queue q on q.id = i.id order by i.ord),
                                 p_start => cardinality(v_starting));
  end if;
  update sluice.queue q set attempt = n.attempt
    from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
    join sluice.job_data d on d.id = n.id and d.task = any (v_worker.tasks)
   where q.id = n.id and n.attempt between q.attempt + 1 and q.attempt + 2;
end $function$;

--- function sluice.ready_classes_v1(p_now timestamp with time zone, p_classes integer[], p_lane integer[], p_most integer[], p_rank integer[], p_after bigint[], p_fresh integer[], p_turn integer, p_skips boolean)
CREATE OR REPLACE FUNCTION sluice.ready_classes_v1(p_now timestamp with time zone, p_classes integer[], p_lane integer[], p_most integer[], p_rank integer[], p_after bigint[], p_fresh integer[], p_turn integer, p_skips boolean DEFAULT false)
 RETURNS sluice.cycle_class_v1[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_start timestamptz := clock_timestamp();
  v_from  integer;
  v_found sluice.cycle_class_v1[];
  v_ranks integer[];   -- of the first ready job of each, and its id
  v_ids   bigint[];
begin
  if cardinality(p_classes) <= 64 then
    select array_agg(row(c.id, c.lane, c.most, c.rank, c.after, n.fresh)::sluice.cycle_class_v1), array_agg(x.rank), array_agg(x.id)
      into v_found, v_ranks, v_ids
        from unnest(p_classes, p_lane, p_most, p_rank, p_after, p_fresh) c(id, lane, most, rank, after, fresh)
       cross join lateral sluice.ready_v1(c.id, c.rank, c.after, 1) x
       cross join lateral (
         select case when x.ready_at > f.since and exists (select 1 from sluice.ready_v1(c.id, c.rank, c.after, 16) y where y.ready_at <= f.since)
                  then 0 else coalesce(c.fresh, 0) end as fresh
           from (select p_now - make_interval(secs => c.fresh / 1000.0) as since) f) n
       where c.most > 0 and c.lane is not null;
    if p_skips and clock_timestamp() > v_start + interval '1 millisecond' then
      for i in 1 .. coalesce(cardinality(v_found), 0) loop
        continue when exists (select 1 from sluice.classes k join sluice.lanes s on s.name = k.lane where k.id = v_found[i].id and s.slots = 1);
        v_found[i].rank := v_ranks[i];
        v_found[i].after := v_ids[i] - 1;
      end loop;
    end if;
    return coalesce(v_found, '{}');
  end if;
  v_from := (select c.id from unnest(p_classes) c(id) order by c.id offset 64::bigint * p_turn % cardinality(p_classes) limit 1);
  -- Only classes that the cycle can use count towards the 64, so fewer than 64 are all that there are.
  return array(
    with recursive walk as (
      select v_from - 1 as class_id, false as again, false as is_found
      union all
      select n.class_id, n.again, true from walk w cross join lateral (
        (select q.class_id, w.again from sluice.queue q where q.state = 'ready' and q.class_id > w.class_id and (not w.again or q.class_id < v_from)
          order by q.class_id limit 1)
        union all
        (select q.class_id, true from sluice.queue q where not w.again and q.state = 'ready' and q.class_id < v_from order by q.class_id limit 1)
        limit 1) n
    )
    select row(w.class_id, p_lane[c.ord], p_most[c.ord], p_rank[c.ord], p_after[c.ord], n.fresh)::sluice.cycle_class_v1
      from walk w cross join lateral (select array_position(p_classes, w.class_id) as ord offset 0) c
     cross join lateral sluice.ready_v1(w.class_id, p_rank[c.ord], p_after[c.ord], 1) x
     cross join lateral (
       select case when x.ready_at > f.since
                        and exists (select 1 from sluice.ready_v1(w.class_id, p_rank[c.ord], p_after[c.ord], 16) y where y.ready_at <= f.since)
                then 0 else coalesce(p_fresh[c.ord], 0) end as fresh
         from (select p_now - make_interval(secs => p_fresh[c.ord] / 1000.0) as since) f) n
     where w.is_found and p_most[c.ord] > 0 and p_lane[c.ord] is not null
     limit 64);
end $function$;

--- function sluice.ready_v1(p_class integer, p_rank integer, p_after bigint, p_limit integer)
CREATE OR REPLACE FUNCTION sluice.ready_v1(p_class integer, p_rank integer, p_after bigint, p_limit integer)
 RETURNS TABLE(rank integer, id bigint, ready_at timestamp with time zone, deadline_at timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
  select q.rank, q.id, q.ready_at, q.deadline_at from sluice.queue q
   where q.class_id = p_class and q.state = 'ready' and (q.rank, q.id) > (p_rank, p_after)
   order by q.rank, q.id limit p_limit
$function$;

--- function sluice.recall_assigned_v1(p_worker bigint, p_named jsonb)
CREATE OR REPLACE FUNCTION sluice.recall_assigned_v1(p_worker bigint, p_named jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET lock_timeout TO '1s'
AS $function$
declare
  v_endings   jsonb;
  v_cancelled boolean;
begin
  if p_named is null or not exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.assigned is not null offset 0) then
    return;
  end if;
  perform 1 from sluice.claims c where c.worker_id = p_worker and c.assigned is not null order by c.seq for update;
  select jsonb_agg(jsonb_build_object('id', r.id, 'seq', r.seq, 'ending', 'unstarted')), bool_or(r.cancel_at is not null) into v_endings, v_cancelled
    from sluice.claimed r
   where r.worker_id = p_worker and r.assigned and r.id <> all (array(select n.id from jsonb_to_recordset(p_named) n(id bigint)));
  if v_endings is not null then
    perform sluice.end_attempts_v1(p_worker, v_endings);
    if v_cancelled then
      -- These end: whoever waits for them hears of it.
      perform pg_notify('sluice', 'done');
    end if;
  end if;
end $function$;

--- function sluice.recheck_limits_v1(INOUT lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.recheck_limits_v1(INOUT lanes sluice.cycle_lane_v1[])
 RETURNS sluice.cycle_lane_v1[]
 LANGUAGE plpgsql
AS $function$
declare
  v_lane sluice.cycle_lane_v1;
  v_set  record;
begin
  for i in 1 .. cardinality(lanes) loop
    v_lane := lanes[i];
    continue when v_lane.take <= 0;
    select s.enabled, s.slots as lim, (select sum(h.slots)::integer from sluice.holdings h where h.lane = s.name) as held
      into v_set from sluice.lanes s where s.name = v_lane.name;
    if not v_set.enabled then
      lanes[i].take := 0;
    elsif v_set.held > v_set.lim then
      lanes[i].cap := greatest(0, v_lane.before - (v_set.held - v_set.lim));
      lanes[i].take := greatest(0, least(v_lane.take, lanes[i].cap - v_lane.run));
    end if;
  end loop;
end $function$;

--- function sluice.reconcile_budgets_v1()
CREATE OR REPLACE FUNCTION sluice.reconcile_budgets_v1()
 RETURNS TABLE(what text, subject text)
 LANGUAGE plpgsql
AS $function$
begin
  delete from sluice.reservations r
   where r.ctid = any (array(select x.ctid from sluice.reservations x
                              where not exists (select 1 from sluice.running j
                                                 where j.worker_id = x.worker_id and j.id = x.job_id and j.attempt = x.attempt)
                              limit 10000 for update skip locked));
  delete from sluice.residents r
   where r.ctid = any (array(select x.ctid from sluice.residents x join sluice.workers w on w.id = x.worker_id
                              where w.ended_at is not null for update of x skip locked));
  delete from sluice.worker_devices d using sluice.workers w where w.id = d.worker_id and w.ended_at is not null;
  -- A device that nobody has offered for a day is not waited for.
  delete from sluice.devices d
   where d.ctid = any (array(select x.ctid from sluice.devices x
                              where x.key <> '' and x.seen_at < clock_timestamp() - interval '1 day'
                                and x.most is null   -- an operator's limit stays until it is reset
                                and not exists (select 1 from sluice.worker_devices o where o.budget = x.budget and o.device = x.key)
                                and not exists (select 1 from sluice.reservations r where r.budget = x.budget and r.device = x.key)
                              for update skip locked));
  if found then
    perform sluice.refuse_impossible_tasks_v1();
  end if;
  return query
  select 'undrawn', 'job ' || j.id
    from sluice.running j join sluice.classes c on c.id = j.class_id and c.budgeted join sluice.tasks t on t.name = c.task
   where j.started_at > t.updated_at
     and not exists (select 1 from sluice.reservations r where r.job_id = j.id and r.attempt = j.attempt)
   limit 100;
end $function$;

--- function sluice.record_composite_state_v1()
CREATE OR REPLACE FUNCTION sluice.record_composite_state_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.written := pg_current_xact_id();
  return new;
end $function$;

--- function sluice.record_input_author_v1(p_root bigint, p_name text, p_submitter text)
CREATE OR REPLACE FUNCTION sluice.record_input_author_v1(p_root bigint, p_name text, p_submitter text)
 RETURNS void
 LANGUAGE sql
AS $function$
  update sluice.job_data d set chosen_by = array_append(d.chosen_by, p_name)
   where d.id = p_root and p_name <> p_submitter and not p_name = any (coalesce(d.chosen_by, '{}'))
$function$;

--- function sluice.record_models_v1(p_worker bigint, p_now timestamp with time zone, p_budget jsonb)
CREATE OR REPLACE FUNCTION sluice.record_models_v1(p_worker bigint, p_now timestamp with time zone, p_budget jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_row     record;
  v_learning double precision := (p_budget ->> 'learning')::double precision;
  v_raised  jsonb := '{}';   -- what loads ran out of memory with, by model
  v_others  boolean := false;
begin
  -- First: it reads what was charged for a copy that may be reported as unloaded with it.
  if p_budget ? 'oom' then
    v_raised := sluice.raise_models_v1(p_worker, p_now, p_budget -> 'oom');
  end if;
  for v_row in select u.model, u.device from jsonb_to_recordset(p_budget -> 'unloaded') as u(model text, device text) order by 1, 2 loop
    -- Unless a job was given to it meanwhile: that one loads it again.
    delete from sluice.residents r
     where r.worker_id = p_worker and r.model = v_row.model and r.device = v_row.device
       and (r.unloading_at is not null or not exists (
         select 1 from sluice.reservations v join sluice.running j on j.worker_id = v.worker_id and j.id = v.job_id and j.attempt = v.attempt
           join sluice.classes c on c.id = j.class_id
          where v.device = r.device and v.budget = r.budget and j.worker_id = p_worker and c.model = r.model));
    update sluice.residents r set loaded_at = null where r.worker_id = p_worker and r.model = v_row.model and r.device = v_row.device;
  end loop;
  for v_row in
    select l.model, array(select x from unnest(l.devices) x order by x) as devices
      from jsonb_to_recordset(p_budget -> 'loaded') as l(model text, devices text[]) order by 1
  loop
    update sluice.residents r set loaded_at = coalesce(r.loaded_at, p_now)
     where r.worker_id = p_worker and r.model = v_row.model and r.devices = v_row.devices and r.loaded_at is null;
  end loop;
  update sluice.residents r set idle_since = p_now
    from jsonb_to_recordset(p_budget -> 'idle') as i(model text, devices text[])
   where r.worker_id = p_worker and r.model = i.model and r.devices = i.devices;
  for v_row in select u.worker, u.model, u.devices from jsonb_to_recordset(p_budget -> 'unload') as u(worker bigint, model text, devices text[])
                order by 1, 2 loop
    update sluice.residents r set unloading_at = p_now
     where r.worker_id = v_row.worker and r.model = v_row.model and r.devices = v_row.devices and r.unloading_at is null
       and not exists (
         select 1 from sluice.reservations v join sluice.running j on j.worker_id = v.worker_id and j.id = v.job_id and j.attempt = v.attempt
           join sluice.classes c on c.id = j.class_id
          where v.device = r.device and v.budget = r.budget and j.worker_id = r.worker_id and c.model = r.model);
    v_others := v_others or found and v_row.worker <> p_worker;
  end loop;
  if v_others then
    perform pg_notify('sluice', 'ready');
  end if;

  if p_budget ?| '{loaded,ran,avoided,oom}' then
    insert into sluice.models as m (name, load_ms, run_ms, ran_at, rest_ms, amounts, loads, load_total_ms, swaps_avoided, out_of_memory)
    select n.model, max(n.load_ms), max(n.run_ms), case when max(n.ran_ms) is not null then p_now end,
           case when max(n.ran_ms) is not null and max(k.ran_at) is not null
                then greatest(0, extract(epoch from p_now - max(k.ran_at)) * 1000 - max(n.ran_ms)) end,
           coalesce(sluice.merge_amounts_v1(jsonb_agg(n.amounts)), '{}'), sum(n.loads),
           coalesce(sum(n.load_ms), 0), sum(n.avoided), sum(n.oom)
      from (select l.model, l."loadMs" as load_ms, null::double precision as run_ms, null::double precision as ran_ms,
                   coalesce(o.amounts, '{}') as amounts, 1 as loads, 0 as avoided, 0 as oom
              from jsonb_to_recordset(p_budget -> 'loaded') as l(model text, "loadMs" double precision, observed jsonb)
             cross join lateral (
               select jsonb_object_agg(y.budget, y.amount) as amounts from (
                 select d.budget, max(x.value::double precision) as amount from jsonb_each_text(l.observed) x
                   join sluice.devices d on d.key = x.key join sluice.budgets b on b.name = d.budget and b.auto group by d.budget) y) o
            union all
            select r.model, null, r."totalMs" / greatest(1, r.jobs), r."totalMs", '{}', 0, 0, 0
              from jsonb_to_recordset(p_budget -> 'ran') as r(model text, jobs integer, "totalMs" double precision)
            union all
            select a.key, null, null, null, '{}', 0, a.value::integer, 0 from jsonb_each_text(p_budget -> 'avoided') a
            union all
            select x.model, null, null, null, coalesce(v_raised -> x.model, '{}'), 0, 0, 1
              from jsonb_to_recordset(p_budget -> 'oom') as x(model text) where x.model is not null) n
      left join sluice.models k on k.name = n.model
     group by n.model order by n.model
    on conflict (name) do update
       set load_ms = case when excluded.load_ms is null then m.load_ms
                          when m.loads = 0 or m.load_ms is null then excluded.load_ms
                          else m.load_ms + v_learning * (excluded.load_ms - m.load_ms) end,
           run_ms = case when excluded.run_ms is null then m.run_ms
                         else coalesce(m.run_ms + v_learning * (excluded.run_ms - m.run_ms), excluded.run_ms) end,
           ran_at = coalesce(excluded.ran_at, m.ran_at),
           rest_ms = case when excluded.rest_ms is null then m.rest_ms
                          else coalesce(m.rest_ms + v_learning * (excluded.rest_ms - m.rest_ms), excluded.rest_ms) end,
           -- More than was known is taken at once; less, slowly.
           amounts = (select coalesce(jsonb_object_agg(k.key, case
                        when not excluded.amounts ? k.key then (m.amounts ->> k.key)::double precision
                        when not m.amounts ? k.key then (excluded.amounts ->> k.key)::double precision
                        else greatest((excluded.amounts ->> k.key)::double precision,
                                      0.8 * (m.amounts ->> k.key)::double precision + 0.2 * (excluded.amounts ->> k.key)::double precision) end),
                                      '{}')
                        from (select jsonb_object_keys(m.amounts || excluded.amounts) as key) k),
           loads = m.loads + excluded.loads, load_total_ms = m.load_total_ms + excluded.load_total_ms,
           swaps_avoided = m.swaps_avoided + excluded.swaps_avoided, out_of_memory = m.out_of_memory + excluded.out_of_memory, updated_at = p_now;
  end if;
end $function$;

--- function sluice.record_overflow_v1(p_pool text, p_jobs integer, p_lanes jsonb)
CREATE OR REPLACE FUNCTION sluice.record_overflow_v1(p_pool text, p_jobs integer, p_lanes jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_began boolean;
begin
  if p_jobs = 0 then
    update sluice.fleet_samples s set at = clock_timestamp(), jobs = 0, lanes = '[]', since = null where s.pool = p_pool and s.since is not null;
    return false;
  end if;
  v_began := not exists (select 1 from sluice.fleet_samples s where s.pool = p_pool and s.since is not null);
  insert into sluice.fleet_samples as s (pool, jobs, lanes, since, overflows) values (p_pool, p_jobs, p_lanes, clock_timestamp(), 1)
    on conflict (pool) do update set at = clock_timestamp(), jobs = p_jobs, lanes = p_lanes, since = coalesce(s.since, clock_timestamp()),
                                     overflows = s.overflows + (s.since is null)::integer;
  return v_began;
end $function$;

--- function sluice.record_report_v1(p_worker bigint, p_now timestamp with time zone, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_endings jsonb, p_begun bigint[], p_begun_seqs bigint[], p_hint boolean, OUT is_whole boolean, OUT parents bigint[], OUT idxs integer[])
CREATE OR REPLACE FUNCTION sluice.record_report_v1(p_worker bigint, p_now timestamp with time zone, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_endings jsonb, p_begun bigint[], p_begun_seqs bigint[], p_hint boolean, OUT is_whole boolean, OUT parents bigint[], OUT idxs integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_seqs  bigint[] := p_begun_seqs || p_done_seqs;
  v_begun integer;
  v_ended integer;
  v_done  record;
begin
  if p_endings is not null then
    v_seqs := v_seqs || array(select (e ->> 'seq')::bigint from jsonb_array_elements(p_endings) e);
  end if;
  -- For all the functions below, in the order in which everybody locks claims. They see what was committed before: a new priority, a cancel.
  perform 1 from sluice.claims c where c.worker_id = p_worker and c.seq = any (v_seqs) order by c.seq for update;
  if p_begun is not null then
    v_begun := sluice.report_starts_v1(p_worker, p_begun_seqs, p_begun);
  end if;
  if p_endings is not null then
    -- First: a claim that is left with what completed is over.
    v_ended := sluice.end_attempts_v1(p_worker, p_endings);
  end if;
  if p_done is not null then
    v_done := sluice.finish_v1(p_worker, p_now, p_done_seqs, p_done, p_results, p_ran);
    v_ended := coalesce(v_ended, 0) + v_done.ended; parents := v_done.parents; idxs := v_done.idxs;
  end if;
  is_whole := coalesce(v_ended, 0) = coalesce(cardinality(p_done), 0) + coalesce(jsonb_array_length(p_endings), 0)
    and coalesce(v_begun, 0) = coalesce(cardinality(p_begun), 0);
  if p_hint and is_whole and (p_done is not null or p_endings is not null) then
    perform pg_notify('sluice', 'done');
  end if;
end $function$;

--- function sluice.record_started_v1(p_id bigint, p_instances jsonb, p_failures jsonb)
CREATE OR REPLACE FUNCTION sluice.record_started_v1(p_id bigint, p_instances jsonb, p_failures jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_open boolean;
begin
  update sluice.fleet_decisions d
     set started = jsonb_array_length(p_instances), instances = p_instances, failures = p_failures, looked_at = clock_timestamp(),
         stop_at = case when d.ended_at is not null and p_instances <> '[]' then clock_timestamp() end
   where d.id = p_id returning d.ended_at is null into v_open;
  return coalesce(v_open, true);
end $function$;

--- function sluice.recount_v1(p_set sluice.admission, p_new bigint[], p_scheduled integer, p_checked boolean)
CREATE OR REPLACE FUNCTION sluice.recount_v1(p_set sluice.admission, p_new bigint[], p_scheduled integer, p_checked boolean)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_rows    bigint[];
  v_gone    integer;       -- listed, and not active any more
  v_active  bigint[];
  v_since   timestamptz;
  v_rate    real;
  v_now     timestamptz := clock_timestamp();
  v_spans   tstzmultirange;   -- when some listed job was active
  v_elapsed double precision;
  v_depths  jsonb;         -- those that wait, by task
  v_bounds  jsonb;         -- with those that run, which may come back to wait
  v_over    record;
  v_scheduled integer;
begin
  select array_agg(l.seq), min(l.at) filter (where l.base), coalesce(max(l.rate), 0), (array_agg(l.scheduled order by l.seq desc))[1]
    into v_rows, v_since, v_rate, v_scheduled
    from sluice.ledger_v1() l;
  select coalesce(array_agg(a.id) filter (where a.active), '{}'), count(*) filter (where not a.active),
         range_agg(tstzrange(a.since, greatest(a.since, coalesce(a.finished_at, v_now)))) filter (where a.kept)
    into v_active, v_gone, v_spans
    from (select g.id, g.since, o.finished_at, k.kept,
                 k.kept and o.id is null and (q.id is null or q.state <> 'scheduled' or q.started_at is not null) as active
            from (select u.id, least(v_now, min(c.at)) as since from sluice.charges c, unnest(c.ids) u(id)
                   where c.seq = any (v_rows) and u.id not in (select unnest(p_new)) group by u.id) g
            left join sluice.outcomes o on o.id = g.id
            left join sluice.queue q on q.id = g.id
           -- One that has not ended and does not wait runs, unless it was deleted.
           cross join lateral (select coalesce(o.id, q.id, (select d.id from sluice.job_data d where d.id = g.id)) is not null as kept) k) a;
  if v_since is not null then
    select coalesce(sum(extract(epoch from upper(s) - lower(s))), 0) into v_elapsed from unnest(v_spans) s;
    v_rate := greatest((v_gone + 2 * v_rate) / (v_elapsed + 2), least(v_rate, 1 / greatest(v_elapsed, 1)));
  end if;
  if not p_set.complete then
    v_active := array(select unnest(sluice.active_roots_v1(p_set)) except select unnest(p_new));
  end if;
  if p_set.scheduled_limit is null then
    v_scheduled := null;
  elsif p_scheduled is null and not p_set.complete then
    v_scheduled := sluice.count_scheduled_v1();
  else
    v_scheduled := coalesce(p_scheduled, v_scheduled);
  end if;
  select coalesce(jsonb_object_agg(t.task, coalesce(n.waiting, 0)), '{}'), coalesce(jsonb_object_agg(t.task, coalesce(n.active, 0)), '{}')
    into v_depths, v_bounds
    from jsonb_object_keys(p_set.max_queued) t(task)
    left join (select d.task, count(q.id) as waiting, count(*) as active
                 from unnest(v_active || p_new) g(id) join sluice.job_data d on d.id = g.id left join sluice.queue q on q.id = g.id
                where p_set.max_queued <> '{}' group by d.task) n on n.task = t.task;
  if p_checked then
    -- Before the ceiling: whoever sends fewer of a task then may fit under that as well.
    for v_over in
      select n.task, n.added, (v_depths ->> n.task)::integer as depth, (p_set.max_queued ->> n.task)::integer as most
        from (select d.task, count(*)::integer as added
                from unnest(p_new) g(id) join sluice.queue q on q.id = g.id join sluice.job_data d on d.id = g.id
               where p_set.max_queued ? d.task group by d.task) n
       order by n.task
    loop
      if v_over.depth > v_over.most then
        perform sluice.refuse_v1(jsonb_build_object('task', v_over.task, 'maxQueued', v_over.most, 'queued', v_over.depth - v_over.added),
                                 v_over.added, v_over.depth - v_over.most, v_rate);
      end if;
    end loop;
    if cardinality(p_new) > 0 and cardinality(v_active) + cardinality(p_new) > p_set.max_active then
      perform sluice.refuse_v1(jsonb_build_object('ceiling', p_set.max_active, 'active', cardinality(v_active)), cardinality(p_new),
                               cardinality(v_active) + cardinality(p_new) - p_set.max_active, v_rate);
    end if;
  end if;
  insert into sluice.charges (base, ids, bound, depths, counted, scheduled, rate)
    values (true, v_active || p_new, cardinality(v_active) + cardinality(p_new), v_bounds,
            cardinality(v_active) + cardinality(p_new), v_scheduled, v_rate);
  delete from sluice.charges c where c.seq = any (v_rows);
end $function$;

--- function sluice.recover_lost_workers_v1(p_good_for_ms bigint)
CREATE OR REPLACE FUNCTION sluice.recover_lost_workers_v1(p_good_for_ms bigint)
 RETURNS TABLE(worker_id bigint, worker text, lane text, requeued integer, failed integer, cancelled integer, stepped_back_ms bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_dead    record;
  v_seqs    bigint[];
  v_ids     bigint[];
  v_found   boolean := false;
begin
  perform sluice.notice_generation_v1();
  stepped_back_ms := sluice.follow_clock_v1();
  if stepped_back_ms is not null then
    return next;
    return;   -- everybody has a whole stale time to report by the new clock
  end if;
  for v_dead in
    select h.worker_id, h.lane, w.name, l.stale_ms
      from sluice.holdings h
      join sluice.generation g on g.one
      join sluice.workers w on w.id = h.worker_id
      join sluice.lanes l on l.name = h.lane
     where w.seen_at < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
       and l.stale_ms <= p_good_for_ms
       and sluice.up_since_v1(g.noticed_at) < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
     order by h.worker_id, h.lane
  loop
    perform 1 from sluice.holdings h where h.worker_id = v_dead.worker_id and h.lane = v_dead.lane for no key update skip locked;
    continue when not found;
    perform 1 from sluice.workers w where w.id = v_dead.worker_id
       and w.seen_at < clock_timestamp() - make_interval(secs => v_dead.stale_ms / 1000.0) for no key update;
    continue when not found;

    -- All of the worker, since its other lanes may be next: claims are locked by worker and number.
    perform 1 from sluice.claims c where c.worker_id = v_dead.worker_id order by c.seq for update;
    v_seqs := array(select c.seq from sluice.claims c
                     where c.worker_id = v_dead.worker_id and c.class_id in (select k.id from sluice.classes k where k.lane = v_dead.lane));
    select coalesce(l.ids, '{}'), l.requeued, l.failed, l.cancelled into v_ids, requeued, failed, cancelled
      from sluice.end_lost_claims_v1(v_dead.worker_id, v_seqs,
        -- It came back under its name: that is a restart, and no machine that went away.
        case when exists (select 1 from sluice.workers n where n.name = v_dead.name and n.id > v_dead.worker_id and n.ended_at is null
                      and n.seen_at > clock_timestamp() - make_interval(secs => v_dead.stale_ms / 1000.0))
             then 'interrupted by restart of worker ' || v_dead.name else 'worker ' || v_dead.name || ' stopped answering' end) l;
    worker_id := v_dead.worker_id;
    worker := v_dead.name;
    lane := v_dead.lane;
    return next;
    if cardinality(v_ids) > 0 then
      insert into sluice.recoveries (kind, worker, lane, jobs, requeued, failed, cancelled, job_ids)
        values ('taken_over', v_dead.name, v_dead.lane, cardinality(v_ids), requeued, failed, cancelled, v_ids[:20]);
    end if;
    delete from sluice.holdings h where h.worker_id = v_dead.worker_id and h.lane = v_dead.lane;
    update sluice.workers w set ended_at = clock_timestamp(), ended_why = 'stopped answering'
     where w.id = v_dead.worker_id and w.ended_at is null
       and not exists (select 1 from sluice.holdings h where h.worker_id = w.id);
    v_found := true;
  end loop;
  -- Registered and not heard of again before it held anything: it has no jobs, only a place on the list of workers.
  update sluice.workers w set ended_at = clock_timestamp(), ended_why = 'stopped answering'
   where w.id = any (array(select g.id from sluice.generation n, sluice.workers g, (select max(l.stale_ms) as ms from sluice.lanes l) stale
                            where g.ended_at is null and stale.ms <= p_good_for_ms
                              and g.seen_at < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                              and sluice.up_since_v1(n.noticed_at) < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                              and not exists (select 1 from sluice.holdings h where h.worker_id = g.id)
                              for no key update of g skip locked));
  if v_found then
    perform pg_notify('sluice', 'ready');
    perform pg_notify('sluice', 'workers');   -- the cores that their process pools had are free
  end if;
  perform sluice.open_claims_v1();
end $function$;

--- function sluice.refuse_composites_v1(p_children jsonb, p_jobs bigint[])
CREATE OR REPLACE FUNCTION sluice.refuse_composites_v1(p_children jsonb, p_jobs bigint[])
 RETURNS TABLE(parent bigint, idx integer, error text)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_most  bigint := (select s.value from sluice.settings s where s.name = 'children_per_tree');
  v_depth bigint := (select s.value from sluice.settings s where s.name = 'tree_depth');
  v_roots bigint[];
begin
  select array_agg(distinct coalesce(p.root_id, p.id)) into v_roots
    from jsonb_to_recordset(p_children) as g(parent bigint, kind sluice.composite_kind, state sluice.job_state)
    join sluice.job_data p on p.id = g.parent
   where g.parent = any (p_jobs) and g.kind is not null and g.state < 'completed';
  if v_roots is null then
    return;
  end if;
  insert into sluice.trees (root_id, children) select r, 0 from unnest(v_roots) r order by r on conflict do nothing;
  perform 1 from sluice.trees t where t.root_id = any (v_roots) order by t.root_id for no key update;
  return query
  with given as materialized (
    select g.parent, g.idx, t.root_id, coalesce(g.below, 0) as jobs, c.depth + 1 as depth, t.children
      from jsonb_to_recordset(p_children) as g(parent bigint, idx integer, kind sluice.composite_kind, state sluice.job_state, below bigint)
      join sluice.job_data p on p.id = g.parent
      join sluice.composites c on c.job_id = g.parent
      join sluice.trees t on t.root_id = coalesce(p.root_id, p.id)
     where g.parent = any (p_jobs) and g.kind is not null and g.state < 'completed'
  ), summed as materialized (
    select g.*, g.children + sum(g.jobs) filter (where g.depth <= v_depth) over (partition by g.root_id order by g.jobs, g.parent, g.idx) as upto
      from given g
  ), counted as (
    update sluice.trees t set children = s.children
      from (select u.root_id, max(u.upto) as children from summed u where u.depth <= v_depth and u.upto <= v_most group by u.root_id) s
     where t.root_id = s.root_id
  )
  select s.parent, s.idx,
         case when s.depth > v_depth
              then format('tree: it would be %s levels below its root, and a tree may have %s: end the nesting earlier, or raise treeDepth',
                          s.depth, v_depth)
              else format('tree: with the %s jobs of this step its tree would have %s, and it may have %s: make fewer, '
                             'in batches for example, or raise childrenPerTree',
                          s.jobs, s.upto, v_most) end
    from summed s where s.depth > v_depth or s.upto > v_most;
end $function$;

--- function sluice.refuse_impossible_tasks_v1()
CREATE OR REPLACE FUNCTION sluice.refuse_impossible_tasks_v1()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  -- In the order in which tasks are stored.
  perform 1 from sluice.tasks t where t.uses is not null or t.refusal is not null order by t.name for no key update;
  update sluice.tasks t set refusal = g.refusal
    from (select k.name, case when k.uses is not null then sluice.uses_refusal_v1(k.uses, k.per_job) end as refusal
            from sluice.tasks k where k.uses is not null or k.refusal is not null) g
   where t.name = g.name and t.refusal is distinct from g.refusal;
end $function$;

--- function sluice.refuse_scheduled_v1(p_limit integer, p_scheduled integer, p_later bigint[])
CREATE OR REPLACE FUNCTION sluice.refuse_scheduled_v1(p_limit integer, p_scheduled integer, p_later bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  v_due   timestamptz := (
    select q.ready_at from sluice.queue q
     where q.state = 'scheduled' and q.started_at is null and q.parent_id is null and q.id not in (select unnest(p_later))
     order by q.ready_at offset p_scheduled + cardinality(p_later) - p_limit - 1 limit 1);
  v_after integer := greatest(1, least(60, ceil(extract(epoch from v_due - clock_timestamp()))))::integer;
begin
  raise exception '% of at most % jobs are scheduled for later, so % cannot be admitted; try again in % s', p_scheduled, p_limit,
      case cardinality(p_later) when 1 then 'one more' else cardinality(p_later) || ' more' end, v_after
    using errcode = 'SL007', detail = jsonb_build_object('maxScheduled', p_limit, 'scheduled', p_scheduled,
      'requested', cardinality(p_later), 'retryAfter', v_after, 'drainRate', 0);
end $function$;

--- function sluice.refuse_v1(p_facts jsonb, p_count integer, p_need integer, p_rate real)
CREATE OR REPLACE FUNCTION sluice.refuse_v1(p_facts jsonb, p_count integer, p_need integer, p_rate real)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  -- With nothing known to end, a few seconds; never more than a minute, since rates change.
  v_after integer := case when p_rate < 0.001 then 5 else greatest(1, least(60, ceil(p_need / p_rate)))::integer end;
begin
  raise exception '%', case when p_facts ? 'ceiling'
      then format('%s%s of at most %s jobs are active, so %s cannot be admitted; try again in %s s',
                  case when p_facts ? 'atLeast' then 'at least ' else '' end,
                  p_facts ->> 'active', p_facts ->> 'ceiling',
                  case p_count when 1 then 'one more' else p_count || ' more' end, v_after)
      when p_facts ? 'owner'
      then format('%s has %s of at most %s jobs that have not ended, so %s cannot be admitted; try again in %s s', p_facts ->> 'owner',
                  p_facts ->> 'owned', p_facts ->> 'maxPerOwner', case p_count when 1 then 'one more' else p_count || ' more' end, v_after)
      else format('%s of at most %s jobs of %s wait, so %s cannot be admitted; try again in %s s', p_facts ->> 'queued', p_facts ->> 'maxQueued',
                  p_facts ->> 'task', case p_count when 1 then 'one more' else p_count || ' more' end, v_after) end
    using errcode = 'SL007', detail = p_facts - 'atLeast'
        || jsonb_build_object('requested', p_count, 'retryAfter', v_after, 'drainRate', round(p_rate::numeric, 3));
end $function$;

--- function sluice.register_worker_v1(p_name text, p_host text, p_pid integer, p_version text, p_capacity integer, p_cores integer, p_tasks text[], p_labels jsonb, p_pooled text[], p_key bigint, p_rank integer, p_pool text, p_request text, p_build text, p_process_limit integer)
CREATE OR REPLACE FUNCTION sluice.register_worker_v1(p_name text, p_host text, p_pid integer, p_version text, p_capacity integer, p_cores integer, p_tasks text[], p_labels jsonb DEFAULT '{}'::jsonb, p_pooled text[] DEFAULT '{}'::text[], p_key bigint DEFAULT NULL::bigint, p_rank integer DEFAULT 0, p_pool text DEFAULT NULL::text, p_request text DEFAULT NULL::text, p_build text DEFAULT NULL::text, p_process_limit integer DEFAULT NULL::integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_id bigint;
begin
  insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, labels, pooled, key_id, rank, pool, request, build, process_limit,
                              generation)
    values (p_name, p_host, p_pid, p_version, p_capacity, p_cores, p_tasks, p_labels, p_pooled, p_key, p_rank, p_pool, p_request, p_build,
            p_process_limit,
            sluice.notice_generation_v1())
    returning id into v_id;
  return v_id;
end $function$;

--- function sluice.reject_job_v1(p_id bigint, p_comment text, p_by text)
CREATE OR REPLACE FUNCTION sluice.reject_job_v1(p_id bigint, p_comment text, p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_job record;
begin
  perform 1 from sluice.queue q where q.id = p_id and q.state = 'awaiting_approval' for update;
  if not found then
    return false;
  end if;
  update sluice.job_data d set approved_by = p_by where d.id = p_id;
  select e.* into v_job from sluice.end_queued_v1(array[p_id], 'cancelled', 'rejected: ' || p_comment) e;
  if v_job.parent_id is not null then
    perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array['cancelled'::sluice.job_state]);
  end if;
  perform pg_notify('sluice', 'done');
  return true;
end $function$;

--- function sluice.remove_from_claims_v1(p_worker bigint, p_seqs bigint[], p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.remove_from_claims_v1(p_worker bigint, p_seqs bigint[], p_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  delete from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs) and c.ids <@ p_ids;
  update sluice.claims c
     set (ids, ready_ats, deadlines, attempts, failures, losses, parents, idxs, keyed, errors) = (
           select array_agg(j.id), array_agg(j.ready_at), case when c.deadlines is not null then array_agg(j.deadline_at) end,
                  case when c.attempts is not null then array_agg(j.attempt) end, case when c.failures is not null then array_agg(j.failures) end,
                  case when c.losses is not null then array_agg(j.losses) end, case when c.parents is not null then array_agg(j.parent_id) end,
                  case when c.idxs is not null then array_agg(j.idx) end, case when c.keyed is not null then array_agg(j.keyed) end,
                  case when c.errors is not null then array_agg(j.error) end
             from unnest(c.ids, c.ready_ats, c.deadlines, c.attempts, c.failures, c.losses, c.parents, c.idxs, c.keyed, c.errors)
                  as j(id, ready_at, deadline_at, attempt, failures, losses, parent_id, idx, keyed, error)
            where j.id <> all (p_ids)),
         cancels = nullif(c.cancels - p_ids::text[], '{}'),
         assigned = nullif(array(select a from unnest(c.assigned) a where a <> all (p_ids)), '{}')
   where c.worker_id = p_worker and c.seq = any (p_seqs);
end $function$;

--- function sluice.repair_orphans_and_drift_v1()
CREATE OR REPLACE FUNCTION sluice.repair_orphans_and_drift_v1()
 RETURNS TABLE(worker_id bigint, lane text, held integer, running integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_row    record;
  v_actual integer;
begin
  for v_row in
    select h.worker_id, h.lane
      from sluice.holdings h join sluice.lanes l on l.name = h.lane and l.slots is not null
     where h.slots < (select count(*) from sluice.running r join sluice.classes c on c.id = r.class_id
                       where r.worker_id = h.worker_id and c.lane = h.lane)
     order by h.worker_id, h.lane
  loop
    -- Seen without a lock it may be a cycle under way. Looked at again under the lock it is a fact.
    perform 1 from sluice.holdings h where h.worker_id = v_row.worker_id and h.lane = v_row.lane for no key update skip locked;
    continue when not found;
    select count(*)::integer into v_actual from sluice.running r join sluice.classes c on c.id = r.class_id
     where r.worker_id = v_row.worker_id and c.lane = v_row.lane;
    return query
    with before as materialized (
      select h.slots from sluice.holdings h where h.worker_id = v_row.worker_id and h.lane = v_row.lane
    )
    update sluice.holdings h set slots = v_actual, epoch = h.epoch + 1 from before
     where h.worker_id = v_row.worker_id and h.lane = v_row.lane and h.slots < v_actual
    returning h.worker_id, h.lane, before.slots, v_actual;
  end loop;
  -- Running under a worker that holds nothing: nobody would ever end it.
  for v_row in
    select s.worker_id, s.lane, array_agg(s.seq) as seqs
      from (select c.worker_id, c.seq, k.lane from sluice.claims c join sluice.classes k on k.id = c.class_id
             where not exists (select 1 from sluice.holdings h where h.worker_id = c.worker_id and h.lane = k.lane)
             order by c.worker_id, c.seq limit 100 for update of c skip locked) s
     group by s.worker_id, s.lane
  loop
    insert into sluice.recoveries (kind, lane, jobs, requeued, failed, cancelled, job_ids)
    select 'orphan', v_row.lane, cardinality(l.ids), l.requeued, l.failed, l.cancelled, l.ids[:20]
      from sluice.end_lost_claims_v1(v_row.worker_id, v_row.seqs, 'no worker held this job') l
    returning jobs into running;
    worker_id := 0; lane := v_row.lane; held := 0;
    return next;
  end loop;
end $function$;

--- function sluice.report_devices_v1(p_worker bigint, p_readings jsonb)
CREATE OR REPLACE FUNCTION sluice.report_devices_v1(p_worker bigint, p_readings jsonb)
 RETURNS TABLE(name text, auto boolean, declared jsonb)
 LANGUAGE plpgsql
AS $function$
declare
  v_host    text;
  v_owner   text;   -- of its key; null: it needs none
  v_taken   text[] := '{}';
  v_changed boolean := false;
  v_before  record;
  v_after   record;
  v_row     record;
begin
  perform set_config('synchronous_commit', 'off', true);
  select w.host, case when w.key_id is not null then coalesce((select k.name from sluice.api_keys k where k.id = w.key_id), '') end
    into v_host, v_owner from sluice.workers w where w.id = p_worker and w.ended_at is null;
  if found and jsonb_array_length(p_readings) > 0 then
    -- As new devices will need it, but before any device is locked: whoever deletes a budget takes that first, then its devices.
    perform 1 from sluice.budgets b
      where b.name in (select g ->> 'budget' from jsonb_array_elements(p_readings) g) order by b.name for key share;
    for v_row in
      select g.budget, g.key, g.name, case when b.auto then g.total else least(g.total, (b.devices ->> g.name)::double precision) end as total,
             g.used, g.free, g.lost,
             clock_timestamp() - make_interval(secs => g."ageMs" / 1000.0) as measured_at
        from jsonb_to_recordset(p_readings) as g(budget text, key text, name text, total double precision, used double precision,
                                                 free double precision, "ageMs" double precision, lost boolean)
        join sluice.budgets b on b.name = g.budget and b.kind = 'device'
       where case when not b.auto then b.devices ? g.name and g.key = v_host || '/' || g.name
                  when g.key <> v_host || '/cpu' then g.key ~ '^(GPU|MIG)-[A-Za-z0-9/-]{1,200}$'
                  else g."ageMs" is not null or not exists (
                    select 1 from sluice.devices d where d.budget = g.budget and d.host = v_host and d.key ~ '^(GPU|MIG)-') end
         and (v_owner is null or not exists (
           select 1 from sluice.worker_devices o join sluice.workers w on w.id = o.worker_id and w.ended_at is null
             left join sluice.api_keys k on k.id = w.key_id
            where o.budget = g.budget and o.device = g.key and (w.key_id is null or coalesce(k.name, '') <> v_owner)))
       order by g.budget, g.key
    loop
      v_taken := v_taken || (v_row.budget || ' ' || v_row.key);
      select d.total, d.lost_at is not null as lost into v_before from sluice.devices d
       where d.budget = v_row.budget and d.key = v_row.key for no key update;
      insert into sluice.devices as d (budget, key, host, name, total, measured_free, measured_used, measured_at, lost_at)
        values (v_row.budget, v_row.key, v_host, v_row.name, v_row.total, v_row.free, v_row.used,
                case when v_row.free is not null then v_row.measured_at end, case when v_row.lost then clock_timestamp() end)
      on conflict (budget, key) do update
         -- A GPU that no longer tells its memory has not become larger.
         set host = excluded.host, name = excluded.name, total = coalesce(excluded.total, d.total), seen_at = clock_timestamp(),
             -- Of two workers on one machine the newer reading counts: one whose driver hangs repeats its last.
             measured_free = case when excluded.measured_at >= coalesce(d.measured_at, '-infinity') then excluded.measured_free
                                  else d.measured_free end,
             measured_used = case when excluded.measured_at >= coalesce(d.measured_at, '-infinity') then excluded.measured_used
                                  else d.measured_used end,
             measured_at = greatest(excluded.measured_at, d.measured_at),
             -- Back is only what was read since: a worker that reads no GPUs says nothing about this one.
             lost_at = case when excluded.lost_at is not null then coalesce(d.lost_at, excluded.lost_at)
                            when v_row.measured_at > d.lost_at then null else d.lost_at end
      returning d.total, d.lost_at is not null as lost into v_after;
      -- What is stored, not what was read: two workers that do not see the same would tell everybody with every report.
      v_changed := v_changed or v_before is distinct from v_after;
    end loop;
    delete from sluice.worker_devices w where w.worker_id = p_worker and w.budget || ' ' || w.device <> all (v_taken);
    v_changed := v_changed or found;
    insert into sluice.worker_devices (worker_id, budget, device)
    select p_worker, split_part(t, ' ', 1), substr(t, strpos(t, ' ') + 1) from unnest(v_taken) t
    on conflict do nothing;
    v_changed := v_changed or found;
    if v_changed then
      perform sluice.refuse_impossible_tasks_v1();
      perform pg_notify('sluice', 'ready');
    end if;
  end if;
  return query select b.name, b.auto, b.devices from sluice.budgets b where b.kind = 'device' order by b.name;
end $function$;

--- function sluice.report_starts_v1(p_worker bigint, p_seqs bigint[], p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.report_starts_v1(p_worker bigint, p_seqs bigint[], p_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_started integer;
begin
  with started as (
    select c.seq, array(select a from unnest(c.assigned) a where a <> all (p_ids)) as rest, cardinality(c.assigned) as before
      from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs) and c.assigned && p_ids
  ), kept as (
    update sluice.claims c set assigned = nullif(s.rest, '{}'), written = pg_current_xact_id()
      from started s where c.worker_id = p_worker and c.seq = s.seq
  )
  select coalesce(sum(s.before - cardinality(s.rest)), 0) into v_started from started s;
  return v_started;
end $function$;

--- function sluice.reprioritise_v1(p_ids bigint[], p_priority integer)
CREATE OR REPLACE FUNCTION sluice.reprioritise_v1(p_ids bigint[], p_priority integer)
 RETURNS TABLE(id bigint, before integer)
 LANGUAGE plpgsql
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_ids   bigint[];
  v_more  bigint[] := '{}';   -- those that are assigned to workers
  v_roots bigint[];
  v_left  integer := 1000;
  v_batch record;
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  v_ids := array(select q.id from sluice.queue q where q.id = any (p_ids) order by q.id for no key update);
  if cardinality(v_ids) < cardinality(p_ids) then
    v_more := array(select a.id from (select c.assigned from sluice.claims c where c.assigned && p_ids
                                       order by c.worker_id, c.seq for no key update) c
                     cross join lateral unnest(c.assigned) a(id) where a.id = any (p_ids));
  end if;
  return query
  with waiting as materialized (
    select q.id from sluice.queue q where q.id = any (v_ids)
    union
    select m.id from unnest(v_more) m(id)
    union
    select c.job_id from sluice.composites c where c.job_id = any (p_ids) and not c.ended
  ), before as materialized (
    select d.id, d.priority, d.composite from sluice.job_data d where d.id = any (array(select w.id from waiting w))
  ), changed as (
    update sluice.job_data d set priority = p_priority where d.id = any (array(select b.id from before b))
  ), ranked as (
    update sluice.queue q
       set rank = coalesce(sluice.rank_in_class_v1(q.class_id, p_priority, (select d.submitted_at from sluice.job_data d where d.id = q.id)), q.rank)
     where q.id = any (array(select b.id from before b))
  ), marked as (
    insert into sluice.priority_changes (job_id, priority) select b.id, p_priority from before b where b.composite is not null
    on conflict (job_id) do update set priority = excluded.priority, next_idx = 0, missed = null, retry_at = clock_timestamp()
  )
  select b.id, b.priority from before b order by b.id;
  if not found then
    return;
  end if;
  v_roots := array(select coalesce(d.root_id, d.id) from sluice.priority_changes m join sluice.job_data d on d.id = m.job_id
                    where m.job_id = any (p_ids));
  while v_left > 0 and v_roots <> '{}' loop
    select * into v_batch from sluice.spread_priority_v1(v_left, v_roots);
    exit when not v_batch.more;
    v_left := v_left - greatest(v_batch.changed, 10);
  end loop;
  perform sluice.hint_v1('ready', 'commit');
end $function$;

--- function sluice.rerank_v1(p_lane text, p_ageing_ms integer, p_skip boolean)
CREATE OR REPLACE FUNCTION sluice.rerank_v1(p_lane text, p_ageing_ms integer, p_skip boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_classes integer[] := array(select c.id from sluice.classes c where c.lane = p_lane);
  v_ids     bigint[];
begin
  v_ids := array(
    select q.id from sluice.queue q join sluice.job_data d on d.id = q.id where q.class_id = any (v_classes) and q.state = 'ready'
       and q.rank <> sluice.rank_v1(d.priority, p_ageing_ms, d.submitted_at)
    union all
    select q.id from sluice.queue q join sluice.job_data d on d.id = q.id where q.class_id = any (v_classes) and q.state = 'scheduled'
       and q.rank <> sluice.rank_v1(d.priority, p_ageing_ms, d.submitted_at)
    union all
    select q.id from sluice.queue q join sluice.job_data d on d.id = q.id where q.class_id = any (v_classes) and q.state = 'awaiting_approval'
       and q.rank <> sluice.rank_v1(d.priority, p_ageing_ms, d.submitted_at)
    union all
    select q.id from sluice.queue q join sluice.job_data d on d.id = q.id where q.class_id = any (v_classes) and q.state = 'waiting'
       and q.rank <> sluice.rank_v1(d.priority, p_ageing_ms, d.submitted_at));
  if cardinality(v_ids) = 0 then
    return;
  end if;
  if p_skip then
    v_ids := array(select q.id from sluice.queue q where q.id = any (v_ids) for no key update skip locked);
  else
    perform 1 from sluice.queue q where q.id = any (v_ids) order by q.id + 0 for no key update;
  end if;
  update sluice.queue q set rank = sluice.rank_v1(d.priority, p_ageing_ms, d.submitted_at)
    from sluice.job_data d where q.id = any (v_ids) and d.id = q.id;
end $function$;

--- function sluice.rerun_job_v1(p_id bigint)
CREATE OR REPLACE FUNCTION sluice.rerun_job_v1(p_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_now   timestamptz;
  v_due   timestamptz;
  v_ended sluice.outcomes;
  v_job   sluice.job_data;
  v_approval boolean;
begin
  delete from sluice.outcomes o using sluice.job_data d
   where d.id = p_id and d.composite is null and d.parent_id is null and o.id = d.id
  returning o.* into v_ended;
  if not found then
    return false;
  end if;
  select * into v_job from sluice.job_data d where d.id = p_id;
  -- A job that was approved asks again, and so does one whose task is no longer known: nothing says that it may run without.
  v_approval := coalesce((select t.approval from sluice.tasks t where t.name = v_job.task), true) or v_job.approved_by is not null;
  v_now := clock_timestamp();
  -- One that was cancelled before its time keeps that time.
  v_due := case when v_ended.started_at is null then greatest(v_ended.ready_at, v_now) else v_now end;
  if v_ended.attempt > 0 then
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
    values (p_id, v_ended.attempt, v_ended.worker_id, v_ended.started_at, v_ended.finished_at, 'rerun',
            v_ended.state::text || coalesce(': ' || v_ended.error, ''))
    on conflict do nothing;
  end if;
  -- One that failed goes on where it stopped; one that completed starts over.
  if v_ended.state = 'completed' then
    delete from sluice.steps s where s.job_id = p_id;
    delete from sluice.notes n where n.job_id = p_id;
  end if;
  if v_job.approved_by is not null then
    update sluice.job_data d set approved_by = null where d.id = p_id;
  end if;
  if v_job.key is not null then
    insert into sluice.job_keys (task, key, owner, job_id) values (v_job.task, v_job.key, coalesce(v_job.key_owner, ''), p_id);
  end if;
  insert into sluice.queue (id, ready_at, started_at, deadline_at, class_id, state, rank, attempt, keyed)
  values (p_id, v_due, v_ended.started_at, case when not v_approval then v_due + make_interval(secs => v_job.deadline_ms / 1000.0) end,
          v_job.class_id,
          case when v_approval then 'awaiting_approval' when v_due > v_now then 'scheduled' else 'ready' end::sluice.job_state,
          sluice.rank_in_class_v1(v_job.class_id, v_job.priority, v_job.submitted_at), v_ended.attempt, v_job.key is not null);
  perform pg_notify('sluice', 'ready');
  perform sluice.admit_v1(array[p_id], 'commit');
  return true;
end $function$;

--- function sluice.reset_admission_v1(p_by text)
CREATE OR REPLACE FUNCTION sluice.reset_admission_v1(p_by text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_declared jsonb;
  v_default  text[];
begin
  -- Scheduled jobs that were stored while they had no limit were not counted.
  update sluice.admission a
     set operator_set = '{}', max_queued = '{}', max_scheduled = null, complete = a.complete and a.scheduled_limit is not null,
         settles_at = case when a.scheduled_limit is not null then a.settles_at end
  returning a.declared, a.default_set into v_declared, v_default;
  perform sluice.change_admission_v1('{"maxActive": null, "maxPerOwner": null, "deadlineMs": null}' || v_declared - 'implied', p_by, false);
  update sluice.admission a set declared = a.declared || jsonb_build_object('implied', coalesce(v_declared -> 'implied', '{}')),
                                default_set = v_default;
end $function$;

--- function sluice.reset_budget_v1(p_name text, p_by text)
CREATE OR REPLACE FUNCTION sluice.reset_budget_v1(p_name text, p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform 1 from sluice.budgets b where b.name = p_name and b.declared ? 'kind' for no key update;
  if not found then
    return false;
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;   -- as cycles lock them
  update sluice.devices d set most = null where d.budget = p_name and d.most is not null;
  return sluice.change_budget_v1(p_name, null, p_by, true);
end $function$;

--- function sluice.reset_lane_v1(p_name text, p_by text)
CREATE OR REPLACE FUNCTION sluice.reset_lane_v1(p_name text, p_by text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_tasks text[];
begin
  if not exists (select 1 from sluice.lanes l where l.name = p_name and l.declared <> '{}') then
    return false;
  end if;
  -- It locks jobs and then the lane, so nothing may be locked before it.
  perform sluice.change_lane_v1(p_name, null, p_by, true);
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  update sluice.lanes l set deleted_at = null, deleted_to = null where l.name = p_name;
  v_tasks := array(select t.name from sluice.tasks t where p_name in (t.lane, t.declared_lane));
  update sluice.tasks t set moved_at = null, moved_by = null where t.name = any (v_tasks) and t.moved_at is not null;
  perform sluice.place_tasks_v1(v_tasks);
  return true;
end $function$;

--- function sluice.reset_pool_v1(p_name text, p_by text)
CREATE OR REPLACE FUNCTION sluice.reset_pool_v1(p_name text, p_by text)
 RETURNS boolean
 LANGUAGE sql
RETURN sluice.change_pool_v1(p_name, NULL::jsonb, p_by, true);

--- function sluice.resize_window_v1(p_id bigint, p_size integer)
CREATE OR REPLACE FUNCTION sluice.resize_window_v1(p_id bigint, p_size integer)
 RETURNS TABLE(before integer, after integer)
 LANGUAGE plpgsql
AS $function$
declare
  v_old    integer;
  v_former integer;
  v_new    integer;
begin
  select c.window_size, c.window_before into v_old, v_former from sluice.composites c
   where c.job_id = p_id and c.started_at is not null and not c.ended and c.window_size is not null for no key update;
  if v_old is not null then
    v_new := coalesce(p_size, case when v_old = 0 then coalesce(v_former, 1) else v_old end);
    update sluice.composites c
       set window_size = v_new, window_before = case when v_new > 0 then null when v_old > 0 then v_old else c.window_before end
     where c.job_id = p_id;
    insert into sluice.wakeups (job_id) values (p_id);
    perform pg_notify('sluice', 'wake');
    return query select v_old, v_new;
  end if;
end $function$;

--- function sluice.resync_v1(p_worker bigint, p_named jsonb, p_recall boolean)
CREATE OR REPLACE FUNCTION sluice.resync_v1(p_worker bigint, p_named jsonb DEFAULT NULL::jsonb, p_recall boolean DEFAULT true)
 RETURNS TABLE(lane text, epoch integer, job_id bigint, attempt integer, class_id integer, seq bigint, assigned boolean)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_epoch      integer;
  v_generation uuid := sluice.notice_generation_v1();
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for no key update;
  perform 1 from sluice.workers w where w.id = p_worker and w.ended_at is null for no key update;
  if not found then return; end if;
  select coalesce(max(h.epoch), 0) + 1 into v_epoch from sluice.holdings h where h.worker_id = p_worker;
  update sluice.holdings h set epoch = v_epoch where h.worker_id = p_worker;
  -- A lane whose row somebody has locked is left out, and the worker comes again: it is not to wait for it with all the others.
  insert into sluice.holdings (worker_id, lane, epoch)
    select p_worker, l.name, v_epoch from sluice.lanes l
     where l.name in (select c.lane from sluice.classes c join sluice.workers w on c.task = any (w.tasks) where w.id = p_worker)
       and not exists (select 1 from sluice.holdings h where h.worker_id = p_worker and h.lane = l.name)
     order by l.name for key share of l skip locked
    on conflict do nothing;
  if p_named is not null and not exists (select 1 from sluice.generation g where g.claims_open) then
    -- What may be given back. Before any claim is locked: others lock the queue first.
    perform 1 from sluice.queue q where q.id = any (array(select n.id from jsonb_to_recordset(p_named) n(id bigint))) order by q.id + 0 for update;
  end if;
  perform sluice.drop_ended_v1(array[p_worker]);
  if p_recall then
    perform sluice.recall_assigned_v1(p_worker, p_named);
  end if;
  if p_named is not null and not exists (select 1 from sluice.generation g where g.claims_open) then
    if p_named <> '[]' then
      perform sluice.readopt_v1(p_worker, v_generation, p_named);
    end if;
    update sluice.workers w set generation = v_generation where w.id = p_worker and w.generation is distinct from v_generation;
    perform sluice.open_claims_v1();
  end if;
  return query
  select h.lane, v_epoch, r.id, r.attempt, r.class_id, r.seq, r.assigned
    from (select 1) one
    left join sluice.holdings h on h.worker_id = p_worker
    left join (select j.id, j.attempt, j.class_id, c.lane, j.seq, j.assigned
                 from sluice.claimed j join sluice.classes c on c.id = j.class_id where j.worker_id = p_worker) r on r.lane = h.lane
   order by h.lane, r.id;
end $function$;

--- function sluice.resyncs_v1(p_workers bigint[])
CREATE OR REPLACE FUNCTION sluice.resyncs_v1(p_workers bigint[])
 RETURNS TABLE(worker_id bigint, lane text, epoch integer, job_id bigint, attempt integer, class_id integer, seq bigint)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_held bigint[];   -- a worker for each of its holdings that is locked
  v_ids  bigint[];
begin
  -- In a statement of its own: the next one sees what a cycle assigned that had the locks until now.
  v_held := array(select h.worker_id from sluice.holdings h where h.worker_id = any (p_workers) for no key update skip locked);
  v_ids := array(
    with held as materialized (select x.id, count(*) as holdings from unnest(v_held) x(id) group by x.id)
    select w.id from sluice.workers w
     where w.id = any (p_workers) and w.ended_at is null
       and exists (select 1 from sluice.generation g where g.id = w.generation)
       and not exists (select 1 from sluice.claims c where c.worker_id = w.id and c.assigned is not null)
       and coalesce((select x.holdings from held x where x.id = w.id), 0) = (select count(*) from sluice.holdings h where h.worker_id = w.id)
       for no key update skip locked);
  update sluice.holdings h set epoch = n.epoch
    from (select o.worker_id, max(o.epoch) + 1 as epoch from sluice.holdings o where o.worker_id = any (v_ids) group by o.worker_id) n
   where h.worker_id = n.worker_id;
  insert into sluice.holdings (worker_id, lane, epoch)
    select n.id, l.name, coalesce((select max(h.epoch) from sluice.holdings h where h.worker_id = n.id), 1)
      from (select distinct w.id, c.lane from sluice.workers w join sluice.classes c on c.task = any (w.tasks)
             where w.id = any (v_ids) and not exists (select 1 from sluice.holdings h where h.worker_id = w.id and h.lane = c.lane)) n
      join sluice.lanes l on l.name = n.lane
     order by n.id, n.lane for key share of l skip locked
    on conflict do nothing;
  perform sluice.drop_ended_v1(v_ids);
  return query
  select w.id, h.lane, coalesce(h.epoch, 1), r.id, r.attempt, r.class_id, r.seq
    from unnest(v_ids) w(id)
    left join sluice.holdings h on h.worker_id = w.id
    left join lateral (select j.id, j.attempt, j.class_id, j.seq
                         from sluice.claimed j join sluice.classes c on c.id = j.class_id
                        where j.worker_id = w.id and c.lane = h.lane) r on true
   order by w.id, h.lane, r.id;
end $function$;

--- function sluice.retire_v1(p_worker bigint, p_idle_ms double precision)
CREATE OR REPLACE FUNCTION sluice.retire_v1(p_worker bigint, p_idle_ms double precision)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  v_worker sluice.workers;
  v_pool   sluice.pools;
  v_why    text;
  v_idle   boolean := false;
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  select * into v_pool from sluice.pools p where p.name = v_worker.pool for no key update;
  if not found then
    return null;
  end if;
  if v_worker.started_at < clock_timestamp() - make_interval(secs => v_pool.lifetime_ms / 1000.0) then
    v_why := format('lived for %s s, the lifetime in pool %s', round(v_pool.lifetime_ms / 1000.0, 1)::float8, v_pool.name);
  elsif p_idle_ms >= v_pool.idle_ms
        and not exists (select 1 from sluice.claimed r where r.worker_id = p_worker) then
    v_idle := true;
    v_why := format('idle for %s s in pool %s', round(p_idle_ms::numeric / 1000, 1)::float8, v_pool.name);
  else
    return null;
  end if;
  if (select count(*) from sluice.workers w
       where w.pool = v_pool.name and w.ended_at is null and not w.draining and w.id <> p_worker
         and w.seen_at > clock_timestamp() - 2 * make_interval(secs => (select s.value / 1000.0 from sluice.settings s
                                                                         where s.name = 'heartbeat_ms')))
     < v_pool.min then
    return null;
  end if;
  update sluice.workers w set draining = true, leaving = v_why, returnable = v_idle where w.id = p_worker and w.ended_at is null and not w.draining;
  if not found then
    return null;
  end if;
  perform pg_notify('sluice', 'workers');
  return v_why;
end $function$;

--- function sluice.retry_tree_v1(p_root bigint, p_composites bigint[], p_versions integer[], p_leaves bigint[], p_fanouts bigint[], p_superseded bigint[], p_child jsonb)
CREATE OR REPLACE FUNCTION sluice.retry_tree_v1(p_root bigint, p_composites bigint[], p_versions integer[], p_leaves bigint[], p_fanouts bigint[], p_superseded bigint[], p_child jsonb)
 RETURNS TABLE(jobs integer, superseded integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_now    timestamptz := clock_timestamp();
  v_due    timestamptz;
  v_count  integer;
  v_leaves bigint[];
  v_priority integer;
begin
  select count(*) into v_count from (
    select 1 from unnest(p_composites, p_versions) g(id, version)
      join sluice.composites c on c.job_id = g.id and c.version = g.version
     order by c.job_id for no key update of c) locked;
  if v_count <> cardinality(p_composites) then
    return;
  end if;
  -- A session that deletes a tree begins with the outcome of its root, and would then wait for what is locked here.
  -- A workflow that was cancelled before its time keeps that time.
  select case when o.started_at is null then greatest(o.ready_at, v_now) else v_now end, d.priority into v_due, v_priority
    from sluice.outcomes o join sluice.job_data d on d.id = o.id where o.id = p_root for update of o skip locked;
  if not found then
    return;
  end if;
  -- What could not be rendered, or has a task that is still unknown, would only fail again.
  select p_leaves || coalesce(array_agg(d.id), '{}') into v_leaves from sluice.job_data d join sluice.outcomes o on o.id = d.id
   where d.parent_id = any (p_fanouts) and d.superseded_at is null and d.composite is null and o.state in ('failed', 'cancelled')
     and (o.state = 'cancelled' or o.attempt > 0 or o.error like 'capacity:%'
          or d.class_id is null and exists (select 1 from sluice.tasks t where t.name = d.task));
  perform 1 from sluice.outcomes o where o.id = any (p_composites || v_leaves || p_superseded) order by o.id for update;

  insert into sluice.attempts (job_id, attempt, worker_id, started_at, ended_at, ending, error)
  select o.id, greatest(o.attempt, 1), o.worker_id, o.started_at, o.finished_at, 'rerun', o.state::text || coalesce(': ' || o.error, '')
    from sluice.outcomes o
   where o.id = any (p_composites) or o.id = any (v_leaves) and o.attempt > 0
  on conflict do nothing;

  update sluice.job_data d set superseded_at = v_now where d.id = any (p_superseded) and d.superseded_at is null;
  get diagnostics superseded = row_count;

  jobs := sluice.put_back_leaves_v1(v_leaves, v_priority, v_now);
  perform sluice.put_back_composites_v1(p_root, p_composites, v_priority, v_now, v_due);
  if v_due <= v_now then
    perform sluice.start_composite_v1(p_root);
    perform sluice.hint_v1('wake', 'commit');
  end if;

  if p_child is not null then
    perform sluice.advance_v1(jsonb_build_array(jsonb_build_object('job', c.job_id, 'version', c.version)), jsonb_build_array(p_child), '[]')
       from sluice.composites c where c.job_id = (p_child ->> 'parent')::bigint;
  end if;
  perform sluice.admit_v1(array[p_root], 'commit');
  return next;
end $function$;

--- function sluice.sample_v1(p_exact integer)
CREATE OR REPLACE FUNCTION sluice.sample_v1(p_exact integer)
 RETURNS TABLE(class_id integer, lane text, task text, depth integer, oldest_at timestamp with time zone, running integer, obstacle text, details jsonb, reason text)
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
AS $function$
  with waiting as (
    select c.id, c.lane, c.task, c.requires, c.budgeted, w.depth, w.oldest_at
      from sluice.classes c cross join lateral sluice.waiting_v1(c.id, p_exact) w
  ), running as (
    select j.worker_id, c.lane, sum(sluice.started_in_v1(j))::integer as n
      from sluice.claims j join sluice.classes c on c.id = j.class_id group by j.worker_id, c.lane
  ), lane_use as (
    select l.name, l.slots, l.per_worker, l.enabled, coalesce(sum(h.slots), 0)::integer as held,
           coalesce((select sum(r.n) from running r where r.lane = l.name), 0)::integer as running
      from sluice.lanes l left join sluice.holdings h on h.lane = l.name group by l.name
  ), live as (
    select w.id, w.tasks, w.labels, w.name, w.seen_at, w.seen_at < clock_timestamp() - make_interval(secs => 2 * s.value / 1000.0) as silent,
           w.capacity, w.cores, w.draining, w.broken, w.host, w.pooled, w.process_limit, w.processes,
           array(select d.task from sluice.withdrawals d where d.worker_id = w.id and d.retry_at > clock_timestamp()) as withdrawn,
           coalesce((select sum(sluice.started_in_v1(j)) from sluice.claims j join sluice.classes c on c.id = j.class_id
                      where w.process_limit is not null and j.worker_id = w.id and c.task = any (w.pooled)), 0)::integer as in_process,
           coalesce((select sum(r.n) from running r where r.worker_id = w.id), 0)::integer as running
      from sluice.workers w cross join sluice.settings s where w.ended_at is null and s.name = 'heartbeat_ms'
  )
  select q.id, q.lane, q.task, q.depth, q.oldest_at, u.running,
         o.obstacle, x.details, sluice.why_waiting_text_v1(o.obstacle, x.details)
    from waiting q join lane_use u on u.name = q.lane
   cross join lateral (
     select count(*) as known, count(*) filter (where f.fits) as fit, count(*) filter (where f.fits and not w.draining) as open,
            count(*) filter (where f.able) as able, count(*) filter (where f.able and f.free) as free,
            count(*) filter (where f.able and f.free and f.may) as may,
            count(*) filter (where f.able and f.free and f.may and f.manned) as manned,
            count(*) filter (where f.able and f.free and f.may and f.manned and not w.silent) as heard,
            sum(w.processes) filter (where f.fits and not w.draining) as processes,
            string_agg(distinct w.host, ', ') filter (where f.fits and not w.draining) as hosts,
            min(w.name || ': ' || w.broken) filter (where f.fits) as broken
       from live w
      cross join lateral (
        select q.requires <@ w.labels as fits, q.requires <@ w.labels and not w.draining and q.task <> all (w.withdrawn) as able,
               w.capacity = 0 or w.running < w.capacity as free,
               u.per_worker is null or coalesce((select r.n from running r where r.worker_id = w.id and r.lane = q.lane), 0)
                 < sluice.per_worker_v1(u.per_worker, w.capacity, w.cores) as may,
               w.process_limit is null or q.task <> all (w.pooled) or w.in_process < w.processes as manned) f
      where q.depth > 0 and q.task = any (w.tasks)) v
   cross join lateral (
     select case
       when q.depth = 0 then null
       when not exists (select 1 from sluice.generation g where g.claims_open) then 'crash'
       when not u.enabled then 'lane_paused'
       when u.slots = 0 then 'lane_closed'
       when v.known = 0 then 'no_worker'
       when v.fit = 0 then 'labels'
       when v.open = 0 then 'draining'
       when v.able = 0 then 'withdrawn'
       when u.slots is not null and u.held >= u.slots and u.running >= u.slots then 'lane_full'
       when u.slots is not null and u.held >= u.slots then 'lane_held'
       when v.free = 0 then 'capacity'
       when v.may = 0 then 'per_worker'
       when v.manned = 0 then 'processes'
       when v.heard = 0 then 'silent'
       -- What it waits for exactly is for the policy to say. A moment is not worth telling.
       when q.budgeted and q.oldest_at < clock_timestamp() - interval '1 second' then 'budget'
     end as obstacle) o
   cross join lateral (
     select case o.obstacle
       when 'crash' then '{}'
       when 'lane_paused' then jsonb_build_object('lane', q.lane)
       when 'lane_closed' then jsonb_build_object('lane', q.lane)
       when 'no_worker' then jsonb_build_object('task', q.task)
       when 'labels' then jsonb_build_object('task', q.task, 'requires', q.requires)
       when 'draining' then jsonb_build_object('task', q.task, 'broken', v.broken)
       when 'withdrawn' then jsonb_build_object('task', q.task) || (
         select jsonb_build_object('workers', count(*), 'first', (array_agg(jsonb_build_object('worker', w.name, 'why', d.why,
                  'retryAt', to_char(d.retry_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) order by w.name, w.id))[1])
           from sluice.withdrawals d join live w on w.id = d.worker_id and not w.draining where d.task = q.task)
       when 'lane_full' then jsonb_build_object('lane', q.lane, 'slots', u.slots, 'running', u.running)
       when 'lane_held' then jsonb_build_object('lane', q.lane, 'slots', u.slots, 'held', u.held, 'idle', u.held - u.running)
       when 'capacity' then jsonb_build_object('task', q.task)
       when 'per_worker' then jsonb_build_object('task', q.task, 'lane', q.lane, 'perWorker', u.per_worker)
       when 'processes' then jsonb_build_object('task', q.task, 'processes', v.processes, 'hosts', v.hosts)
       when 'silent' then jsonb_build_object('task', q.task) || (
         select jsonb_build_object('worker', w.name, 'silentMs', round(extract(epoch from clock_timestamp() - w.seen_at) * 1000))
           from live w where q.task = any (w.tasks) and q.requires <@ w.labels and not w.draining order by w.seen_at desc, w.id limit 1)
       when 'budget' then jsonb_build_object('task', q.task, 'budgets', (
         select string_agg(k.name, ', ' order by k.name) from sluice.tasks t, lateral jsonb_object_keys(t.uses) k(name) where t.name = q.task))
     end as details) x
$function$;

--- function sluice.save_holdings_v1(p_worker bigint, p_now timestamp with time zone, p_free integer, p_lanes text[], p_classes integer[], p_class_lane integer[], p_ready sluice.cycle_class_v1[], p_held sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.save_holdings_v1(p_worker bigint, p_now timestamp with time zone, p_free integer, p_lanes text[], p_classes integer[], p_class_lane integer[], p_ready sluice.cycle_class_v1[], p_held sluice.cycle_lane_v1[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_hint  boolean := false;
  v_more  boolean := (select sum(l.run - l.ran) from unnest(p_held) l) < p_free;   -- it can take more
  v_seen  text[]  := array(select p_held[r.lane].name from unnest(p_ready) r);
  v_keeps boolean;   -- the request stands
  v_lane  sluice.cycle_lane_v1;
begin
  foreach v_lane in array p_held loop
    -- What it left to others it wants back once they are through.
    v_lane.wants := v_lane.wants or v_lane.yielded and v_more;
    v_keeps := v_lane.wanted and not v_lane.wants and v_more and v_lane.name <> all (v_seen) and exists (
      select 1 from sluice.holdings h cross join lateral unnest(h.asks) a(id) cross join lateral sluice.ready_v1(a.id, -2147483648, 0, 1)
       where h.worker_id = p_worker and h.lane = v_lane.name);
    v_lane.slots := case
      when v_lane.lim is null then 0
      -- Another worker waits: idle slots go at once. Not while this one finds work: it may have been given less than it has slots for only
      -- because others were taking the same rows, and handing slots to and fro costs more than it gives. Never above what was held
      -- or granted under the lane's lock, whatever the worker says it runs.
      when v_lane.asked then
        least(v_lane.slots, greatest(v_lane.run, case when v_lane.run > v_lane.ran then least(v_lane.cap, v_lane.slots) - v_lane.yield else 0 end))
      else least(v_lane.slots, greatest(v_lane.run, least(v_lane.cap, v_lane.keep))) end;
    v_hint := v_hint or v_lane.slots < v_lane.before and v_lane.asked or v_lane.wants and not v_lane.wanted
      -- Others left slots to this one, more than it took.
      or v_lane.wanted and not v_lane.wants and not v_keeps and v_lane.asked and v_lane.spare > v_lane.slots - v_lane.before;
    continue when v_lane.slots = v_lane.before and (v_lane.wants = v_lane.wanted or v_keeps)
      and not (v_lane.wants and coalesce(v_lane.asked_at < p_now - interval '1 second', true));
    update sluice.holdings h
       set slots = v_lane.slots, wants = v_lane.wants or v_keeps, asked_at = case when v_lane.wants then p_now when v_keeps then h.asked_at end,
           asks = case when v_lane.wants then array(select c.id from unnest(p_classes, p_class_lane) c(id, lane) where p_lanes[c.lane] = v_lane.name)
                       when v_keeps then h.asks end
     where h.worker_id = p_worker and h.lane = v_lane.name;
  end loop;
  if v_hint then
    perform pg_notify('sluice', 'slots');
  end if;
end $function$;

--- function sluice.save_step_v1(p_job bigint, p_attempt integer, p_worker bigint, p_name text, p_result text, OUT held boolean, OUT is_full boolean, OUT result jsonb)
CREATE OR REPLACE FUNCTION sluice.save_step_v1(p_job bigint, p_attempt integer, p_worker bigint, p_name text, p_result text, OUT held boolean, OUT is_full boolean, OUT result jsonb)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_size  bigint := octet_length(p_result) + octet_length(p_name);
  v_steps bigint;
  v_bytes bigint;
begin
  is_full := false;
  perform 1 from sluice.claims c
    where c.worker_id = p_worker and c.ids @> array[p_job] and coalesce(c.attempts[array_position(c.ids, p_job)], 1) = p_attempt for key share;
  held := found;
  if not held then
    return;
  end if;
  select s.result into result from sluice.steps s where s.job_id = p_job and s.name = p_name;
  if found then
    return;
  end if;
  insert into sluice.traces as t (job_id, attempt, steps, step_bytes) values (p_job, p_attempt, 1, v_size)
    on conflict (job_id, attempt) do update set steps = t.steps + 1, step_bytes = t.step_bytes + v_size
    returning t.steps, t.step_bytes into v_steps, v_bytes;
  is_full := v_steps > 10000 or v_bytes > 268435456;
  if not is_full then
    insert into sluice.steps as s (job_id, name, attempt, result) values (p_job, p_name, p_attempt, p_result::jsonb)
      -- Not "do nothing": that would give back nothing for a row that was committed a moment ago.
      on conflict (job_id, name) do update set attempt = s.attempt returning s.result into result;
  elsif v_steps - 1 <= 10000 and v_bytes - v_size <= 268435456 then
    insert into sluice.logs (job_id, attempt, at, level, line)
      values (p_job, p_attempt, clock_timestamp(), 'warn', 'this attempt has stored 10,000 steps or 256 MiB of results; further steps are refused');
  end if;
end $function$;

--- function sluice.save_tasks_v1(p_tasks jsonb, p_added boolean)
CREATE OR REPLACE FUNCTION sluice.save_tasks_v1(p_tasks jsonb, p_added boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  -- A statement of its own: what follows sees lanes that were deleted, and tasks that were moved, while this one waited.
  perform sluice.claim_names_v1(array(select n.name from jsonb_to_recordset(p_tasks) as n(name text)), 'task');
  insert into sluice.tasks as t (name, lane, declared_lane, lane_from, class_id, priority, approval, keys, lane_fixed, deadline_ms, max_losses,
                                 on_lost,
                                 uses, per_job, parallel, expressed)
  select g.name, sluice.live_lane_v1(p.lane), p.declared, p.lane_from,
         sluice.intern_class_v1(g.name, p.lane, g.model, g.requires, g.uses is not null),
         g.priority, coalesce(g.approval, k.approval, false), coalesce(g.keys, k.keys, 'shared'),
         coalesce(g."laneFixed", k.lane_fixed, false), g."deadlineMs", g."maxLosses", g."onLost",
         g.uses, g."perJob", coalesce(g.parallel, 1), coalesce(g.expressed, false)
    from jsonb_to_recordset(p_tasks) as g(name text, lane text, "laneFrom" text, model text, requires jsonb, priority integer, approval boolean,
                                          keys text,
                                          "laneFixed" boolean,
                                          "deadlineMs" bigint, "maxLosses" integer, "onLost" text,
                                          uses jsonb, "perJob" jsonb, parallel integer, expressed boolean)
    left join sluice.tasks k on k.name = g.name
   cross join lateral (select g."laneFrom" is null and k.lane_from is not distinct from 'file' as stays) s
   cross join lateral (select case when s.stays then coalesce(k.declared_lane, k.lane) else g.lane end as declared) d
   cross join lateral (select d.declared, case when s.stays then k.lane_from else g."laneFrom" end as lane_from,
                              case when k.moved_at is not null then k.lane else d.declared end as lane) p
   where not (p_added and k.name is not null)
   order by g.name
  on conflict (name) do update
     set lane = excluded.lane, declared_lane = excluded.declared_lane, lane_from = excluded.lane_from, class_id = excluded.class_id,
         priority = excluded.priority, approval = excluded.approval, keys = excluded.keys, lane_fixed = excluded.lane_fixed,
         deadline_ms = excluded.deadline_ms, max_losses = excluded.max_losses, on_lost = excluded.on_lost,
         uses = excluded.uses, per_job = excluded.per_job, parallel = excluded.parallel, expressed = excluded.expressed,
         updated_at = clock_timestamp()
   where (t.lane, t.declared_lane, t.lane_from, t.class_id, t.priority, t.approval, t.keys, t.lane_fixed, t.deadline_ms, t.max_losses, t.on_lost,
          t.uses, t.per_job,
          t.parallel, t.expressed)
         is distinct from (excluded.lane, excluded.declared_lane, excluded.lane_from, excluded.class_id, excluded.priority, excluded.approval,
                           excluded.keys,
                           excluded.lane_fixed,
                           excluded.deadline_ms, excluded.max_losses, excluded.on_lost, excluded.uses, excluded.per_job, excluded.parallel,
                           excluded.expressed);
end $function$;

--- function sluice.schedule_concerns_v1()
CREATE OR REPLACE FUNCTION sluice.schedule_concerns_v1()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object(
    'schedules', (select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'overdueMs', s.overdue_ms, 'skipped', s.skipped,
                    'reason', left(s.reason, 300), 'jobId', s.job_id::text, 'error', left(s.error, 300)) order by s.name), '[]')
                    from (
                      select s.name, case when s.next_at < clock_timestamp() - interval '1 minute'
                                          then round(extract(epoch from clock_timestamp() - s.next_at) * 1000) end as overdue_ms,
                             f.skipped, f.reason, f.job_id, f.error
                        from sluice.schedules s
                        left join lateral (
                          -- What its latest firing came to, or the one before while that one's job has not ended.
                          select x.skipped, x.reason, x.job_id, o.error, x.skipped in ('refused', 'ceiling') or o.state = 'failed' as failing
                            from (select f.* from sluice.firings f where f.schedule = s.name order by f.id desc limit 2) x
                            left join sluice.outcomes o on o.id = x.job_id
                           where x.skipped is not null or o.id is not null order by x.id desc limit 1) f on f.failing and s.enabled
                       where f.failing or s.next_at < clock_timestamp() - interval '1 minute'
                       order by s.name limit 20) s))
$function$;

--- function sluice.scheduled_of_v1(p_ids bigint[])
CREATE OR REPLACE FUNCTION sluice.scheduled_of_v1(p_ids bigint[])
 RETURNS bigint[]
 LANGUAGE plpgsql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_first bigint;
  v_last  bigint;
begin
  select min(u.id), max(u.id) into v_first, v_last from unnest(p_ids) u(id);
  if v_last - v_first > 4 * cardinality(p_ids) then
    return array(select q.id from unnest(p_ids) u(id) cross join lateral (
                   select k.id from sluice.queue k
                    where k.id = u.id and k.state = 'scheduled' and k.started_at is null and k.parent_id is null) q);
  end if;
  return array(select s.id from (select q.id from sluice.queue q
                                  where q.state = 'scheduled' and q.started_at is null and q.parent_id is null
                                    and q.id between v_first and v_last offset 0) s
                where s.id in (select unnest(p_ids)));
end $function$;

--- function sluice.settle_composites_v1(p_jobs bigint[], p_batch jsonb, p_now timestamp with time zone, OUT has_parents boolean)
CREATE OR REPLACE FUNCTION sluice.settle_composites_v1(p_jobs bigint[], p_batch jsonb, p_now timestamp with time zone, OUT has_parents boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_parents   bigint[];
  v_idxs      integer[];
  v_states    sluice.job_state[];
  v_has_roots boolean;
begin
  with ended as (
    update sluice.composites c set ended = true
      from jsonb_to_recordset(p_batch) as b(job bigint, settle jsonb)
     where b.settle is not null and c.job_id = b.job and c.job_id = any (p_jobs) and c.started_at is not null and not c.ended
    returning c.job_id, c.ready_at, c.started_at, c.cancel_at, c.attempt, b.settle
  ), placed as materialized (
    select e.*, (e.settle ->> 'state')::sluice.job_state as state, d.parent_id, d.idx, d.key
      from ended e join sluice.job_data d on d.id = e.job_id
  ), kept as (
    insert into sluice.outcomes (id, finished_at, ready_at, started_at, cancel_at, state, attempt, is_root, result, error)
    select p.job_id, p_now, p.ready_at, p.started_at, p.cancel_at, p.state, p.attempt, p.parent_id is null,
           nullif(p.settle -> 'result', 'null'), p.settle ->> 'error'
      from placed p
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select p.job_id from placed p where p.key is not null))
  )
  select array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null),
         array_agg(e.state) filter (where e.parent_id is not null), bool_or(e.parent_id is null)
    into v_parents, v_idxs, v_states, v_has_roots from placed e;
  has_parents := v_parents is not null;
  if has_parents then
    perform sluice.children_ended_v1(v_parents, v_idxs, v_states);
  end if;
  if v_has_roots and exists (select 1 from sluice.waiters w where w.until > p_now) then
    perform pg_notify('sluice', 'done');
  end if;
end $function$;

--- function sluice.settle_tasks_v1(p_names text[])
CREATE OR REPLACE FUNCTION sluice.settle_tasks_v1(p_names text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_gone text[];
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  perform 1 from sluice.classes c join sluice.tasks t on t.name = c.task
    where t.name = any (p_names) and c.budgeted <> (t.uses is not null) order by c.task, c.id for no key update of c;
  update sluice.classes c set budgeted = t.uses is not null
    from sluice.tasks t
   where c.task = t.name and t.name = any (p_names) and c.budgeted <> (t.uses is not null);
  if found then
    perform pg_notify('sluice', 'classes');
  end if;
  perform sluice.refuse_impossible_tasks_v1();
  v_gone := array(select t.name from sluice.tasks t cross join sluice.admission a
                   where t.name = any (p_names) and t.uses is null and a.declared -> 'implied' ? t.name);
  if v_gone <> '{}' then
    perform sluice.change_admission_v1(jsonb_build_object('maxQueued', (select jsonb_object_agg(g, null) from unnest(v_gone) g)), 'sluice', false);
    -- As if nobody had said anything.
    update sluice.admission a set declared = a.declared - array(select 'maxQueued.' || g from unnest(v_gone) g);
  end if;
end $function$;

--- function sluice.settle_uses_v1(p_jobs jsonb)
CREATE OR REPLACE FUNCTION sluice.settle_uses_v1(p_jobs jsonb)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_count   integer;
  v_ids     bigint[];   -- those that fail
  v_errors  text[];
  v_parents bigint[];
  v_idxs    integer[];
begin
  with given as materialized (
    select g.id, g.uses, coalesce(g.error, 'budget: it ' || (sluice.uses_refusal_v1(g.uses -> 'uses', g.uses -> 'perJob') ->> 'text')) as error
      from jsonb_to_recordset(p_jobs) as g(id bigint, uses jsonb, error text)
  ), locked as materialized (
    select q.id from sluice.queue q where q.id = any (array(select g.id from given g)) and q.state = 'ready'
     for update skip locked
  ), changed as (
    -- Another session may have settled one in the meantime.
    update sluice.job_data d set uses = g.uses
      from given g where g.id = d.id and d.id = any (array(select l.id from locked l)) and d.uses is null
    returning d.id, g.error
  )
  select count(*)::integer, array_agg(c.id) filter (where c.error is not null), array_agg(c.error) filter (where c.error is not null)
    into v_count, v_ids, v_errors from changed c;
  if v_ids is null then
    return v_count;
  end if;
  select array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null)
    into v_parents, v_idxs
    from (select f.error, array_agg(f.id) as ids from unnest(v_ids, v_errors) f(id, error) group by f.error) g
   cross join lateral sluice.end_queued_v1(g.ids, 'failed', g.error) e;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  perform pg_notify('sluice', 'done');
  return v_count;
end $function$;

--- function sluice.share_lanes_v1(p_classes sluice.cycle_class_v1[], p_free integer, p_first integer, INOUT lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.share_lanes_v1(p_classes sluice.cycle_class_v1[], p_free integer, p_first integer, INOUT lanes sluice.cycle_lane_v1[])
 RETURNS sluice.cycle_lane_v1[]
 LANGUAGE plpgsql
AS $function$
declare
  v_open  integer := 0;
  v_ready integer[];
  v_used  integer[];
  v_take  integer[];
  v_free  integer := p_free;
  v_more  integer;
  i       integer;
begin
  for i in 1 .. cardinality(lanes) loop
    v_open := v_open + sign(lanes[i].take)::integer;
  end loop;
  for i in 1 .. cardinality(lanes) loop
    if lanes[i].take > 0 and (v_open > 1 or lanes[i].lim is not null and lanes[i].run + lanes[i].take > lanes[i].slots) then
      select count(*)::integer into v_more
        from (select 1 from unnest(p_classes) c cross join lateral sluice.ready_v1(c.id, c.rank, c.after, least(lanes[i].take, c.most)) x
               where c.lane = i limit lanes[i].take) y;
      lanes[i].take := v_more;
    end if;
  end loop;
  if v_open <= 1 then
    return;
  end if;
  -- A lane that looks full takes no share from the others. It gets what they leave, and later a slot or a refusal.
  select array_agg(l.take), array_agg(least(l.take, l.room)), array_agg(l.run) into v_ready, v_take, v_used from unnest(lanes) l;
  v_take := sluice.share_v1(v_take, v_used, v_free, p_first);
  v_free := v_free - (select sum(t)::integer from unnest(v_take) t);
  for k in 0 .. cardinality(lanes) - 1 loop
    i := (p_first - 1 + k) % cardinality(lanes) + 1;
    v_more := greatest(0, least(v_free, v_ready[i] - v_take[i]));
    v_free := v_free - v_more;
    lanes[i].take := v_take[i] + v_more;
  end loop;
end $function$;

--- function sluice.share_processes_v1(p_worker bigint, p_held integer)
CREATE OR REPLACE FUNCTION sluice.share_processes_v1(p_worker bigint, p_held integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_host    text;
  v_before  integer;
  v_total   integer;   -- of the host
  v_share   integer;
  v_others  integer;   -- what the other workers of the host may have
  v_granted integer;
begin
  select w.host, w.processes into v_host, v_before from sluice.workers w
   where w.id = p_worker and w.ended_at is null and w.process_limit is not null;
  if not found then
    return null;
  end if;
  -- Under this lock the statements below see what every earlier worker was granted.
  perform pg_advisory_xact_lock(1936485737, hashtext('processes ' || v_host));
  with live as materialized (
    select w.id, w.rank, w.process_limit, w.draining, w.processes, max(greatest(w.cores, w.process_limit)) over () as total
      from sluice.workers w where w.host = v_host and w.ended_at is null and w.process_limit is not null
  )
  select (select max(l.total) from live l),
         (select count(*) from (select l.id from live l cross join lateral generate_series(1, least(l.process_limit, l.total)) p(n)
                                 where not l.draining order by p.n, l.rank, l.id limit (select max(l.total) from live l)) dealt
           where dealt.id = p_worker),
         (select coalesce(sum(l.processes), 0) from live l where l.id <> p_worker)
    into v_total, v_share, v_others;
  v_granted := greatest(p_held, least(v_share, v_total - v_others), 0);
  update sluice.workers w set processes = v_granted where w.id = p_worker and w.ended_at is null and w.processes <> v_granted;
  -- Others may grow by what it gave back, or have to shrink for it. They hear of it at once where hints arrive.
  if v_granted < v_share or v_granted < v_before then
    perform pg_notify('sluice', 'workers');
  end if;
  return least(v_share, v_granted);
end $function$;

--- function sluice.share_v1(p_ready integer[], p_used integer[], p_free integer, p_first integer)
CREATE OR REPLACE FUNCTION sluice.share_v1(p_ready integer[], p_used integer[], p_free integer, p_first integer)
 RETURNS integer[]
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_take  integer[] := array_fill(0, array[cardinality(p_ready)]);
  v_free  integer := p_free;
  v_least integer;
  v_lanes integer;   -- that use least and can take more; all of them get v_step
  v_step  integer;
  i       integer;
begin
  loop
    v_least := null;
    for i in 1 .. cardinality(p_ready) loop
      if p_ready[i] > v_take[i] then
        v_least := least(v_least, p_used[i] + v_take[i]);
      end if;
    end loop;
    exit when v_least is null or v_free <= 0;
    v_lanes := 0;
    v_step := v_free;
    for i in 1 .. cardinality(p_ready) loop
      continue when p_ready[i] <= v_take[i];
      if p_used[i] + v_take[i] > v_least then
        v_step := least(v_step, p_used[i] + v_take[i] - v_least);
      else
        v_step := least(v_step, p_ready[i] - v_take[i]);
        v_lanes := v_lanes + 1;
      end if;
    end loop;
    v_step := greatest(1, least(v_step, v_free / v_lanes));
    for k in 0 .. cardinality(p_ready) - 1 loop
      i := (p_first - 1 + k) % cardinality(p_ready) + 1;
      if v_free > 0 and p_ready[i] > v_take[i] and p_used[i] + v_take[i] = v_least then
        v_take[i] := v_take[i] + v_step;
        v_free := v_free - v_step;
      end if;
    end loop;
  end loop;
  return v_take;
end $function$;

--- function sluice.skip_children_v1(p_id bigint)
CREATE OR REPLACE FUNCTION sluice.skip_children_v1(p_id bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_at   bigint := p_id;
  v_next bigint := p_id;
  v_row  record;
  v_low  integer;
  v_high integer;
  v_mid  integer;
begin
  for n in 1..20 loop
    select j.id, j.parent_id, j.idx into v_row from sluice.job_data j where j.id <= v_next order by j.id desc limit 1;
    exit when v_row.parent_id is null
           or not exists (select 1 from sluice.job_data p where p.id = v_row.parent_id and p.composite = 'fanout')
           or exists (select 1 from sluice.job_data j where j.parent_id = v_row.parent_id and j.superseded_at is not null);
    v_low := 0;
    v_high := v_row.idx;
    while v_low < v_high loop
      v_mid := v_low + (v_high - v_low) / 2;
      if exists (select 1 from sluice.job_data j where j.parent_id = v_row.parent_id and j.idx = v_mid and j.superseded_at is null
                                               and j.id = v_row.id - (v_row.idx - v_mid)) then
        v_high := v_mid;
      else
        v_low := v_mid + 1;
      end if;
    end loop;
    v_at := v_row.id - (v_row.idx - v_high);
    v_next := v_at - 1;
  end loop;
  return v_at;
end $function$;

--- function sluice.snapshot_devices_v1()
CREATE OR REPLACE FUNCTION sluice.snapshot_devices_v1()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(jsonb_agg(jsonb_build_object(
    'budget', d.budget, 'key', d.key, 'host', d.host, 'name', d.name, 'bytes', b.bytes, 'capacity', sluice.capacity_v1(d),
    'held', v.amount + r.amount, 'running', v.n, 'measuredUsed', d.measured_used,
    'lostAt', (extract(epoch from d.lost_at) * 1000)::bigint, 'models', r.models) order by d.budget, d.host, d.name, d.key), '[]')
    from sluice.devices d join sluice.budgets b on b.name = d.budget
   cross join lateral (
     select coalesce(sum(x.amount), 0) as amount, count(*) as n
       from sluice.reservations x
      cross join lateral (select 1 from sluice.running j where j.worker_id = x.worker_id and j.id = x.job_id and j.attempt = x.attempt offset 0) j
      where x.budget = d.budget and x.device = d.key) v
   cross join lateral (
     select coalesce(sum(x.amount), 0) as amount, coalesce(jsonb_agg(jsonb_build_object(
              'model', x.model, 'worker', w.name,
              'since', (extract(epoch from coalesce(x.unloading_at, x.loaded_at, x.claimed_at)) * 1000)::bigint,
              'state', case when x.unloading_at is not null then 'unloading' when x.loaded_at is null then 'loading' else 'loaded' end,
              'running', (select count(*) from sluice.reservations y
                           cross join lateral (select z.worker_id, z.class_id from sluice.running z
                                                where z.worker_id = y.worker_id and z.id = y.job_id and z.attempt = y.attempt offset 0) j
                            join sluice.classes c on c.id = j.class_id
                           where y.budget = x.budget and y.device = x.device and j.worker_id = x.worker_id and c.model = x.model)
            ) order by x.claimed_at, x.model), '[]') as models
       from sluice.residents x join sluice.workers w on w.id = x.worker_id
      where x.budget = d.budget and x.device = d.key and w.ended_at is null) r
$function$;

--- function sluice.snapshot_failures_v1(p_look integer)
CREATE OR REPLACE FUNCTION sluice.snapshot_failures_v1(p_look integer)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  with failures as materialized (
    select d.id, d.parent_id, d.root_id, d.composite, o.finished_at
      from (select x.id, x.finished_at from sluice.outcomes x
             where x.state = 'failed' and x.finished_at > statement_timestamp() - interval '1 hour'
             order by x.finished_at desc, x.id desc limit 5 * p_look) o
      join sluice.job_data d on d.id = o.id
  ), touched as materialized (
    -- Trees of which something was replaced: elsewhere a task that failed is a cause without a further look.
    select r.root_id from (select distinct f.root_id from failures f where f.parent_id is not null) r
     where exists (select 1 from sluice.job_data s where s.root_id = r.root_id and s.superseded_at is not null)
  )
  select jsonb_build_object(
    'minute', count(*) filter (where x.finished_at > clock_timestamp() - interval '1 minute'),
    'tenMinutes', count(*) filter (where x.finished_at > clock_timestamp() - interval '10 minutes'), 'hour', count(*))
    from failures x
   where case when x.composite is null and (x.parent_id is null or x.root_id not in (select t.root_id from touched t)) then true
              else (select sluice.is_cause_v1(j) from sluice.jobs j where j.id = x.id) end
$function$;

--- function sluice.snapshot_v1(p_look integer)
CREATE OR REPLACE FUNCTION sluice.snapshot_v1(p_look integer)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  with busy as materialized (
    select c.lane, j.worker_id, sum(sluice.started_in_v1(j))::integer as n, sum(coalesce(cardinality(j.assigned), 0))::integer as assigned
      from sluice.claims j join sluice.classes c on c.id = j.class_id
     group by c.lane, j.worker_id
  ), waiting as materialized (
    -- A class in which nothing waits any more is not sampled again: its last sample says nothing. While the duty runs, the one of
    -- its previous tick holds.
    select c.lane, s.depth, s.oldest_at, s.obstacle, s.details
      from sluice.classes c
     cross join lateral (
       select x.depth, x.oldest_at, x.obstacle, x.details, x.at from sluice.samples x
        where x.class_id = c.id and x.at > clock_timestamp() - interval '6 seconds' order by x.at desc limit 1) s
     where exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready')
  ), live as materialized (
    select w.id, w.capacity, w.draining, w.stopping, coalesce((select sum(b.n) from busy b where b.worker_id = w.id), 0)::integer as running,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent
      from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms'
  ), queued as materialized (
    -- Those that are assigned and have not started are queued too.
    (select j.class_id, j.parent_id, j.ready_at, false as assigned from sluice.queue j where j.state = 'ready' limit p_look)
    union all
    (select a.class_id, a.parent_id, a.ready_at, true from sluice.assigned_jobs_v1() a)
    limit p_look
  ), depths as materialized (
    select c.lane, count(*)::integer as depth, min(q.ready_at) as oldest_at
      from queued q join sluice.classes c on c.id = q.class_id
     where (select count(*) from queued) < p_look and not q.assigned group by c.lane
    union all
    select w.lane, sum(w.depth)::integer, min(w.oldest_at) from waiting w
     where (select count(*) from queued) >= p_look group by w.lane
  ), lane_use as materialized (
    select l.name, l.slots, l.per_worker, l.enabled,
           coalesce((select sum(b.n) from busy b where b.lane = l.name), 0)::integer as running,
           coalesce((select sum(b.assigned) from busy b where b.lane = l.name), 0)::integer as assigned,
           coalesce((select sum(h.slots) from sluice.holdings h where h.lane = l.name), 0)::integer as held,
           coalesce((select d.depth from depths d where d.lane = l.name), 0) as depth,
           (select d.oldest_at from depths d where d.lane = l.name) as oldest_at, s.obstacle, s.details
      from sluice.lanes l
      left join lateral (select w.obstacle, w.details from waiting w where w.lane = l.name order by w.oldest_at limit 1) s on true
     where l.deleted_at is null
  ), looked as materialized (
    -- Roots, and tasks below them: a workflow is running as long as anything in it is.
    select 'awaiting_approval' as state, count(*)::integer as seen, (count(*) filter (where x.parent_id is null))::integer as n,
           (count(*) filter (where x.parent_id is not null))::integer as steps
      from (select j.parent_id from sluice.queue j where j.state = 'awaiting_approval' limit p_look) x
    union all
    select s.state, count(x.again)::integer, (count(*) filter (where x.parent_id is null and x.again = s.again))::integer,
           (count(*) filter (where x.parent_id is not null and x.class_id is not null and x.again = s.again))::integer
      from (values ('scheduled', false), ('retrying', true)) s(state, again)
      left join (select j.parent_id, j.class_id, j.failures > 0 or j.losses > 0 as again from sluice.queue j
                  where j.state = 'scheduled' limit p_look) x
        on true
     group by s.state
    union all
    select 'queued', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null))::integer
      from queued x
    union all
    select 'running', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null and x.leaf))::integer
      from ((select j.parent_id, true as leaf from sluice.running j limit p_look)
            union all
            (select d.parent_id, false from sluice.composites c join sluice.job_data d on d.id = c.job_id
              where not c.ended and c.started_at is not null limit p_look)
            limit p_look) x
  )
  select jsonb_build_object(
    'at', (extract(epoch from clock_timestamp()) * 1000)::bigint,
    'admission', (select jsonb_build_object('maxActive', a.max_active, 'active', a.active, 'drainRate', a.rate,
                                            'maxScheduled', a.max_scheduled, 'scheduled', a.scheduled,
                                            'maxPerOwner', a.max_per_owner, 'owners', a.owners,
                                            'queued', (select coalesce(sum(q.value::integer), 0) from jsonb_each_text(a.queued) q))
                    from sluice.admission_v1(p_look) a),
    'lanes', (select coalesce(jsonb_agg(jsonb_build_object(
                'name', l.name, 'slots', l.slots, 'perWorker', l.per_worker, 'enabled', l.enabled,
                'running', l.running, 'assigned', l.assigned, 'held', l.held, 'depth', l.depth,
                'oldestAt', (extract(epoch from l.oldest_at) * 1000)::bigint,
                -- Whether its slots are busy is said of now: a sample of 2 s ago would contradict the number beside it.
                'reason', case when l.depth = 0 then null
                               when l.enabled and l.slots > 0 and l.running >= l.slots
                                 then sluice.why_waiting_text_v1('lane_full', jsonb_build_object('lane', l.name, 'running', l.running, 'slots',
                                                                                         l.slots))
                               when l.obstacle in ('lane_full', 'lane_held') then null
                               else sluice.why_waiting_text_v1(l.obstacle, l.details) end,
                'blockedBy', case when l.depth = 0 then null
                                  when l.enabled and l.slots > 0 and l.running >= l.slots
                                    then sluice.obstacle_brief_v1('lane_full', jsonb_build_object('running', l.running, 'slots',
                                                                                         l.slots))
                                  when l.obstacle in ('lane_full', 'lane_held') then null
                                  else sluice.obstacle_brief_v1(l.obstacle, l.details) end) order by l.name), '[]')
                from lane_use l),
    'workers', (select jsonb_build_object(
                  'live', count(*), 'busy', count(*) filter (where w.running > 0),
                  'idle', count(*) filter (where w.running = 0 and not w.draining and not w.stopping),
                  'draining', count(*) filter (where w.draining and not w.stopping), 'stopping', count(*) filter (where w.stopping),
                  'silent', count(*) filter (where w.silent),
                  'capacity', case when bool_or(w.capacity = 0) then null else coalesce(sum(w.capacity), 0) end,
                  'running', coalesce(sum(w.running), 0)) from live w),
    'devices', sluice.snapshot_devices_v1(),
    'concerns', sluice.concerns_v1(),
    'states', (select jsonb_object_agg(s.state, s.n) from looked s),
    'steps', (select jsonb_object_agg(s.state, s.steps) from looked s),
    'more', (select coalesce(jsonb_agg(s.state order by s.state), '[]') from looked s where s.seen >= p_look),
    'failed', sluice.snapshot_failures_v1(p_look),
    'recovered', (select jsonb_build_object(
                 'minute', coalesce(sum(r.jobs) filter (where r.kind in ('taken_over', 'orphan') and r.at > clock_timestamp() - interval '1 minute'),
                                    0),
                 'hour', coalesce(sum(r.jobs) filter (where r.kind in ('taken_over', 'orphan')), 0),
                 'lateWrites', coalesce(sum(r.jobs) filter (where r.kind = 'late_write'), 0),
                 'drift', count(*) filter (where r.kind in ('drift', 'healed')))
                 from sluice.recoveries r where r.at > statement_timestamp() - interval '1 hour'),
    -- The last minute: all of this one, and of the one before it the part that is not a minute ago.
    'refused', (select round(coalesce(sum(t.n * case when t.minute = date_trunc('minute', clock_timestamp()) then 1
                                                     else 1 - extract(second from clock_timestamp()) / 60 end), 0))
                  from sluice.tallies t
                 where t.name = 'refused' and t.minute >= date_trunc('minute', clock_timestamp()) - interval '1 minute'))
$function$;

--- function sluice.some_active_v1(p_look integer, p_but bigint[])
CREATE OR REPLACE FUNCTION sluice.some_active_v1(p_look integer, p_but bigint[])
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  -- Outer joins, since the other way round every job would be looked for in the list. One that has not ended and does not wait runs,
  -- unless it was deleted.
  select count(distinct g.id)::integer
    from (select u.id from sluice.ledger_v1() l, unnest(l.ids) u(id) limit p_look) g
    left join sluice.outcomes o on o.id = g.id
    left join sluice.queue q on q.id = g.id
   where g.id not in (select unnest(p_but)) and o.id is null
     and case when q.id is not null then q.state <> 'scheduled' or q.started_at is not null
              else (select true from sluice.job_data d where d.id = g.id) end
$function$;

--- function sluice.spread_priority_v1(p_limit integer, p_roots bigint[], OUT changed integer, OUT more boolean)
CREATE OR REPLACE FUNCTION sluice.spread_priority_v1(p_limit integer, p_roots bigint[] DEFAULT NULL::bigint[], OUT changed integer, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  v_id     bigint;
  v_mark   sluice.priority_changes;
  v_leaves bigint[];
  v_groups bigint[];
  v_locked bigint[];
  v_seen   integer;
  v_last   integer;
begin
  changed := 0;
  -- The newest first: of a tree that is the deepest, so that few marks exist at a time.
  select m.job_id into v_id from sluice.priority_changes m join sluice.composites c on c.job_id = m.job_id
   where m.retry_at <= clock_timestamp()
     and (p_roots is null or exists (select 1 from sluice.job_data j where j.id = m.job_id and coalesce(j.root_id, j.id) = any (p_roots)))
   order by m.job_id desc limit 1 for no key update of c skip locked;
  more := found;
  -- In a statement of its own, which sees what was committed before the lock was acquired.
  select * into v_mark from sluice.priority_changes m where m.job_id = v_id;
  if not found then
    return;
  end if;
  update sluice.job_data j set priority = v_mark.priority
   where j.id = v_id and j.priority <> v_mark.priority and exists (select 1 from sluice.composites c where c.job_id = v_id and not c.ended);
  select array_agg(k.id) filter (where k.composite is null and k.state < 'completed' and k.priority <> v_mark.priority),
         array_agg(k.id) filter (where k.composite is not null and k.state < 'completed'), count(*), max(k.idx)
    into v_leaves, v_groups, v_seen, v_last
    from (select * from sluice.jobs k where k.parent_id = v_id and k.superseded_at is null and k.idx >= v_mark.next_idx
           order by k.idx limit p_limit) k;
  -- A job's lock is the row it is in, and one that moves between tables meanwhile is found in neither: it is looked at again.
  v_locked := array(select q.id from sluice.queue q where q.id = any (v_leaves) for no key update skip locked)
           || array(select j.id from (select c.ids from sluice.claims c where c.parents @> array[v_id] for no key update skip locked) c
                     cross join lateral unnest(c.ids) j(id) where j.id = any (v_leaves));
  update sluice.queue q
     set rank = sluice.rank_in_class_v1(q.class_id, v_mark.priority, (select d.submitted_at from sluice.job_data d where d.id = q.id))
   where q.id = any (v_locked);
  -- A job that runs keeps running; should it come back to the queue, its rank is computed from this priority.
  update sluice.job_data j set priority = v_mark.priority where j.id = any (v_locked);
  get diagnostics changed = row_count;
  insert into sluice.priority_changes (job_id, priority) select g, v_mark.priority from unnest(v_groups) g
  on conflict (job_id) do update set priority = excluded.priority, next_idx = 0, missed = null, retry_at = clock_timestamp();
  v_mark.missed := least(v_mark.missed, (select min(j.idx) from sluice.jobs j
                                          where j.id = any (v_leaves) and j.id <> all (v_locked) and j.state < 'completed'));
  if v_seen = p_limit then
    update sluice.priority_changes m set next_idx = v_last + 1, missed = v_mark.missed where m.job_id = v_id;
  elsif v_mark.missed is not null then
    update sluice.priority_changes m set next_idx = v_mark.missed, missed = null, retry_at = clock_timestamp() + interval '100 milliseconds'
     where m.job_id = v_id;
  else
    delete from sluice.priority_changes m where m.job_id = v_id;
  end if;
  if changed > 0 then
    perform sluice.hint_v1('ready', 'soon');
  end if;
end $function$;

--- function sluice.start_composite_v1(p_id bigint)
CREATE OR REPLACE FUNCTION sluice.start_composite_v1(p_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into sluice.wakeups (job_id, due_at)
  select p_id, clock_timestamp()
  union all
  select c.job_id, clock_timestamp() + make_interval(secs => c.timeout_ms / 1000.0) from sluice.composites c
   where c.job_id = p_id and c.timeout_ms is not null;
end $function$;

--- function sluice.start_jobs_v1(p_worker bigint, p_now timestamp with time zone, p_seq bigint, p_rows tid[], p_classes integer[], p_skip timestamp with time zone, p_devices jsonb, p_start integer)
CREATE OR REPLACE FUNCTION sluice.start_jobs_v1(p_worker bigint, p_now timestamp with time zone, p_seq bigint, p_rows tid[], p_classes integer[] DEFAULT NULL::integer[], p_skip timestamp with time zone DEFAULT NULL::timestamp with time zone, p_devices jsonb DEFAULT NULL::jsonb, p_start integer DEFAULT NULL::integer)
 RETURNS TABLE(id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer, submitted_at timestamp with time zone, key text, tags text[], input jsonb, seq bigint, policy jsonb, trace text, devices jsonb, assigned boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_parts   integer   := sluice.count_claims_v1(p_rows, 1);
  v_classes integer[] := p_classes;
begin
  if p_classes is null then
    v_classes := array(select distinct q.class_id from sluice.queue q where q.ctid = any (p_rows));
  end if;
  return query
  with taken as (
    delete from sluice.queue q using unnest(p_rows) with ordinality r(at, ord) where q.ctid = r.at
    returning q.id, q.class_id, q.failures, q.losses, q.rank, q.keyed, q.error, q.parent_id, q.idx,
           q.attempt + case when p_skip is null then 1
                            when q.ready_at < p_skip and q.state <> 'waiting' and not coalesce(p_devices ? q.id::text, false) then 2
                            else 1 end as attempt,
           case q.state when 'waiting' then p_now else q.ready_at end as ready_at,
           -- It starts in time, but a loss must not give it more time than a child that was ready first.
           case q.state when 'waiting' then p_now + make_interval(secs => (select d.deadline_ms / 1000.0 from sluice.job_data d where d.id = q.id))
             else q.deadline_at end as deadline_at,
           p_seq + case when cardinality(v_classes) = 1 then 0
                        else v_parts * (array_position(v_classes, q.class_id) - 1) end + (r.ord - 1) / 64 as seq, r.ord > p_start as assigned
  ), claimed as (
    insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats, deadlines, attempts, failures, losses, parents, idxs, keyed,
                               errors,
                               assigned)
    select p_worker, t.seq, t.class_id, p_now, array_agg(t.id), array_agg(t.ready_at),
           case when count(t.deadline_at) > 0 then array_agg(t.deadline_at) end, case when max(t.attempt) > 1 then array_agg(t.attempt) end,
           case when max(t.failures) > 0 then array_agg(t.failures) end, case when max(t.losses) > 0 then array_agg(t.losses) end,
           case when count(t.parent_id) > 0 then array_agg(t.parent_id) end, case when count(t.idx) > 0 then array_agg(t.idx) end,
           case when bool_or(t.keyed) then array_agg(t.keyed) end, case when count(t.error) > 0 then array_agg(t.error) end,
           array_agg(t.id) filter (where t.assigned)
      from taken t group by t.seq, t.class_id
  )
  select t.id, t.class_id, t.attempt, t.failures, t.rank, d.priority, d.submitted_at, d.key, d.tags, d.input, t.seq, d.policy, d.trace,
         case when p_devices is not null then p_devices -> t.id::text end, coalesce(t.assigned, false)
    from taken t join sluice.job_data d on d.id = t.id;
end $function$;

--- function sluice.start_lane_sweep_v1()
CREATE OR REPLACE FUNCTION sluice.start_lane_sweep_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update sluice.lane_sweep set next_id = 0 where next_id is distinct from 0;
  return null;
end $function$;

--- function sluice.start_or_stop_children_v1(p_jobs bigint[], p_now timestamp with time zone, OUT has_woken boolean)
CREATE OR REPLACE FUNCTION sluice.start_or_stop_children_v1(p_jobs bigint[], p_now timestamp with time zone, OUT has_woken boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_row   record;
  v_ready boolean;
begin
  has_woken := false;
  for v_row in
    select c.job_id, c.window_size - c.tokens as free, c.held, c.closing, c.closing_error
      from sluice.composites c
     where c.job_id = any (p_jobs) and not c.closed
       and (c.closing is not null
            or (c.window_size > c.tokens or c.held) and c.started_at is not null and not c.ended)
  loop
    if v_row.closing is null and v_row.held then
      v_ready := sluice.start_waiting_children_v1(v_row.job_id, -1, 1000) > 0;
      update sluice.composites c set held = exists (select 1 from sluice.queue k where k.parent_id = c.job_id and k.state = 'waiting')
       where c.job_id = v_row.job_id returning c.held into v_row.held;
      if v_row.held then
        insert into sluice.wakeups (job_id, due_at)
          values (v_row.job_id, case when v_ready then p_now else p_now + interval '20 milliseconds' end);
      end if;
      has_woken := true;
    elsif v_row.closing is null then
      update sluice.composites c set tokens = c.tokens + sluice.start_waiting_children_v1(v_row.job_id, -1, v_row.free) where c.job_id = v_row.job_id;
      if exists (select 1 from sluice.composites c where c.job_id = v_row.job_id and c.tokens < c.window_size
                    and exists (select 1 from sluice.queue q where q.parent_id = c.job_id and q.state = 'waiting')) then
        -- Somebody has children locked that could start: again in a moment.
        insert into sluice.wakeups (job_id, due_at) values (v_row.job_id, p_now + interval '20 milliseconds');
        has_woken := true;
      end if;
    elsif sluice.close_children_v1(v_row.job_id, case when v_row.closing_error like 'cancelled:%' then v_row.closing_error
                                                      else 'cancelled: ' || coalesce(v_row.closing_error, 'its group had its verdict') end) then
      update sluice.composites c set closed = true,
             total = case when c.total is not null
                          then (select count(*) from sluice.job_data j where j.parent_id = c.job_id and j.superseded_at is null) end
       where c.job_id = v_row.job_id;
      insert into sluice.wakeups (job_id) values (v_row.job_id);
      has_woken := true;
    else
      -- Somebody is starting or ending what could not be told: again in a moment.
      insert into sluice.wakeups (job_id, due_at) values (v_row.job_id, p_now + interval '20 milliseconds');
      has_woken := true;
    end if;
  end loop;
end $function$;

--- function sluice.start_waiting_children_v1(p_parent bigint, p_after integer, p_count integer)
CREATE OR REPLACE FUNCTION sluice.start_waiting_children_v1(p_parent bigint, p_after integer, p_count integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
  v_now    timestamptz := clock_timestamp();
  v_count  integer := 0;
  v_leaves bigint[];
  v_composites bigint[];
begin
  -- Locked by a statement of its own, so that the next one sees a priority that was changed before.
  select array_agg(n.id) filter (where n.class_id is not null), array_agg(n.id) filter (where n.class_id is null) into v_leaves, v_composites
    from (select k.id, k.class_id from sluice.queue k where k.parent_id = p_parent and k.state = 'waiting' and k.idx > p_after
           order by k.idx limit p_count for update skip locked) n;
  if v_leaves is not null then
    update sluice.queue q
       set state = case when q.guarded then 'awaiting_approval'::sluice.job_state else 'ready'::sluice.job_state end,
           ready_at = v_now,
           -- Written out: as a function of its own it would not be inlined.
           rank = (select sluice.rank_v1(d.priority, l.ageing_ms, d.submitted_at)
                     from sluice.classes c join sluice.lanes l on l.name = c.lane where c.id = q.class_id),
           started_at = null,
           deadline_at = case when not q.guarded then v_now + make_interval(secs => d.deadline_ms / 1000.0) end
      from sluice.job_data d
     where q.id = any (v_leaves) and d.id = q.id;
    get diagnostics v_count = row_count;
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_composites is not null then
    -- Everybody else locks a composite's own row before its place in the queue. This is the other way round, so it does not wait.
    with free as materialized (
      select c.job_id, c.timeout_ms from sluice.composites c where c.job_id = any (v_composites) order by c.job_id for no key update skip locked
    ), gone as (
      delete from sluice.queue q where q.id = any (array(select f.job_id from free f))
    ), started as (
      update sluice.composites c set ready_at = v_now, started_at = v_now where c.job_id = any (array(select f.job_id from free f))
    ), woken as (
      insert into sluice.wakeups (job_id, due_at)
      select f.job_id, clock_timestamp() from free f
      union all
      select f.job_id, v_now + make_interval(secs => f.timeout_ms / 1000.0) from free f where f.timeout_ms is not null
    )
    select v_count + count(*) into v_count from free;
  end if;
  return v_count;
end $function$;

--- function sluice.started_in_v1(p_claim sluice.claims)
CREATE OR REPLACE FUNCTION sluice.started_in_v1(p_claim sluice.claims)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN (cardinality((p_claim).ids) - COALESCE(cardinality((p_claim).assigned), 0));

--- function sluice.steady_cycle_v1(p_worker bigint, p_epoch integer, p_known bigint, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_begun bigint[], p_begun_seqs bigint[], p_lane text, p_run integer, p_keep integer, p_free integer, p_ahead integer, p_class integer, p_rank integer, p_after bigint, p_fresh integer, p_hint boolean, p_others integer[], p_other_ranks integer[], p_other_afters bigint[], p_endings jsonb)
CREATE OR REPLACE FUNCTION sluice.steady_cycle_v1(p_worker bigint, p_epoch integer, p_known bigint, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_begun bigint[], p_begun_seqs bigint[], p_lane text, p_run integer, p_keep integer, p_free integer, p_ahead integer, p_class integer, p_rank integer, p_after bigint, p_fresh integer, p_hint boolean, p_others integer[] DEFAULT '{}'::integer[], p_other_ranks integer[] DEFAULT '{}'::integer[], p_other_afters bigint[] DEFAULT '{}'::bigint[], p_endings jsonb DEFAULT NULL::jsonb)
 RETURNS TABLE(id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer, submitted_at timestamp with time zone, key text, tags text[], input jsonb, seq bigint, policy jsonb, trace text, devices jsonb, assigned boolean, report jsonb)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_now   timestamptz := clock_timestamp();
  v_since timestamptz := v_now - make_interval(secs => p_fresh / 1000.0);
  v_held  record;
  v_see   record;
  v_done  record;
  v_rows  tid[];
  v_must  boolean[];
  v_slots integer;
  v_rank  integer := p_rank;
  v_after bigint  := p_after;
begin
  if p_done is null and p_endings is null and p_begun is null then
    -- Nested, because an expression with a query in it is set up even where its first half decides.
    if not exists (select 1 from sluice.ready_v1(p_class, p_rank, p_after, 1)) then
      -- An idle poll locks and writes nothing, and the general cycle would not either.
      if p_fresh is not null or not sluice.is_idle_v1(p_worker, p_known, array[p_lane], array[p_run], array[p_keep])
         or exists (select 1 from unnest(p_others, p_other_ranks, p_other_afters) o(id, rank, after)
                     cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1)) then
        report := '{"unsteady": true}';
        return next;
      elsif clock_timestamp() > v_now + interval '5 milliseconds' then
        report := jsonb_build_object('scanMs', 1000 * extract(epoch from clock_timestamp() - v_now));
        return next;
      end if;
      return;
    end if;
  end if;
  select h.slots, h.wants, h.wants and h.asked_at > v_now - interval '1 second' as has_asked into v_held
    from sluice.holdings h where h.worker_id = p_worker and h.lane = p_lane and h.epoch = p_epoch for no key update;
  -- In a statement of its own, which sees what was committed before the lock was acquired.
  select s.skip_before, s.ahead, s.free, s.is_waited_for, s.is_asked, s.is_steady, s.first_rank, s.first_id, clock_timestamp() as at into v_see
    from sluice.read_steady_lane_v1(p_worker, p_known, p_done_seqs, p_lane, p_run, p_free, p_ahead, p_class, p_rank, p_after, v_now, v_since,
                            v_held.slots, v_held.wants, v_held.has_asked, p_class || p_others) s
   where not exists (select 1 from unnest(p_others, p_other_ranks, p_other_afters) o(id, rank, after)
                      cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1));
  if v_held.slots is null or not coalesce(v_see.is_steady, false) then
    report := '{"unsteady": true}';
    return next;
    return;
  end if;
  if p_done is null and p_endings is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  if p_done is not null or p_endings is not null or p_begun is not null then
    v_done := sluice.record_report_v1(p_worker, v_now, p_done, p_done_seqs, p_results, p_ran, p_endings, p_begun, p_begun_seqs,
                               p_hint and v_see.is_waited_for);
    -- Also where the worker did not hold all that it sent: the others have ended.
    if v_done.parents is not null then
      perform sluice.children_ended_v1(v_done.parents, v_done.idxs, array_fill('completed'::sluice.job_state, array[cardinality(v_done.parents)]));
    end if;
    if not v_done.is_whole then
      report := '{"resync": true}';
      return next;
      return;
    end if;
  end if;
  if clock_timestamp() > v_now + interval '100 milliseconds' then
    -- A claim was waited for: by now the lane may be disabled, its limit lower, or the worker draining.
    report := '{"more": true}';
    return next;
    return;
  end if;
  if v_see.first_id is not null and p_endings is null and v_see.at > v_now + interval '1 millisecond' then
    -- As sluice.ready_classes_v1 has it: dead entries before the first ready job are passed once. Not where jobs come back to the queue, perhaps
    -- before it.
    v_rank := v_see.first_rank;
    v_after := v_see.first_id - 1;
  end if;
  select coalesce(array_agg(q.ctid), '{}'), array_agg(q.must_start) into v_rows, v_must
    from (select q.ctid, sluice.must_start_v1(v_now, v_since, q.certain, q.deadline_at, q.ready_at, q.parent_id) as must_start
            from sluice.queue q
           where q.class_id = p_class and q.state = 'ready' and (q.rank, q.id) > (v_rank, v_after) and coalesce(q.deadline_at > v_now, true)
           order by q.rank, q.id limit v_see.free + v_see.ahead for update skip locked) q;
  -- Those beyond the slots are assigned, up to the first that must start at once.
  v_rows := v_rows[:v_see.free + coalesce(array_position(v_must[v_see.free + 1:], true) - 1, v_see.ahead)];
  if v_rows <> '{}' then
    return query
    select s.*, null::jsonb
      from sluice.start_jobs_v1(p_worker, v_now, greatest(p_known + 1, sluice.microseconds_v1(v_now)), v_rows, array[p_class],
                                v_see.skip_before, null, v_see.free) s;
  end if;
  v_slots := case when not v_see.is_asked then greatest(p_run + least(v_see.free, cardinality(v_rows)), p_keep)
                  -- As sluice.save_holdings_v1 has it: not while this one finds work.
                  when v_rows <> '{}' then v_held.slots else p_run end;
  if v_held.slots > v_slots then
    update sluice.holdings h set slots = v_slots where h.worker_id = p_worker and h.lane = p_lane;
    if v_see.is_asked then
      perform pg_notify('sluice', 'slots');
    end if;
  end if;
  if v_see.at > v_now + interval '5 milliseconds' then
    -- As sluice.cycle_v1 reports it.
    report := jsonb_build_object('scanMs', 1000 * extract(epoch from v_see.at - v_now));
    return next;
  end if;
end $function$;

--- function sluice.stop_running_v1(p_ids bigint[], p_error text, p_wait boolean)
CREATE OR REPLACE FUNCTION sluice.stop_running_v1(p_ids bigint[], p_error text, p_wait boolean DEFAULT true)
 RETURNS TABLE(id bigint, state sluice.job_state)
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_workers bigint[];
  v_seqs    bigint[];
begin
  if p_wait then
    select array_agg(k.worker_id), array_agg(k.seq) into v_workers, v_seqs
      from (select c.worker_id, c.seq from sluice.claims c
             where (c.worker_id, c.seq) in (select f.worker_id, f.seq from sluice.claims_of_v1(p_ids) f)
             order by c.worker_id, c.seq for no key update) k;
  else
    select array_agg(k.worker_id), array_agg(k.seq) into v_workers, v_seqs
      from (select c.worker_id, c.seq from sluice.claims c
             where (c.worker_id, c.seq) in (select f.worker_id, f.seq from sluice.claims_of_v1(p_ids) f)
             order by c.worker_id, c.seq for no key update skip locked) k;
  end if;
  -- In a statement of its own, which sees what the claims list now that they are locked.
  return query select s.id, s.state from sluice.ask_to_stop_v1(v_workers, v_seqs, p_ids, p_error) s;
end $function$;

--- function sluice.store_jobs_v1(p_jobs jsonb)
CREATE OR REPLACE FUNCTION sluice.store_jobs_v1(p_jobs jsonb)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_now   timestamptz := clock_timestamp();
  v_name  text;
  v_count bigint;
begin
  return query
  with given as materialized (
    select nextval('sluice.job_data_id_seq') as id, r.* from sluice.read_jobs_v1(p_jobs, v_now) r
  ), stored as (
    insert into sluice.job_data (id, submitted_at, task, class_id, key, key_owner, input, priority, deadline_ms, tags, submitted_by, trace, uses)
    select g.id, v_now, g.task, g.class_id, g.key, g.key_owner, g.input, g.priority, g.deadline_ms, g.tags, g.owner, g.trace, g.uses from given g
  ), named as (
    insert into sluice.job_keys (task, key, owner, job_id)
    select g.task, g.key, coalesce(g.key_owner, ''), g.id from given g where g.key is not null
  ), queued as (
    insert into sluice.queue (id, class_id, rank, state, ready_at, deadline_at, keyed)
    select g.id, g.class_id, g.rank, g.state, g.due, g.deadline_at, g.key is not null from given g
  )
  select g.id from given g;
  get diagnostics v_count = row_count;
  if v_count <> jsonb_array_length(p_jobs) then
    select g.task into v_name from jsonb_to_recordset(p_jobs) as g(task text)
     where not exists (select 1 from sluice.tasks t where t.name = g.task) limit 1;
    if exists (select 1 from sluice.workflows w where w.name = v_name) then
      raise exception '% is a workflow', quote_literal(v_name) using errcode = 'SL006', detail = v_name;
    end if;
    raise exception 'no task named %', coalesce(quote_literal(v_name), 'null') using errcode = 'SL002', detail = coalesce(v_name, '');
  end if;
end $function$;

--- function sluice.stored_amount_text_v1(p_budget text, p_amount jsonb)
CREATE OR REPLACE FUNCTION sluice.stored_amount_text_v1(p_budget text, p_amount jsonb)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN CASE jsonb_typeof(p_amount) WHEN 'string'::text THEN (p_amount #>> '{}'::text[]) WHEN 'object'::text THEN (sluice.amount_text_v1(((p_amount ->> 'each'::text))::double precision, ((SELECT b.bytes FROM sluice.budgets b WHERE (b.name = stored_amount_text_v1.p_budget)) IS TRUE)) || CASE WHEN (((p_amount ->> 'devices'::text))::integer > 1) THEN ((' on each of '::text || (p_amount ->> 'devices'::text)) || ' devices'::text) ELSE ''::text END) ELSE 'nothing'::text END;

--- function sluice.submit(task text, input jsonb, key text, priority integer, lane text, run_at timestamp with time zone, deadline interval, tags text[], submitted_by text)
CREATE OR REPLACE FUNCTION sluice.submit(task text, input jsonb DEFAULT NULL::jsonb, key text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, lane text DEFAULT NULL::text, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, deadline interval DEFAULT NULL::interval, tags text[] DEFAULT NULL::text[], submitted_by text DEFAULT NULL::text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_variable
declare
  v_id bigint;
begin
  if priority not between -1000000 and 1000000 then
    raise exception 'priority: % must be from -1000000 to 1000000', priority using errcode = 'SL005', detail = 'priority';
  elsif length(key) not between 1 and 500 then
    raise exception 'key: must be a text of 1 to 500 characters' using errcode = 'SL005', detail = 'key';
  elsif not isfinite(run_at) or run_at > '9999-12-31' then
    raise exception 'run_at: must be a time before the year 10000' using errcode = 'SL005', detail = 'run_at';
  elsif not isfinite(deadline) or deadline < interval '0' or extract(epoch from deadline) > 3153600000 then
    raise exception 'deadline: must be from 0, which is no deadline, to 36500 days' using errcode = 'SL005', detail = 'deadline';
  elsif cardinality(tags) > 50 or exists (select 1 from unnest(tags) t where t is null or length(t) not between 1 and 100) then
    raise exception 'tags: must be at most 50 texts of 1 to 100 characters' using errcode = 'SL005', detail = 'tags';
  elsif length(submitted_by) not between 1 and 200 then
    raise exception 'submitted_by: must be a text of 1 to 200 characters' using errcode = 'SL005', detail = 'submitted_by';
  elsif length(input::text) > 16777216 then
    raise exception 'input: must not be longer than 16 MiB' using errcode = 'SL005', detail = 'input';
  elsif length(input::text) > 2000 and jsonb_path_exists(input, 'strict $.**{1000 to last} ? (@.type() == "array" || @.type() == "object")') then
    -- As deep as src/model/json.ts allows: programs that write it out again run out of stack beyond.
    raise exception 'input: must not be nested deeper than 1000 levels' using errcode = 'SL005', detail = 'input';
  end if;
  select s.id into v_id from sluice.submit_v1(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'task', task, 'key', key, 'priority', priority, 'lane', lane, 'runAt', run_at,
    'deadlineMs', ceil(extract(epoch from deadline) * 1000)::bigint, 'tags', to_jsonb(tags), 'by', submitted_by,
    'audit', jsonb_build_object('actor', session_user))) ||
    jsonb_build_object('input', input)), 'commit') s;
  return v_id;
end $function$;

--- function sluice.submit_keyed_any_v1(p_job jsonb, OUT id bigint, OUT attached boolean)
CREATE OR REPLACE FUNCTION sluice.submit_keyed_any_v1(p_job jsonb, OUT id bigint, OUT attached boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
begin
  if p_job ->> 'key' is null then
    id := sluice.insert_one_v1(p_job);
    attached := false;
  else
    select s.id, s.attached into id, attached from sluice.submit_keyed_v1(p_job) s;
  end if;
end $function$;

--- function sluice.submit_keyed_v1(p_job jsonb, OUT id bigint, OUT attached boolean)
CREATE OR REPLACE FUNCTION sluice.submit_keyed_v1(p_job jsonb, OUT id bigint, OUT attached boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_input jsonb;
  v_holder text;
  v_owner text := coalesce((select coalesce(p_job ->> 'by', session_user::text) from sluice.tasks t
                             where t.name = p_job ->> 'task' and t.keys = 'owner'), '');
begin
  for i in 1..100 loop
    -- Looking first spares the common attach a dead row.
    select d.id, d.input, d.submitted_by into id, v_input, v_holder from sluice.job_keys k join sluice.job_data d on d.id = k.job_id
     where k.task = p_job ->> 'task' and k.key = p_job ->> 'key' and k.owner = v_owner;
    if found then
      if v_input is distinct from nullif(p_job -> 'input', 'null') then   -- no input is stored as no value
        raise exception 'key % of task % is held by job % of %, which has another input',
          quote_literal(p_job ->> 'key'), p_job ->> 'task', id, v_holder using errcode = 'SL004', detail = id::text;
      end if;
      attached := true;
      return;
    end if;
    begin
      id := sluice.insert_one_v1(p_job);
      attached := false;
      return;
    exception when unique_violation then
      null;  -- somebody was faster: attach to theirs, or try again if it has ended since
    end;
  end loop;
  raise exception 'key % of task % changed hands 100 times', p_job ->> 'key', p_job ->> 'task' using errcode = '40001';
end $function$;

--- function sluice.submit_v1(p_jobs jsonb, p_hint text)
CREATE OR REPLACE FUNCTION sluice.submit_v1(p_jobs jsonb, p_hint text)
 RETURNS TABLE(ord integer, id bigint, attached boolean)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  v_workflows boolean := exists (select 1 from jsonb_array_elements(p_jobs) e join sluice.workflows w on w.name = e ->> 'task');
  v_ids       bigint[];
  v_attached  boolean[];
begin
  perform sluice.check_submitter_v1();
  if v_workflows or jsonb_path_exists(p_jobs, '$[*].key ? (@ != null)') then
    -- Keys in one order for everybody, so that two such calls cannot wait for each other.
    with stored as materialized (
      select g.ord, s.id, s.attached
        from (select e.job, e.ord from jsonb_array_elements(p_jobs) with ordinality e(job, ord)
               order by e.job ->> 'task', e.job ->> 'key', e.job ->> 'by', e.ord) g
       cross join lateral sluice.submit_keyed_any_v1(g.job) s
    )
    select array_agg(s.id order by s.ord), array_agg(s.attached order by s.ord) into v_ids, v_attached from stored s;
  else
    v_ids := array(select sluice.store_jobs_v1(p_jobs));
  end if;
  if sluice.leaves_audit_entry_v1(p_jobs) then
    perform sluice.audit_submissions_v1(p_jobs, v_ids, v_attached);
  end if;
  if jsonb_path_exists(p_jobs, '$[*].resubmitOf') then
    insert into sluice.resubmissions (job_id, of_id)
    select v_ids[e.ord], (e.job ->> 'resubmitOf')::bigint from jsonb_array_elements(p_jobs) with ordinality e(job, ord)
     where e.job ->> 'resubmitOf' is not null and v_attached[e.ord] is not true;
  end if;
  -- After all of them, since nothing may be waited for under its lock. An active job that was found has been admitted.
  perform sluice.admit_v1(array(select u.id from unnest(v_ids, v_attached) u(id, attached) where u.attached is not true), p_hint);
  perform sluice.hint_v1('ready', p_hint);
  if v_workflows then
    perform sluice.hint_v1('wake', p_hint);
  end if;
  return query select u.ord::integer, u.id, coalesce(u.attached, false) from unnest(v_ids, v_attached) with ordinality u(id, attached, ord);
end $function$;

--- function sluice.take_composites_v1(p_limit integer, p_ms integer, p_taker uuid, p_bytes bigint)
CREATE OR REPLACE FUNCTION sluice.take_composites_v1(p_limit integer, p_ms integer, p_taker uuid, p_bytes bigint)
 RETURNS TABLE(job_id bigint, version integer, kind sluice.composite_kind, state sluice.job_state, graph text, node text, input jsonb, window_size integer, total integer, completed integer, failed integer, cancelled integer, closing sluice.job_state, closing_error text, closed boolean, timed_out boolean, chunk integer, chunk_items jsonb, children jsonb, wakeups bigint[])
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();   -- not that of the statement: it may have woken some itself
  v_ids bigint[];
begin
  select array_agg(distinct d.job_id) into v_ids from (
    select w.job_id from sluice.wakeups w join sluice.composites c on c.job_id = w.job_id
     where w.due_at <= v_now and (c.taken_until is null or c.taken_until < v_now or c.taken_by = p_taker)
     order by w.due_at, w.id limit p_limit) d;
  if v_ids is null then
    return;
  end if;
  -- No more than p_bytes at once, or one: who takes them has them all in memory. What takes little room on disk counts as if it were
  -- compressed as well as can be.
  if cardinality(v_ids) > 1 then
    select array_agg(s.id) into v_ids from (
      select z.id, sum(z.bytes) over (order by z.id) as upto, row_number() over (order by z.id) as place from (
        select j.id, case when pg_column_size(j.input) > 2048 then octet_length(j.input::text) else coalesce(pg_column_size(j.input), 0) * 256 end
                   + coalesce((select case when pg_column_size(k.items) > 2048 then octet_length(k.items::text) else pg_column_size(k.items) * 256 end
                                 from sluice.chunks k where k.job_id = j.id order by k.first limit 1), 0) as bytes
          from unnest(v_ids) v(id) join sluice.job_data j on j.id = v.id) z) s
     where s.place = 1 or s.upto <= p_bytes;
  end if;
  -- Taking is undone by time alone: nothing is lost when a crash forgets it.
  perform set_config('synchronous_commit', 'off', true);
  with taken as (
    update sluice.composites c set taken_until = clock_timestamp() + make_interval(secs => p_ms / 1000.0), taken_by = p_taker, version = c.version + 1
     where c.job_id = any (array(select k.job_id from sluice.composites k
                                  where k.job_id = any (v_ids)
                                    and (k.taken_until is null or k.taken_until < clock_timestamp() or k.taken_by = p_taker)
                                  order by k.job_id for no key update skip locked))
    returning c.job_id
  )
  select array_agg(t.job_id) into v_ids from taken t;
  -- In a statement of its own: one that had begun before somebody else's advance was committed would lock the counts as they
  -- are after it and read the wake-ups and children from before it, and count endings twice.
  return query
  select t.job_id, t.version, j.composite,
         case when t.ended then (select o.state from sluice.outcomes o where o.id = t.job_id)
              when t.started_at is null then (select q.state from sluice.queue q where q.id = t.job_id)
              else 'running'::sluice.job_state end, t.graph, t.node, j.input, t.window_size, t.total,
         (t.completed + w.completed)::integer, (t.failed + w.failed)::integer, (t.cancelled + w.cancelled)::integer,
         t.closing, t.closing_error, t.closed,
         coalesce(t.started_at + make_interval(secs => t.timeout_ms / 1000.0) <= clock_timestamp(), false), h.first, h.items,
         case when j.composite <> 'fanout'
              -- One by one: joined, a plan made while the queue was empty reads all of it for every child.
              then (select jsonb_agg(jsonb_build_array(k.idx, coalesce((select o.state from sluice.outcomes o where o.id = k.id),
                                                                       (select q.state from sluice.queue q where q.id = k.id), 'running')))
                      from sluice.job_data k where k.parent_id = j.id and k.superseded_at is null) end,
         w.ids
    from unnest(v_ids) v(id)
    join sluice.composites t on t.job_id = v.id
    join sluice.job_data j on j.id = t.job_id
   cross join lateral (
     select array_agg(u.id) as ids, coalesce(sum(u.completed), 0) as completed, coalesce(sum(u.failed), 0) as failed,
            coalesce(sum(u.cancelled), 0) as cancelled
       from sluice.wakeups u
      where u.job_id = t.job_id and (u.due_at <= clock_timestamp() or u.completed + u.failed + u.cancelled > 0)) w
    left join lateral (
      select k.first, k.items from sluice.chunks k where j.composite = 'fanout' and k.job_id = t.job_id order by k.first limit 1) h on true;
end $function$;

--- function sluice.take_request_v1(p_id bigint, p_call_ms integer)
CREATE OR REPLACE FUNCTION sluice.take_request_v1(p_id bigint, p_call_ms integer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  update sluice.fleet_decisions d set taken_until = clock_timestamp() + make_interval(secs => p_call_ms / 1000.0)
   where d.id = p_id and d.ended_at is null and d.started is null and d.taken_until < clock_timestamp();
  return found;
end $function$;

--- function sluice.take_stops_v1(p_pool text, p_call_ms integer)
CREATE OR REPLACE FUNCTION sluice.take_stops_v1(p_pool text, p_call_ms integer)
 RETURNS TABLE(id bigint, tries integer, instances text[])
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  v_row  record;
  v_ids  text[];
  v_used text[];
begin
  perform 1 from sluice.pools p where p.name = p_pool for no key update;
  -- What is just being started may have the id of what is left: until that is known nothing is stopped.
  if exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null and d.started is null) then
    return;
  end if;
  v_used := array(
    select i ->> 'id' from sluice.fleet_decisions d cross join jsonb_array_elements(d.instances) i where d.pool = p_pool and d.ended_at is null
    union
    select i ->> 'id' from sluice.workers w join sluice.fleet_decisions d on d.token = split_part(w.request, '.', 1)
      cross join jsonb_array_elements(d.instances) i
     where w.pool = p_pool and w.ended_at is null and w.request = d.token || '.' || (i ->> 'member'));
  for v_row in
    select d.id, d.token, d.instances from sluice.fleet_decisions d
     where d.pool = p_pool and d.stop_at <= clock_timestamp() order by d.id limit 10 for no key update
  loop
    v_ids := array(select distinct i ->> 'id' from jsonb_array_elements(v_row.instances) i
                    where i ->> 'id' <> all (v_used)
                      and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = v_row.token
                                         and w.request = v_row.token || '.' || (i ->> 'member')));
    update sluice.fleet_decisions d
       set stop_at = case when v_ids <> '{}' then clock_timestamp() + make_interval(secs => p_call_ms / 1000.0) end,
           stop_tries = d.stop_tries + (v_ids <> '{}')::integer
     where d.id = v_row.id returning d.stop_tries into tries;
    continue when v_ids = '{}';
    id := v_row.id;
    instances := v_ids;
    return next;
  end loop;
end $function$;

--- function sluice.tree_concerns_v1()
CREATE OR REPLACE FUNCTION sluice.tree_concerns_v1()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object(
    -- Fan-outs of which children failed: whether they can still succeed is for their strategy to say. Of 2,000 that run.
    'failing', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'graph', f.graph, 'node', f.node, 'total', f.total, 'completed', f.completed, 'failed', f.failed, 'cancelled', f.cancelled)
                                            order by f.id), '[]')
                  from (select d.id, d.root_id, coalesce(d.step, d.task) as step, c.graph, c.node, n.total, n.completed, n.failed, n.cancelled
                          from (select c.* from sluice.composites c
                                 where not c.ended and c.started_at is not null and c.total is not null order by c.job_id limit 2000) c
                          join sluice.job_data d on d.id = c.job_id
                         cross join lateral sluice.fanout_v1(c.job_id) n
                         where n.failed + n.cancelled > 0 and c.closing is null and d.superseded_at is null and c.cancel_at is null
                         order by d.id limit 100) f),
    'fanOuts', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'waiting', f.waiting) order by f.id), '[]')
                  from (select d.id, d.root_id, coalesce(d.step, d.task) as step,
                               coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens as waiting
                          from sluice.composites c join sluice.job_data d on d.id = c.job_id
                         where c.window_size = 0 and c.closing is null and not c.ended and c.started_at is not null and d.superseded_at is null
                           and coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens > 0
                         order by d.id limit 20) f))
$function$;

--- function sluice.undrain_workers_v1(p_pool text, p_seen bigint, p_count integer, p_reason text, p_overflow jsonb, p_by text)
CREATE OR REPLACE FUNCTION sluice.undrain_workers_v1(p_pool text, p_seen bigint, p_count integer, p_reason text, p_overflow jsonb, p_by text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_ids bigint[];
begin
  perform 1 from sluice.pools p where p.name = p_pool for no key update;
  if p_seen <> coalesce((select max(d.id) from sluice.fleet_decisions d where d.pool = p_pool), 0) then
    return 0;
  end if;
  v_ids := array(select w.id from sluice.workers w where w.pool = p_pool and w.ended_at is null and w.returnable
                  order by w.id limit p_count for no key update);
  update sluice.workers w set draining = false, leaving = null, returnable = false where w.id = any (v_ids);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  insert into sluice.fleet_decisions (pool, action, count, reason, overflow, decided_by, ended_at, outcome)
    values (p_pool, 'bring-back', cardinality(v_ids), p_reason, p_overflow, p_by, clock_timestamp(), 'returned');
  insert into sluice.fleet_samples as s (pool, returned) values (p_pool, cardinality(v_ids))
    on conflict (pool) do update set returned = s.returned + excluded.returned;
  perform pg_notify('sluice', 'workers');
  return cardinality(v_ids);
end $function$;

--- function sluice.unended_root_ids_v1()
CREATE OR REPLACE FUNCTION sluice.unended_root_ids_v1()
 RETURNS TABLE(id bigint, is_active boolean)
 LANGUAGE sql
 STABLE
AS $function$
  select q.id, true from sluice.queue q where q.state = 'ready' and q.parent_id is null
  union all
  select q.id, q.started_at is not null from sluice.queue q where q.state = 'scheduled' and q.parent_id is null
  union all
  select q.id, true from sluice.queue q where q.state = 'awaiting_approval' and q.parent_id is null
  union all
  select r.id, true from sluice.claimed r where r.parent_id is null
  union all
  select c.job_id, true from sluice.composites c where not c.ended and c.started_at is not null and c.depth = 0
$function$;

--- function sluice.unended_roots_v1()
CREATE OR REPLACE FUNCTION sluice.unended_roots_v1()
 RETURNS TABLE(id bigint, submitted_by text)
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  select d.id, d.submitted_by from sluice.unended_root_ids_v1() u join sluice.job_data d on d.id = u.id
$function$;

--- function sluice.up_since_v1(p_noticed timestamp with time zone)
CREATE OR REPLACE FUNCTION sluice.up_since_v1(p_noticed timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
RETURN GREATEST(p_noticed, CASE WHEN (pg_postmaster_start_time() <= clock_timestamp()) THEN pg_postmaster_start_time() ELSE NULL::timestamp with time zone END);

--- function sluice.uses_refusal_v1(p_uses jsonb, p_per_job jsonb)
CREATE OR REPLACE FUNCTION sluice.uses_refusal_v1(p_uses jsonb, p_per_job jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_row     record;
  v_largest double precision;
  v_fits    integer;
begin
  for v_row in
    select b.name, b.kind, b.bytes, b.devices as declared,
           case when not b.declared ? 'capacity' then b.capacity
                when b.capacity is not null and b.declared ->> 'capacity' is not null
                then greatest(b.capacity, (b.declared ->> 'capacity')::double precision)
                end as capacity, sum((a.amount ->> 'each')::double precision) as each, max((a.amount ->> 'devices')::integer) as devices
      from (select * from jsonb_each(p_uses) union all select * from jsonb_each(p_per_job)) a(budget, amount)
      join sluice.budgets b on b.name = a.budget
     where jsonb_typeof(a.amount) = 'object'
     group by b.name order by b.name
  loop
    if v_row.kind = 'shared' then
      v_largest := v_row.capacity;
      v_fits := case when v_row.each <= v_row.capacity * (1 + 1e-9) then 1 else 0 end;
    else
      -- What workers have reported, and what files say each machine has: a worker may not have come yet.
      select max(k.capacity), coalesce(max(k.fits), 0) into v_largest, v_fits
        from (select g.host, max(g.capacity) as capacity, (count(*) filter (where g.capacity >= v_row.each))::integer as fits
                from (select d.host, coalesce(d.total, 'Infinity') as capacity from sluice.devices d where d.budget = v_row.name
                      union all
                      select null, e.value::double precision from jsonb_each_text(v_row.declared) e) g
               group by g.host) k;
    end if;
    if v_largest is not null and v_fits < v_row.devices then
      return jsonb_build_object('budget', v_row.name, 'needs', v_row.each, 'devices', v_row.devices,
        'largest', case when v_largest < 'Infinity' then v_largest end, 'fitting', v_fits,
        'text', case
          when v_row.kind = 'shared' then format('needs %s of %s, of which there are %s', sluice.amount_text_v1(v_row.each, v_row.bytes), v_row.name,
                                                 sluice.amount_text_v1(v_largest, v_row.bytes))
          when v_row.devices = 1 then format('needs %s of %s on one device; the largest has %s', sluice.amount_text_v1(v_row.each, v_row.bytes),
                                             v_row.name, sluice.amount_text_v1(v_largest, v_row.bytes))
          else format('needs %s of %s on each of %s devices; no machine has more than %s that large', sluice.amount_text_v1(v_row.each, v_row.bytes),
                      v_row.name, v_row.devices, v_fits) end);
    end if;
  end loop;
  return null;
end $function$;

--- function sluice.waiting_v1(p_class integer, p_exact integer)
CREATE OR REPLACE FUNCTION sluice.waiting_v1(p_class integer, p_exact integer)
 RETURNS TABLE(depth integer, oldest_at timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
  select (select count(*)::integer from (select 1 from sluice.queue j where j.class_id = p_class and j.state = 'ready' limit p_exact) x),
         least((select min(f.ready_at) from (select j.ready_at from sluice.queue j where j.class_id = p_class and j.state = 'ready'
                                              order by j.rank, j.id limit 1000) f),
         (with recursive heads as (
            (select j.rank, j.ready_at from sluice.queue j where j.class_id = p_class and j.state = 'ready' order by j.rank, j.id limit 1)
            union all
            select n.rank, n.ready_at from heads h cross join lateral (
              select j.rank, j.ready_at from sluice.queue j where j.class_id = p_class and j.state = 'ready' and j.rank > h.rank
               order by j.rank, j.id limit 1) n
          ) select min(h.ready_at) from (select ready_at from heads limit 1000) h))
$function$;

--- function sluice.wake_stuck_composites_v1()
CREATE OR REPLACE FUNCTION sluice.wake_stuck_composites_v1()
 RETURNS integer
 LANGUAGE plpgsql
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_count integer;
begin
  insert into sluice.wakeups (job_id)
  select c.job_id from sluice.composites c
   where not c.ended and c.started_at < clock_timestamp() - interval '10 seconds'
     and (c.taken_until is null or c.taken_until < clock_timestamp() - interval '10 seconds')
     and not exists (select 1 from sluice.wakeups w where w.job_id = c.job_id and w.due_at <= clock_timestamp())
     and not exists (select 1 from sluice.job_data k where k.parent_id = c.job_id and k.superseded_at is null
                        -- One by one: joined, a plan made while a table was empty reads all of it for every child.
                        and not exists (select 1 from sluice.outcomes o where o.id = k.id offset 0)
                        and not exists (select 1 from sluice.queue q where q.id = k.id and q.state = 'waiting' offset 0))
     and not (c.window_size = 0 and exists (select 1 from sluice.queue q where q.parent_id = c.job_id and q.state = 'waiting'));
  get diagnostics v_count = row_count;
  return v_count;
end $function$;

--- function sluice.watch_jobs_v1(p_ids bigint[], p_levels integer[], p_wide integer)
CREATE OR REPLACE FUNCTION sluice.watch_jobs_v1(p_ids bigint[], p_levels integer[], p_wide integer)
 RETURNS TABLE(snapshot text, watch integer, id bigint, parent_id bigint, idx integer, step text, task text, kind sluice.composite_kind, state sluice.job_state, cancelling boolean, attempt integer, failures smallint, losses smallint, priority integer, worker_id bigint, error text, detail jsonb, ready_at timestamp with time zone, started_at timestamp with time zone, finished_at timestamp with time zone, written text, progress real, message text, total integer, completed integer, failed integer, cancelled integer, told text)
 LANGUAGE sql
 STABLE
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'on'
 SET enable_mergejoin TO 'off'
AS $function$
  with recursive tree as (
    select g.watch::integer, g.levels, j.id, j.composite
      from unnest(p_ids, p_levels) with ordinality g(id, levels, watch)
     cross join lateral (select d.id, d.composite from sluice.job_data d where d.id = g.id offset 0) j
    union all
    select t.watch, t.levels - 1, k.id, k.composite
      from tree t cross join lateral (select d.id, d.composite from sluice.job_data d where d.parent_id = t.id and d.superseded_at is null offset 0) k
     where t.levels > 0 and t.composite is not null
       and (t.composite <> 'fanout' or coalesce((select c.total from sluice.composites c where c.job_id = t.id), 0) <= p_wide)
  ), found as materialized (
    select j.* from sluice.jobs_by_id_v1(array(select distinct t.id from tree t)) j
  )
  select pg_current_snapshot()::text, t.watch, j.id, j.parent_id, j.idx, j.step, j.task, j.composite, j.state,
         j.cancel_at is not null and j.state = 'running', j.attempt, j.failures, j.losses, j.priority, j.worker_id, left(j.error, 2000),
         case when t.id = p_ids[t.watch] and j.error is not null then sluice.error_detail_v1(j.id, j.attempt, j.state, j.error) end,
         j.ready_at, j.started_at, j.finished_at,
         case when ((e.next - w.data) & 4294967295) <= ((e.next - w.state) & 4294967295) then w.data
              else w.state end::text, n.progress, n.message, c.total, c.completed, c.failed, c.cancelled,
         coalesce(n.told, c.told)::text
    from tree t join found j on j.id = t.id
   cross join lateral (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next) e
   cross join lateral (
     select (select d.xmin::text::bigint from sluice.job_data d where d.id = t.id) as data,
            coalesce((select o.xmin::text::bigint from sluice.outcomes o where o.id = t.id),
                     (select q.xmin::text::bigint from sluice.queue q where q.id = t.id),
                     (select coalesce(l.cancels -> t.id::text ->> 'written', l.written::text)::bigint & 4294967295 from sluice.claims l
                       where j.state in ('ready', 'running') and j.composite is null and l.worker_id = j.worker_id and t.id = any (l.ids)),
                     (select k.written::text::bigint & 4294967295 from sluice.composites k where k.job_id = t.id)) as state
   ) w
    left join lateral (select x.progress, x.message, x.xmin as told from sluice.notes x where x.job_id = j.id offset 0) n on true
    left join lateral (select x.total, x.completed, x.failed, x.cancelled, x.xmin as told from sluice.composites x
                        where x.job_id = j.id and x.total is not null offset 0) c on true
$function$;

--- function sluice.why_waiting_text_v1(p_obstacle text, p_details jsonb)
CREATE OR REPLACE FUNCTION sluice.why_waiting_text_v1(p_obstacle text, p_details jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE p_obstacle WHEN 'crash'::text THEN 'PostgreSQL has recovered from a crash: jobs start again once every worker that was alive has reported, or its leases have ended'::text WHEN 'lane_paused'::text THEN (('lane '::text || (p_details ->> 'lane'::text)) || ' is paused'::text) WHEN 'lane_closed'::text THEN (((('lane '::text || (p_details ->> 'lane'::text)) || ' is closed: it has 0 slots. Open it with: sluice lanes set '::text) || (p_details ->> 'lane'::text)) || ' --slots NUMBER'::text) WHEN 'no_worker'::text THEN ('no worker runs task '::text || (p_details ->> 'task'::text)) WHEN 'labels'::text THEN ((('no worker that runs task '::text || (p_details ->> 'task'::text)) || ' has the labels it requires: '::text) || (p_details ->> 'requires'::text)) WHEN 'draining'::text THEN ((('every worker that runs task '::text || (p_details ->> 'task'::text)) || ' is draining'::text) || COALESCE((' or broken: worker '::text || (p_details ->> 'broken'::text)), ''::text)) WHEN 'withdrawn'::text THEN (((((((('worker '::text || ((p_details -> 'first'::text) ->> 'worker'::text)) || ' cannot start task '::text) || (p_details ->> 'task'::text)) || ': '::text) || ((p_details -> 'first'::text) ->> 'why'::text)) || '; retries at '::text) || ((p_details -> 'first'::text) ->> 'retryAt'::text)) || CASE WHEN (((p_details ->> 'workers'::text))::integer > 1) THEN (('; '::text || CASE (p_details ->> 'workers'::text) WHEN '2'::text THEN '1 other worker'::text ELSE ((((p_details ->> 'workers'::text))::integer - 1) || ' other workers'::text) END) || ' cannot start it either'::text) ELSE ''::text END) WHEN 'lane_full'::text THEN (((((('lane '::text || (p_details ->> 'lane'::text)) || ' is full: '::text) || (p_details ->> 'running'::text)) || ' of '::text) || (p_details ->> 'slots'::text)) || ' slots are busy'::text) WHEN 'lane_held'::text THEN (((((((('lane '::text || (p_details ->> 'lane'::text)) || ' is full: '::text) || (p_details ->> 'held'::text)) || ' of '::text) || (p_details ->> 'slots'::text)) || ' slots are held, '::text) || (p_details ->> 'idle'::text)) || ' of them idle for a moment'::text) WHEN 'capacity'::text THEN (('every worker that runs task '::text || (p_details ->> 'task'::text)) || ' is at capacity'::text) WHEN 'per_worker'::text THEN ((((('every worker that runs task '::text || (p_details ->> 'task'::text)) || ' has as many jobs of lane '::text) || (p_details ->> 'lane'::text)) || ' as it may: '::text) || CASE WHEN (((p_details ->> 'perWorker'::text))::integer > 0) THEN (p_details ->> 'perWorker'::text) ELSE 'its number of cores'::text END) WHEN 'processes'::text THEN CASE WHEN (((p_details ->> 'processes'::text))::integer > 0) THEN (((('all '::text || (p_details ->> 'processes'::text)) || ' processes of workers that run task '::text) || (p_details ->> 'task'::text)) || ' are busy'::text) ELSE (((('no worker that runs task '::text || (p_details ->> 'task'::text)) || ' has a share of the cores of its host: the process pools of other workers on '::text) || (p_details ->> 'hosts'::text)) || ' have them'::text) END WHEN 'silent'::text THEN (((((('every worker that could run task '::text || (p_details ->> 'task'::text)) || ' is silent: '::text) || (p_details ->> 'worker'::text)) || ' sent its last heartbeat '::text) || (((p_details ->> 'silentMs'::text))::bigint / 1000)) || ' seconds ago'::text) WHEN 'budget'::text THEN ((('task '::text || (p_details ->> 'task'::text)) || ' waits for what it uses of '::text) || (p_details ->> 'budgets'::text)) ELSE NULL::text END;

--- function sluice.worker_concerns_v1()
CREATE OR REPLACE FUNCTION sluice.worker_concerns_v1()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  with live as materialized (
    select w.id, w.name, w.tasks, w.broken, w.draining or w.stopping as leaving, w.seen_at,
           w.draining and w.broken is null and w.leaving is null and not w.stopping as drained,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent, w.blocked_since, w.blocking, w.labels
      from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms'
  ), wanted as materialized (
    -- Tasks with jobs that could start, and those that only draining workers run.
    select c.task from sluice.classes c
     where exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready')
    union
    select t.name from live w cross join lateral unnest(w.tasks) t(name) where w.leaving
  ), stranded as materialized (
    select t.task, count(w.id)::integer as workers, coalesce(bool_or(w.drained), false) as drained
      from wanted t left join live w on t.task = any (w.tasks) and not w.silent
     group by t.task having coalesce(bool_and(w.leaving), true)
  ), nobody as materialized (
    select s.task, s.workers, s.drained, count(q.ready_at)::integer as waiting, min(q.ready_at) as oldest_at
      from (select * from stranded order by workers desc, task limit 20) s
      left join lateral (
        select j.ready_at from sluice.classes c
         cross join lateral (select x.ready_at from sluice.queue x where x.class_id = c.id and x.state = 'ready' limit 100) j
         where c.task = s.task limit 100) q on true
     group by s.task, s.workers, s.drained
  ), unlabelled as materialized (
    -- Classes whose task runs on live workers, none of which has the labels that its jobs require.
    select c.task, c.requires, count(q.ready_at)::integer as waiting, min(q.ready_at) as oldest_at
      from (select c.id, c.task, c.requires from sluice.classes c
             where c.requires <> '{}' and exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready')
               and exists (select 1 from live w where c.task = any (w.tasks) and not w.silent)
               and not exists (select 1 from live w where c.task = any (w.tasks) and not w.silent and c.requires <@ w.labels)
             order by c.task, c.id limit 20) c
     cross join lateral (select j.ready_at from sluice.queue j where j.class_id = c.id and j.state = 'ready' limit 100) q
     group by c.task, c.requires
  )
  select jsonb_build_object(
    'silent', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name,
                                                            'silentMs', round(extract(epoch from clock_timestamp() - w.seen_at) * 1000),
                 'running', (select count(*) from sluice.running j where j.worker_id = w.id)) order by w.id), '[]')
                 from (select * from live w where w.silent order by w.id limit 20) w),
    'withdrawn', coalesce((select jsonb_agg(jsonb_build_object('task', x.task, 'causes', x.causes, 'total', x.total, 'able', x.able) order by x.task)
      from (select d.task, (array_agg(jsonb_build_object('why', d.why, 'workers', d.workers) order by d.first))[:5] as causes, count(*) as total,
                   exists (select 1 from live o where d.task = any (o.tasks) and not o.leaving and not o.silent
                             and not exists (select 1 from sluice.withdrawals e where e.worker_id = o.id and e.task = d.task
                                               and e.retry_at > clock_timestamp() - interval '1 minute')) as able
              from (select d.task, left(d.why, 300) as why, (array_agg(w.name order by w.id))[:20] as workers, min(w.id) as first
                      from sluice.withdrawals d join live w on w.id = d.worker_id
                     -- A worker whose time to try again is long past may simply have had no job since.
                     where d.retry_at > clock_timestamp() - interval '1 minute' group by d.task, left(d.why, 300)) d
             group by d.task order by d.task limit 20) x), '[]'),
    -- After a crash of the server: who was alive then and has not said what it runs. Null: nothing keeps jobs from starting.
    'unreported', (select jsonb_agg(w.name order by w.id) filter (where w.name is not null)
                     from (select 1 where not exists (select 1 from sluice.generation g where g.claims_open)) closed
                     left join (select w.id, w.name from sluice.workers w left join sluice.generation g on g.id = w.generation
                                 where w.ended_at is null and g.id is null order by w.id limit 20) w on true
                   having count(*) > 0),
    'broken', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'why', w.broken) order by w.id), '[]')
                 from (select * from live w where w.broken is not null order by w.id limit 20) w),
    'tasks', (select coalesce(jsonb_agg(jsonb_build_object('name', n.task, 'workers', n.workers, 'waiting', n.waiting,
                'waitedMs', coalesce(round(extract(epoch from clock_timestamp() - n.oldest_at) * 1000), 0)) order by n.task), '[]')
                from (select * from nobody n where n.waiting > 0 or n.drained order by n.task limit 20) n),
    'labels', (select coalesce(jsonb_agg(jsonb_build_object('task', u.task, 'requires', u.requires, 'waiting', u.waiting,
                 'waitedMs', round(extract(epoch from clock_timestamp() - u.oldest_at) * 1000)) order by u.task, u.requires), '[]')
                     from unlabelled u),
    -- A pool may be about to start a worker for what waits.
    'pools', exists (select 1 from sluice.pools),
    'blocked', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name,
                                                             'blockedMs', round(extract(epoch from clock_timestamp() - w.blocked_since) * 1000),
                  'running', r.n, 'jobs', r.jobs) order by w.id), '[]')
                  from (select * from live w where w.blocked_since is not null and not w.silent order by w.id limit 20) w
                 cross join lateral (
                   select count(*) as n, coalesce((array_agg(jsonb_build_object('id', j.id::text, 'task', c.task) order by j.started_at, j.id))[:3],
                                                  '{}') as jobs
                     from sluice.running j join sluice.classes c on c.id = j.class_id where j.worker_id = w.id and c.task = any (w.blocking)) r))
$function$;

--- function sluice.write_row_v1(p_table regclass, p_old jsonb, p_new jsonb, p_key text)
CREATE OR REPLACE FUNCTION sluice.write_row_v1(p_table regclass, p_old jsonb, p_new jsonb, p_key text DEFAULT 'name'::text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_columns text := (select string_agg(quote_ident(n.key), ', ') from jsonb_each(p_new) n where n.value is distinct from p_old -> n.key);
begin
  if v_columns is not null then
    execute format('update %1$s t set (%2$s) = (select %2$s from jsonb_populate_record(t, $1)) where t.%3$I::text = $2', p_table, v_columns, p_key)
      using p_new, p_new ->> p_key;
  end if;
end $function$;

--- function sluice.yield_to_workers_v1(p_worker bigint, p_now timestamp with time zone, p_lanes text[], p_run integer[], p_want integer[], p_free integer, p_hears boolean, INOUT classes sluice.cycle_class_v1[], OUT ahead integer, OUT wait_ms integer)
CREATE OR REPLACE FUNCTION sluice.yield_to_workers_v1(p_worker bigint, p_now timestamp with time zone, p_lanes text[], p_run integer[], p_want integer[], p_free integer, p_hears boolean, INOUT classes sluice.cycle_class_v1[], OUT ahead integer, OUT wait_ms integer)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_running  integer := (select sum(r)::integer from unnest(p_run) r);
  v_young    integer[]   := '{}';   -- classes whose first job is new to this worker; the next nine run beside it
  v_lane     text[];
  v_task     text[];
  v_requires jsonb[];
  v_each     integer[];   -- how many of the lane one worker may run, as sluice.lanes has it
  v_spread   boolean[];
  v_poll     integer[];   -- how often the lane is polled
  v_ready    integer[];   -- how many there are
  v_spare    integer[];   -- slots of the lane that nobody holds, or that this worker holds and does not use; null: no limit
  v_room     integer[];   -- how many of them those who come first could take
  v_workers  integer[];   -- and how many workers that are
  v_rank     integer;
  v_alive    timestamptz;
  v_peer     record;
  v_lanes    text[];      -- of what a peer runs, once for each job; and how many of them take a process
  v_pooled   integer;
  v_idle     integer;     -- slots of the lane that a peer holds and does not use
  v_fits     integer;
  v_useful   integer;
  v_wanted   integer;     -- of all classes: ready, and room before this worker
  v_total    integer := 0;
  v_free     integer := 0;
  v_patience integer;
  v_left     integer;
begin
  v_young := array(
    select c.ordinality::integer from unnest(classes) with ordinality c
     cross join lateral sluice.ready_v1(c.id, c.rank, c.after, 1) x
     where x.ready_at > p_now - make_interval(secs => c.fresh / 1000.0));
  if v_young = '{}' then
    return;
  end if;
  -- Counting what is ready is worth it only where somebody may come first.
  select w.rank into v_rank from sluice.workers w where w.id = p_worker;
  select p_now - make_interval(secs => s.value / 1000.0) into v_alive from sluice.settings s where s.name = 'heartbeat_ms';
  if not exists (select 1 from sluice.workers w
                  where w.ended_at is null and not w.draining and w.id <> p_worker and w.seen_at > v_alive
                    and ((w.rank, w.id) < (v_rank, p_worker)
                         or v_running > 0 and exists (select 1 from sluice.lanes s where s.name = any (p_lanes) and s.placement = 'spread'))) then
    return;
  end if;
  select array_agg(c.ordinality), array_agg(s.name), array_agg(k.task), array_agg(k.requires), array_agg(s.per_worker),
         array_agg(s.placement = 'spread'), array_agg(s.poll_ms), array_agg(n.ready), array_agg(0), array_agg(0),
         -- What this cycle reports as ended has not been recorded, so it counts as running.
         array_agg(case when s.slots is not null then greatest(0, s.slots
           - (select coalesce(sum(h.slots), 0) from sluice.holdings h where h.lane = s.name and h.worker_id <> p_worker)
           - greatest(p_run[c.lane], (select sum(sluice.started_in_v1(r)) from sluice.claims r join sluice.classes x on x.id = r.class_id
                                       where r.worker_id = p_worker and x.lane = s.name)))::integer end)
    into v_young, v_lane, v_task, v_requires, v_each, v_spread, v_poll, v_ready, v_room, v_workers, v_spare
    from unnest(classes) with ordinality c
    join sluice.classes k on k.id = c.id and not k.budgeted
    join sluice.lanes s on s.name = p_lanes[c.lane] and (s.placement = 'fill' or v_running > 0)
   cross join lateral (select count(*)::integer as ready from sluice.ready_v1(c.id, c.rank, c.after, p_free + 64)) n
   where c.ordinality = any (v_young) and p_want[c.lane] > 0;
  if v_young is null then
    return;
  end if;

  v_wanted := (select sum(r) from unnest(v_ready) r);
  for v_peer in
    select w.id, w.rank, w.capacity, w.cores, w.tasks, w.labels, w.busy_since, w.pooled, w.process_limit, w.processes,
           array(select d.task from sluice.withdrawals d where d.worker_id = w.id and d.retry_at > p_now) as withdrawn
      from sluice.workers w
     where w.ended_at is null and not w.draining and w.id <> p_worker and w.seen_at > v_alive and w.tasks && v_task
       and ((w.rank, w.id) < (v_rank, p_worker) or true = any (v_spread))
     order by w.rank desc, w.id desc limit 64
  loop
    select coalesce(array_agg(k.lane), '{}'), count(*) filter (where k.task = any (v_peer.pooled)) into v_lanes, v_pooled
      from (select r.class_id from sluice.running r where r.worker_id = v_peer.id and r.seq >= sluice.microseconds_v1(v_peer.busy_since) limit 1000) j
      join sluice.classes k on k.id = j.class_id;
    v_useful := 0;
    for i in 1 .. cardinality(v_young) loop
      continue when not (v_task[i] = any (v_peer.tasks) and v_requires[i] <@ v_peer.labels) or v_task[i] = any (v_peer.withdrawn)
        or case when v_spread[i] then cardinality(v_lanes) >= v_running else (v_peer.rank, v_peer.id) > (v_rank, p_worker) end;
      v_fits := least(case when v_peer.capacity > 0 then v_peer.capacity - cardinality(v_lanes) else 1000 end,
                      sluice.per_worker_v1(v_each[i], v_peer.capacity, v_peer.cores) - cardinality(array_positions(v_lanes, v_lane[i])),
                      case when v_peer.process_limit is not null and v_task[i] = any (v_peer.pooled) then v_peer.processes - v_pooled end);
      if v_spare[i] is not null and v_fits > 0 then
        v_idle := coalesce((select h.slots from sluice.holdings h where h.worker_id = v_peer.id and h.lane = v_lane[i]), 0)
          - cardinality(array_positions(v_lanes, v_lane[i]));
        v_fits := least(v_fits, v_idle + v_spare[i]);
        v_spare[i] := v_spare[i] - greatest(0, v_fits - v_idle);
      end if;
      if v_fits > 0 then
        v_room[i] := v_room[i] + v_fits;
        v_workers[i] := v_workers[i] + 1;
        v_useful := greatest(v_useful, v_fits);
      end if;
    end loop;
    v_total := v_total + v_useful;
    v_free := v_free + sign(v_useful)::integer;
    exit when v_free >= 4 and v_total >= v_wanted;
  end loop;
  if v_free = 0 then
    return;
  end if;

  -- What all of them together cannot take is this worker's, whichever class it is of.
  v_left := greatest(0, v_wanted - v_total);
  for i in 1 .. cardinality(v_young) loop
    -- A poll may be a tenth longer than its lane says.
    v_patience := case when p_hears then least(50, 10 + 10 * v_workers[i]) else 50 + (1.1 * v_poll[i])::integer end;
    continue when v_workers[i] = 0;
    v_fits := least(v_ready[i], greatest(v_ready[i] - v_room[i], v_left));
    v_left := v_left - v_fits;
    if v_fits < v_ready[i] then
      classes[v_young[i]].most := least(classes[v_young[i]].most, v_fits);
      ahead := greatest(ahead, v_workers[i]);
      wait_ms := least(wait_ms, v_patience);
    end if;
  end loop;
end $function$;

--- function sluice.yield_v1(p_classes sluice.cycle_class_v1[], p_others sluice.cycle_class_v1[], INOUT lanes sluice.cycle_lane_v1[])
CREATE OR REPLACE FUNCTION sluice.yield_v1(p_classes sluice.cycle_class_v1[], p_others sluice.cycle_class_v1[], INOUT lanes sluice.cycle_lane_v1[])
 RETURNS sluice.cycle_lane_v1[]
 LANGUAGE plpgsql
AS $function$
declare
  v_lane  sluice.cycle_lane_v1;
  v_first record;
  v_ready integer;
  v_room  integer;
  v_left  integer;
begin
  for i in 1 .. cardinality(lanes) loop
    v_lane := lanes[i];
    continue when v_lane.other_id is null or v_lane.take <= 0;
    select x.rank, x.id, (count(*) over ())::integer as n into v_first
      from unnest(p_classes) c cross join lateral sluice.ready_v1(c.id, c.rank, c.after, least(v_lane.take, c.most)) x
     where c.lane = i order by x.rank, x.id limit 1;
    continue when not found or (v_first.rank, v_first.id) < (v_lane.other_rank, v_lane.other_id);
    v_ready := least(v_first.n, v_lane.take);
    v_room := greatest(0, least(v_lane.slots, v_lane.cap) - v_lane.run) + v_lane.spare;
    select count(*)::integer into v_left
      from (select 1 from unnest(p_others) o cross join lateral sluice.ready_v1(o.id, o.rank, o.after, v_room) x
             where o.lane = i and (x.rank, x.id) < (v_first.rank, v_first.id) limit v_room) y;
    continue when v_left = 0;
    v_lane.room := v_room - v_left;
    v_lane.yield := greatest(0, v_left - v_lane.spare);
    v_lane.take := least(v_ready, v_lane.room);
    v_lane.yielded := v_lane.take < v_ready;
    lanes[i] := v_lane;
  end loop;
end $function$;

--- trigger sluice.composites.note_composite
CREATE TRIGGER note_composite BEFORE UPDATE OF started_at, cancel_at ON sluice.composites FOR EACH ROW EXECUTE FUNCTION sluice.record_composite_state_v1();

--- trigger sluice.deferred_charges.charge_at_commit
CREATE CONSTRAINT TRIGGER charge_at_commit AFTER INSERT ON sluice.deferred_charges DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sluice.charge_deferred_v1();

--- trigger sluice.lanes.sweep_deleted_lane
CREATE TRIGGER sweep_deleted_lane AFTER UPDATE OF deleted_at ON sluice.lanes FOR EACH ROW WHEN ((old.deleted_at IS DISTINCT FROM new.deleted_at)) EXECUTE FUNCTION sluice.start_lane_sweep_v1();

--- trigger sluice.schedules.limit_schedules
CREATE TRIGGER limit_schedules AFTER INSERT ON sluice.schedules REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sluice.limit_schedules();

--- trigger sluice.tasks.sweep_moved_task
CREATE TRIGGER sweep_moved_task AFTER UPDATE OF lane ON sluice.tasks FOR EACH ROW WHEN ((old.lane <> new.lane)) EXECUTE FUNCTION sluice.start_lane_sweep_v1();

--- trigger sluice.workers.admit_worker
CREATE TRIGGER admit_worker BEFORE INSERT ON sluice.workers FOR EACH ROW WHEN (((new.pool IS NOT NULL) AND ((new.request IS NOT NULL) OR (new.key_id IS NOT NULL)))) EXECUTE FUNCTION sluice.admit_worker_v1();
