-- How many numbers sluice.start_jobs_v1 reserves for the claims of these jobs, which are of so many classes. A claim has up to 64 jobs of one
-- class.
create or replace function sluice.count_claims_v1(p_rows tid[], p_classes integer) returns integer
language sql immutable
return p_classes * ((cardinality(p_rows) + 63) / 64);
