import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { CATALOGUE } from '../../src/cli/catalogue.ts'
import { VERSION } from '../../src/version.ts'
import { useDatabase } from '../support/database.ts'
import { Cli, MAIN } from './cli.ts'

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url })

describe('help', () => {
  test('lists every command with its summary', async () => {
    const { code, stdout, stderr } = await cli.run(['--help'])
    expect([code, stderr]).toEqual([0, ''])
    for (const { name, summary } of CATALOGUE)
      expect(stdout).toMatch(new RegExp(`^  ${name} +${summary}$`, 'm'))
  })

  test('of a command tells its arguments and options', async () => {
    const { code, stdout } = await cli.run(['lanes', 'set', '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain('Usage: sluice lanes set [options] <name>')
    expect(stdout).toMatch(/--slots <number\|none> +jobs at once in the whole system/)
  })

  test.each(CATALOGUE.flatMap(({ name, aliases = [] }) => aliases.map((alias) => [alias, name] as const)))(
    'of the alias %s is that of %s, and the list of commands shows the name only',
    async (alias, name) => {
      const own = await cli.run([name, '--help'])
      expect(own.stdout).toContain(`Usage: sluice ${name} `)
      expect(await cli.run([alias, '--help'])).toEqual(own)
      expect(await cli.run(['help', alias])).toEqual(own)
      expect((await cli.run(['--help'])).stdout).not.toMatch(new RegExp(`^  ${alias} `, 'm'))
    },
  )

  test('of schedules create is its own', async () => {
    const { code, stdout } = await cli.run(['schedules', 'create', '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain('Usage: sluice schedules create [options] <name>')
  })

  test('is what a call without a command gets, on stderr and with exit code 2', async () => {
    const { code, stdout, stderr } = await cli.run([])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain('Usage: sluice [options] [command]')
  })

  test('the version is that of the package', async () => {
    expect(await cli.run(['--version'])).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: '' })
  })
})

describe.concurrent('a wrong command line', () => {
  test.each([
    [['sbumit'], 'unknown command "sbumit"', 'did you mean sluice submit? sluice --help lists the commands'],
    [['cancle'], 'unknown command "cancle"', 'did you mean sluice cancel?'],
    [['kil'], 'unknown command "kil"', 'did you mean sluice cancel?'],
    [['jobs'], 'unknown command "jobs"', 'did you mean sluice ps?'],
    [
      ['schedules', 'crate', 'x', '--task', 'a'],
      'sluice schedules has no subcommand "crate"',
      'did you mean create?',
    ],
    [['schedules', 'crate', '--help'], 'sluice schedules has no subcommand "crate"', 'did you mean create?'],
    [['xyzzy'], 'unknown command "xyzzy"', 'sluice --help lists the commands'],
    [['ps', '--al'], "unknown option '--al'", 'did you mean --all? sluice ps --help says what is possible'],
    [['show'], "missing required argument 'job'", 'sluice show --help says what is possible'],
    [['show', '1', '2'], "too many arguments for 'show'. Expected 1 argument but got 2.", 'sluice show'],
    [['show', 'seven'], '"seven" is not a job id. A job id is a whole number, such as 42', undefined],
    [['ps', '--status', 'done'], 'Choose from awaiting_approval, queued, running', 'sluice ps'],
    [['ps', '--limit', '0'], 'Write a whole number of at least 1.', 'sluice ps'],
    [['priority', '1', 'high'], 'Write a whole number.', 'sluice priority'],
    [['priority', '1', '1000001'], 'priority: 1000001 must be a whole number from', undefined],
    [['lanes', 'set', 'system'], 'nothing to set: give --slots', undefined],
    [
      ['lanes', 'set', 'system', '--slots', '-1'],
      'Write a whole number of at least 0',
      'sluice lanes set --help',
    ],
    [
      ['admission', '--max-scheduled', '3000000000'],
      'Write a whole number from 1 to 2147483647, or none',
      'sluice admission',
    ],
    [
      ['schedules', 'pause', 'tick'],
      'sluice schedules has no subcommand "pause"',
      'there are list, create, set, show, enable, disable',
    ],
    [['lanes', 'rest', 'x'], 'sluice lanes has no subcommand "rest"', 'did you mean reset?'],
    [['lanes', 'set', 'system', '--stale', '10s'], 'must be greater than twice the heartbeat', undefined],
    [['submit', 'a', '--input', '{a:1}'], '--input is not JSON', '@FILE reads a file'],
    [['submit', 'a', '--input', '@none.json'], 'no such file', undefined],
    [['submit', 'a', '--run-at', 'tomorrow'], 'Write a time, such as', 'sluice submit'],
    [['submit', 'a', '--deadline', '5'], 'Write a duration', 'sluice submit'],
    [['reject', '1'], "required option '--comment <text>' not specified", 'sluice reject'],
    [['tour', '--speed', '0'], 'Write a number above 0', 'sluice tour'],
    [['worker', '--capacity', '-1'], 'Write a whole number of at least 0', 'sluice worker'],
  ])('sluice %j is refused with exit code 2 and says what is right', async (args, message, hint) => {
    const { code, stdout, stderr } = await cli.run(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(message)
    expect(stderr).toContain('code:  INVALID_ARGUMENT')
    if (hint !== undefined) expect(stderr).toMatch(new RegExp(`^hint:  .*${literal(hint)}`, 'm'))
  })

  test('with --json the error is one JSON object on stderr', async () => {
    const { code, stdout, stderr } = await cli.run(['ps', '--al', '--json'])
    expect([code, stdout]).toEqual([2, ''])
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: 'INVALID_ARGUMENT',
        message: "unknown option '--al'",
        hint: 'did you mean --all? sluice ps --help says what is possible',
        details: {},
      },
    })
  })
})

