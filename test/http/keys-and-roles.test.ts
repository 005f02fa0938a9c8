import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Queryable } from '../../src/db/database.ts'
import { authenticate } from '../../src/engine/access/authenticate.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer, type TestServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
let server: TestServer
let other: TestServer
let admin = ''

beforeAll(async () => {
  ;[server, other] = await Promise.all([startTestServer(database.url), startTestServer(database.url)])
  admin = await server.keyOf('platform_admin', 'root')
})
afterAll(async () => {
  await Promise.all([server.stop(), other.stop()])
})

interface Created {
  readonly id: string
  readonly key: string
  readonly name: string
  readonly state: string
  readonly expiresAt: string | null
}

async function create(name: string, role: string, by = admin): Promise<Created> {
  const answer = await server.call('POST', '/keys', { key: by, body: { name, role } })
  expect(answer.status, answer.text).toBe(201)
  return answer.json<Created>()
}

async function auditOf(target: string): Promise<Record<string, unknown>[]> {
  const answer = await server.call('GET', `/audit?target=${encodeURIComponent(target)}`, { key: admin })
  return answer.json<{ entries: Record<string, unknown>[] }>().entries
}

describe('a key', () => {
  test('is shown once, works, and is stored as a hash', async () => {
    const created = await create('ann', 'viewer')
    expect(created.key).toMatch(/^slk_[A-Za-z0-9_-]{43}$/)
    expect((await server.call('GET', '/session', { key: created.key })).json()).toMatchObject({
      keyId: created.id,
      name: 'ann',
      role: 'viewer',
      csrfToken: null,
    })
    const [row] = await database.sql<{ hash: Buffer }>('select hash from sluice.api_keys where id = $1', [
      created.id,
    ])
    expect(row!.hash.equals(createHash('sha256').update(created.key).digest())).toBe(true)
    for (const path of ['/keys', `/keys/${created.id}`, '/audit'])
      expect((await server.call('GET', path, { key: admin })).text).not.toContain(created.key)
    expect(server.log()).not.toContain(created.key)
  })

  test('is marked as used, at most once a minute', async () => {
    const { id, key } = await create('used', 'viewer')
    const look = async () =>
      (await server.call('GET', `/keys/${id}`, { key: admin })).json<{ lastUsedAt: string | null }>()
        .lastUsedAt
    expect(await look()).toBeNull()
    await server.call('GET', '/session', { key })
    const first = await until(look, `key ${id} to be marked`)
    await server.call('GET', '/session', { key })
    await other.call('GET', '/session', { key })
    expect(await look()).toBe(first)
    await database.sql(
      `update sluice.api_keys set last_used_at = now() - interval '61 seconds' where id = $1`,
      [id],
    )
    await other.call('GET', '/session', { key })
    await until(async () => Date.parse((await look())!) >= Date.parse(first), `key ${id} to be marked again`)
  })

  test('ends with its time', async () => {
    const answer = await server.call('POST', '/keys', {
      key: admin,
      body: { name: 'short', role: 'viewer', expires: '30d' },
    })
    const { id, key, expiresAt } = answer.json<Created>()
    const inDays = (Date.parse(expiresAt!) - Date.now()) / 86_400_000
    expect(inDays).toBeGreaterThan(29.9)
    expect(inDays).toBeLessThan(30.1)
    expect((await server.call('GET', '/session', { key })).status).toBe(200)
    await database.sql('update sluice.api_keys set expires_at = now() where id = $1', [id])
    expect((await server.call('GET', '/session', { key })).status).toBe(401)
    expect((await server.call('GET', `/keys/${id}`, { key: admin })).json()).toMatchObject({
      state: 'expired',
    })
  })

  test('that is revoked through one server is refused by every other from the next request on', async () => {
    for (let round = 0; round < 10; round++) {
      const { id, key } = await create(`revoked-${round}`, 'viewer')
      const ask = () => other.call('GET', '/session', { key }).then(({ status }) => status)
      expect(await Promise.all([ask(), ask(), ask()])).toEqual([200, 200, 200])
      const meanwhile = Array.from({ length: 5 }, ask)
      expect((await server.call('DELETE', `/keys/${id}`, { key: admin })).json()).toMatchObject({
        state: 'revoked',
      })
      expect(await Promise.all([ask(), ask(), ask(), ask()])).toEqual([401, 401, 401, 401])
      for (const status of await Promise.all(meanwhile)) expect([200, 401]).toContain(status)
    }
  })

  test('may be revoked twice, and the audit says it once', async () => {
    const { id } = await create('twice', 'viewer')
    for (let times = 0; times < 2; times++)
      expect((await server.call('DELETE', `/keys/${id}`, { key: admin })).status).toBe(200)
    const entries = await auditOf(`key ${id}`)
    expect(entries.map(({ action }) => action)).toEqual(['key.revoke', 'key.create'])
    expect(entries[1]).toMatchObject({
      actor: 'root',
      before: null,
      after: { name: 'twice', role: 'viewer', expiresAt: null },
      refused: null,
    })
  })

  test.each([
    ['no name', { role: 'viewer' }],
    ['an empty name', { name: '', role: 'viewer' }],
    ['a name with NUL', { name: 'a\0b', role: 'viewer' }],
    ['a name with an unpaired surrogate', { name: 'a\ud800', role: 'viewer' }],
    ['a name with a line break', { name: 'a\nb', role: 'viewer' }],
    ['space around the name', { name: ' a', role: 'viewer' }],
    ['a name that is too long', { name: 'a'.repeat(201), role: 'viewer' }],
    ['a negative time', { name: 'a', role: 'viewer', expires: -1 }],
    ['no time at all', { name: 'a', role: 'viewer', expires: '0s' }],
    ['a time that is too long', { name: 'a', role: 'viewer', expires: '999999999d' }],
    ['a role that is no name', { name: 'a', role: "viewer' or 1=1" }],
    ['permissions of its own', { name: 'a', role: 'viewer', permissions: ['access:manage'] }],
    ['an id of its own', { name: 'a', role: 'viewer', id: '1' }],
  ])('with %s is refused with 400, and nothing is stored', async (_, body) => {
    const count = () => database.sql('select count(*) from sluice.api_keys')
    const before = await count()
    const answer = await server.call('POST', '/keys', { key: admin, body })
    expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
    expect(await count()).toEqual(before)
  })

  test('rejects an unknown role with the names of the existing ones', async () => {
    const answer = await server.call('POST', '/keys', { key: admin, body: { name: 'a', role: 'king' } })
    expect([answer.status, answer.json().code]).toEqual([404, 'ROLE_NOT_FOUND'])
    expect(answer.json().detail).toContain('platform_admin')
  })

  test('that does not exist is not found, whatever its id looks like', async () => {
    for (const id of ['999999', '999999999999999999']) {
      expect((await server.call('GET', `/keys/${id}`, { key: admin })).json().code).toBe('KEY_NOT_FOUND')
      expect((await server.call('DELETE', `/keys/${id}`, { key: admin })).json().code).toBe('KEY_NOT_FOUND')
    }
    for (const id of ['0', '-1', '01', '9223372036854775808', 'abc', '1%20', "1'"])
      expect((await server.call('GET', `/keys/${id}`, { key: admin })).status, id).toBe(400)
  })

  test('is one of a list with pages', async () => {
    const all: string[] = []
    let next: string | null = '0'
    for (let query = '?limit=3'; next !== null; query = `?limit=3&after=${next}`) {
      const page: { keys: { id: string }[]; next: string | null } = (
        await server.call('GET', `/keys${query}`, { key: admin })
      ).json()
      all.push(...page.keys.map(({ id }) => id))
      next = page.next
    }
    const stored = await database.sql<{ id: string }>('select id from sluice.api_keys order by api_keys.id')
    expect(all).toEqual(stored.map(({ id }) => id))
  })
})

