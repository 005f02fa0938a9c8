-- Rejects tasks (SL005) whose model could not be charged correctly. A model is loaded once for the jobs of all its tasks. So what it takes of
-- devices may not depend on the input of one job, and all tasks that live workers run have to declare the same.
--   p_tasks  [{name, model, uses, perJob}] tasks about to be published
--   p_added  leave tasks that exist already as they are
create or replace function sluice.check_models_v1(p_tasks jsonb, p_added boolean default false) returns void
language plpgsql stable as $$
declare
  v_row record;
begin
  for v_row in
    with given as materialized (
      select g.* from jsonb_to_recordset(p_tasks) as g(name text, model text, uses jsonb, "perJob" jsonb)
       where not (p_added and exists (select 1 from sluice.tasks t where t.name = g.name))
    ), everyone as (
      select g.name, g.model, g.uses from given g
      union all
      select t.name, c.model, t.uses from sluice.tasks t join sluice.classes c on c.id = t.class_id
       where c.model in (select g.model from given g) and t.name not in (select g.name from given g)
         and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
    ), drawn as (
      select g.name, g.model, u.key as budget, u.value as amount from everyone g, jsonb_each(g.uses) u
       where not exists (select 1 from sluice.budgets b where b.name = u.key and b.kind = 'shared')
    )
    select 1 as rule, d.name, d.model, d.budget, null as other, null::jsonb as amount, null::jsonb as others
      from drawn d join given g on g.name = d.name where d.model is not null and jsonb_typeof(d.amount) = 'string'
    union all
    select 2, g.name, g.model, p.key, null, null, null
      from given g, jsonb_object_keys(g."perJob") p(key)
     where g.model is not null and not g.uses ? p.key and exists (select 1 from drawn d where d.name = g.name)
       and not exists (select 1 from sluice.budgets b where b.name = p.key and b.kind = 'shared')
    union all
    select 3, g.name, g.model, d.budget, o.name, m.amount, x.amount
      from given g join everyone o on o.model = g.model and o.name <> g.name
      join (select distinct k.model, k.budget from drawn k) d on d.model = g.model
      left join drawn m on m.name = g.name and m.budget = d.budget
      left join drawn x on x.name = o.name and x.budget = d.budget
     where g.uses is not null and o.uses is not null and m.amount is distinct from x.amount
     order by 1, 2, 4, 5 limit 1
  loop
    raise exception '%', case v_row.rule
      when 1 then format('task %s: uses.%s is an expression, but model %s is loaded once for all its jobs; give what the model takes, and what '
                         'depends on the input as perJob', v_row.name, v_row.budget, v_row.model)
      when 2 then format('task %s: perJob.%s is of a budget that uses does not name, so model %s lies on none of its devices; add uses.%s, '
                         '0 if the model itself takes nothing', v_row.name, v_row.budget, v_row.model, v_row.budget)
      else format('tasks %s and %s share model %s, which is loaded once for both, but differ in what it uses of %s: %s and %s; say the same in '
                  'both, or give one of them another model', v_row.name, v_row.other, v_row.model, v_row.budget,
                  sluice.stored_amount_text_v1(v_row.budget, v_row.amount), sluice.stored_amount_text_v1(v_row.budget, v_row.others)) end
      using errcode = 'SL005', detail = v_row.name;
  end loop;
end $$;
