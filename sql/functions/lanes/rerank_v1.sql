-- Gives jobs of a lane that have not started the rank they would get with this ageing: ranks with and without it do not mix. One state at a time, as
-- the indexes have them. In the order of ids, in which all sessions lock jobs; or only those that nobody has locked.
create or replace function sluice.rerank_v1(p_lane text, p_ageing_ms integer, p_skip boolean) returns void
language plpgsql as $$
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
end $$;
