import { type Queryable, statement } from '../db/database.ts'

/** What a copy of a model takes of one device. A copy that lies on several has a row for each. */
export interface CopyOnDevice {
  readonly budget: string
  readonly device: string
  readonly model: string
  /** The worker that has loaded it. */
  readonly worker: string
  readonly amount: number
  /** All devices of the copy, sorted. */
  readonly devices: readonly string[]
  /** `unloading`: it gets no more jobs, and its memory is not free yet. */
  readonly state: 'loading' | 'loaded' | 'unloading'
  readonly since: Date
  /** Jobs that run on it. */
  readonly running: number
  /** It is never unloaded to make room. */
  readonly pinned: boolean
}

const LIST = statement(
  'list_copies',
  `select r.budget, r.device, r.model, w.name as worker, r.amount, r.devices,
          case when r.unloading_at is not null then 'unloading' when r.loaded_at is null then 'loading' else 'loaded' end as state,
          coalesce(r.unloading_at, r.loaded_at, r.claimed_at) as since, coalesce(m.pinned, false) as pinned,
          (select count(*)::integer from sluice.reservations v join sluice.running j on j.worker_id = v.worker_id and j.id = v.job_id join sluice.classes c on c.id = j.class_id
            where v.budget = r.budget and v.device = r.device and j.attempt = v.attempt and j.worker_id = r.worker_id and c.model = r.model) as running
     from sluice.residents r join sluice.workers w on w.id = r.worker_id left join sluice.models m on m.name = r.model
    where w.ended_at is null
    order by r.budget, r.device, r.claimed_at, r.model`,
)

/** Copies of models that live workers have loaded, or are about to. */
export async function listCopies(db: Queryable): Promise<CopyOnDevice[]> {
  return db.run<CopyOnDevice & Record<string, unknown>>(LIST)
}
