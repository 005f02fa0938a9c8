-- The rank that a job of a class has now. Used for jobs that return to the queue, because the lane's ageing may have changed since.
create or replace function sluice.rank_in_class_v1(p_class integer, p_priority integer, p_since timestamptz) returns integer
language sql stable
return (select sluice.rank_v1(p_priority, l.ageing_ms, p_since) from sluice.classes c join sluice.lanes l on l.name = c.lane
         where c.id = p_class);
