-- Moves what is due into the queue. Answers how many, and how long until the next one is due. Root jobs that were scheduled are active
-- from then on, also above the ceiling: they were accepted when they were submitted.
create or replace function sluice.promote_v1(p_limit integer) returns table (promoted integer, next_in_ms double precision)
language plpgsql as $$
declare
  v_count      integer;
  v_composites bigint[];
  v_roots      bigint[];
begin
  -- statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read.
  if exists (select 1 from sluice.jobs j where j.state = 'scheduled' and j.ready_at <= statement_timestamp()) then
    with due as (
      update sluice.jobs j
         set state = case when j.composite is null then 'ready'::sluice.job_state else 'running'::sluice.job_state end,
             started_at = case when j.composite is null then j.started_at else clock_timestamp() end
       where j.id = any (array(select k.id from sluice.jobs k where k.state = 'scheduled' and k.ready_at <= statement_timestamp()
                                order by k.ready_at limit p_limit for no key update skip locked))
      returning j.id, j.composite, j.parent_id is null and (j.started_at is null or j.composite is not null) as is_root
    )
    select count(*)::integer, array_agg(d.id) filter (where d.composite is not null), coalesce(array_agg(d.id) filter (where d.is_root), '{}')
      into v_count, v_composites, v_roots from due d;
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
    (select extract(epoch from min(j.ready_at) - clock_timestamp())::double precision * 1000 from sluice.jobs j where j.state = 'scheduled');
end $$;
