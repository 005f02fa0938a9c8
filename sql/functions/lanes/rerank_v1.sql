-- Gives jobs of a lane that have not started the rank they would get with this ageing: ranks with and without it do not
-- mix. A state at a time, as the indexes have them. By id, as everybody locks jobs; or only those that nobody has locked.
create or replace function sluice.rerank_v1(p_lane text, p_ageing_ms integer, p_skip boolean) returns void
language plpgsql as $$
declare
  v_classes integer[] := array(select c.id from sluice.classes c where c.lane = p_lane);
  v_ids     bigint[];
begin
  v_ids := array(
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'ready'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
    union all
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'scheduled'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
    union all
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'awaiting_approval'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
    union all
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'waiting'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at));
  if cardinality(v_ids) = 0 then
    return;
  end if;
  if p_skip then
    v_ids := array(select j.id from sluice.jobs j where j.id = any (v_ids) for no key update skip locked);
  else
    perform 1 from sluice.jobs j where j.id = any (v_ids) order by j.id + 0 for no key update;
  end if;
  update sluice.jobs j set rank = sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
   where j.id = any (v_ids) and j.state < 'running';
end $$;
