import { type Queryable, statement } from '../db/database.ts'

export interface BudgetState {
  readonly devices: readonly {
    readonly budget: string
    readonly key: string
    readonly bytes: boolean
    /** What it has, and what an operator allows of it. */
    readonly total: number | null
    readonly limit: number | null
    /** The smaller of the two. */
    readonly capacity: number | null
    readonly held: number
    readonly lost: boolean
    /** Since the last measurement; null: it is not measured. */
    readonly ageMs: number | null
    /** The measurement is new enough to count. */
    readonly fresh: boolean
    /** Live workers that offer it. */
    readonly offers: number
  }[]
  /** Machines on which a worker runs tasks that use the budget and offers nothing to it, though it had these GPUs. */
  readonly blind: readonly {
    readonly host: string
    readonly budget: string
    readonly keys: readonly string[]
  }[]
  /** Tasks of which no job could start, and why. */
  readonly impossible: readonly { readonly task: string; readonly why: string }[]
  /** Budgets that tasks name and nobody has declared. */
  readonly undeclared: readonly { readonly task: string; readonly budget: string }[]
}

const EXAMINE = statement(
  'read_budget_state',
  `select (select coalesce(jsonb_agg(jsonb_build_object('budget', d.budget, 'key', d.key, 'bytes', b.bytes, 'total', d.total, 'limit', d.most, 'capacity', sluice.capacity_v1(d),
             'held', h.by_jobs + h.by_models, 'fresh', sluice.is_fresh_v1(d.measured_at),
             'lost', d.lost_at is not null, 'ageMs', extract(epoch from clock_timestamp() - d.measured_at) * 1000,
             'offers', (select count(*) from sluice.worker_devices o join sluice.workers w on w.id = o.worker_id
                         where o.budget = d.budget and o.device = d.key and w.ended_at is null)) order by d.budget, d.key), '[]')
             from sluice.devices d join sluice.budgets b on b.name = d.budget cross join lateral sluice.device_use_v1(d.budget, d.key) h) as devices,
          (select coalesce(jsonb_agg(jsonb_build_object('host', g.host, 'budget', g.budget, 'keys', g.keys) order by g.budget, g.host), '[]')
             from (select d.budget, d.host, array_agg(d.key order by d.key) as keys
                     from sluice.devices d where d.key ~ '^(GPU|MIG)-' group by d.budget, d.host) g
            where exists (select 1 from sluice.workers w
                           where w.host = g.host and w.ended_at is null and w.started_at < clock_timestamp() - interval '10 seconds'   -- else it is at it
                             and exists (select 1 from sluice.tasks t where t.name = any (w.tasks) and t.uses ? g.budget)
                             and not exists (select 1 from sluice.worker_devices o where o.worker_id = w.id and o.budget = g.budget))) as blind,
          (select coalesce(jsonb_agg(jsonb_build_object('task', t.name, 'why', t.refusal ->> 'text') order by t.name), '[]')
             from sluice.tasks t where t.refusal is not null) as impossible,
          (select coalesce(jsonb_agg(jsonb_build_object('task', t.name, 'budget', u.budget) order by t.name, u.budget), '[]')
             from sluice.tasks t cross join lateral jsonb_object_keys(t.uses) u(budget)
            where not exists (select 1 from sluice.budgets b where b.name = u.budget)) as undeclared`,
)

/** What is worth knowing of budgets. */
export async function readBudgetState(db: Queryable): Promise<BudgetState> {
  return (await db.run<BudgetState & Record<string, unknown>>(EXAMINE))[0]!
}
