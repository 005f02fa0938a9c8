import { type Queryable, statement } from '../db/database.ts'

/** A class this worker can run, with what its lane says about looking for work. */
export interface DispatchClass {
  readonly id: number
  readonly task: string
  readonly lane: string
  readonly slots: number | null
  readonly pollMs: number
  readonly staleMs: number
  readonly model: string | null
  /** Its task draws from budgets: jobs are claimed only as planned. */
  readonly budgeted: boolean
  /** Jobs of its lane go to whoever runs the fewest, and not to the first who is free. */
  readonly spread: boolean
  /** How many jobs of its lane a worker may be assigned beyond its slots. */
  readonly prefetch: number
}

const LOAD = statement(
  'load_classes',
  `select c.id, c.task, c.lane, l.slots, l.poll_ms as "pollMs", l.stale_ms as "staleMs", c.model, c.budgeted, l.placement = 'spread' as spread, l.prefetch
     from sluice.classes c join sluice.lanes l on l.name = c.lane
    where c.task = any ($1) and c.requires <@ $2::jsonb
    order by c.lane, c.id`,
)

/** The classes a worker with these tasks and labels can serve. */
export async function loadClasses(
  db: Queryable,
  tasks: readonly string[],
  labels: Readonly<Record<string, unknown>>,
): Promise<DispatchClass[]> {
  return db.run<DispatchClass & Record<string, unknown>>(LOAD, [tasks, JSON.stringify(labels)])
}
