import { existsSync } from 'node:fs'
import { afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Queryable } from '../../src/db/database.ts'
import { checkConnections } from '../../src/engine/diagnosis/connections.ts'
import type { Finding } from '../../src/engine/diagnosis/finding.ts'
import { checkServer } from '../../src/engine/diagnosis/server.ts'
import { checkTables } from '../../src/engine/diagnosis/tables.ts'
import { checkTransactions } from '../../src/engine/diagnosis/transactions.ts'
import { useDatabase } from '../support/database.ts'
import { PGBOUNCER, startPgbouncer } from '../support/pgbouncer.ts'
import { ALL_JOB_TABLES } from '../support/state/jobs.ts'
import { plantOnce } from '../support/state/planting.ts'
import { Cli } from './cli.ts'

const database = useDatabase({ asMigrated: true })
const cli = new Cli({ DATABASE_URL: database.url })

interface Report {
  readonly healthy: boolean
  readonly findings: readonly Finding[]
}

beforeAll(async () => {
  await cli.write(
    'sluice.yaml',
    'lanes: { interactive: { slots: 2, poll: 2s } }\ntasks: { idle: { lane: interactive, exec: [/bin/true] } }\n',
  )
})

/** What a test does to the system it undoes, however it ends. */
const undo: string[] = []
afterEach(async () => {
  for (const text of undo.splice(0).reverse()) await database.sql(text)
})

async function examine(): Promise<Report & { code: number | null }> {
  const { code, stdout } = await cli.run(['doctor', '--json'])
  return { ...(JSON.parse(stdout) as Report), code }
}

/** What is not as it should be. */
async function complaints(): Promise<readonly Finding[]> {
  return (await examine()).findings.filter(({ level }) => level !== 'ok')
}

describe('a healthy system', () => {
  test('gets an ok for every check, and exit code 0', async () => {
    const { code, stdout } = await cli.run(['doctor'])
    expect(stdout.split('\n').filter((line) => !line.startsWith('ok  '))).toEqual([
      expect.stringMatching(/^0 problems, 0 warnings, 0 notes in \d+ findings$/),
      '',
    ])
    expect(code).toBe(0)
    for (const check of [
      'fsync',
      'full_page_writes',
      'synchronous_commit',
      'isolation',
      'writable',
      'schema',
      'schema drift',
      'table job_data',
      'table queue',
      'table claims',
      'table outcomes',
      'attention',
      'lanes',
      'workers',
      'holdings',
      'queues',
      'schedules',
      'owners',
      'connections',
      'oldest transaction',
      'hints',
    ])
      expect(stdout).toContain(`ok       ${check}: `)
  })

  test('with --quiet only the count is left', async () => {
    expect((await cli.run(['doctor', '--quiet'])).stdout).toMatch(/^0 problems.*\n$/)
  })
})

