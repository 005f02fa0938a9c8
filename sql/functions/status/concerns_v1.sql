-- Facts that may need a person's attention. src/model/attention.ts has the rules that evaluate them. Every list is bounded, and an index answers
-- every question, so the cost does not grow with the number of jobs. The settings below apply to the parts too, which nothing else calls.
create or replace function sluice.concerns_v1() returns jsonb
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select sluice.worker_concerns_v1() || sluice.tree_concerns_v1() || sluice.late_concerns_v1() || sluice.schedule_concerns_v1()
$$;
