// A large system, in the rows it would have: a week of finished jobs, a fleet, devices, schedules, an audit.
import { readFile } from 'node:fs/promises'

// Lets statements write to the view sluice.jobs.
const PLANTING = new URL('../../test/support/state/planting.sql', import.meta.url)

const ERRORS = [
  `'could not reach host 10.4.' || n % 9 || '.' || n % 250 || ' after ' || n % 5000 || ' ms'`,
  `'card of order ' || n || ' was declined: insufficient funds'`,
  `'HTTP 503 from https://pay.example.com/v2/charges/' || n`,
  `'ENOSPC: no space left on device, write ''/var/tmp/render-' || n || '.png'''`,
  `'mailbox ' || n % 700 || ' is full'`,
  `'the attempt ran longer than its timeout of ' || 10 + n % 5 || ' s'`,
]

/**
 * @param sql A client of `pg`.
 * @param size How many `jobs`, and `workers`.
 * @returns Ids of jobs worth a look.
 */
export async function fill(sql, { jobs, workers }) {
  await sql.query(await readFile(PLANTING, 'utf8'))
  await fillPast(sql, jobs)
  await fillFleet(sql, workers)
  await fillDevices(sql)
  await fillPresent(sql)
  await fillHistory(sql)
  await sql.query('drop schema planting cascade')
  await sql.query('analyze')
  const idOf = async (where) =>
    (await sql.query(`select id from sluice.jobs where ${where} order by id desc limit 1`)).rows[0]?.id
  return {
    completed: await idOf(`task = 'invoices.render' and state = 'completed'`),
    failed: await idOf(`task = 'invoices.render' and state = 'failed'`),
    running: await idOf(`task = 'videos.transcode' and state = 'running'`),
    waiting: await idOf(`task = 'reports.monthly' and state = 'ready'`),
  }
}

/** A week, evenly; one in fifty failed, one in two hundred was cancelled, one in thirty had a second attempt. */
async function fillPast(sql, jobs) {
  await sql.query(
    `insert into sluice.jobs (task, class_id, state, attempt, failures, submitted_at, ready_at, started_at, finished_at, error, input, result, tags, key, submitted_by)
     select t.name, t.class_id,
            (case when n % 50 = 7 then 'failed' when n % 200 = 11 then 'cancelled' else 'completed' end)::sluice.job_state,
            case when n % 30 = 0 then 2 else 1 end, case when n % 30 = 0 then 1 else 0 end, s.at, s.at, s.at, s.at + n % 97 * interval '37 ms',
            case when n % 50 = 7 then case n / 50 % ${ERRORS.length} ${ERRORS.map((text, at) => `when ${at} then ${text}`).join(' ')} end
                 when n % 200 = 11 then 'cancelled: on request' end,
            jsonb_build_object('order', n, 'url', 'https://shop.example.com/orders/' || n),
            case when n % 50 <> 7 then jsonb_build_object('bytes', n * 37) end,
            case when n % 20 = 0 then array['customer-' || n % 300] end, case when n % 50 = 0 then 'order-' || n end, 'user' || n % 23
       from generate_series(1, $1::integer) n
       join (select name, class_id, row_number() over (order by name) - 1 as place, count(*) over () as all_of_them
               from sluice.tasks where name <> all (array['releases.deploy', 'catalogue.fetch', 'catalogue.import-item'])) t
         on t.place = (n + n / 7) % t.all_of_them
      cross join lateral (select clock_timestamp() - make_interval(secs => ($1 - n) * 604800.0 / $1 + 60) as at) s
      order by n`,
    [jobs],
  )
  await sql.query(
    `insert into sluice.attempts (job_id, attempt, started_at, ended_at, ending, error)
     select id, 1, started_at - interval '20 s', started_at - interval '15 s', 'failed', 'could not reach host 10.4.1.1 after 5000 ms'
       from sluice.jobs where failures = 1`,
  )
}