describe('a wrong config', () => {
  test('is refused with exit code 2, with every problem and its place', async () => {
    await cli.write('bad.yaml', 'lanes:\n  a: { slot: 1 }\n  b: { poll: never }\n')
    const { code, stderr } = await cli.run(['check', 'bad.yaml'])
    expect(code).toBe(2)
    expect(stderr).toContain('bad.yaml:2:8: lanes.a.slot: unknown key; did you mean slots?')
    expect(stderr).toContain('bad.yaml:3:14: lanes.b.poll: found "never"')
    expect(stderr).toContain('code:  INVALID_CONFIG')
  })

  test('check says what a right one has, without a database', async () => {
    await cli.write('good.yaml', 'lanes: { fast: { slots: 3, tasks: [a] } }\ntasks: { a: { exec: [./a] } }\n')
    const nowhere = { environment: { DATABASE_URL: 'postgres://127.0.0.1:1/none' } }
    const text = await cli.run(['check', 'good.yaml'], nowhere)
    expect(text.code).toBe(0)
    expect(text.stdout).toMatch(/good\.yaml is fine: 1 task in 5 lanes\n[\s\S]*\nfast +3 +none +a\n/)
    const json = await cli.run(['check', '--config', 'good.yaml', '--json'], nowhere)
    expect(JSON.parse(json.stdout)).toMatchObject({
      valid: true,
      tasks: [{ name: 'a', lane: 'fast', execution: 'exec' }],
    })
  })

  test.each([
    ['process.exit(0)', 0],
    ['setImmediate(() => process.exit(0))\nawait new Promise(() => {})', 0],
    ['process.exit(7)', 7],
  ])('that ends the process (%s) is named, and does not look fine', async (source, own) => {
    await cli.write('exits.config.mjs', `${source}\nexport default {}`)
    const { code, stdout, stderr } = await cli.run(['check', 'exits.config.mjs'], { ownProcess: true })
    expect([code, stdout]).toEqual([own === 0 ? 2 : own, ''])
    expect(stderr).toBe(
      `error: exits.config.mjs: ended the process with code ${own} while it was running, which a config must not do\ncode:  INVALID_CONFIG\n`,
    )
  })

  test('does not keep anybody from looking after jobs', async () => {
    expect((await cli.run(['ps', '--config', 'bad.yaml'])).code).toBe(0)
  })
})

