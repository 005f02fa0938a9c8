import { appendFile, readdir, readFile, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import {
  keepersOf,
  kill,
  nothingRuns,
  preparedFolder,
  query,
  serverStart,
  serversOf,
  temporaryFolder,
  User,
  until,
} from '../support/embedded.ts'

describe('an embedded database', () => {
  test('is created at the first opening and found again at the next', async () => {
    const folder = await temporaryFolder()
    const dataFolder = join(folder, 'not', 'there', '.sluice')

    const first = await openEmbedded({ dataFolder })
    await query(first.url, 'create table kept (n int); insert into kept values (7)')
    await first.release()
    const second = await openEmbedded({ dataFolder })

    expect(await query(second.url, 'select n from kept')).toEqual([{ n: 7 }])
    expect(second.url).toBe(first.url)
    expect(await readFile(join(dataFolder, '.gitignore'), 'utf8')).toBe('*\n')
    await second.release()
    await nothingRuns(folder)
  })

  test('keeps the tables of its user out of the schema of Sluice', async () => {
    const database = await openEmbedded({ dataFolder: await preparedFolder() })
    await query(database.url, 'create schema if not exists sluice')
    await query(database.url, 'create table photos (n int)')
    expect(
      await query(
        database.url,
        `select relnamespace::regnamespace::text as schema from pg_class where relname = 'photos'`,
      ),
    ).toEqual([{ schema: 'public' }])
    await database.release()
  })

  test('is durable, speaks UTF-8, sorts the same everywhere and listens on no network address', async () => {
    const database = await openEmbedded({ dataFolder: await preparedFolder() })

    const [row] = await query(
      database.url,
      `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
        current_setting('listen_addresses') as listen, current_setting('server_encoding') as encoding,
        current_setting('full_page_writes') as full_pages, current_setting('TimeZone') as zone,
        (select datlocprovider::text || ':' || datlocale from pg_database where datname = 'sluice') as locale,
        lower('ÄÖ') as lower, current_user as user`,
    )

    expect(row).toEqual({
      fsync: 'on',
      commit: 'on',
      listen: '',
      encoding: 'UTF8',
      full_pages: 'on',
      zone: 'UTC',
      locale: 'b:C.UTF-8',
      lower: 'äö',
      user: 'sluice',
    })
    await database.release()
  })

  test('applies settings given at the start of the server, except those that keep it private', async () => {
    const database = await openEmbedded({
      dataFolder: await preparedFolder(),
      settings: { wal_level: 'logical', max_connections: '37', listen_addresses: '*' },
    })

    const [row] = await query(
      database.url,
      `select current_setting('wal_level') as wal, current_setting('max_connections') as max,
        current_setting('listen_addresses') as listen`,
    )

    expect(row).toEqual({ wal: 'logical', max: '37', listen: '' })
    await database.release()
  })

  test('works in a folder whose path is longer than a socket path may be', async () => {
    const folder = await temporaryFolder()
    const dataFolder = join(folder, 'long'.repeat(20), 'longer'.repeat(20), '.sluice')

    const database = await openEmbedded({ dataFolder })

    expect(await query(database.url, 'select 1 as one')).toEqual([{ one: 1 }])
    await database.release()
    await nothingRuns(folder)
    const sockets = new URL(database.url).searchParams.get('host')!
    expect(sockets).toMatch(/^\/tmp\/sluice-\d+-[0-9a-f]{16}$/)
    await rmdir(sockets)
  })

  test('works in a folder with blanks, quotes, commas and signs in its name', async () => {
    const folder = await temporaryFolder()
    const dataFolder = join(folder, `a b,"c'ü%41?d&e=#f\\`)

    const database = await openEmbedded({ dataFolder })

    expect(await query(database.url, 'select 1 as one')).toEqual([{ one: 1 }])
    await database.release()
    await nothingRuns(folder)
  })

  test('is not led elsewhere by PG* variables in the environment', async () => {
    const before = { ...process.env }
    Object.assign(process.env, {
      PGPORT: '1',
      PGHOST: '/nowhere',
      PGUSER: 'x',
      PGDATABASE: 'x',
      PGDATA: '/nowhere',
    })
    try {
      const database = await openEmbedded({ dataFolder: await preparedFolder() })
      expect(await query(database.url, 'select 1 as one')).toEqual([{ one: 1 }])
      await database.release()
    } finally {
      process.env = before
    }
  })

  test('keeps what is private from others', async () => {
    const dataFolder = await preparedFolder()
    const database = await openEmbedded({ dataFolder })

    const mode = async (name: string): Promise<number> => (await stat(join(dataFolder, name))).mode & 0o777

    expect(await mode('run')).toBe(0o700)
    expect(await mode('postgresql')).toBe(0o700)
    expect(await mode('postgresql.log')).toBe(0o600)
    await database.release()
  })
})

describe('a shared server', () => {
  test('is one server for processes that open at the same instant', async () => {
    const folder = await temporaryFolder()
    const users = [1, 2, 3, 4].map(() => new User(folder))

    const urls = await Promise.all(users.map((user) => user.opened()))
    const starts = await Promise.all(urls.map(serverStart))

    expect(new Set(starts).size).toBe(1)
    await until('the losers of the election are gone', async () => (await keepersOf(folder)).length === 1)
    expect(await serversOf(folder)).toHaveLength(1)
    await Promise.all(users.map((user) => user.leave()))
    await nothingRuns(folder)
  })

  test('outlives the process that started it and stops with the last one', async () => {
    const folder = await preparedFolder()
    const starter = new User(folder)
    const start = await serverStart(await starter.opened())
    const second = new User(folder)
    const url = await second.opened()

    await starter.leave()

    expect(await serverStart(url)).toBe(start)
    await second.leave()
    expect(await serversOf(folder)).toEqual([])
    await nothingRuns(folder)
    expect(await readFile(join(folder, 'postgresql.log'), 'utf8')).toContain('database system is shut down')
  })

  test('survives a coming and going of many without anybody finding it closed', async () => {
    const dataFolder = await preparedFolder()

    const visit = async (): Promise<void> => {
      for (let round = 0; round < 8; round++) {
        const database = await openEmbedded({ dataFolder })
        expect(await query(database.url, 'select 1 as one')).toEqual([{ one: 1 }])
        await database.release()
      }
    }
    await Promise.all([visit(), visit(), visit()])

    await nothingRuns(dataFolder)
  })

  test('has stopped when the release of the last user returns, however often that is called', async () => {
    const dataFolder = await preparedFolder()
    const database = await openEmbedded({ dataFolder })

    await Promise.all([database.release(), database.release()])
    await database.release()

    expect(await serversOf(dataFolder)).toEqual([])
  })

  test('stays for its users when a service manager signals all processes', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    const url = await user.opened()
    const start = await serverStart(url)

    for (const pid of await keepersOf(folder)) kill(pid, 'SIGTERM')

    expect(await serverStart(url)).toBe(start)
    await user.leave()
    await nothingRuns(folder)
  })

  test('does not keep a process alive that has nothing else to do', async () => {
    const folder = await preparedFolder()
    const user = new User(folder)
    await user.opened()

    user.process.stdin!.end()

    await user.exited
    await nothingRuns(folder)
  })
})

