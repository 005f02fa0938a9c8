-- What blocks jobs, as text for people. Code that decides something compares the obstacle, never this text.
--   p_details  the details of the obstacle, as sample_v1 collects them
create or replace function sluice.why_waiting_text_v1(p_obstacle text, p_details jsonb) returns text
language sql immutable
return case p_obstacle
  when 'crash' then 'PostgreSQL has recovered from a crash: jobs start again once every worker that was alive has reported, or its leases have ended'
  when 'lane_paused' then 'lane ' || (p_details->>'lane') || ' is paused'
  when 'lane_closed' then 'lane ' || (p_details->>'lane') || ' is closed: it has 0 slots. Open it with: sluice lanes set ' || (p_details->>'lane')
      || ' --slots NUMBER'
  when 'no_worker' then 'no worker runs task ' || (p_details->>'task')
  when 'labels' then 'no worker that runs task ' || (p_details->>'task') || ' has the labels it requires: ' || (p_details->>'requires')
  when 'draining' then 'every worker that runs task ' || (p_details->>'task') || ' is draining'
                       || coalesce(' or broken: worker ' || (p_details->>'broken'), '')
  when 'withdrawn' then 'worker ' || (p_details->'first'->>'worker') || ' cannot start task ' || (p_details->>'task') || ': '
      || (p_details->'first'->>'why')
                        || '; retries at ' || (p_details->'first'->>'retryAt')
                        || case when (p_details->>'workers')::integer > 1
                                then '; ' || case p_details->>'workers' when '2' then '1 other worker'
                                                  else (p_details->>'workers')::integer - 1 || ' other workers' end
                                     || ' cannot start it either' else '' end
  when 'lane_full' then 'lane ' || (p_details->>'lane') || ' is full: ' || (p_details->>'running') || ' of ' || (p_details->>'slots')
      || ' slots are busy'
  when 'lane_held' then 'lane ' || (p_details->>'lane') || ' is full: ' || (p_details->>'held') || ' of ' || (p_details->>'slots')
      || ' slots are held, '
                        || (p_details->>'idle') || ' of them idle for a moment'
  when 'capacity' then 'every worker that runs task ' || (p_details->>'task') || ' is at capacity'
  when 'per_worker' then 'every worker that runs task ' || (p_details->>'task') || ' has as many jobs of lane ' || (p_details->>'lane')
      || ' as it may: '
                         || case when (p_details->>'perWorker')::integer > 0 then p_details->>'perWorker' else 'its number of cores' end
  when 'processes' then case when (p_details->>'processes')::integer > 0
                             then 'all ' || (p_details->>'processes') || ' processes of workers that run task ' || (p_details->>'task') || ' are busy'
                             else 'no worker that runs task ' || (p_details->>'task')
                                 || ' has a share of the cores of its host: the process pools of other workers on '
                                  || (p_details->>'hosts') || ' have them' end
  when 'silent' then 'every worker that could run task ' || (p_details->>'task') || ' is silent: ' || (p_details->>'worker')
      || ' sent its last heartbeat '
                     || (p_details->>'silentMs')::bigint / 1000 || ' seconds ago'
  when 'budget' then 'task ' || (p_details->>'task') || ' waits for what it uses of ' || (p_details->>'budgets')
end;
