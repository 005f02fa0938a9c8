-- What one job draws, by budget and device, including the memory of its model if it is the first. A job's own amounts replace the others; a
-- null amount then means that the job does not fit the devices of the plan.
create or replace function sluice.job_reservations_v1(p_start jsonb, p_uses jsonb, p_first boolean, p_devices integer)
returns table (budget text, device text, amount double precision)
language sql stable as $$
  select p.budget, p.device,
         case when p_first then p.resident else 0 end
         + case when p_uses is null then p."perJob"
                else o.amount end
    from jsonb_to_recordset(p_start -> 'deviceUses') as p(budget text, device text, resident double precision, "perJob" double precision)
   cross join lateral (
     select case when coalesce(max((a.amount ->> 'devices')::integer), 1) = p_devices
                 then coalesce(sum((a.amount ->> 'each')::double precision) filter (where a.each_job), 0) end as amount
       from (select u.key, u.value, p_start ->> 'model' is null from jsonb_each(p_uses -> 'uses') u
             union all select u.key, u.value, true from jsonb_each(p_uses -> 'perJob') u) a(budget, amount, each_job)
      where a.budget = p.budget) o
  union all
  select s.key, '', case when p_uses is null then s.value::double precision else coalesce((
           select sum((a.amount ->> 'each')::double precision)
             from (select * from jsonb_each(p_uses -> 'uses') union all select * from jsonb_each(p_uses -> 'perJob')) a(budget, amount)
            where a.budget = s.key), 0) end
    from jsonb_each_text(p_start -> 'shared') s
$$;