describe('the server', () => {
  test('settings of the database that break promises are problems, each with what to do', async () => {
    const change = (what: string) => database.sql(`alter database ${database.name} ${what}`)
    await change(`set default_transaction_isolation = 'serializable'`)
    await change('set synchronous_commit = off')
    await change('set default_transaction_read_only = on')
    undo.push(`alter database ${database.name} reset all`)
    const { code, findings } = await examine()
    expect(code).toBe(1)
    expect(findings).toContainEqual({
      check: 'synchronous_commit',
      level: 'warning',
      found: expect.stringContaining('off: '),
      advice: expect.stringContaining('synchronous_commit = on'),
    })
    expect(findings.filter(({ level }) => level === 'problem')).toEqual([
      {
        check: 'isolation',
        level: 'problem',
        found: 'default_transaction_isolation is serializable',
        advice: expect.stringContaining('read committed'),
      },
      {
        check: 'writable',
        level: 'problem',
        found: 'default_transaction_read_only is on',
        advice: expect.stringContaining('= off'),
      },
    ])
  })

  test('settings that no test can change on a running server are judged as well', async () => {
    const state = {
      versionNumber: 140_000,
      version: '14.2',
      fsync: 'off',
      fullPageWrites: 'off',
      synchronousCommit: 'on',
      isolation: 'read committed',
      readOnly: false,
      standby: true,
      autovacuum: false,
      maxConnections: 100,
      connections: 90,
      now: new Date(90_000),
    }
    const db = answering([state])
    const found = await checkServer({ db, now: 0 })
    expect(
      found.filter(({ level }) => level !== 'ok').map(({ check, level }) => `${level} ${check}`),
    ).toEqual([
      'problem server',
      'problem fsync',
      'problem full_page_writes',
      'problem writable',
      'problem autovacuum',
      'note clock',
    ])
    expect(await checkConnections({ db })).toEqual([
      expect.objectContaining({
        check: 'connections',
        level: 'warning',
        found: expect.stringContaining('90 of 100 in use: only one more'),
      }),
    ])
  })

  test('reports an old open transaction and dead rows with their cause', async () => {
    const transaction = {
      ageMs: 600_000,
      id: '4711',
      kind: 'session',
      application: 'report',
      user: 'ann',
      state: 'idle in transaction',
    }
    expect(await checkTransactions({ db: answering([transaction]) })).toEqual([
      {
        check: 'oldest transaction',
        level: 'warning',
        found:
          'open for 10m: process 4711 (report, ann, idle in transaction); rows that died since then cannot be removed',
        advice: 'end it where it was started, or run: select pg_terminate_backend(4711)',
      },
    ])
    const tables = [
      {
        name: 'queue',
        live: 10,
        dead: 250_000,
        bytes: 1e9,
        indexBytes: 1e9,
        autovacuum: true,
        vacuumedMsAgo: 7_200_000,
      },
      {
        name: 'logs',
        live: 10,
        dead: 0,
        bytes: 1e6,
        indexBytes: 1e6,
        autovacuum: false,
        vacuumedMsAgo: null,
      },
    ]
    const indexes = [{ name: 'queue_ready', valid: true, bytes: 500_000_000, entries: 10 }]
    const found = await checkTables({ db: answering(tables, indexes) })
    expect(found.map(({ check, level, found: text }) => [check, level, text])).toEqual([
      ['table queue', 'warning', '250000 dead rows beside 10 live ones; vacuumed 2h ago'],
      ['table logs', 'problem', 'autovacuum is switched off for it'],
      ['index queue_ready', 'warning', '500.0 MB for about 10 entries'],
    ])
  })
})

test.runIf(existsSync(PGBOUNCER))(
  'hints that a pooler in transaction mode swallows are a warning',
  async () => {
    const pooler = await startPgbouncer(inject('serverUrl'))
    try {
      const { code, stdout } = await cli.run(['doctor', '--quiet', '--json'], {
        environment: { DATABASE_URL: pooler.through(database.url) },
      })
      const { findings } = JSON.parse(stdout) as Report
      expect(findings.filter(({ level }) => level !== 'ok')).toEqual([
        {
          check: 'hints',
          level: 'warning',
          found: 'do not arrive; DATABASE_URL probably names a pooler in transaction mode',
          advice: expect.stringContaining('connect workers directly to the server'),
        },
      ])
      expect(code).toBe(0)
    } finally {
      await pooler.stop()
    }
  },
)

