-- The lane that a name means: for a deleted one, the lane that its jobs moved to. Null: there is none.
create or replace function sluice.live_lane_v1(p_name text) returns text
language sql stable
return (select case when l.deleted_at is null then l.name else l.deleted_to end from sluice.lanes l where l.name = p_name);
