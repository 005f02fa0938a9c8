-- Makes due jobs ready, and lets composites begin to run. Returns how many, and how long until the next one is due. Scheduled root jobs are active
-- from then on, even above the ceiling, because they were accepted when they were submitted.
create or replace function sluice.promote_due_v1(p_limit integer) returns table (promoted integer, next_in_ms double precision)
language plpgsql
set jit = off set enable_seqscan = off
as $$
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
end $$;
