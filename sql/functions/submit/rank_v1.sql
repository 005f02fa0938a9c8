-- Smaller ranks start first. Waiting one period is worth one priority. All jobs of a lane age alike, so the rank is fixed at submission and needs no
-- later update.
create or replace function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamptz) returns integer
language sql stable   -- called immutable, it would not be inlined: the time makes its parts stable
return case when p_ageing_ms is null then 0 else floor(extract(epoch from p_since) * 1000 / p_ageing_ms)::integer end - p_priority;
