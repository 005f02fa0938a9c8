import type { Sql } from '../database.ts'
import { forgetJobs } from './jobs.ts'

/** A worker with a holding in each of many lanes. */
export interface ManyLanes {
  readonly worker: number
  readonly epoch: number
  /** In the order of their names, as a resync gives them. */
  readonly lanes: readonly string[]
  /** One class of each lane, in the order of the lanes. Their ids are in another order. */
  readonly classes: readonly number[]
  /** Classes of other tasks, which the worker does not serve. Their ids lie between those of `classes`. */
  readonly others: readonly number[]
}

const [WORKER, OTHER, EPOCH] = [7, 8, 3]

/** Plants a worker that runs nothing and holds no slots, and `count` lanes with a limit each. */
export async function plantManyLanes(sql: Sql, count: number, slots: number): Promise<ManyLanes> {
  await sql(
    `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks, generation)
     select $1, 'wide', 'here', 1, '0', 0, 1, '{wide}', (select g.id from sluice.generation g)`,
    [WORKER],
  )
  const lanes = Array.from({ length: count }, (_, n) => `wide-${String(n).padStart(4, '0')}`)
  await sql('insert into sluice.lanes (name, slots) select name, $2 from unnest($1::text[]) name', [
    lanes,
    slots,
  ])
  await sql(
    'insert into sluice.holdings (worker_id, lane, epoch) select $1, name, $2 from unnest($3::text[]) name',
    [WORKER, EPOCH, lanes],
  )
  const made = await sql<{ id: number; lane: string; task: string }>(
    `insert into sluice.classes (lane, task)
     select name, task from unnest($1::text[]) name, unnest('{wide,elsewhere}'::text[]) task order by md5(name || task)
     returning id, lane, task`,
    [lanes],
  )
  await sql('analyze sluice.lanes, sluice.holdings, sluice.classes, sluice.queue')
  const byLane = new Map(made.filter(({ task }) => task === 'wide').map(({ id, lane }) => [lane, id]))
  return {
    ...{ worker: WORKER, epoch: EPOCH, lanes },
    classes: lanes.map((lane) => byLane.get(lane)!),
    others: made.filter(({ task }) => task === 'elsewhere').map(({ id }) => id),
  }
}

/** Gives all slots of these lanes to another worker, which runs nothing. */
export async function plantFullLanes(sql: Sql, lanes: readonly string[]): Promise<void> {
  await sql(
    `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks, generation)
     select $1, 'other', 'here', 1, '0', 0, 1, '{wide}', (select g.id from sluice.generation g)`,
    [OTHER],
  )
  await sql(
    `insert into sluice.holdings (worker_id, lane, epoch, slots) select $1, l.name, 1, l.slots from sluice.lanes l where l.name = any ($2)`,
    [OTHER, lanes],
  )
}

/** Removes all of that, and every job. */
export async function removeManyLanes(sql: Sql): Promise<void> {
  await sql(
    `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state < 'completed'`,
  )
  await forgetJobs(sql)
  await sql(`delete from sluice.holdings where lane like 'wide-%'`)
  await sql(`delete from sluice.classes where lane like 'wide-%'`)
  await sql(`delete from sluice.lanes where name like 'wide-%'`)
  await sql('delete from sluice.workers where id = any ($1)', [[WORKER, OTHER]])
}