describe('a server that cannot start', () => {
  test('says why, with the end of its log, and leaves nothing running', async () => {
    const dataFolder = await preparedFolder()

    const opening = openEmbedded({ dataFolder, settings: { shared_buffers: 'plenty' } })

    await expect(opening).rejects.toMatchObject({ code: 'EMBEDDED_UNAVAILABLE' })
    await expect(opening).rejects.toThrow(/postgresql\.log ends with:/)
    await expect(opening).rejects.toThrow(/invalid value for parameter "shared_buffers": "plenty"/)
    await nothingRuns(dataFolder)
  })

  test('starts once the reason is gone', async () => {
    const dataFolder = await preparedFolder()
    await openEmbedded({ dataFolder, settings: { shared_buffers: 'plenty' } }).catch(() => {})

    const database = await openEmbedded({ dataFolder })

    expect(await query(database.url, 'select 1 as one')).toEqual([{ one: 1 }])
    await database.release()
  })

  test('refuses data of another major version and names both', async () => {
    const dataFolder = await preparedFolder()
    await writeFile(join(dataFolder, 'postgresql', 'PG_VERSION'), '12\n')
    onTestFinished(() => writeFile(join(dataFolder, 'postgresql', 'PG_VERSION'), '18\n'))

    const opening = openEmbedded({ dataFolder })

    await expect(opening).rejects.toThrow(/written by PostgreSQL 12, .* carries 18/)
    await nothingRuns(dataFolder)
  })

  test('names the folder when a file is where it should be', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'file'), '')

    const opening = openEmbedded({ dataFolder: join(folder, 'file', '.sluice') })

    await expect(opening).rejects.toMatchObject({ code: 'EMBEDDED_UNAVAILABLE' })
    await expect(opening).rejects.toThrow(/SLUICE_DATA/)
  })
})

test('the log is cut when it has grown too long', async () => {
  const dataFolder = await preparedFolder()
  await appendFile(join(dataFolder, 'postgresql.log'), 'an old line\n'.repeat(500_000))

  const database = await openEmbedded({ dataFolder })

  const size = async (name: string): Promise<number> => (await stat(join(dataFolder, name))).size
  expect(await size('postgresql.log')).toBeLessThan(100_000)
  expect(await size('postgresql.log.1')).toBe(1024 * 1024)
  await database.release()
  expect(await readdir(join(dataFolder, 'run'))).toEqual([])
})
