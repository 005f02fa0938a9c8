-- Enters root jobs into the ledger, or rejects them with SQLSTATE SL007.
--
-- A transaction with a fixed snapshot (repeatable read, serializable) cannot see what was charged since. If something was, it gets the
-- serialization failure (40001) that such transactions must expect.
--
-- The plan for the newest row is pinned: otherwise, a ledger of a few rows would be read as a whole, including all dead versions.
--
-- It is one function, because the newest row of the ledger decides at each step what the next one has to look up, and all of it ends in
-- a new row.
create or replace function sluice.charge_v1(p_ids bigint[], p_checked boolean) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_fixed  boolean := current_setting('transaction_isolation') <> 'read committed';
  v_set    sluice.admission;
  v_last   sluice.charges;
  v_depths jsonb;
  v_later  bigint[];    -- those of them that are scheduled
  v_most   integer;     -- the bound up to which nobody has to be looked up
  v_active integer;
  v_fits   boolean;
  v_within boolean;     -- the limits of their tasks
  v_all    bigint[];
  v_owned  boolean;
begin
  if v_fixed then
    perform 1 from sluice.admission a where not a.limited for share;
    if found then
      return;
    end if;
  end if;
  select * into v_set from sluice.admission for no key update;
  if not v_set.limited then
    return;
  end if;
  v_all := p_ids;
  v_later := sluice.scheduled_of_v1(p_ids);
  if cardinality(v_later) > 0 then
    p_ids := array(select unnest(p_ids) except select unnest(v_later));
  end if;
  if v_set.scheduled_limit is null then
    v_later := '{}';
  end if;
  if v_set.max_active is null then
    p_ids := array(select d.id from sluice.job_data d where d.id = any (p_ids) and v_set.max_queued ? d.task);
  end if;
  -- Jobs that were accepted before are listed with their owners since then.
  v_owned := p_checked and v_set.max_per_owner is not null;
  if cardinality(p_ids) + cardinality(v_later) = 0 and not v_owned then
    return;
  end if;
  select * into v_last from sluice.charges c order by c.seq desc limit 1;
  if v_fixed and v_last.seq is distinct from (select n.last_value from sluice.charge_numbers n) then
    raise exception 'could not serialize access: others have submitted since this transaction began'
      using errcode = '40001', hint = 'run the transaction again';
  end if;
  if v_owned then
    perform sluice.charge_owners_v1(v_set, v_all);
  end if;
  if cardinality(v_later) > 0 and (not v_set.complete or v_last.scheduled is null
                                   or p_checked and v_last.scheduled + cardinality(v_later) > v_set.scheduled_limit) then
    v_last.scheduled := sluice.count_scheduled_v1() - cardinality(v_later);
    if p_checked and v_last.scheduled + cardinality(v_later) > v_set.scheduled_limit then
      perform sluice.refuse_scheduled_v1(v_set.scheduled_limit, v_last.scheduled, v_later);
    end if;
  end if;
  -- Many jobs may be due at once. While far more than may be are active, some of them are enough to refuse.
  if p_checked and v_set.complete and cardinality(p_ids) > 0 and v_last.bound > 2::bigint * v_set.max_active + 1000 then
    v_active := sluice.some_active_v1(2 * v_set.max_active + 1000, p_ids);
    if v_active + cardinality(p_ids) > v_set.max_active then
      perform sluice.refuse_v1(jsonb_build_object('ceiling', v_set.max_active, 'active', v_active, 'atLeast', true), cardinality(p_ids),
                               v_last.bound + cardinality(p_ids) - v_set.max_active, coalesce((select max(l.rate) from sluice.ledger_v1() l), 0));
    end if;
  end if;
  v_depths := v_last.depths;
  v_most := case when v_set.max_active is null or not p_checked then greatest(v_set.max_active, 2 * v_last.counted + 1000) else v_set.max_active end;
  -- The ledger stays about as short as the list of active jobs, also where rows list none.
  v_fits := v_set.complete and v_last.seq is not null and v_last.length < v_last.counted + 1000
    and (cardinality(p_ids) = 0 or v_last.bound + cardinality(p_ids) <= v_most);
  if v_fits and v_set.max_queued <> '{}' and cardinality(p_ids) > 0 then
    -- A task that got its limit since the last look is not in it yet.
    select coalesce(bool_and(n.depth <= (v_set.max_queued ->> n.task)::integer), true),
           v_last.depths || coalesce(jsonb_object_agg(n.task, n.depth) filter (where n.depth is not null), '{}')
      into v_within, v_depths
      from (select d.task, coalesce((v_last.depths ->> d.task)::bigint, 2147483647) + count(*) as depth
              from sluice.queue q cross join lateral (select x.task from sluice.job_data x where x.id = q.id offset 0) d
             where q.id = any (p_ids) and v_set.max_queued ? d.task
             group by d.task) n;
    v_fits := v_within or not p_checked;
  end if;
  if v_fits then
    insert into sluice.charges (ids, bound, depths, counted, scheduled, length)
      values (p_ids, v_last.bound + cardinality(p_ids), v_depths, v_last.counted,
              case when v_set.scheduled_limit is not null then v_last.scheduled + cardinality(v_later) end, v_last.length + 1);
  else
    perform sluice.recount_v1(v_set, p_ids, v_last.scheduled + cardinality(v_later), p_checked);
  end if;
end $$;
