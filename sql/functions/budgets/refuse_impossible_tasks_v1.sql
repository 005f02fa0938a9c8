-- Recomputes which tasks could never start, after a change to tasks, budgets or devices.
create or replace function sluice.refuse_impossible_tasks_v1() returns void
language plpgsql as $$
begin
  -- In the order in which tasks are stored.
  perform 1 from sluice.tasks t where t.uses is not null or t.refusal is not null order by t.name for no key update;
  update sluice.tasks t set refusal = g.refusal
    from (select k.name, case when k.uses is not null then sluice.uses_refusal_v1(k.uses, k.per_job) end as refusal
            from sluice.tasks k where k.uses is not null or k.refusal is not null) g
   where t.name = g.name and t.refusal is distinct from g.refusal;
end $$;
