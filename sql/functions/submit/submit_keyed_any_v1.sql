-- Stores one job that may have a key. With a key, it may attach to the active job of that key instead of storing another.
create or replace function sluice.submit_keyed_any_v1(p_job jsonb, out id bigint, out attached boolean)
language plpgsql as $$
begin
  if p_job ->> 'key' is null then
    id := sluice.insert_one_v1(p_job);
    attached := false;
  else
    select s.id, s.attached into id, attached from sluice.submit_keyed_v1(p_job) s;
  end if;
end $$;