describe('the schema', () => {
  test('a dropped index, a changed function, a missing column, another constraint and a stranger are found', async () => {
    const [definition] = await database.sql<{ text: string }>(
      `select pg_get_functiondef('sluice.rank_v1'::regproc) as text`,
    )
    await database.sql('drop index sluice.queue_ready')
    await database.sql('alter table sluice.composites drop column held')
    await database.sql('alter table sluice.attempts drop constraint attempts_ending_check')
    await database.sql(`create or replace function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamptz)
      returns integer language sql immutable return 0`)
    await database.sql('create table sluice.mine (id integer)')
    undo.push(
      definition!.text,
      `alter table sluice.attempts add constraint attempts_ending_check check (ending in ('failed', 'lost', 'snoozed', 'returned', 'rerun', 'out_of_memory'))`,
      'alter table sluice.composites add column held boolean not null default false',
      `create index queue_ready on sluice.queue (class_id, rank, id) where state = 'ready'`,
      'drop table sluice.mine',
    )
    const found = (await complaints()).filter(({ check }) => check === 'schema drift')
    expect(found.map(({ level, found: text }) => `${level}: ${text}`).sort()).toEqual([
      'note: table sluice.mine does not belong to Sluice',
      'problem: function sluice.rank_v1(...) differs from what the migrations created',
      'problem: index sluice.queue_ready is missing',
      'problem: table sluice.attempts differs from what the migrations created',
      'problem: table sluice.composites differs from what the migrations created',
    ])
  })

  test('reports an older or missing schema, and checks nothing that needs it', async () => {
    const [newest] = await database.sql<{ version: number; name: string; compatible_since: number }>(
      'delete from sluice.migrations where version = (select max(version) from sluice.migrations) returning *',
    )
    undo.push(
      `insert into sluice.migrations (version, name, compatible_since) values (${newest!.version}, '${newest!.name}', ${newest!.compatible_since})`,
    )
    const found = await complaints()
    expect(found).toEqual([
      {
        check: 'schema',
        level: 'problem',
        found: `at version ${newest!.version - 1}, but this program needs ${newest!.version}`,
        advice: 'sluice migrate upgrades it',
      },
    ])
  })

  test('a newer schema that supports this program has not drifted, and everything else is examined', async () => {
    const { newest, later } = await upgrade({ compatibleSince: 1 })
    undo.push('drop table sluice.newer', 'drop function sluice.newer_v2')
    await database.sql('create table sluice.newer (id integer)')
    await database.sql('create function sluice.newer_v2() returns integer language sql return 1')
    const { code, findings } = await examine()
    expect(code).toBe(0)
    expect(findings.filter(({ check, level }) => check.startsWith('schema') || level === 'problem')).toEqual([
      {
        check: 'schema',
        level: 'note',
        found: `at version ${later}, newer than this program's ${newest}, and supports it; drift was not checked`,
        advice: 'upgrade this program when you can, or run sluice doctor of the newer release',
      },
    ])
    expect(findings.map(({ check }) => check)).toContain('queues')
  })

  test('a newer schema that no longer supports this program is a problem, and nothing else of it is examined', async () => {
    const { newest, later } = await upgrade({ compatibleSince: 9999 })
    expect(await complaints()).toEqual([
      {
        check: 'schema',
        level: 'problem',
        found: `at version ${later}, which supports programs from version 9999 on; this program has version ${newest}`,
        advice: 'upgrade this program',
      },
    ])
  })

  /** Makes the schema look like that of a later release until the end of the test. */
  async function upgrade({ compatibleSince }: { compatibleSince: number }) {
    const [{ newest }] = (await database.sql<{ newest: number }>(
      'select max(version) as newest from sluice.migrations',
    )) as [{ newest: number }]
    undo.push(`delete from sluice.migrations where version = ${newest + 1}`)
    await database.sql(
      `insert into sluice.migrations (version, name, compatible_since) values ($1, 'later', $2)`,
      [newest + 1, compatibleSince],
    )
    return { newest, later: newest + 1 }
  }
})

describe('schedules', () => {
  test('reports schedules that no process fires, that would be rejected, and that an operator changed', async () => {
    undo.push('delete from sluice.schedules where true')
    await cli.run(['submit', 'idle'])
    await cli.run(['schedules', 'create', 'late', '--task', 'idle', '--cron', '@hourly'])
    await cli.run(['schedules', 'create', 'lost', '--task', 'idle', '--cron', '@hourly'])
    await database.sql(`update sluice.schedules set next_at = now() - interval '1 hour' where name = 'late'`)
    await database.sql(`update sluice.schedules set task = 'gone', declared = '{}' where name = 'lost'`)
    undo.push(`truncate ${ALL_JOB_TABLES} cascade`)
    expect((await complaints()).filter(({ check }) => check.startsWith('schedule'))).toEqual([
      {
        check: 'schedule late',
        level: 'problem',
        found: expect.stringMatching(/^is overdue by 1h\S* because no process fires it$/),
        advice: expect.stringContaining('Start a worker'),
      },
      {
        check: 'schedule lost',
        level: 'warning',
        found: 'runs task gone, which no program has registered',
        advice: expect.any(String),
      },
      {
        check: 'schedule lost',
        level: 'note',
        found: expect.stringMatching(/^cron, task set by an operator/),
        advice: 'sluice schedules reset lost restores what they declare',
      },
    ])
  })
})

