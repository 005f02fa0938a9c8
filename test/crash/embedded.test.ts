import { spawn } from 'node:child_process'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import {
  endAll,
  keepersOf,
  kill,
  nothingRuns,
  preparedFolder,
  processesOf,
  query,
  serverStart,
  serversOf,
  temporaryFolder,
  User,
  until,
} from '../support/embedded.ts'
import { someCases } from '../support/some-cases.ts'

async function answers(url: string): Promise<boolean> {
  return query(url, 'select 1').then(
    () => true,
    () => false,
  )
}

describe('users that are killed with -9', () => {
  test('do not keep the server alive when they were the only ones', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    await user.opened()

    await user.kill()

    await nothingRuns(folder)
    expect(await readFile(join(folder, 'postgresql.log'), 'utf8')).toContain('database system is shut down')
  })

  test('do not count as present: the survivor stops the server', async () => {
    const folder = await preparedFolder()
    const [starter, survivor] = [new User(folder), new User(folder)]
    const start = await serverStart(await starter.opened())
    const url = await survivor.opened()

    await starter.kill()

    expect(await serverStart(url)).toBe(start)
    await survivor.leave()
    await nothingRuns(folder)
  })

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'or ended by %s take the server with them, though the signal does not reach it',
    async (signal) => {
      const folder = await preparedFolder()
      const user = new User(folder)
      await user.opened()

      // To the whole process group, as a terminal does.
      process.kill(-user.pid, signal)

      await user.exited
      await nothingRuns(folder)
      const log = await readFile(join(folder, 'postgresql.log'), 'utf8')
      expect(log).toContain('database system is shut down')
      expect(log).not.toContain('interrupted')
    },
  )
})

describe('a server that is killed with -9', () => {
  test('comes back for its users under the same url, with everything that was committed', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    const url = await user.opened()
    await query(url, 'drop table if exists kept; create table kept (n int)')
    for (let n = 1; n <= 20; n++) await query(url, `insert into kept values (${n})`)
    const [server] = await serversOf(folder)

    kill(server!, 'SIGKILL')

    await until('the server is back', async () => {
      const servers = await serversOf(folder)
      return servers.length === 1 && servers[0] !== server && (await answers(url))
    })
    expect(await query(url, 'select count(*)::int as n, sum(n)::int as total from kept')).toEqual([
      { n: 20, total: 210 },
    ])
    await user.leave()
    await nothingRuns(folder)
  })

  test('comes back although a session of the old one is still busy', async () => {
    const folder = await preparedFolder()
    const database = await openEmbedded({ dataFolder: folder })
    const client = new pg.Client(database.url)
    client.on('error', () => {})
    await client.connect()
    // Never waits, so it does not notice that its server is gone until it has counted to the end.
    const busy = client.query(`select count(*) from generate_series(1, 3000000) as n where n % 7 = 3`)
    const [server] = await serversOf(folder)
    await until('the session is at work', async () => {
      const rows = await query(
        database.url,
        `select 1 from pg_stat_activity where query like '%generate_series%n \\% 7%' and pid <> pg_backend_pid()`,
      )
      return rows.length > 0
    })

    kill(server!, 'SIGKILL')

    await busy.catch(() => {})
    await until('the server is back', async () => {
      const servers = await serversOf(folder)
      return servers.length === 1 && servers[0] !== server && (await answers(database.url))
    })
    await database.release()
    await nothingRuns(folder)
  })
})

describe('a keeper that is killed with -9', () => {
  test('is replaced by one that takes over the running server', async () => {
    const folder = await preparedFolder()
    const [first, second] = [new User(folder), new User(folder)]
    const url = await first.opened()
    await second.opened()
    const start = await serverStart(url)
    const [keeper] = await keepersOf(folder)

    kill(keeper!, 'SIGKILL')

    await until('one other keeper is there', async () => {
      const keepers = await keepersOf(folder)
      return keepers.length === 1 && keepers[0] !== keeper
    })
    expect(await serverStart(url)).toBe(start)
    await first.leave()
    expect(await serverStart(url)).toBe(start)
    await second.leave()
    await nothingRuns(folder)
  })

  test('and all users with it leave a server that the next one takes over, and stops', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    const start = await serverStart(await user.opened())
    // Halted, so that it cannot answer the death of the keeper.
    kill(user.pid, 'SIGSTOP')
    for (const pid of await keepersOf(folder)) kill(pid, 'SIGKILL')
    await user.kill()
    await until('only the server is left', async () => (await processesOf(folder)).length === 1)

    const database = await openEmbedded({ dataFolder: folder })

    expect(await serverStart(database.url)).toBe(start)
    await database.release()
    await nothingRuns(folder)
  })
})

