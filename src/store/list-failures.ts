import { type Queryable, statement } from '../db/database.ts'

/** Failures whose errors are alike. */
export interface ErrorGroup {
  readonly fingerprint: string
  /** The error without what differs from one to the next. */
  readonly pattern: string
  readonly count: number
  readonly tasks: readonly string[]
  readonly firstAt: Date
  readonly lastAt: Date
  /** The latest of them. */
  readonly exampleId: string
  readonly exampleError: string
  /** What was thrown: `TypeError`. `null` where nothing was, as for a deadline that passed. */
  readonly exampleClass: string | null
}

/** Which failures. */
export interface FailureSearch {
  readonly since: Date | null
  readonly until: Date | null
  readonly task: string | null
  /** Only jobs of this owner. */
  readonly by: string | null
}

export interface Failure {
  readonly id: string
  /** The job that is retried for it. */
  readonly rootId: string
  /** In microseconds, with its id: where to go on. */
  readonly position: string
}

// The newest failures along their index, whatever is looked for among them. Errors that are the same are made one before
// what differs in them is taken out, which costs the most.
const LOOK = `select o.id, o.error, o.finished_at, d.root_id, d.task, d.fits
     from sluice.outcomes o
    cross join lateral (
      select coalesce(d.root_id, d.id) as root_id, d.task,
             ($3::text is null or d.task = $3) and ($4::text is null or d.submitted_by = $4)
               and (d.parent_id is null and d.composite is null or (select sluice.is_cause_v1(j) from sluice.jobs j where j.id = d.id)) as fits
        from sluice.job_data d where d.id = o.id) d
    where o.state = 'failed' and o.finished_at >= coalesce($1::timestamptz, '-infinity') and o.finished_at < coalesce($2::timestamptz, 'infinity')`

const GROUP = statement(
  'group_failures',
  `with looked as materialized (
     ${LOOK} order by o.finished_at desc, o.id desc limit $5
   ), texts as (
     select left(l.error, 400) as error, l.task, count(*)::integer as n, min(l.finished_at) as first_at, max(l.finished_at) as last_at,
            (array_agg(l.id order by l.finished_at desc, l.id desc))[1] as example
       from looked l where l.fits group by 1, 2
   ), groups as (
     select sluice.error_pattern_v1(t.error) as pattern, sum(t.n)::integer as count, array_agg(distinct t.task) as tasks,
            min(t.first_at) as first_at, max(t.last_at) as last_at,
            (array_agg(t.example order by t.last_at desc))[1] as example, (array_agg(t.error order by t.last_at desc))[1] as error
       from texts t group by 1
   )
   select left(md5(g.pattern), 12) as fingerprint, g.pattern, g.count, g.tasks, g.first_at as "firstAt", g.last_at as "lastAt",
          g.example as "exampleId", g.error as "exampleError",
          (select sluice.error_detail_v1(j.id, j.attempt, j.state, j.error) ->> 'class' from sluice.jobs j where j.id = g.example) as "exampleClass",
          e.looked
     from (select count(*)::integer as looked from looked) e
     left join (select * from groups order by count desc, last_at desc limit $6) g on true
    order by g.count desc, g.last_at desc`,
)

const LIST = statement(
  'list_failures',
  `with looked as materialized (
     ${LOOK} and ($5::bigint is null or (o.finished_at, o.id) < (timestamptz 'epoch' + $5 * interval '1 microsecond', $6::bigint))
      order by o.finished_at desc, o.id desc limit $7
   )
   select f.id, f.root_id as "rootId", f.position, e.looked, e.last
     from (select count(*)::integer as looked,
                  (array_agg((extract(epoch from k.finished_at) * 1000000)::bigint || '.' || k.id order by k.finished_at, k.id))[1] as last
             from looked k) e
     left join (
       select l.id, l.root_id, (extract(epoch from l.finished_at) * 1000000)::bigint || '.' || l.id as position, l.finished_at
         from looked l where l.fits and left(md5(sluice.error_pattern_v1(l.error)), 12) = $8
        order by l.finished_at desc, l.id desc limit $9) f on true
    order by f.finished_at desc, f.id desc`,
)

/** Failures by what their errors have in common, the most frequent first, among the newest `look`. */
export async function groupFailures(
  db: Queryable,
  search: FailureSearch,
  look: number,
  limit: number,
): Promise<{ groups: ErrorGroup[]; looked: number }> {
  const { since, until, task, by } = search
  type Row = ErrorGroup & { looked: number } & Record<string, unknown>
  const rows = await db.run<Row>(GROUP, [since, until, task, by, look, limit])
  return {
    groups: rows.flatMap(({ looked: _, ...group }) => (group.fingerprint === null ? [] : [group])),
    looked: rows[0]!.looked,
  }
}

/**
 * Failures of one group, the newest first, at most `limit` among the next `look`.
 *
 * @param after The position of the last one known.
 * @returns `next`: where to go on; `null` when nothing is left.
 */
export async function listFailures(
  db: Queryable,
  search: FailureSearch & { readonly fingerprint: string },
  after: string | undefined,
  look: number,
  limit: number,
): Promise<{ failures: Failure[]; next: string | null }> {
  const { since, until, task, by, fingerprint } = search
  const [micros = null, id = null] = after?.split('.') ?? []
  type Row = Failure & { looked: number; last: string | null } & Record<string, unknown>
  const values = [since, until, task, by, micros, id, look, fingerprint, limit]
  const rows = await db.run<Row>(LIST, values)
  const { looked, last } = rows[0]!
  const failures = rows.flatMap(({ looked: _, last: __, ...row }) => (row.id === null ? [] : [row]))
  if (failures.length === limit) return { failures, next: failures.at(-1)!.position }
  return { failures, next: looked < look ? null : last }
}