describe('lanes, workers and queues', () => {
  test('reports differences from the config and who made them', async () => {
    await cli.run(['lanes', 'set', 'interactive', '--slots', '9'])
    await database.sql(`update sluice.lanes set poll_ms = 50 where name = 'interactive'`)
    await cli.run(['pause', 'system'])
    undo.push(
      `update sluice.lanes set slots = 2, poll_ms = 2000, operator_set = '{}' where name = 'interactive'`,
      `update sluice.lanes set enabled = true, operator_set = '{}' where name = 'system'`,
    )
    const found = await complaints()
    expect(found.filter(({ check }) => check.startsWith('lane '))).toEqual([
      {
        check: 'lane system',
        level: 'note',
        found: expect.stringMatching(/^paused by .+: starts no jobs$/),
        advice: 'sluice resume system resumes it',
      },
      {
        check: 'lane interactive',
        level: 'note',
        found: expect.stringMatching(
          /^slots is 9, set by an operator \(last change .+ by .+\); the config says 2$/,
        ),
        advice: 'sluice lanes reset interactive restores the value of the config',
      },
      {
        check: 'lane interactive',
        level: 'note',
        found: 'poll is 50ms; the config says 2s',
        advice: 'the config is applied when a worker or program with it starts',
      },
    ])
  })

  test('reports budgets that differ from the config, and whether an operator or another program changed them', async () => {
    await cli.write(
      'budgets.yaml',
      'budgets: { seats: 3, vram: { gpu0: 24GB, safety: 1GB, maxWait: 5m }, later: 1 }\n',
    )
    const declared = {
      seats: { kind: 'shared', capacity: 3 },
      vram: { kind: 'device', devices: { gpu0: 24 * 1024 ** 3 }, bytes: true, safety: 1024 ** 3 },
    }
    for (const [name, given] of Object.entries(declared))
      await database.sql('select sluice.change_budget_v1($1, $2, $3, false)', [
        name,
        JSON.stringify(given),
        'test',
      ])
    undo.push('delete from sluice.budgets')
    await database.sql(
      `insert into sluice.devices (budget, key, host, name, total) values ('vram', 'box/gpu0', 'box', 'gpu0', $1)`,
      [24 * 1024 ** 3],
    )
    await database.sql(
      `with w as (insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, labels, pooled, started_at)
                  values ('blind', 'box', 1, '0', 1, 1, '{deals}', '{}', '{}', now() - interval '1 minute')),
            t as (insert into sluice.tasks (name, lane, class_id, uses)
                  select 'deals', 'default', sluice.intern_class_v1('deals', 'default', null, '{}', true), '{"cards": {"devices": 1, "each": 1}}'),
            b as (insert into sluice.budgets (name, kind, auto) values ('cards', 'device', true) returning name)
       insert into sluice.devices (budget, key, host, name) select b.name, 'GPU-a', 'box', 'A100' from b`,
    )
    undo.push(
      `delete from sluice.workers where name = 'blind'`,
      `delete from sluice.tasks where name = 'deals'`,
    )
    await cli.run(['budgets', 'set', 'seats', '--capacity', '5'])
    await cli.run(['budgets', 'set', 'vram', '--limit', 'gpu0=20GB'])
    const { stdout } = await cli.run(['doctor', '--json', '--config', 'budgets.yaml'])
    const { findings } = JSON.parse(stdout) as Report
    expect(findings.filter(({ check }) => check.startsWith('device '))).toEqual([
      {
        check: 'device box/gpu0',
        level: 'note',
        found: "an operator's limit holds vram at 20GB of 24GB; the config does not set one",
        advice: 'sluice budgets set vram --limit box/gpu0=none removes it; sluice audit shows who set it',
      },
    ])
    expect(findings.filter(({ check }) => check.startsWith('budget '))).toEqual([
      {
        check: 'budget seats',
        level: 'note',
        found: expect.stringMatching(
          /^capacity is 5, set by an operator \(last change .+ by .+\); the config says 3$/,
        ),
        advice: 'sluice budgets reset seats restores the value of the config',
      },
      {
        check: 'budget vram',
        level: 'note',
        found: 'maxWait is 3m; the config says 5m',
        advice: 'the config is applied when a worker or program with it starts',
      },
      {
        check: 'budget later',
        level: 'note',
        found: 'is in the config but not in the database',
        advice: 'it is created when a worker or program with this config starts',
      },
      {
        check: 'budget cards',
        level: 'warning',
        found:
          'a worker on box detects no GPUs, though the machine had GPU-a: it gets no jobs that use cards',
        advice: expect.stringContaining('check whether nvidia-smi works there'),
      },
    ])
  })

  test('reports a stale time that the heartbeat does not allow, with the command that fixes it', async () => {
    await database.sql(`update sluice.settings set value = 8000 where name = 'heartbeat_ms'`)
    undo.push(
      `update sluice.lanes set stale_ms = 15000, operator_set = '{}' where name = 'system'`,
      `update sluice.settings set value = 5000 where name = 'heartbeat_ms'`,
    )
    const found = (await complaints()).filter(({ check }) => check === 'lane system')
    expect(found).toEqual([
      {
        check: 'lane system',
        level: 'problem',
        advice: 'sluice lanes set system --stale 24s',
        found: 'stale is 15s, not more than twice the heartbeat of 8s: no program can start',
      },
    ])
    expect((await cli.run(['lanes', 'set', 'system', '--stale', '24s'])).code).toBe(0)
  })

  test('reports a silent worker, a job without a worker, and waiting jobs', async () => {
    await database.sql(
      `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, seen_at)
       values ('ghost', 'h', 1, '0', 1, 1, '{}', clock_timestamp() - interval '2 minutes')`,
    )
    await cli.json('submit', 'idle')
    const { id: stray } = await cli.json<{ id: string }>('submit', 'idle')
    await plantOnce(
      database,
      `update sluice.jobs set state = 'running', started_at = clock_timestamp(), worker_id = (select max(id) from sluice.workers) where id = $1`,
      [stray],
    )
    undo.push(`delete from sluice.workers where name = 'ghost'`, `truncate ${ALL_JOB_TABLES} cascade`)
    // On a slow machine the database is half a minute old by now, and nobody has taken over the job: that is true, too.
    const found = (await complaints()).filter(({ check }) => check !== 'duty recover')
    expect(found).toEqual([
      {
        check: 'no worker',
        level: 'warning',
        found: 'is alive, and 1 job is ready to start',
        advice: 'Start a worker with: sluice worker. Tasks in code need the program that has them',
      },
      {
        check: 'worker ghost',
        level: 'warning',
        found: expect.stringMatching(/^has sent no heartbeat for 2m(\d+s)?; it ran 1 job$/),
        advice: expect.stringContaining('Start a worker'),
      },
      {
        check: 'holdings',
        level: 'problem',
        found: '1 jobs in lane interactive run without a worker',
        advice: expect.stringContaining('DRIFT'),
      },
      {
        check: 'task idle',
        level: 'note',
        found: expect.stringMatching(
          /^1 waiting in lane interactive, the oldest for .+: no worker runs task idle$/,
        ),
        advice: 'start a worker with task idle',
      },
    ])
  })

  test('a config that cannot be read is a finding beside the others', async () => {
    await cli.write('broken.yaml', 'lanes: { a: { slot: 1 } }\n')
    const { code, stdout } = await cli.run(['doctor', '--quiet', '--config', 'broken.yaml'])
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /^problem +config: .*broken\.yaml:1:15: lanes\.a\.slot: unknown key; did you mean slots\?\n +-> sluice check/m,
    )
  })
})

/** Gives these rows to the first statement, the next to the second, and so on; the last ones again and again. */
function answering(...answers: object[][]): Queryable {
  let asked = 0
  return { run: async () => answers[Math.min(asked++, answers.length - 1)] as never }
}
