-- Creates the first key of an empty database, or returns null if there has ever been one. Several servers may start at once; the lock
-- lets one of them be first.
create or replace function sluice.create_first_key_v1(p_name text, p_role text, p_hash bytea, p_lives_ms bigint) returns bigint
language plpgsql as $$
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
end $$;
