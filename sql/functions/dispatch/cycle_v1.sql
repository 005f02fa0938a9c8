-- One round trip of a worker: records the endings of attempts, then takes new jobs.
--
-- The worker's own holdings are locked first. That serialises its cycles, and a cycle sent with an old epoch, or after
-- the worker lost a lane, is refused as a whole (SL001). If fewer jobs ended than were sent, nothing is claimed and the
-- answer is one row with a null id: the worker's picture is wrong and it must resync. What it says it runs can then be
-- trusted: it is what earlier cycles under the same epoch gave it, less what they recorded as ended. The worker never sends
-- a cycle twice, but should one be carried out twice all the same, the second finds jobs newer than the worker knows of
-- and is refused; so is the worker's next one, should the second have found none, and it learns of its jobs by a resync.
--
-- A worker that ends as many jobs of a lane as it takes keeps its slots, and nothing is written but the jobs. Only to
-- grow does it lock the lane's row; the limit is then checked against the sum of the holdings, in a statement of its own
-- that sees every earlier grower. Shrinking needs no lock: a sum that is too high is only cautious.
--
-- A worker that always finds work would keep its slots for good. Where another one was refused and has asked for classes
-- that this one does not serve, it leaves them as many slots as they have jobs before its own first one.
--
-- Where other workers come first, it takes only what they cannot: sluice.leave_v1. What it leaves for their sake is told by a last
-- row without an id: class_id is how many of them are free, attempt in how many milliseconds it may take it all the same. An idle
-- poll that finds nothing has that row too, without the time.
--
-- A lane whose row cannot be locked within 50 ms is left out of the cycle, so that whoever holds it does not slow other lanes. A row
-- before that one, without an id but with tags, names such lanes.
--
-- The plans are pinned by the settings below: a plan cached while the table was empty would otherwise scan and sort it
-- once it is full (in a prototype: 110-170 ms a cycle instead of 3). They are generic, because with arrays for parameters a
-- plan of its own for every call looks cheaper to the planner, and making it took 0.4 of the 1.1 ms of a first claim.
-- Without JIT: before PostgreSQL 18 a plan that had to use what is ruled out costs 1e10, and is compiled for 50 ms a cycle.
create or replace function sluice.cycle_v1(
  p_worker bigint, p_epoch integer,
  p_known bigint,          -- mark of the newest job it knows of, 0 for none
  p_done jsonb,            -- {id: {attempt, result}} completed attempts, or null
  p_endings jsonb,         -- [{id, attempt, ending, error, detail, delayMs}] the others, or null
  p_lanes text[],          -- the lanes of its holdings, in the order resync gave them; the next three run beside it
  p_run integer[],         -- how many it runs in the lane once these endings are recorded
  p_want integer[],        -- how many it would take at most in the lane
  p_keep integer[],        -- slots it would rather keep than give back, busy or idle
  p_free integer,          -- how many it takes at most in all
  p_first integer,         -- position of the lane that is served first this time
  p_classes integer[],     -- what it can run; the next four run beside it
  p_class_lane integer[],  -- position of the class's lane in p_lanes
  p_class_max integer[],   -- how many it takes at most of the class
  p_after_rank integer[], p_after_id bigint[],   -- where to start looking
  p_merge boolean,         -- some lane has several classes
  p_hint boolean,          -- tell waiting processes that something ended
  p_budget jsonb default null,  -- what was planned for classes that draw from budgets, as sluice.claim_budgeted_v1 has it
  p_ordered boolean default false,  -- there are other workers, and some may come before this one
  p_fresh integer[] default null,   -- beside p_classes: how long ago it saw what is ready there, as sluice.leave_v1 has it
  p_hears boolean default true      -- it hears hints
) returns table (id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer,
                 submitted_at timestamptz, key text, tags text[], input jsonb, mark bigint, policy jsonb, trace text, place jsonb)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := clock_timestamp();
  v_mark     bigint      := sluice.mark_v1(v_now);
  v_known    timestamptz := to_timestamp(p_known / 1000000.0);
  v_none     integer[]   := array_fill(0, array[cardinality(p_lanes)]);
  v_no       boolean[]   := array_fill(false, array[cardinality(p_lanes)]);
  v_lanes    text[];
  v_slots    integer[];     -- held per lane, before and after
  v_before   integer[];
  v_wanted   boolean[];     -- refused at the last try, and at this one
  v_wants    boolean[]   := v_no;
  v_asked_at timestamptz[]; -- when it was last refused
  v_limit    integer[]   := array_fill(null::integer, array[cardinality(p_lanes)]);
  v_asked    boolean[]   := v_no;      -- another worker waits for slots of the lane
  v_spare    integer[]   := v_none;    -- slots of the lane that nobody holds
  v_others   integer[];     -- classes that other workers wait for and this one does not serve, with their lanes
  v_other_lane integer[];
  v_other_rank integer[] := array_fill(null::integer, array[cardinality(p_lanes)]);   -- the first job of them in each lane
  v_other_id bigint[]    := array_fill(null::bigint, array[cardinality(p_lanes)]);
  v_yield    integer[]   := v_none;    -- slots to leave to them
  v_stood    boolean[]   := v_no;      -- it took less for their sake
  v_at_first integer;       -- what was free before anything was taken
  v_cap      integer[]   := array_fill(2147483647, array[cardinality(p_lanes)]);   -- slots to hold at most, once a limit was lowered
  v_room     integer[]   := array_fill(2147483647, array[cardinality(p_lanes)]);   -- how many more it has, or there are, slots for
  v_take     integer[]   := v_none;
  v_ready    integer[];
  v_run      integer[]   := p_run;
  v_counts   integer[];
  v_ids      bigint[];
  v_id_lane  integer[];
  v_late     bigint[];      -- jobs that came up after their start deadline
  v_done     bigint[]    := array(select k::bigint from jsonb_object_keys(p_done) k);
  v_parents  bigint[];      -- of what is completed here, with the places among their siblings
  v_places   integer[];
  v_keyed    bigint[];      -- of what is completed here: jobs that had a key
  v_started  bigint[]    := '{}';      -- parents of the children started in the place of one that ended, once for each
  v_class_max integer[]  := p_class_max;
  v_busy     integer;       -- the lane that has ready jobs, 0 for several, with the first of them
  v_first_rank integer;
  v_first_id bigint;
  v_sent     integer     := cardinality(v_done) + coalesce(jsonb_array_length(p_endings), 0);
  v_ended    integer     := 0;
  v_free     integer     := p_free;
  v_open     integer     := 0;         -- lanes that something may be taken from
  v_cores    integer;
  v_capacity integer;
  v_sum      integer;
  v_most     integer;
  v_hint     boolean     := false;
  v_hint_ready boolean   := false;     -- late jobs were counted among those to take, so there may be others
  v_planned  integer[];     -- classes that are claimed as planned, and what was claimed of them: jobs, lanes, devices by job
  v_drawn    bigint[];
  v_drawn_lane integer[];
  v_place    jsonb;
  v_ahead    integer;       -- free workers that come first, and how long what is left to them is theirs
  v_wait     integer;
  v_skip     timestamptz;   -- jobs that could start before it skip the number of an attempt
  v_locked   text[]      := '{}';   -- lanes whose row could not be locked
  v_timeout  text;
  v_found    boolean;
  v_row      record;
