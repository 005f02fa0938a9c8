-- Restarts the duty that moves waiting jobs to the lane of their task at the first job, because a task has moved or a lane was deleted.
create or replace function sluice.start_lane_sweep_v1() returns trigger
language plpgsql as $$
begin
  update sluice.lane_sweep set next_id = 0 where next_id is distinct from 0;
  return null;
end $$;

create or replace trigger sweep_moved_task after update of lane on sluice.tasks
  for each row when (old.lane <> new.lane) execute function sluice.start_lane_sweep_v1();

create or replace trigger sweep_deleted_lane after update of deleted_at on sluice.lanes
  for each row when (old.deleted_at is distinct from new.deleted_at) execute function sluice.start_lane_sweep_v1();