describe('when everything is killed with -9', () => {
  test('the next opening finds everything that was committed, with no help', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    const url = await user.opened()
    await query(url, 'drop table if exists kept; create table kept as select generate_series(1, 1000) as n')

    await endAll(folder)
    expect(await readdir(join(folder, 'postgresql'))).toContain('postmaster.pid')
    const database = await openEmbedded({ dataFolder: folder })

    expect(await query(database.url, 'select count(*)::int as n from kept')).toEqual([{ n: 1000 }])
    await database.release()
    expect(await readdir(join(folder, 'run'))).toEqual([])
  })

  test('another process that got the number of the old server is not taken for it', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    await user.opened()
    await endAll(folder)
    const { uid, gid } = await stat(join(folder, 'postgresql'))
    const innocent = spawn('sleep', ['60'], { ...(process.geteuid?.() === 0 ? { uid, gid } : {}) })
    onTestFinished(() => void innocent.kill())
    for (const file of ['postgresql/postmaster.pid', 'run/.s.PGSQL.5432.lock']) {
      const lines = (await readFile(join(folder, file), 'utf8')).split('\n')
      await writeFile(join(folder, file), [String(innocent.pid), ...lines.slice(1)].join('\n'))
    }

    const database = await openEmbedded({ dataFolder: folder })

    expect(await query(database.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(innocent.exitCode).toBeNull()
    await database.release()
  })
})

test('a keeper that is killed during the creation is replaced, though its initdb goes on for a while', async () => {
  const folder = await temporaryFolder()
  const user = new User(folder)
  const initdb = async (): Promise<boolean> =>
    (await processesOf(folder)).some((p) => /initdb/.test(p.command))
  for (let round = 0; round < 3; round++) {
    await until('initdb runs', initdb)
    const keepers = await keepersOf(folder)
    for (const pid of keepers) kill(pid, 'SIGKILL')
    await until('there is a new keeper', async () =>
      (await keepersOf(folder)).some((pid) => !keepers.includes(pid)),
    )
  }

  expect(await query(await user.opened(), 'select 1 as one')).toEqual([{ one: 1 }])
  await user.leave()
  await nothingRuns(folder)
})

describe('a first opening that is cut short', () => {
  const stages: readonly [string, (folder: string) => Promise<boolean>][] = [
    ['before the keeper is up', async () => true],
    ['when the keeper is up', async (folder) => (await keepersOf(folder)).length > 0],
    ['while initdb runs', async (folder) => has(folder, /initdb/)],
    ['while the database is created', async (folder) => has(folder, /--single/)],
    ['while the server starts', async (folder) => (await serversOf(folder)).length > 0],
  ]

  async function has(folder: string, command: RegExp): Promise<boolean> {
    return (await processesOf(folder)).some((p) => command.test(p.command))
  }

  /** Some stages last for less than a look at the processes takes: one that was passed unseen is waited for anew. */
  async function openUntil(
    reached: (folder: string) => Promise<boolean>,
  ): Promise<{ folder: string; user: User }> {
    for (;;) {
      const folder = await temporaryFolder()
      const user = new User(folder)
      let opened = false
      user.opened().then(
        () => {
          opened = true
        },
        () => {},
      )
      let seen = false
      await until('the stage is reached, or passed', async () => {
        seen = await reached(folder)
        return seen || opened
      })
      if (seen) return { folder, user }
      await user.leave()
    }
  }

  test.each(someCases(stages, 2))(
    'by Ctrl-C %s leaves no process, and the next one works',
    async (_stage, reached) => {
      const { folder, user } = await openUntil(reached)

      process.kill(-user.pid, 'SIGINT')

      await user.exited
      await nothingRuns(folder)
      await opensWell(folder)
    },
  )

  test.each(someCases(stages.slice(2), 2))(
    'by a loss of power %s is repaired by the next one',
    async (_stage, reached) => {
      const { folder, user } = await openUntil(reached)

      await user.kill()
      await endAll(folder)

      await opensWell(folder)
      expect((await readdir(folder)).filter((name) => name.includes('.new-'))).toEqual([])
    },
  )

  async function opensWell(folder: string): Promise<void> {
    const database = await openEmbedded({ dataFolder: folder })
    expect(await query(database.url, 'select current_database() as name')).toEqual([{ name: 'sluice' }])
    await database.release()
  }
})
