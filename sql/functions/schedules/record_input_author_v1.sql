-- Records who chose what a tree runs with, in addition to its submitter.
create or replace function sluice.record_input_author_v1(p_root bigint, p_name text, p_submitter text) returns void
language sql as $$
  update sluice.job_data d set chosen_by = array_append(d.chosen_by, p_name)
   where d.id = p_root and p_name <> p_submitter and not p_name = any (coalesce(d.chosen_by, '{}'))
$$;