async function fillFleet(sql, workers) {
  await sql.query(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, labels, build)
     select 'fleet-' || n, 'host-' || n % 40, n, '0.1.0', 8, 8, array['videos.transcode', 'search.reindex', 'mail.send'],
            jsonb_build_object('zone', 'eu-' || n % 3, 'disk', 'ssd'), '2026.11.0'
       from generate_series(1, $1::integer) n`,
    [workers],
  )
  await sql.query(
    `insert into sluice.holdings (worker_id, lane, slots) select id, 'batch', 8 from sluice.workers where name like 'fleet-%'`,
  )
  // Six of the eight slots of each are busy.
  await sql.query(
    `insert into sluice.jobs (task, class_id, state, attempt, submitted_at, ready_at, started_at, worker_id, input, submitted_by)
     select t.name, t.class_id, 'running', 1, clock_timestamp() - n * interval '1 minute', clock_timestamp() - n * interval '1 minute',
            clock_timestamp() - n * interval '50 s', w.id, jsonb_build_object('video', w.id * 10 + n), 'user' || n
       from sluice.workers w cross join generate_series(1, 6) n join sluice.tasks t on t.name = 'videos.transcode'
      where w.name like 'fleet-%'`,
  )
  await sql.query(
    `insert into sluice.notes (job_id, attempt, progress, message)
     select id, attempt, id % 10 / 10.0, 'encoding, part ' || id % 9 || ' of 9' from sluice.jobs where state = 'running' and worker_id is not null`,
  )
}

/** 64 GPUs of 16 machines, a model on each. */
async function fillDevices(sql) {
  await sql.query(
    `insert into sluice.devices (budget, key, host, name, total, measured_free, measured_used, measured_at)
     select 'vram', 'GPU-' || n, 'host-' || n % 16, 'NVIDIA A100', 85e9, 40e9, 45e9, clock_timestamp() from generate_series(1, 64) n`,
  )
  await sql.query(
    `insert into sluice.models (name, load_ms, run_ms) select 'llm-' || n, 20000, 900 from generate_series(1, 12) n on conflict do nothing`,
  )
  await sql.query(
    `insert into sluice.residents (worker_id, model, device, budget, amount, devices, loaded_at)
     select (select min(w.id) + n from sluice.workers w where w.name like 'fleet-%'), 'llm-' || 1 + n % 12, 'GPU-' || n, 'vram', 42e9,
            array['GPU-' || n], clock_timestamp() from generate_series(1, 64) n
      where n < (select count(*) from sluice.workers w where w.name like 'fleet-%')`,
  )
}

/** What waits: for a paused lane, for its time, for another attempt, for somebody. */
async function fillPresent(sql) {
  await sql.query(`update sluice.lanes set enabled = false where name in ('nightly', 'mail')`)
  const insert = (task, count, state, more = '') =>
    sql.query(
      `insert into sluice.jobs (task, class_id, state, submitted_at, ready_at, failures, attempt, error, input, submitted_by)
       select t.name, t.class_id, '${state}', clock_timestamp() - n * interval '1 s',
              clock_timestamp() ${state === 'scheduled' ? '+' : '-'} n * interval '${state === 'scheduled' ? 60 : 1} s',
              ${more === 'retrying' ? "1, 1, 'SMTP 421: mailbox ' || n || ' is busy'" : '0, 0, null'}, jsonb_build_object('n', n), 'user' || n % 23
         from generate_series(1, ${count}) n join sluice.tasks t on t.name = '${task}'`,
    )
  await insert('reports.monthly', 5000, 'ready')
  await insert('mail.digest', 3000, 'scheduled')
  await insert('mail.send', 2000, 'scheduled', 'retrying')
  await insert('releases.deploy', 300, 'awaiting_approval')
}

async function fillHistory(sql) {
  await sql.query(
    `insert into sluice.recoveries (at, kind, worker, lane, jobs, requeued, job_ids, detail)
     select clock_timestamp() - (10000 - n) * interval '50 s', case when n % 4 = 3 then 'late_write' else 'taken_over' end,
            'fleet-' || n % 200, 'batch', 1 + n % 5, n % 5, array[n, n + 1], case when n % 4 = 3 then 'the worker came back after its lease had ended' end
       from generate_series(1, 10000) n`,
  )
  await sql.query(
    `insert into sluice.audit (at, actor, action, target, before, after, reason)
     select clock_timestamp() - (100000 - n) * interval '6 s', 'user' || n % 23,
            case when n % 40 = 0 then 'lane.change' else 'job.cancel' end, case when n % 40 = 0 then 'batch' else n::text end,
            jsonb_build_object('slots', n % 7), jsonb_build_object('slots', n % 5), 'The bank asks for fewer connections'
       from generate_series(1, 100000) n`,
  )
  await sql.query(
    `insert into sluice.schedules (name, task, cron, timezone, enabled, overlap, catch_up, next_at, owner, updated_by, input_by)
     select 'nightly-' || n, 'reports.monthly', n % 60 || ' 3 * * *', 'Europe/Berlin', true, 'allow', 0, clock_timestamp() + interval '5 h', 'user1', 'user1', 'user1'
       from generate_series(1, 200) n`,
  )
  // Half an hour of lines, each point with all there is.
  await sql.query(
    `insert into sluice.snapshots (at, snapshot)
     select clock_timestamp() - n * interval '10 s',
            m.snapshot || jsonb_build_object('at', (extract(epoch from clock_timestamp() - n * interval '10 s') * 1000)::bigint)
       from generate_series(1, 700) n cross join (select sluice.snapshot_v1(2000) as snapshot offset 0) m`,
  )
}