test('check warns of programs that a worker on this machine could not start', async () => {
  await cli.write('plain.txt', 'no program')
  const exec = ['/bin/true', 'true', './missing.sh', './plain.txt', '.', '/', 'no-such-program-anywhere']
  const tasks = exec.map((program, n) => `  t${n}: { exec: ['${program}'] }`).join('\n')
  await cli.write('programs.yaml', `tasks:\n${tasks}\n`)
  const { code, stdout, stderr } = await cli.run(['check', 'programs.yaml'])
  expect([code, stdout]).toEqual([0, expect.stringContaining('programs.yaml is fine: 7 tasks')])
  const warnings = [
    ['t2', `${cli.folder}/missing.sh does not exist`],
    ['t3', `${cli.folder}/plain.txt is not executable for this user`],
    ['t4', '. is in no folder of PATH'],
    ['t5', '/ is not a file'],
    ['t6', 'no-such-program-anywhere is in no folder of PATH'],
  ] as const
  expect(stderr.trimEnd().split('\n')).toEqual(
    warnings.map(([task, why]) => `warning: task ${task}: ${why}; a worker here could not start it`),
  )
  const told = await cli.json<{ warnings: { task: string }[] }>('check', 'programs.yaml')
  expect(told.warnings.map(({ task }) => task)).toEqual(warnings.map(([task]) => task))
})

describe('a database that cannot be used', () => {
  test('an address that is none is refused with what one looks like, and without the secrets in it', async () => {
    const { code, stderr } = await cli.run(['ps'], { environment: { DATABASE_URL: 'ann:secret@host' } })
    expect(code).toBe(2)
    expect(stderr).toContain('must look like postgres://user:password@host:5432/name')
    expect(stderr).not.toContain('secret')
  })

  test.each([
    ['postgres://127.0.0.1:1/none', 'cannot connect to PostgreSQL', 'DATABASE_UNAVAILABLE'],
    [database.url.replace(database.name, 'no_such_database'), 'does not exist', 'DATABASE_UNAVAILABLE'],
  ])('%s: exit code 3', async (url, message, error) => {
    const { code, stdout, stderr } = await cli.run(['ps'], { environment: { DATABASE_URL: url } })
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toContain(message)
    expect(stderr).toContain(`code:  ${error}`)
  })

  test('a newer schema: exit code 3 if it no longer supports this program, and nothing is changed', async () => {
    const insert = 'insert into sluice.migrations (version, name, compatible_since) values (9999, $1, $2)'
    await database.sql(insert, ['9999_future.sql', 1])
    const supported = await cli.run(['migrate'])
    await database.sql('update sluice.migrations set compatible_since = 9999 where version = 9999')
    const { code, stderr } = await cli.run(['lanes'])
    await database.sql('delete from sluice.migrations where version = 9999')
    expect([supported.code, supported.stdout]).toEqual([
      0,
      expect.stringMatching(
        /^the schema is at version 9999, newer than this program's \d+, and supports it: left unchanged\n$/,
      ),
    ])
    expect(code).toBe(3)
    expect(stderr).toContain('the schema is at version 9999')
    expect(stderr).toContain('code:  DATABASE_UNSUITABLE')
  })
})

