-- What is drawn from a device by jobs, by models, and the part of both that a measurement taken at p_since cannot include yet.
--   p_ended     jobs to count as ended
--   p_unloaded  copies of this worker to count as unloaded: [{model, device}]
create or replace function sluice.device_use_v1(p_budget text, p_device text, p_since timestamptz default null, p_worker bigint default 0,
                                          p_ended bigint[] default '{}',
                               p_unloaded jsonb default '[]', out by_jobs double precision, out by_models double precision,
                               out unseen double precision, out running integer)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_unseen double precision;
begin
  select coalesce(sum(r.amount), 0), coalesce(sum(r.amount) filter (where j.started_at > p_since), 0), count(*)::integer
    into by_jobs, unseen, running
    from sluice.reservations r
   -- For each of them in the claims of its worker: what runs is not read as a whole.
   cross join lateral (select x.started_at from sluice.running x
                        where x.worker_id = r.worker_id and x.id = r.job_id and x.attempt = r.attempt offset 0) j
   where r.budget = p_budget and r.device = p_device and r.job_id <> all (p_ended);
  select coalesce(sum(r.amount), 0), coalesce(sum(r.amount) filter (where r.loaded_at is null or r.loaded_at > p_since), 0)
    into by_models, v_unseen
    from sluice.residents r join sluice.workers w on w.id = r.worker_id
   where r.budget = p_budget and r.device = p_device and w.ended_at is null
     and not (r.worker_id = p_worker and p_unloaded @> jsonb_build_array(jsonb_build_object('model', r.model, 'device', r.device)));
  unseen := unseen + v_unseen;
end $$;