describe('lookups', () => {
  test('of one turn of the event loop share a statement, and each is answered by one that began after it', async () => {
    const keys = await Promise.all(
      Array.from({ length: 20 }, (_, n) => server.keyOf('viewer', `merged-${n}`)),
    )
    const { calls } = server.app.services
    let statements = 0
    const counted: Queryable = {
      run: (statement, values) => {
        if (statement.name === 'find_keys') statements++
        return calls.run(statement, values)
      },
    }
    const wrong = `slk_${'x'.repeat(43)}`
    const asked = Array.from({ length: 500 }, (_, n) => (n % 7 === 0 ? wrong : keys[n % 20]!))
    const found = await Promise.all(asked.map((key) => authenticate(counted, key)))
    expect(found.map((caller) => caller?.name)).toEqual(
      asked.map((key) => (key === wrong ? undefined : `merged-${keys.indexOf(key)}`)),
    )
    expect(statements).toBe(1)
  })

  test('that fail do so for those who asked, and not for those who ask later', async () => {
    const key = await server.keyOf('viewer')
    const { calls } = server.app.services
    let broken = true
    const shaky: Queryable = {
      run: (statement, values) =>
        broken ? Promise.reject(new Error('no database')) : calls.run(statement, values),
    }
    await expect(Promise.all([authenticate(shaky, key), authenticate(shaky, key)])).rejects.toThrow(
      'no database',
    )
    broken = false
    expect((await authenticate(shaky, key))?.role).toBe('viewer')
  })
})

