-- A text that changes when the process shares of a worker's host may have changed. Null: the worker has no share.
create or replace function sluice.process_shares_v1(p_worker sluice.workers) returns text
language sql stable
return case when p_worker.process_limit is not null then
  (select string_agg(w.id || ':' || w.processes || case when w.draining then 'd' else '' end, ' ' order by w.id)
     from sluice.workers w where w.host = p_worker.host and w.ended_at is null and w.process_limit is not null) end;
