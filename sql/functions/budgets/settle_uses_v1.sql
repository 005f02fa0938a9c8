-- Stores what jobs draw whose amounts are expressions: [{id, uses}] once a process has evaluated them, or [{id, error}], which fails the jobs.
-- An amount that no device has fails them too. Jobs that have changed meanwhile are left alone.
create or replace function sluice.settle_uses_v1(p_jobs jsonb) returns integer
language plpgsql as $$
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
end $$;
