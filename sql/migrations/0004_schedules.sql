-- Schedules: jobs that are submitted at set times. TypeScript computes the next tick from the cron expression and the time zone; here it is
-- only compared.

create table sluice.schedules (
  name       text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  task       text,                          -- one of the two
  workflow   text,
  cron       text not null,
  timezone   text not null,
  input      jsonb,
  options    jsonb not null default '{}',   -- key, priority, lane, tags, deadlineMs, as submit_v1 takes them
  enabled    boolean not null,
  overlap    text not null check (overlap in ('allow', 'skip')),
  catch_up   integer not null check (catch_up between 0 and 100),
  overlapped integer not null default 0,    -- ticks in a row that got no job because an earlier one had not ended
  next_at    timestamptz,                   -- the first tick that has not been handled; null: there is none
  clock_steps integer not null default 0,   -- of sluice.watch, when next_at was last compared with the clock
  version    integer not null default 1,    -- a change must have read this version
  declared   jsonb,                         -- what files and programs declare; null: nothing
  changed    jsonb not null default '{}',   -- what operators changed, by field
  owner      text not null,                 -- the owner of its jobs
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  updated_by text not null,
  input_by   text not null,                 -- who last set the input of its jobs
  task_by    text not null,                 -- who last set the task or workflow
  constraint runs_one_thing check (num_nonnulls(task, workflow) = 1)
) with (fillfactor = 50);
create index schedules_next on sluice.schedules (next_at);
create index schedules_owner on sluice.schedules (owner) where declared is null;

-- The result of each tick. Ticks that were missed, or came while the schedule was disabled, share a row.
create table sluice.firings (
  id       bigint generated always as identity primary key,
  schedule text not null references sluice.schedules (name) on delete cascade,
  tick_at  timestamptz not null,            -- of several the last one
  since    timestamptz,                     -- of several the first one
  ticks    integer not null default 1 check (ticks > 0),
  fired_at timestamptz not null default clock_timestamp(),
  job_id   bigint,                          -- no reference: jobs are pruned separately
  attached boolean not null default false,  -- the job existed already and has the schedule's key
  skipped  text check (skipped in ('ceiling', 'overlap', 'disabled', 'missed', 'refused')),
  reason   text,
  clock_steps integer not null default 0,   -- of the schedule: the same time may come again after the clock stepped back
  asked_by text,                            -- fired by hand, at no tick
  constraint job_or_reason check ((job_id is null) = (skipped is not null))
);
create unique index firings_tick on sluice.firings (schedule, tick_at, clock_steps) where asked_by is null;
create index firings_latest on sluice.firings (schedule, id);
create index firings_age on sluice.firings (fired_at);
