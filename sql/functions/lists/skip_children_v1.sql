-- From a job that has been looked at, goes down to the lowest id with only children in between: the job itself if it is a root.
--
-- A fan-out creates its children in the order of their places, and each gets a higher id than the one before it. Two whose ids are as far apart as
-- their places have only siblings between them, and bisection finds the end: 17 looks for 100,000. Where a rerun has replaced some of them, their
-- order says nothing, and none is passed over. Steps of workflows, which are created in the order in which they can begin, are not passed over
-- either. Runs of several fan-outs that lie side by side are passed over together, 20 at most.
create or replace function sluice.skip_children_v1(p_id bigint) returns bigint
language plpgsql stable as $$
declare
  v_at   bigint := p_id;
  v_next bigint := p_id;
  v_row  record;
  v_low  integer;
  v_high integer;
  v_mid  integer;
begin
  for n in 1..20 loop
    select j.id, j.parent_id, j.idx into v_row from sluice.job_data j where j.id <= v_next order by j.id desc limit 1;
    exit when v_row.parent_id is null
           or not exists (select 1 from sluice.job_data p where p.id = v_row.parent_id and p.composite = 'fanout')
           or exists (select 1 from sluice.job_data j where j.parent_id = v_row.parent_id and j.superseded_at is not null);
    v_low := 0;
    v_high := v_row.idx;
    while v_low < v_high loop
      v_mid := v_low + (v_high - v_low) / 2;
      if exists (select 1 from sluice.job_data j where j.parent_id = v_row.parent_id and j.idx = v_mid and j.superseded_at is null
                                               and j.id = v_row.id - (v_row.idx - v_mid)) then
        v_high := v_mid;
      else
        v_low := v_mid + 1;
      end if;
    end loop;
    v_at := v_row.id - (v_row.idx - v_high);
    v_next := v_at - 1;
  end loop;
  return v_at;
end $$;
