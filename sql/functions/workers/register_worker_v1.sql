-- Registers an incarnation and gives it an empty holding in every lane.
create or replace function sluice.register_worker_v1(
  p_name text, p_host text, p_pid integer, p_version text, p_capacity integer, p_cores integer, p_tasks text[],
  p_labels jsonb default '{}', p_pooled text[] default '{}', p_key bigint default null,
  p_rank integer default 0, p_pool text default null, p_request text default null, p_build text default null,
  p_process_limit integer default null
) returns bigint
language plpgsql as $$
declare
  v_id bigint;
begin
  insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, labels, pooled, key_id, rank, pool, request, build, process_limit,
                              generation)
    values (p_name, p_host, p_pid, p_version, p_capacity, p_cores, p_tasks, p_labels, p_pooled, p_key, p_rank, p_pool, p_request, p_build,
            p_process_limit,
            sluice.notice_generation_v1())
    returning id into v_id;
  return v_id;
end $$;
