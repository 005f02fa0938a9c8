-- The fields of a pool as files, programs and operators name them.
create or replace function sluice.pool_fields_v1(p_pool sluice.pools) returns jsonb
language sql immutable
return jsonb_build_object('provisioner', p_pool.provisioner, 'options', p_pool.options, 'labels', p_pool.labels, 'min', p_pool.min_workers,
                          'max', p_pool.max_workers, 'capacity', p_pool.capacity, 'idleMs', p_pool.idle_ms, 'lifetimeMs', p_pool.lifetime_ms,
                          'cooldownMs', p_pool.cooldown_ms, 'arrivalMs', p_pool.arrival_ms);
