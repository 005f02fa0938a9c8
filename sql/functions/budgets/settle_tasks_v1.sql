-- After tasks were published: marks their classes as claimed by plan, or not, and removes the depth limit that came with uses. A session that
-- publishes tasks already holds some of them when it reaches classes of the next one, so this runs before or after that, not in between.
create or replace function sluice.settle_tasks_v1(p_names text[]) returns void
language plpgsql as $$
declare
  v_gone text[];
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  perform 1 from sluice.classes c join sluice.tasks t on t.name = c.task
    where t.name = any (p_names) and c.budgeted <> (t.uses is not null) order by c.task, c.id for no key update of c;
  update sluice.classes c set budgeted = t.uses is not null
    from sluice.tasks t
   where c.task = t.name and t.name = any (p_names) and c.budgeted <> (t.uses is not null);
  if found then
    perform pg_notify('sluice', 'classes');
  end if;
  perform sluice.refuse_impossible_tasks_v1();
  v_gone := array(select t.name from sluice.tasks t cross join sluice.admission a
                   where t.name = any (p_names) and t.uses is null and a.declared -> 'implied' ? t.name);
  if v_gone <> '{}' then
    perform sluice.change_admission_v1(jsonb_build_object('maxQueued', (select jsonb_object_agg(g, null) from unnest(v_gone) g)), 'sluice', false);
    -- As if nobody had said anything.
    update sluice.admission a set declared = a.declared - array(select 'maxQueued.' || g from unnest(v_gone) g);
  end if;
end $$;
