-- Writes the columns in which two states of a row differ. The caller has locked the row.
create or replace function sluice.write_row_v1(p_table regclass, p_old jsonb, p_new jsonb, p_key text default 'name') returns void
language plpgsql as $$
declare
  v_columns text := (select string_agg(quote_ident(n.key), ', ') from jsonb_each(p_new) n where n.value is distinct from p_old -> n.key);
begin
  if v_columns is not null then
    execute format('update %1$s t set (%2$s) = (select %2$s from jsonb_populate_record(t, $1)) where t.%3$I::text = $2', p_table, v_columns, p_key)
      using p_new, p_new ->> p_key;
  end if;
end $$;
