-- An amount as text for people.
create or replace function sluice.amount_text_v1(p_amount double precision, p_bytes boolean) returns text
language sql immutable
return case
  when not p_bytes or p_amount < 1024 then p_amount::text
  when p_amount < 1024 ^ 2 then round((p_amount / 1024)::numeric, 1)::float8 || 'KB'
  when p_amount < 1024 ^ 3 then round((p_amount / 1024 ^ 2)::numeric, 1)::float8 || 'MB'
  when p_amount < 1024 ^ 4 then round((p_amount / 1024 ^ 3)::numeric, 1)::float8 || 'GB'
  else round((p_amount / 1024 ^ 4)::numeric, 1)::float8 || 'TB' end;
