-- Part of sluice.concerns_v1 about fan-outs.
create or replace function sluice.tree_concerns_v1() returns jsonb
language sql stable as $$
  select jsonb_build_object(
    -- Fan-outs of which children failed: whether they can still succeed is for their strategy to say. Of 2,000 that run.
    'failing', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'graph', f.graph, 'node', f.node, 'total', f.total, 'completed', f.completed, 'failed', f.failed, 'cancelled', f.cancelled)
                                            order by f.id), '[]')
                  from (select d.id, d.root_id, coalesce(d.step, d.task) as step, c.graph, c.node, n.total, n.completed, n.failed, n.cancelled
                          from (select c.* from sluice.composites c
                                 where not c.ended and c.started_at is not null and c.total is not null order by c.job_id limit 2000) c
                          join sluice.job_data d on d.id = c.job_id
                         cross join lateral sluice.fanout_v1(c.job_id) n
                         where n.failed + n.cancelled > 0 and c.closing is null and d.superseded_at is null and c.cancel_at is null
                         order by d.id limit 100) f),
    'fanOuts', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'waiting', f.waiting) order by f.id), '[]')
                  from (select d.id, d.root_id, coalesce(d.step, d.task) as step,
                               coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens as waiting
                          from sluice.composites c join sluice.job_data d on d.id = c.job_id
                         where c.window_size = 0 and c.closing is null and not c.ended and c.started_at is not null and d.superseded_at is null
                           and coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens > 0
                         order by d.id limit 20) f))
$$;