describe('more than one has oneself', () => {
  let limited = ''
  let limitedId = ''

  beforeAll(async () => {
    const permissions = ['access:manage', 'jobs:read']
    expect(
      (await server.call('POST', '/roles', { key: admin, body: { name: 'doorkeeper', permissions } })).status,
    ).toBe(201)
    const created = await create('door', 'doorkeeper')
    limited = created.key
    limitedId = created.id
  })

  test('cannot be given away with a key', async () => {
    for (const role of ['platform_admin', 'operator', 'submitter', 'viewer', 'worker']) {
      const answer = await server.call('POST', '/keys', { key: limited, body: { name: 'mine', role } })
      expect([role, answer.status, answer.json().code]).toEqual([role, 403, 'FORBIDDEN'])
      expect(answer.json().missing).not.toEqual([])
    }
    expect((await create('mine', 'doorkeeper', limited)).state).toBe('active')
    const refused = await server.call('GET', '/audit?actor=door&refused=true', { key: admin })
    expect(refused.json<{ entries: unknown[] }>().entries).toHaveLength(5)
  })

  test('cannot be put into a role, new or changed, not even into one’s own', async () => {
    const body = { name: 'crown', permissions: ['access:manage', 'workers:manage'] }
    expect((await server.call('POST', '/roles', { key: limited, body })).status).toBe(403)
    const { permissions } = body
    const grown = await server.call('PATCH', '/roles/doorkeeper', { key: limited, body: { permissions } })
    expect([grown.status, grown.json().missing]).toEqual([403, ['workers:manage']])
    expect((await server.call('GET', '/session', { key: limited })).json().permissions).toEqual([
      'jobs:read',
      'access:manage',
    ])
  })

  test('cannot be taken from others: keys and roles that may do more stay', async () => {
    const strong = await create('strong', 'operator')
    expect((await server.call('DELETE', `/keys/${strong.id}`, { key: limited })).status).toBe(403)
    const body = { name: 'strong-role', permissions: ['workers:manage'] }
    expect((await server.call('POST', '/roles', { key: admin, body })).status).toBe(201)
    expect((await server.call('DELETE', '/roles/strong-role', { key: limited })).status).toBe(403)
    const less = { permissions: ['jobs:read'] }
    expect((await server.call('PATCH', '/roles/strong-role', { key: limited, body: less })).status).toBe(403)
  })

  test('cannot be had by changing a key: its role and owner are fixed', async () => {
    for (const body of [{ role: 'platform_admin' }, { name: 'root' }, { runs: {}, role: 'platform_admin' }]) {
      const answer = await server.call('PATCH', `/keys/${limitedId}`, { key: limited, body })
      expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
    }
    for (const method of ['PUT', 'POST']) {
      const answer = await server.call(method, `/keys/${limitedId}`, {
        key: limited,
        body: { role: 'platform_admin' },
      })
      expect([method, answer.status, answer.headers.allow]).toEqual([method, 405, 'DELETE, GET, PATCH'])
    }
  })
})