begin
  if p_ordered and p_free > 0 then
    select l.most, l.ahead, l.wait_ms into v_class_max, v_ahead, v_wait
      from sluice.leave_v1(p_worker, v_now, p_lanes, p_run, p_want, p_free, p_classes, p_class_lane, p_class_max, p_after_rank, p_after_id,
                           p_done is null and p_endings is null, p_fresh, p_hears) l;
  end if;
  if p_budget is not null then
    v_planned := array(select distinct (s ->> 'class')::integer from jsonb_array_elements(p_budget -> 'starts') s);
  elsif v_sent = 0 then
    -- An idle poll locks and writes nothing.
    if not exists (select 1 from unnest(p_classes, v_class_max, p_after_rank, p_after_id) c(id, most, rank, after)
                    where c.most > 0 and exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                                     and (j.rank, j.id) > (c.rank, c.after)))
       and not exists (select 1 from unnest(p_lanes, p_run, p_keep) k(lane, run, keep)
                         join sluice.holdings h on h.worker_id = p_worker and h.lane = k.lane
                        where h.wants or h.slots > greatest(k.run, k.keep))
       and (select r.id from sluice.running r where r.worker_id = p_worker and r.started_at > v_known order by r.started_at limit 1) is null then
      if v_ahead is not null then
        return query select * from sluice.left_v1(v_ahead, v_wait);
      end if;
      return;
    end if;
  end if;
  if v_sent = 0 and coalesce(jsonb_array_length(p_budget -> 'starts'), 0) = 0 then
    -- A claim that a crash forgets is given back when its worker says what it runs; only endings have to be on disk, and what was drawn
    -- from budgets, which the worker could not tell.
    perform set_config('synchronous_commit', 'off', true);
  end if;

  select array_agg(h.lane), array_agg(h.slots), array_agg(h.wants), array_agg(h.asked_at) into v_lanes, v_slots, v_wanted, v_asked_at
    from (select lane, slots, wants, asked_at from sluice.holdings where worker_id = p_worker and epoch = p_epoch
           order by lane for no key update) h;
  if coalesce(v_lanes, '{}') is distinct from p_lanes then
    raise exception 'worker % no longer holds its lanes under epoch %', p_worker, p_epoch using errcode = 'SL001';
  end if;
  -- By the order the planner is led to the index, also where its plan was made on an empty table. By the bound it looks
  -- at nothing old: under a transaction held open the entries of all that has ended since are still there.
  if (select r.id from sluice.running r where r.worker_id = p_worker and r.started_at > v_known order by r.started_at limit 1) is not null then
    raise exception 'worker % runs jobs it does not know of', p_worker using errcode = 'SL001';
  end if;
  v_before := v_slots;
  select g.skip_before into v_skip from sluice.generation g where g.one and g.claims_open;
  if not found then
    -- After a crash of the server nothing is claimed before all have said what they run.
    if not exists (select 1 from sluice.generation g join sluice.workers w on w.generation = g.id where w.id = p_worker) then
      raise exception 'the server has recovered from a crash, and worker % has not said yet what it runs', p_worker using errcode = 'SL001';
    end if;
    v_free := 0;
  end if;

  if p_done is not null and p_endings is not null then
    -- In the order of ids, as everybody locks what runs: each of the two below keeps it only for itself.
    perform 1 from (select u.id from unnest(v_done || array(select (e ->> 'id')::bigint from jsonb_array_elements(p_endings) e)) u(id) order by u.id) g
      cross join lateral (select 1 from sluice.running r where r.id = g.id and r.worker_id + 0 = p_worker for update) x;
  end if;
  if p_done is not null then
    -- By id and nothing else: joined with a list, a plan made on an empty table reads all that runs and looks for each in it. The worker is
    -- hidden from the planner by "+ 0": the index of workers would lock in another order than that of ids, and walk over all that has ended.
    with gone as (
      delete from sluice.running r
       where r.id = any (v_done) and r.attempt = (p_done -> r.id::text ->> 'attempt')::integer and r.worker_id + 0 = p_worker
      returning r.*
    ), kept as (
      insert into sluice.outcomes (id, state, result, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt,
                                   failures, losses, is_root)
      select g.id, 'completed', nullif(p_done -> g.id::text -> 'result', 'null'), v_now, g.ready_at, g.started_at, g.deadline_at, g.cancel_at,
             p_worker, g.class_id, g.attempt, g.failures, g.losses, g.parent_id is null
        from gone g
    )
    select count(*)::integer, array_agg(g.parent_id) filter (where g.parent_id is not null), array_agg(g.idx) filter (where g.parent_id is not null),
           array_agg(g.id) filter (where g.keyed)
      into v_ended, v_parents, v_places, v_keyed from gone g;
    if v_keyed is not null then
      delete from sluice.job_keys k where k.job_id = any (v_keyed);
    end if;
  end if;
  if p_endings is not null then
    v_ended := v_ended + sluice.end_attempts_v1(p_worker, p_endings);
  end if;
  if v_ended <> v_sent then
    v_free := 0;
  elsif p_hint and exists (select 1 from sluice.waiters w where w.until > v_now) then
    perform pg_notify('sluice', 'done');
  end if;

  if v_free > 0 then
    select case when w.draining then 0 when w.capacity > 0 then least(v_free, w.capacity - (select sum(r)::integer from unnest(p_run) r)) else v_free end, w.cores, w.capacity
      into v_free, v_cores, v_capacity from sluice.workers w where w.id = p_worker;
  end if;

  v_at_first := v_free;

  -- How many to take per lane, as far as the lane's settings and the slots in hand go.
  for v_row in
    select l.ord, s.slots as lim, s.enabled, sluice.per_worker_v1(s.per_worker, v_capacity, v_cores) as per_worker, t.held, t.asked,
           t.elsewhere
      from unnest(p_lanes, p_want) with ordinality l(name, want, ord)
      join sluice.lanes s on s.name = l.name
      left join lateral (select sum(h.slots)::integer as held, bool_or(h.wants and h.worker_id <> p_worker) as asked,
                                bool_or(h.wants and h.worker_id <> p_worker and not h.asks <@ p_classes) as elsewhere
                           from sluice.holdings h where h.lane = l.name) t on s.slots is not null
     where l.want > 0 or v_slots[l.ord] > 0 or v_wanted[l.ord]
  loop
    v_limit[v_row.ord] := v_row.lim;
    v_asked[v_row.ord] := coalesce(v_row.asked, false);
    v_most := p_want[v_row.ord];
    if v_row.lim is not null then
      v_spare[v_row.ord] := greatest(0, v_row.lim - v_row.held);
      v_room[v_row.ord] := greatest(0, v_slots[v_row.ord] - v_run[v_row.ord]) + v_spare[v_row.ord];
    end if;
    if v_row.held > v_row.lim then
      -- Over the limit since it was lowered: what ends is given back until the sum fits again.
      v_cap[v_row.ord] := greatest(0, v_slots[v_row.ord] - (v_row.held - v_row.lim));
      v_most := least(v_most, v_cap[v_row.ord] - v_run[v_row.ord]);
    end if;
    if v_row.enabled and v_free > 0 then
      v_take[v_row.ord] := greatest(0, least(v_most, v_free, v_row.per_worker - v_run[v_row.ord]));
      v_open := v_open + case when v_take[v_row.ord] > 0 then 1 else 0 end;
      if v_row.elsewhere and v_take[v_row.ord] > 0 then
        -- Who asks again at every poll is there to take what is left to it. One that is busy with something else does not,
        -- and must not keep a whole lane waiting.
        select v_others || array_agg(o.id), v_other_lane || array_agg(v_row.ord::integer) into v_others, v_other_lane
          from (select distinct a.id from sluice.holdings h
                  join sluice.lanes s on s.name = h.lane
                  join sluice.workers w on w.id = h.worker_id and w.ended_at is null and not w.draining
                 cross join lateral unnest(h.asks) a(id)
                 where h.lane = p_lanes[v_row.ord] and h.wants and h.worker_id <> p_worker and a.id <> all (p_classes)
                   and h.asked_at > v_now - make_interval(secs => 2 + 2 * s.poll_ms / 1000.0)) o;
      end if;
    end if;
  end loop;
  if v_others is not null then
    for v_row in
      select o.lane, x.rank, x.id from unnest(v_others, v_other_lane) o(id, lane)
       cross join lateral (select j.rank, j.id from sluice.queue j where j.class_id = o.id and j.state = 'ready'
                            order by j.rank, j.id limit 1) x
    loop
      if v_other_id[v_row.lane] is null or (v_row.rank, v_row.id) < (v_other_rank[v_row.lane], v_other_id[v_row.lane]) then
        v_other_rank[v_row.lane] := v_row.rank; v_other_id[v_row.lane] := v_row.id;
      end if;
    end loop;
  end if;

  if v_parents is not null then
    -- A place in a window goes to the next child by starting it, unless a job that is ready comes first, or another lane has
    -- work to share the free capacity with. Made ready and claimed later, the child would be written once more.
    for v_row in
      select c.lane, x.rank, x.id from unnest(p_classes, p_class_lane, p_after_rank, p_after_id) c(id, lane, rank, after)
       cross join lateral (select j.rank, j.id from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                              and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id limit 1) x
       where v_take[c.lane] > 0
    loop
      if v_busy is null or v_busy = v_row.lane and (v_row.rank, v_row.id) < (v_first_rank, v_first_id) then
        v_busy := v_row.lane; v_first_rank := v_row.rank; v_first_id := v_row.id;
      elsif v_busy <> v_row.lane then
        v_busy := 0;
      end if;
    end loop;
    for v_row in
      select n.parent, n.last, n.ended, c.ord as class, p_class_lane[c.ord] as lane
        from (select g.parent, max(g.place) as last, count(*)::integer as ended
                from unnest(v_parents, v_places) g(parent, place)
                join sluice.composites c on c.job_id = g.parent and c.window_size >= c.tokens and c.closing is null
               group by g.parent) n
       cross join lateral (select array_position(p_classes, k.class_id) as ord from sluice.queue k
                            where k.parent_id = n.parent and k.state = 'waiting' and k.idx > n.last order by k.idx limit 1) c
       order by n.parent
    loop
      v_most := least(v_row.ended, v_free, v_take[v_row.lane], v_class_max[v_row.class],
                      case when v_limit[v_row.lane] is not null then v_slots[v_row.lane] - v_run[v_row.lane] end);
      continue when v_row.lane is null or v_most <= 0 or v_busy <> v_row.lane
                    or exists (select 1 from sluice.classes c where c.id = p_classes[v_row.class] and c.budgeted);
      return query
      with taken as (
        delete from sluice.queue q
         where q.id = any (array(
               select n.id from (select k.id, k.class_id, k.rank, k.guarded from sluice.queue k
                                  where k.parent_id = v_row.parent and k.state = 'waiting' and k.idx > v_row.last
                                  order by k.idx limit v_most for update skip locked) n
                where n.class_id = p_classes[v_row.class] and not n.guarded
                  and (v_busy is null or (n.rank, n.id) < (v_first_rank, v_first_id))
                  and (v_other_id[v_row.lane] is null or (n.rank, n.id) < (v_other_rank[v_row.lane], v_other_id[v_row.lane]))))
        returning q.*
      ), started as (
        insert into sluice.running (id, worker_id, started_at, ready_at, deadline_at, parent_id, idx, class_id, attempt, failures, losses, keyed, error)
        select t.id, p_worker, v_now, v_now,
               -- It starts in time, but a loss must not give it more time than a child that was ready first.
               v_now + make_interval(secs => d.deadline_ms / 1000.0),
               t.parent_id, t.idx, t.class_id, t.attempt + 1, t.failures, t.losses, t.keyed, t.error
          from taken t join sluice.job_data d on d.id = t.id
      )
      select t.id, t.class_id, t.attempt + 1, t.failures, t.rank, d.priority, d.submitted_at, d.key, d.tags, d.input,
             v_mark, d.policy, d.trace, null::jsonb
        from taken t join sluice.job_data d on d.id = t.id;
      get diagnostics v_sum = row_count;
      v_free := v_free - v_sum;
      v_run[v_row.lane] := v_run[v_row.lane] + v_sum;
      v_take[v_row.lane] := v_take[v_row.lane] - v_sum;
      v_class_max[v_row.class] := v_class_max[v_row.class] - v_sum;
      v_started := v_started || array_fill(v_row.parent, array[v_sum]);
    end loop;
    perform sluice.children_ended_v1(v_parents, v_places, array_fill('completed'::sluice.job_state, array[cardinality(v_parents)]), v_started);
    if cardinality(v_started) > 0 then
      v_take := array(select least(t.n, v_free) from unnest(v_take) with ordinality t(n, ord) order by t.ord);
      v_open := (select count(*) from unnest(v_take) t where t > 0);
    end if;
  end if;

  if v_open > 0 and v_others is not null then
    -- As many slots are left to them as they have jobs before the first one here, in what it holds idle and nobody holds.
    for i in 1 .. cardinality(p_lanes) loop
      continue when v_other_id[i] is null or v_take[i] <= 0;
      select y.rank, y.id, least(y.n, v_take[i]) into v_first_rank, v_first_id, v_sum from (
        select x.rank, x.id, (count(*) over ())::integer as n
          from unnest(p_classes, p_class_lane, v_class_max, p_after_rank, p_after_id) c(id, lane, most, rank, after)
         cross join lateral (select j.rank, j.id from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                                and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id limit least(v_take[i], c.most)) x
         where c.lane = i) y order by y.rank, y.id limit 1;
      continue when not found or (v_first_rank, v_first_id) < (v_other_rank[i], v_other_id[i]);
      v_room[i] := greatest(0, least(v_slots[i], v_cap[i]) - v_run[i]) + v_spare[i];
      select count(*)::integer into v_most from (
        select 1 from unnest(v_others, v_other_lane) o(id, lane)
         cross join lateral (select 1 from sluice.queue j where j.class_id = o.id and j.state = 'ready'
                                and (j.rank, j.id) < (v_first_rank, v_first_id) order by j.rank, j.id limit v_room[i]) x
         where o.lane = i limit v_room[i]) y;
      continue when v_most = 0;
      v_room[i] := v_room[i] - v_most;
      v_yield[i] := greatest(0, v_most - v_spare[i]);
      v_take[i] := least(v_sum, v_room[i]);
      v_stood[i] := v_take[i] < v_sum;
    end loop;
    v_open := (select count(*) from unnest(v_take) t where t > 0);
  end if;

  if v_open > 0 then
    -- Only what is ready counts against a share, and only then is a lane asked for more slots.
    for i in 1 .. cardinality(p_lanes) loop
      if v_take[i] > 0 and (v_open > 1 or (v_limit[i] is not null and v_run[i] + v_take[i] > v_slots[i])) then
        select count(*)::integer into v_sum from (
          select 1 from unnest(p_classes, p_class_lane, v_class_max, p_after_rank, p_after_id) c(id, lane, most, rank, after)
           cross join lateral (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                                  and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id limit least(v_take[i], c.most)) x
           where c.lane = i limit v_take[i]) y;
        v_take[i] := v_sum;
      end if;
    end loop;
    if v_open > 1 then
      -- A lane that looks full takes no share from the others. It gets what they leave, and below a slot or a refusal.
      v_ready := v_take;
      for i in 1 .. cardinality(p_lanes) loop
        v_take[i] := least(v_take[i], v_room[i]);
      end loop;
      v_take := sluice.share_v1(v_take, v_free, p_first);
      v_free := v_free - (select sum(t)::integer from unnest(v_take) t);
      for k in 0 .. cardinality(p_lanes) - 1 loop
        v_most := (p_first - 1 + k) % cardinality(p_lanes) + 1;
        v_sum := greatest(0, least(v_free, v_ready[v_most] - v_take[v_most]));
        v_take[v_most] := v_take[v_most] + v_sum;
        v_free := v_free - v_sum;
      end loop;
    end if;

    for i in 1 .. cardinality(p_lanes) loop
      if v_limit[i] is not null and v_run[i] + v_take[i] > v_slots[i] then
        begin
          v_timeout := current_setting('lock_timeout');
          perform set_config('lock_timeout', '50ms', true);
          select s.slots into v_most from sluice.lanes s where s.name = p_lanes[i] and s.enabled and s.slots is not null
             for no key update;
          v_found := found;
          perform set_config('lock_timeout', v_timeout, true);   -- what else is waited for has its own bounds
          if v_found then
            select sum(h.slots)::integer into v_sum from sluice.holdings h where h.lane = p_lanes[i];
            v_slots[i] := v_slots[i] + greatest(0, least(v_run[i] + v_take[i] - v_slots[i], v_most - v_sum));
            v_wants[i] := v_run[i] + v_take[i] > v_slots[i];
          end if;
        exception when lock_not_available then
          v_locked := v_locked || p_lanes[i];  -- somebody has the lane's row open: the lane is left out this time
        end;
        v_take[i] := greatest(0, v_slots[i] - v_run[i]);
      end if;
    end loop;
    if clock_timestamp() > v_now + interval '100 milliseconds' then
      -- A lane's row was waited for, or the server is busy: by now another lane may be disabled, or its limit lower.
      for v_row in
        select l.ord, s.enabled, s.slots as lim, (select sum(h.slots)::integer from sluice.holdings h where h.lane = l.name) as held
          from unnest(p_lanes) with ordinality l(name, ord) join sluice.lanes s on s.name = l.name
         where v_take[l.ord] > 0
      loop
        if not v_row.enabled then
          v_take[v_row.ord] := 0;
        elsif v_row.held > v_row.lim then
          v_cap[v_row.ord] := greatest(0, v_before[v_row.ord] - (v_row.held - v_row.lim));
          v_take[v_row.ord] := greatest(0, least(v_take[v_row.ord], v_cap[v_row.ord] - v_run[v_row.ord]));
        end if;
      end loop;
    end if;

    if not p_merge then
      select array_agg(least(v_take[c.lane], c.most) order by c.ord) into v_counts
        from unnest(p_class_lane, v_class_max) with ordinality c(lane, most, ord);
    else
      -- Several classes share a lane: the order among all of them says how many come from each.
      select array_agg(coalesce(n.taken, 0) order by c.ord) into v_counts
        from unnest(p_classes) with ordinality c(id, ord)
        left join (
          select h.ord, count(*)::integer as taken
            from (select c.ord, c.lane, row_number() over (partition by c.lane order by x.rank, x.id) as place
                    from unnest(p_classes, p_class_lane, v_class_max, p_after_rank, p_after_id)
                         with ordinality c(id, lane, most, rank, after, ord)
                   cross join lateral (select j.rank, j.id from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                                          and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id
                                          limit least(v_take[c.lane], c.most)) x) h
           where h.place <= v_take[h.lane] group by h.ord) n on n.ord = c.ord;
    end if;

    if p_budget is not null then
      select b.ids, b.lanes, b.places into v_drawn, v_drawn_lane, v_place
        from sluice.claim_budgeted_v1(p_worker, v_now, p_budget, p_classes, p_class_lane, v_counts) b;
      v_counts := array(select case when c.id = any (v_planned) then 0 else c.n end
                          from unnest(p_classes, v_counts) with ordinality c(id, n, ord) order by c.ord);
    end if;

    -- Lock exactly what is taken; rows that others are taking are stepped over. A class that draws from budgets is taken only
    -- as planned, also by a worker that has not heard yet that it does. A job past its start deadline fails here instead of
    -- starting, and many others with it: the duty that expires jobs may not have run since the worker was lost or the outage began.
    loop
      select array_agg(x.id) filter (where not x.late), array_agg(c.lane) filter (where not x.late), array_agg(x.id) filter (where x.late)
        into v_ids, v_id_lane, v_late
        from unnest(p_classes, p_class_lane, p_after_rank, p_after_id, v_counts) c(id, lane, rank, after, n)
       cross join lateral (select j.id, coalesce(j.deadline_at <= clock_timestamp(), false) as late
                             from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                              and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id limit c.n
                              for update skip locked) x
       where c.n > 0 and not exists (select 1 from sluice.classes k where k.id = c.id and k.budgeted);
      exit when v_late is null;
      perform sluice.expire_v1(1000, v_late);
      v_hint_ready := true;
      exit when clock_timestamp() > v_now + interval '200 milliseconds';
    end loop;
    if v_drawn <> '{}' then
      v_ids := v_ids || v_drawn;
      v_id_lane := v_id_lane || v_drawn_lane;
    end if;
    if v_ids is not null then
      return query
      with taken as (
        delete from sluice.queue q where q.id = any (v_ids) returning q.*
      ), numbered as (
        -- What was drawn from budgets is written by then under the next number. Such claims are never forgotten.
        select t.*, t.attempt + case when t.ready_at < v_skip and not coalesce(v_place ? t.id::text, false) then 2 else 1 end as number from taken t
      ), started as (
        insert into sluice.running (id, worker_id, started_at, ready_at, deadline_at, parent_id, idx, class_id, attempt, failures, losses, keyed, error)
        select t.id, p_worker, v_now, t.ready_at, t.deadline_at, t.parent_id, t.idx, t.class_id, t.number, t.failures, t.losses, t.keyed, t.error
          from numbered t
      )
      select t.id, t.class_id, t.number, t.failures, t.rank, d.priority, d.submitted_at, d.key, d.tags, d.input,
             v_mark, d.policy, d.trace, v_place -> t.id::text
        from numbered t join sluice.job_data d on d.id = t.id;
      for v_row in select l.lane, count(*)::integer as n from unnest(v_id_lane) l(lane) group by l.lane loop
        v_run[v_row.lane] := v_run[v_row.lane] + v_row.n;
      end loop;
    end if;
  end if;
  if p_budget is not null and v_drawn is null then
    -- Nothing can be taken, but there is something to note.
    perform sluice.claim_budgeted_v1(p_worker, v_now, p_budget - 'starts', p_classes, p_class_lane, '{}');
  end if;

  for i in 1 .. cardinality(p_lanes) loop
    -- What it left to others it wants back once they are through.
    v_wants[i] := v_wants[i]
      or v_stood[i] and (select sum(r) from unnest(v_run) r) - (select sum(r) from unnest(p_run) r) < v_at_first;
    v_slots[i] := case
      when v_limit[i] is null then 0
      -- Another worker waits: idle slots go at once. Not while this one finds work: it may have been given less than it
      -- has slots for only because others were taking the same rows, and handing slots to and fro costs more than it gives.
      -- Never above what was held or granted under the lane's lock, whatever the worker says it runs.
      when v_asked[i] then
        least(v_slots[i], greatest(v_run[i], case when v_run[i] > p_run[i] then least(v_cap[i], v_slots[i]) - v_yield[i] else 0 end))
      else least(v_slots[i], greatest(v_run[i], least(v_cap[i], p_keep[i]))) end;
    if v_slots[i] < v_before[i] and v_asked[i] or v_wants[i] and not v_wanted[i]
       -- Others left slots to this one, more than it took.
       or v_wanted[i] and not v_wants[i] and v_asked[i] and v_spare[i] > v_slots[i] - v_before[i] then
      v_hint := true;
    end if;
  end loop;
  if v_slots <> v_before or v_wants <> v_wanted
     or exists (select 1 from unnest(v_wants, v_asked_at) n(wants, at) where n.wants and n.at < v_now - interval '1 second') then
    update sluice.holdings h
       set slots = n.slots, wants = n.wants, asked_at = case when n.wants then v_now end,
           asks = case when n.wants then array(select c.id from unnest(p_classes, p_class_lane) c(id, lane) where c.lane = n.ord) end
      from unnest(p_lanes, v_slots, v_wants) with ordinality n(lane, slots, wants, ord)
     where h.worker_id = p_worker and h.lane = n.lane
       and ((h.slots, h.wants) is distinct from (n.slots, n.wants) or n.wants and h.asked_at < v_now - interval '1 second');
  end if;
  if v_hint then
    -- Somebody waits for slots that were just given back, or this worker waits for slots that others hold idle.
    perform pg_notify('sluice', 'slots');
  end if;
  if v_hint_ready then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_locked <> '{}' then
    return query select null::bigint, 0, null::integer, null::smallint, null::integer, null::integer, null::timestamptz, null::text, v_locked,
                        null::jsonb, null::bigint, null::jsonb, null::text, null::jsonb;
  end if;
  if v_wait is not null and v_ended = v_sent then
    return query select * from sluice.left_v1(v_ahead, v_wait);
  end if;
  if v_ended <> v_sent then
    return query select null::bigint, null::integer, null::integer, null::smallint, null::integer, null::integer,
                        null::timestamptz, null::text, null::text[], null::jsonb, null::bigint, null::jsonb, null::text, null::jsonb;
  end if;
end $$;