describe('migrate', () => {
  test('creates the schema, tells what it would do with --dry-run, and has nothing to do the second time', async () => {
    const name = `${database.name}_bare`
    const environment = { DATABASE_URL: database.url.replace(database.name, name) }
    await database.sql(`create database ${name} template template0`)
    const before = await cli.run(['ps'], { environment })
    expect([before.code, before.stderr]).toEqual([3, expect.stringContaining('run `sluice migrate`')])

    const dry = JSON.parse((await cli.run(['migrate', '--dry-run', '--json'], { environment })).stdout)
    expect(dry).toMatchObject({ before: 0, after: 0, dryRun: true })
    expect(dry.migrations[0]).toBe('0001_tables.sql')
    const done = await cli.run(['migrate'], { environment })
    expect(done.stdout).toContain(`applied 0001_tables.sql\n`)
    expect(done.stdout).toContain(`the schema is at version ${dry.available}\n`)
    const again = await cli.run(['migrate', '--json'], { environment })
    expect(JSON.parse(again.stdout)).toMatchObject({ before: dry.available, migrations: [] })
    await database.sql(`drop database ${name}`)
  })

  test('--dry-run names a missing function, and without it the function is restored', async () => {
    await database.sql('drop function sluice.cycle_v1')
    const before = await cli.run(['lanes'])
    const dry = await cli.run(['migrate', '--dry-run'])
    const done = await cli.run(['migrate'])
    expect([before.code, before.stderr]).toEqual([3, expect.stringContaining('dispatch/cycle_v1 is missing')])
    expect(dry.stdout).toMatch(/^would apply dispatch\/cycle_v1\nthe schema is at version /)
    expect(done.stdout).toMatch(/^applied dispatch\/cycle_v1\nthe schema is at version /)
    expect((await cli.run(['lanes'])).code).toBe(0)
  })
})

test('a reader that leaves early ends the command without a word', async () => {
  const running = cli.start(['ps', '--all'])
  running.process.stdout!.destroy()
  const code = await running.exited
  expect(running.stderr).toBe('')
  expect([0, 141]).toContain(code)
})

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

test.each([
  [
    ['ps'],
    { SLUICE_SERVER: '127.0.0.1:8080' },
    'SLUICE_SERVER: 127.0.0.1:8080 has no scheme; write http://127.0.0.1:8080',
  ],
  [
    ['ps', '--server', 'localhost:8080'],
    {},
    '--server: localhost:8080 has no scheme; write http://localhost:8080',
  ],
  [['ps'], { SLUICE_SERVER: 'ann:secret@host' }, 'SLUICE_SERVER: use an address such as https://'],
])('reports the source of an address without a scheme: %j %j', async (args, environment, expected) => {
  const { code, stderr } = await cli.run(args, { environment: { SLUICE_KEY: 'slk_x', ...environment } })
  expect([code, stderr]).toEqual([2, expect.stringContaining(expected)])
  expect(stderr).not.toContain('secret')
})

describe('a key without a server', () => {
  const key = { SLUICE_KEY: `slk_${'x'.repeat(43)}`, SLUICE_SERVER: undefined }

  test.each([[['ps']], [['submit', 'hello']], [['worker']]])(
    'is a server that was forgotten: sluice %s begins no database',
    async (args) => {
      const environment = { ...key, DATABASE_URL: '', SLUICE_DATA: `${cli.folder}/nothing-here` }
      const { code, stdout, stderr } = await cli.run(args, { environment })
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toMatch(/SLUICE_KEY is set and SLUICE_SERVER is not/)
      expect(existsSync(`${cli.folder}/nothing-here`)).toBe(false)
    },
  )

  test("is nobody's business where a database is named", async () => {
    expect((await cli.run(['ps'], { environment: key })).code).toBe(0)
  })
})

test('writes all of a long output to a pipe before it exits', async () => {
  const length = 4_000_000
  const [job] = await database.sql<{ id: string }>(
    `insert into sluice.jobs (task, state, finished_at, input)
     values ('large', 'completed', now(), to_jsonb(repeat('x', $1))) returning id`,
    [length],
  )
  const { code, stdout } = await cli.run(['show', job!.id, '--json'], { ownProcess: true })
  expect(code).toBe(0)
  expect((JSON.parse(stdout) as { input: string }).input).toHaveLength(length)
})

test('an older Node reports the required version before loading anything that it could not parse', () => {
  const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.4' } })`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(older)}`, MAIN, 'ps'],
    { encoding: 'utf8' },
  )
  expect([status, stdout]).toEqual([3, ''])
  expect(stderr).toMatch(
    /^error: Sluice needs Node 20\.19 or newer, and this is Node 18\.20\.4 \(.*\)\nhint: {2}install/,
  )
  expect(stderr).not.toContain('    at ')
  expect(readFileSync(MAIN, 'utf8')).not.toMatch(/^import /m)
})
