import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { withRetries } from '../../src/db/with-retries.ts'
import { createFirstKey } from '../../src/engine/access/keys.ts'
import { Cli, MAIN, type Running } from '../cli/cli.ts'
import { createDatabase } from '../support/database.ts'
import { refuseKeys } from '../support/state/keys.ts'
import { until } from '../support/until.ts'

const cli = new Cli({ SLUICE_PORT: '0' })
const started: Running[] = []
afterAll(async () => {
  for (const each of started) await each.end('SIGKILL')
})

function startServer(url: string, command = 'server'): Running {
  const running = cli.start([command], { environment: { DATABASE_URL: url } })
  started.push(running)
  return running
}

const keysOf = (running: Running) => [...running.stdout.matchAll(/^ *admin key: (slk_[A-Za-z0-9_-]{43})$/gm)]

test('however many ask at once, one gets the first key of a database', async () => {
  const database = await createDatabase()
  const dbs = Array.from(
    { length: 4 },
    (_, n) => new Database({ url: database.url, maxConnections: 3, applicationName: `first-${n}` }),
  )
  try {
    const asked = dbs.flatMap((db) => Array.from({ length: 5 }, () => createFirstKey(withRetries(db))))
    const got = (await Promise.all(asked)).filter((each) => each !== undefined)
    expect(got).toHaveLength(1)
    const rows = await database.sql<{ id: string; role: string }>('select id, role from sluice.api_keys')
    expect(rows).toEqual([{ id: got[0]!.id, role: 'platform_admin' }])
    await database.sql('update sluice.api_keys set revoked_at = now()')
    expect(
      await createFirstKey(withRetries(dbs[0]!)),
      'a database whose keys were revoked is not empty',
    ).toBeUndefined()
  } finally {
    await Promise.all(dbs.map((db) => db.close()))
    await database.drop()
  }
})

test('two servers that start together on an empty database print one key between them, and it works on both', {
  timeout: 120_000,
}, async () => {
  const database = await createDatabase({ empty: true })
  try {
    const both = [startServer(database.url), startServer(database.url)]
    await Promise.all(both.map((each) => each.says('listening on')))
    const keys = both.flatMap(keysOf)
    expect(keys).toHaveLength(1)
    const key = keys[0]![1]!
    for (const each of both) {
      const url = /listening on (http:\/\/[^;\s]+)/.exec(each.stdout)![1]!
      const answer = await fetch(`${url}/api/v1/session`, { headers: { authorization: `Bearer ${key}` } })
      expect(await answer.json()).toMatchObject({ name: 'admin', role: 'platform_admin' })
      expect(each.stderr).not.toContain(key)
    }
    for (const each of both) expect(await each.end('SIGTERM')).toBe(0)

    const again = startServer(database.url)
    await again.says('listening on')
    expect(keysOf(again)).toEqual([])
    expect(await again.end('SIGTERM')).toBe(0)
  } finally {
    await database.drop()
  }
})

test('the first key goes to a file that only its user can read, and expires when it should', {
  timeout: 120_000,
}, async () => {
  const database = await createDatabase({ empty: true })
  const file = join(cli.folder, 'first-key')
  const start = () => {
    const args = ['server', '--first-key-file', 'first-key', '--first-key-expires', '1h']
    const running = cli.start(args, { environment: { DATABASE_URL: database.url } })
    started.push(running)
    return running
  }
  try {
    writeFileSync(file, 'of somebody else')
    const refused = start()
    expect(await refused.exited).toBe(2)
    expect(refused.stderr).toContain('it exists already; remove it or name another file')
    expect(readFileSync(file, 'utf8')).toBe('of somebody else')
    expect(await database.sql('select id from sluice.api_keys'), 'no key is lost').toEqual([])

    await rm(file)
    const allowKeys = await refuseKeys(database.sql)
    expect(await start().exited).not.toBe(0)
    expect(existsSync(file), 'no empty file is left for the next start').toBe(false)
    await allowKeys()
    const first = start()
    await first.says('listening on')
    const key = readFileSync(file, 'utf8').trim()
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(first.stdout).toContain(`admin key: in ${file}`)
    expect(first.stdout + first.stderr).not.toContain('slk_')
    const url = /listening on (http:\/\/[^;\s]+)/.exec(first.stdout)![1]!
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(`${url}/api/v1/keys`, { headers })
    const { keys } = (await answer.json()) as { keys: { createdAt: string; expiresAt: string }[] }
    const livesMs = Date.parse(keys[0]!.expiresAt) - Date.parse(keys[0]!.createdAt)
    expect(Math.round(livesMs / 1000)).toBe(3600)
    expect(await first.end('SIGTERM')).toBe(0)

    const again = start()
    await again.says('listening on')
    expect(readFileSync(file, 'utf8').trim(), 'a start that makes no key leaves the file alone').toBe(key)
    expect(await again.end('SIGTERM')).toBe(0)
  } finally {
    await database.drop()
  }
})

test('up offers a sign-in on a terminal only, and the address works once', { timeout: 120_000 }, async () => {
  const database = await createDatabase({ empty: true })
  const environment = { ...process.env, DATABASE_URL: database.url, SLUICE_PORT: '0' }
  // `script` gives the command a terminal.
  const command = `exec ${process.execPath} ${MAIN} up`
  const shell = spawn('script', ['--quiet', '--flush', '--return', '--command', command, '/dev/null'], {
    cwd: cli.folder,
    env: environment,
  })
  let said = ''
  shell.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const exited = once(shell, 'exit')
  try {
    await until(() => said.includes('listening on'), 'the server to listen')
    const [, url, token] = /sign in:\s+(http:\/\/[^/\s]+)\/#token=(slt_[\w-]+)/.exec(said)!
    const signIn = () =>
      fetch(`${url}/api/v1/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin: url!, connection: 'close' },
        body: JSON.stringify({ token }),
      })
    const first = await signIn()
    expect([first.status, first.headers.get('set-cookie')]).toEqual([
      201,
      expect.stringContaining('HttpOnly'),
    ])
    expect((await signIn()).status).toBe(401)

    const piped = startServer(database.url, 'up')
    await piped.says('listening on')
    expect(piped.stdout + piped.stderr).not.toContain('slt_')
    expect(await piped.end('SIGTERM')).toBe(0)
    const json = cli.start(['up', '--json'], { environment: { DATABASE_URL: database.url } })
    started.push(json)
    await json.says('"url"')
    expect(json.stdout).not.toContain('slt_')
    expect(await json.end('SIGTERM')).toBe(0)
  } finally {
    shell.stdin.write('\u0003')
    await exited
    await database.drop()
  }
})
