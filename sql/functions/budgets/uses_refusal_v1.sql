-- Why a job that draws this much could never start: {budget, needs, devices, largest, offered}. Null: it could, or nobody knows. Amounts that
-- are expressions are ignored. A lost device may come back, and what an operator has made smaller may be reset, so a job waits for both.
create or replace function sluice.uses_refusal_v1(p_uses jsonb, p_per_job jsonb) returns jsonb
language plpgsql stable as $$
declare
  v_row     record;
  v_largest double precision;
  v_fits    integer;
begin
  for v_row in
    select b.name, b.kind, b.bytes, b.devices as declared,
           case when not b.declared ? 'capacity' then b.capacity
                when b.capacity is not null and b.declared ->> 'capacity' is not null
                then greatest(b.capacity, (b.declared ->> 'capacity')::double precision)
                end as capacity, sum((a.amount ->> 'each')::double precision) as each, max((a.amount ->> 'devices')::integer) as devices
      from (select * from jsonb_each(p_uses) union all select * from jsonb_each(p_per_job)) a(budget, amount)
      join sluice.budgets b on b.name = a.budget
     where jsonb_typeof(a.amount) = 'object'
     group by b.name order by b.name
  loop
    if v_row.kind = 'shared' then
      v_largest := v_row.capacity;
      v_fits := case when v_row.each <= v_row.capacity * (1 + 1e-9) then 1 else 0 end;
    else
      -- What workers have reported, and what files say each machine has: a worker may not have come yet.
      select max(k.capacity), coalesce(max(k.fits), 0) into v_largest, v_fits
        from (select g.host, max(g.capacity) as capacity, (count(*) filter (where g.capacity >= v_row.each))::integer as fits
                from (select d.host, coalesce(d.total, 'Infinity') as capacity from sluice.devices d where d.budget = v_row.name
                      union all
                      select null, e.value::double precision from jsonb_each_text(v_row.declared) e) g
               group by g.host) k;
    end if;
    if v_largest is not null and v_fits < v_row.devices then
      return jsonb_build_object('budget', v_row.name, 'needs', v_row.each, 'devices', v_row.devices,
        'largest', case when v_largest < 'Infinity' then v_largest end, 'fitting', v_fits,
        'text', case
          when v_row.kind = 'shared' then format('needs %s of %s, of which there are %s', sluice.amount_text_v1(v_row.each, v_row.bytes), v_row.name,
                                                 sluice.amount_text_v1(v_largest, v_row.bytes))
          when v_row.devices = 1 then format('needs %s of %s on one device; the largest has %s', sluice.amount_text_v1(v_row.each, v_row.bytes),
                                             v_row.name, sluice.amount_text_v1(v_largest, v_row.bytes))
          else format('needs %s of %s on each of %s devices; no machine has more than %s that large', sluice.amount_text_v1(v_row.each, v_row.bytes),
                      v_row.name, v_row.devices, v_fits) end);
    end if;
  end loop;
  return null;
end $$;
