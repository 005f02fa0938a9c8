-- What jobs draw whose amounts are expressions: [{id, uses}] once somebody has worked them out, or [{id, error}], which fails
-- them. So does an amount that no device has. Jobs that have changed meanwhile are left alone.
create or replace function sluice.settle_uses_v1(p_jobs jsonb) returns integer
language plpgsql as $$
declare
  v_parents bigint[];
  v_places  integer[];
  v_count   integer;
  v_failed  integer;
begin
  with given as materialized (
    select g.id, g.uses, coalesce(g.error, 'budget: it ' || (sluice.refusal_v1(g.uses -> 'uses', g.uses -> 'perJob') ->> 'text')) as error
      from jsonb_to_recordset(p_jobs) as g(id bigint, uses jsonb, error text)
  ), locked as materialized (
    select j.id from sluice.jobs j where j.id = any (array(select g.id from given g)) and j.state = 'ready' and j.uses is null
     for no key update skip locked
  ), changed as (
    update sluice.jobs j
       set uses = g.uses, error = coalesce(g.error, j.error),
           state = case when g.error is null then j.state else 'failed' end,
           finished_at = case when g.error is not null then clock_timestamp() end
      from given g where g.id = j.id and j.id = any (array(select l.id from locked l))
    returning j.parent_id, j.idx, j.state
  )
  select count(*)::integer, (count(*) filter (where c.state = 'failed'))::integer,
         array_agg(c.parent_id) filter (where c.state = 'failed' and c.parent_id is not null),
         array_agg(c.idx) filter (where c.state = 'failed' and c.parent_id is not null)
    into v_count, v_failed, v_parents, v_places from changed c;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  if v_failed > 0 then
    perform pg_notify('sluice', 'done');
  end if;
  return v_count;
end $$;
