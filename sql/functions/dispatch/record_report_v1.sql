-- Records what a worker reports: assigned jobs that have started, and attempts that ended. Sends a hint to waiting processes if p_hint says so.
--   is_whole         the worker held all that it sent
--   parents, idxs  of the children that completed
create or replace function sluice.record_report_v1(
  p_worker bigint, p_now timestamptz, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[], p_endings jsonb,
  p_begun bigint[], p_begun_seqs bigint[], p_hint boolean, out is_whole boolean, out parents bigint[], out idxs integer[])
language plpgsql as $$
declare
  v_seqs  bigint[] := p_begun_seqs || p_done_seqs;
  v_begun integer;
  v_ended integer;
  v_done  record;
begin
  if p_endings is not null then
    v_seqs := v_seqs || array(select (e ->> 'seq')::bigint from jsonb_array_elements(p_endings) e);
  end if;
  -- For all the functions below, in the order in which everybody locks claims. They see what was committed before: a new priority, a cancel.
  perform 1 from sluice.claims c where c.worker_id = p_worker and c.seq = any (v_seqs) order by c.seq for update;
  if p_begun is not null then
    v_begun := sluice.report_starts_v1(p_worker, p_begun_seqs, p_begun);
  end if;
  if p_endings is not null then
    -- First: a claim that is left with what completed is over.
    v_ended := sluice.end_attempts_v1(p_worker, p_endings);
  end if;
  if p_done is not null then
    v_done := sluice.finish_v1(p_worker, p_now, p_done_seqs, p_done, p_results, p_ran);
    v_ended := coalesce(v_ended, 0) + v_done.ended; parents := v_done.parents; idxs := v_done.idxs;
  end if;
  is_whole := coalesce(v_ended, 0) = coalesce(cardinality(p_done), 0) + coalesce(jsonb_array_length(p_endings), 0)
    and coalesce(v_begun, 0) = coalesce(cardinality(p_begun), 0);
  if p_hint and is_whole and (p_done is not null or p_endings is not null) then
    perform pg_notify('sluice', 'done');
  end if;
end $$;
