-- How many jobs of a claim run. The others are assigned.
create or replace function sluice.started_in_v1(p_claim sluice.claims) returns integer
language sql immutable
return cardinality(p_claim.ids) - coalesce(cardinality(p_claim.assigned), 0);
