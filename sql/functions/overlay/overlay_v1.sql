-- What a change makes of a row that files, programs and operators share: a lane, a budget, a pool. The row has operator_set, the fields that
-- an operator changed, and declared, what files and programs say of it.
--
-- An operator's change is taken and its fields are noted. What files and programs say is noted too, and taken except for those fields. With
-- p_given null, operators' changes are forgotten: all that is declared applies again. Returns the row unchanged where files and programs say
-- nothing new.
create or replace function sluice.overlay_v1(p_row jsonb, p_given jsonb, p_by text, p_operator boolean) returns jsonb
language plpgsql as $$
declare
  v_set text[] := array(select jsonb_array_elements_text(p_row -> 'operator_set'));
  v_row jsonb;
begin
  if p_given is null then
    v_row := p_row || sluice.columns_v1(p_row -> 'declared') || '{"operator_set": []}';
  elsif p_operator then
    v_row := p_row || sluice.columns_v1(p_given) || jsonb_build_object(
      'operator_set', array(select distinct f from unnest(v_set || array(select jsonb_object_keys(p_given))) f order by f));
  else
    v_row := p_row || sluice.columns_v1(p_given - v_set) || jsonb_build_object('declared', (p_row -> 'declared') || p_given);
    if v_row = p_row then
      return p_row;
    end if;
  end if;
  return v_row || jsonb_build_object('updated_at', clock_timestamp(), 'updated_by', p_by);
end $$;
