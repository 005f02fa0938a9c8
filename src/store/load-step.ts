import { type Queryable, statement } from '../db/database.ts'

// A job that failed leaves its steps to the next one of the same task, key and input.
const LOAD = statement(
  'load_step',
  `select s.result from sluice.steps s where s.job_id = $1 and s.name = $2
   union all
   (select s.result
      from sluice.job_data me
      join sluice.job_data old on old.task = me.task and old.key = me.key and old.key_owner is not distinct from me.key_owner and old.id < me.id
       and old.input is not distinct from me.input
      join sluice.outcomes o on o.id = old.id and o.state = 'failed'
      join sluice.steps s on s.job_id = old.id and s.name = $2
     where me.id = $1 and me.key is not null
     order by old.id desc limit 1)
   limit 1`,
)

/** The committed result of a step, or `undefined`. */
export async function loadStep(
  db: Queryable,
  jobId: string,
  name: string,
): Promise<{ readonly result: unknown } | undefined> {
  return (await db.run<{ result: unknown }>(LOAD, [jobId, name]))[0]
}
