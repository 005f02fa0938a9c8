-- Those of the given jobs that are scheduled. Jobs that are stored together have neighbouring ids. So their range of the index is read,
-- which is empty for most submissions, instead of one lookup for each job.
create or replace function sluice.scheduled_of_v1(p_ids bigint[]) returns bigint[]
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
as $$
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
end $$;