describe('a role', () => {
  test('that is built in can be neither changed, deleted nor replaced', async () => {
    for (const name of ['viewer', 'platform_admin', 'worker']) {
      const body = { permissions: ['jobs:read'] }
      const changed = await server.call('PATCH', `/roles/${name}`, { key: admin, body })
      expect([changed.status, changed.json().code]).toEqual([409, 'ROLE_CONFLICT'])
      expect((await server.call('DELETE', `/roles/${name}`, { key: admin })).status).toBe(409)
      expect((await server.call('POST', '/roles', { key: admin, body: { ...body, name } })).status).toBe(409)
    }
  })

  test('counts as it is now for the next request of every key that has it, on every server', async () => {
    const body = { name: 'shifting', permissions: ['workers:view'] }
    expect((await server.call('POST', '/roles', { key: admin, body })).status).toBe(201)
    const { key } = await create('shifty', 'shifting')
    const ask = async () => (await other.call('GET', '/admin/workers/lanes', { key })).status
    expect(await ask()).toBe(200)
    const change = (permissions: string[]) =>
      server.call('PATCH', '/roles/shifting', { key: admin, body: { permissions } })
    expect((await change(['jobs:read:all'])).json()).toMatchObject({
      permissions: ['jobs:read', 'jobs:read:all'],
      builtIn: false,
      keys: 1,
    })
    expect(await ask()).toBe(403)
    await change(['workers:view'])
    expect(await ask()).toBe(200)
    const [entry] = await auditOf('role shifting')
    expect(entry).toMatchObject({
      action: 'role.change',
      actor: 'root',
      before: { permissions: ['jobs:read', 'jobs:read:all'] },
      after: { permissions: ['workers:view'] },
    })
  })

  test('that a key has, be it a revoked one, is not deleted; another is', async () => {
    for (const name of ['kept', 'gone'])
      await server.call('POST', '/roles', { key: admin, body: { name, permissions: ['jobs:read'] } })
    const { id } = await create('keeper', 'kept')
    await server.call('DELETE', `/keys/${id}`, { key: admin })
    expect((await server.call('DELETE', '/roles/kept', { key: admin })).json().code).toBe('ROLE_CONFLICT')
    expect((await server.call('DELETE', '/roles/gone', { key: admin })).status).toBe(204)
    expect((await server.call('GET', '/roles/gone', { key: admin })).json().code).toBe('ROLE_NOT_FOUND')
  })

  test.each([
    ['a permission that does not exist', { name: 'x', permissions: ['jobs:everything'] }],
    ['no permission', { name: 'x', permissions: [] }],
    ['a bad name', { name: 'x y', permissions: ['jobs:read'] }],
    ['the name __proto__', JSON.parse('{"name": "__proto__", "permissions": ["jobs:read"]}')],
    ['a claim to be built in', { name: 'x', permissions: ['jobs:read'], builtIn: true }],
  ])('with %s is refused with 400', async (_, body) => {
    const answer = await server.call('POST', '/roles', { key: admin, body })
    expect([answer.status, answer.json().code]).toEqual([400, 'INVALID_ARGUMENT'])
  })
})

async function auditedGuesses(): Promise<string> {
  const [row] = await database.sql<{ lines: string }>(
    `select count(*) as lines from sluice.audit where action = 'access.authenticate'`,
  )
  return row!.lines
}

