-- The first ready jobs of a class after an entry of its index, in order. PostgreSQL inlines it, so it costs what its query costs. Statements that
-- lock the jobs they take cannot use it, because they need the row itself.
create or replace function sluice.ready_v1(p_class integer, p_rank integer, p_after bigint, p_limit integer)
returns table (rank integer, id bigint, ready_at timestamptz, deadline_at timestamptz)
language sql stable as $$
  select q.rank, q.id, q.ready_at, q.deadline_at from sluice.queue q
   where q.class_id = p_class and q.state = 'ready' and (q.rank, q.id) > (p_rank, p_after)
   order by q.rank, q.id limit p_limit
$$;
