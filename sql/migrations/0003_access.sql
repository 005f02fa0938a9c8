-- Access over HTTP: keys, roles, sessions and the audit.

-- What a key may do. The six built-in roles belong to the program and cannot be changed or deleted.
create table sluice.roles (
  name        text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  permissions text[] not null,
  built_in    boolean not null default false,
  created_at  timestamptz not null default clock_timestamp(),
  created_by  text not null default 'sluice',
  updated_at  timestamptz not null default clock_timestamp(),
  updated_by  text not null default 'sluice'
);
insert into sluice.roles (name, permissions, built_in) values
  ('viewer', '{jobs:read,jobs:read:all,workers:view}', true),
  ('submitter', '{jobs:submit,jobs:read,jobs:cancel}', true),
  ('approver', '{jobs:read,jobs:read:all,jobs:approve,workers:view}', true),
  ('operator', '{jobs:submit,jobs:read,jobs:read:all,jobs:cancel,jobs:approve,jobs:prioritise,workers:view,workers:manage}', true),
  ('worker', '{workers:run}', true),
  ('platform_admin',
   '{jobs:submit,jobs:read,jobs:read:all,jobs:cancel,jobs:approve,jobs:prioritise,workers:view,workers:manage,workers:run,access:manage}', true);

-- The secret is shown once, to the creator of the key. 256 random bits need no slow hash: they cannot be guessed.
create table sluice.api_keys (
  id           bigint generated always as identity primary key,
  name         text not null check (length(name) between 1 and 200),   -- the owner, as jobs and the audit name it
  role         text not null references sluice.roles (name),
  runs         jsonb,                                                  -- with workers:run: the tasks, lanes and pools of its workers; null: none
  hash         bytea not null check (length(hash) = 32),
  created_at   timestamptz not null default clock_timestamp(),
  created_by   text not null,
  expires_at   timestamptz,
  last_used_at timestamptz,                                            -- to the minute
  revoked_at   timestamptz,
  revoked_by   text
) with (fillfactor = 70);
-- Found by the first 8 bytes. The program compares the rest in constant time.
create index api_keys_lookup on sluice.api_keys (substring(hash, 1, 8));
create index api_keys_role on sluice.api_keys (role);

-- A browser that signed in with a key. It has the rights of the key, for as long as the key is valid.
create table sluice.sessions (
  id         bigint generated always as identity primary key,
  key_id     bigint not null references sluice.api_keys (id) on delete cascade,
  hash       bytea not null check (length(hash) = 32),                 -- of the cookie's token
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index sessions_lookup on sluice.sessions (substring(hash, 1, 8));
create index sessions_key on sluice.sessions (key_id);

-- Tokens that open one session for a key, once.
create table sluice.sign_ins (
  hash       bytea primary key check (length(hash) = 32),
  key_id     bigint not null references sluice.api_keys (id) on delete cascade,
  expires_at timestamptz not null
);
create index sign_ins_key on sluice.sign_ins (key_id);

-- Who changed what, written by the transaction of the change, and which requests were rejected. Submissions write here at their full rate,
-- so the table has no index but its key, along which it is read and pruned.
create table sluice.audit (
  id         bigint generated always as identity primary key,
  at         timestamptz not null default clock_timestamp(),
  actor      text not null,
  key_id     bigint,
  action     text not null,
  target     text,
  before     jsonb,
  after      jsonb,
  refused    text,          -- the error code of the rejection; null: it was done
  request_id text,
  reason     text           -- why, in the actor's own words
) with (autovacuum_vacuum_insert_scale_factor = 0.2);