describe('wrong keys', () => {
  test('make an address wait, but never a key that is good, seen before or not', async () => {
    const [good, fresh] = await Promise.all([server.keyOf('viewer'), server.keyOf('viewer')])
    expect((await server.call('GET', '/session', { key: good })).status).toBe(200)
    // One wrong key, however often it comes, is no guessing.
    const stale = `slk_${'w'.repeat(43)}`
    for (let times = 0; times < 50; times++)
      expect((await server.call('GET', '/session', { key: stale })).status).toBe(401)
    const guess = () =>
      server.call('GET', '/session', { key: `slk_${randomBytes(32).toString('base64url')}` })
    const statuses = new Set<number>()
    let waiting = await guess()
    for (let times = 0; times < 25; times++) {
      statuses.add(waiting.status)
      waiting = await guess()
    }
    expect([...statuses]).toEqual([401, 429])
    expect(waiting.json().code).toBe('TOO_MANY_FAILURES')
    expect(Number(waiting.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(Number(waiting.headers['retry-after'])).toBeLessThanOrEqual(60)
    expect((await server.call('GET', '/session', { key: good })).status).toBe(200)
    // Reading is never 429: a key that nobody has sent before is looked up all the same.
    expect((await server.call('GET', '/session', { key: fresh })).status).toBe(200)
    expect((await server.call('GET', '/session', { key: stale })).status).toBe(401)
    expect((await guess()).status).toBe(429)
    // Another server counts by itself.
    expect((await other.call('GET', '/session', { key: fresh })).status).toBe(200)
    const entries = await database.sql<{ target: string; refused: string; key_id: null }>(
      `select target, refused, key_id from sluice.audit where action = 'access.authenticate' order by id desc limit 20`,
    )
    expect(entries[0]).toEqual({ target: 'address 127.0.0.1', refused: 'UNAUTHENTICATED', key_id: null })
    // What comes after the twentieth leaves no line.
    const before = await auditedGuesses()
    expect((await guess()).status).toBe(429)
    expect(await auditedGuesses()).toBe(before)
  })
})

// The last of the file: it revokes every administrator but one.
test('the last key that may manage access cannot be revoked, nor can two remove each other at once', async () => {
  const one = await server.keyOf('platform_admin', 'one')
  const two = await server.keyOf('platform_admin', 'two')
  const idOf = async (key: string) => (await other.call('GET', '/session', { key })).json().keyId as string
  const [first, second] = [await idOf(one), await idOf(two)]
  const all = (await other.call('GET', '/keys?limit=1000', { key: one })).json<{
    keys: { id: string; role: string; state: string }[]
  }>().keys
  for (const { id, role, state } of all) {
    if (state !== 'active' || !['platform_admin', 'doorkeeper'].includes(role)) continue
    if (id !== first && id !== second)
      expect((await other.call('DELETE', `/keys/${id}`, { key: one })).status).toBe(200)
  }
  const statuses = await Promise.all([
    other.call('DELETE', `/keys/${second}`, { key: one }),
    other.call('DELETE', `/keys/${first}`, { key: two }),
  ])
  const [done, refused] = statuses.map(({ status }) => status).sort()
  expect(done).toBe(200)
  // Whoever was revoked before it was asked who it is, is nobody.
  expect([401, 409]).toContain(refused)
  const left = await database.sql<{ id: string }>(
    `select id from sluice.api_keys where role = 'platform_admin' and revoked_at is null`,
  )
  expect(left).toHaveLength(1)
  const [survivor, own] = left[0]!.id === first ? [one, first] : [two, second]
  const alone = await other.call('DELETE', `/keys/${own}`, { key: survivor })
  expect([alone.status, alone.json().code]).toEqual([409, 'LAST_ADMIN'])
  expect((await other.call('GET', '/session', { key: survivor })).status).toBe(200)
})
