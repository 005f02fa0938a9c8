-- Lists root jobs with their owners, or rejects them. The caller holds the lock.
create or replace function sluice.charge_owners_v1(p_set sluice.admission, p_ids bigint[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_new    record;
  v_last   sluice.owner_charges;
  v_active bigint[];
begin
  for v_new in
    select d.submitted_by as owner, array_agg(d.id) as ids, count(*)::integer as count
      from sluice.job_data d where d.id = any (p_ids) and d.submitted_by is not null group by d.submitted_by order by d.submitted_by
  loop
    select * into v_last from sluice.owner_charges c where c.owner = v_new.owner order by c.seq desc limit 1;
    if p_set.complete and v_last.length < 100 + v_last.bound / 10 and v_last.bound + v_new.count <= p_set.max_per_owner then
      insert into sluice.owner_charges (owner, ids, bound, length) values (v_new.owner, v_new.ids, v_last.bound + v_new.count, v_last.length + 1);
      continue;
    end if;
    v_active := array(select unnest(sluice.jobs_of_owner_v1(v_new.owner, p_set.complete))
                      except select unnest(v_new.ids));
    if cardinality(v_active) + v_new.count > p_set.max_per_owner then
      perform sluice.refuse_v1(jsonb_build_object('owner', v_new.owner, 'maxPerOwner', p_set.max_per_owner, 'owned', cardinality(v_active)),
                               v_new.count, cardinality(v_active) + v_new.count - p_set.max_per_owner, 0);
    end if;
    delete from sluice.owner_charges c where c.owner = v_new.owner;
    insert into sluice.owner_charges (owner, base, ids, bound)
      values (v_new.owner, true, v_active || v_new.ids, cardinality(v_active) + v_new.count);
  end loop;
end $$;
