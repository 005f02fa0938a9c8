-- Whether a job of the queue may only be given to a worker that starts it at once: a worker was lost that may have started it; its start deadline is
-- near; it became ready so recently that it may belong to an earlier worker; it holds a place in a window. PostgreSQL inlines it, so it has no query
-- of its own.
--   p_since  jobs that became ready later may belong to others; null: none does
create or replace function sluice.must_start_v1(p_now timestamptz, p_since timestamptz, p_certain boolean, p_deadline timestamptz,
                                                p_ready timestamptz, p_parent bigint)
returns boolean
language sql stable
return p_certain or p_deadline < p_now + interval '1 second' or p_ready > p_since or p_parent is not null and sluice.has_window_v1(p_parent);
