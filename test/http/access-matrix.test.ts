import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { PERMISSION_NAMES, PERMISSIONS, type Permission, ROLES } from '../../src/model/permissions.ts'
import type { Access } from '../../src/server/parts.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { DECISIONS, OPEN_PAGES } from './route-decisions.ts'

const database = useDatabase()
const server = useServer(database, {
  tasks: [
    task({ name: 'plain', run: async () => null }),
    task({ name: 'gated', approval: true, run: async () => null }),
  ],
})

interface Route {
  readonly name: string
  readonly method: string
  readonly url: string
  readonly access: Access
}

function routes(): Route[] {
  return server.http.routeTable.flatMap(({ method, url, config }) =>
    [method].flat().map((each) => ({
      name: `${each} ${url}`,
      method: each,
      url,
      access: config!.access!,
    })),
  )
}

/** Things that do not exist: whoever gets past the door finds nothing, and changes nothing. */
function address(url: string): string {
  return url
    .replaceAll(':id', '999999999')
    .replaceAll(/:(?!id)\w+/g, 'no-such-thing')
    .replace('*', 'no-such-file')
}

const permissionsOf = (access: Access): readonly Permission[] =>
  access === 'metrics' ? ['workers:view'] : ([access].flat() as Permission[])
const roles = Object.keys(ROLES) as (keyof typeof ROLES)[]
const may = (role: keyof typeof ROLES, permission: Permission) =>
  (ROLES[role] as readonly Permission[]).includes(permission)

/** A proxy's header: what comes from this machine by itself may read the metrics without a key. */
const FROM_ELSEWHERE = { 'x-forwarded-for': '192.0.2.7' }

test('every route has a decision that was written down twice, and no decision is without its route', () => {
  const found = Object.fromEntries(
    routes()
      .filter(({ name }) => !OPEN_PAGES.test(name))
      .map(({ name, access }) => [name, access]),
  )
  expect(found).toEqual(DECISIONS)
  for (const { name, access } of routes())
    if (OPEN_PAGES.test(name)) expect([name, access]).toEqual([name, 'public'])
})

test('the reference says what each permission allows and what each role may', async () => {
  const reference = await readFile(new URL('../../docs/reference/access.md', import.meta.url), 'utf8')
  for (const [name, meaning] of Object.entries(PERMISSIONS))
    expect(reference).toContain(`| \`${name}\` | ${meaning} |`)
  for (const [name, permissions] of Object.entries(ROLES)) {
    const told = new RegExp(`^\\| \`${name}\` \\| (.*) \\|$`, 'm').exec(reference)?.[1]
    const all = permissions.length === PERMISSION_NAMES.length
    expect([name, told?.split(' ').sort()]).toEqual([
      name,
      all ? ['all'] : permissions.map((each) => `\`${each}\``).sort(),
    ])
  }
})

test('the roles of the database are those of the program', async () => {
  const stored = await database.sql<{ name: string; permissions: string[] }>(
    'select name, permissions from sluice.roles where built_in',
  )
  const sorted = (list: readonly string[]) => [...list].sort()
  expect(Object.fromEntries(stored.map((each) => [each.name, sorted(each.permissions)]))).toEqual(
    Object.fromEntries(Object.entries(ROLES).map(([name, list]) => [name, sorted(list)])),
  )
})

describe.each(roles)('with the role %s', (role) => {
  test('a route answers when it needs a permission of that role, and refuses with 403 when it does not', async () => {
    const key = await server.keyOf(role)
    for (const { name, method, url, access } of routes()) {
      if (access === 'public') continue
      const wanted = permissionsOf(access)
      const allowed =
        access === 'caller' || access === 'sign-in' || wanted.some((permission) => may(role, permission))
      const answer = await server.at(method, address(url), { key, hangUp: true, headers: FROM_ELSEWHERE })
      const refused = answer.status === 403 && answer.json().code === 'FORBIDDEN'
      expect([name, refused ? 'refused' : 'answered']).toEqual([name, allowed ? 'answered' : 'refused'])
      if (!allowed) expect(answer.json().needs, name).toEqual(wanted)
      // What is not there, or not well said, is no fault of the server.
      expect(answer.status, `${name}: ${answer.text}`).toBeLessThan(500)
    }
  })

  test('jobs of others are hidden, or only to be looked at, as the role says', async () => {
    const name = `owner-${role}`
    const key = await server.keyOf(role, name)
    for (const route of routes()) {
      if (
        !route.url.startsWith('/api/v1/jobs/:id') &&
        !route.url.startsWith('/api/v1/admin/workers/jobs/:id')
      )
        continue
      const wanted = permissionsOf(route.access)
      if (!wanted.some((permission) => may(role, permission))) continue
      for (const whose of ['own', 'foreign'] as const) {
        const id = await newJob(whose === 'own' ? name : 'somebody else', route.url)
        const answer = await server.at(route.method, route.url.replace(':id', id), {
          key,
          hangUp: true,
          ...(BODIES[route.name] !== undefined && { body: BODIES[route.name] }),
        })
        const found = outcomeOf(answer.status)
        expect([route.name, whose, found, answer.text.slice(0, 200)]).toEqual([
          route.name,
          whose,
          expected(route, role, whose),
          answer.text.slice(0, 200),
        ])
      }
    }
  })
})

// After the others: wrong keys make this address wait.
test('without a key, or with one that nobody has, only the open routes answer', async () => {
  const unknown = `slk_${'A'.repeat(43)}`
  for (const { name, method, url, access } of routes()) {
    if (access === 'public' || access === 'sign-in') continue
    const bare = await server.at(method, address(url), { headers: FROM_ELSEWHERE })
    expect([name, bare.status, bare.json().code]).toEqual([name, 401, 'UNAUTHENTICATED'])
    expect(bare.headers['www-authenticate']).toMatch(/^Bearer/)
    const wrong = await server.at(method, address(url), { key: unknown, headers: FROM_ELSEWHERE })
    // After twenty of them the address has to wait; it learns no more than that.
    expect([401, 429], name).toContain(wrong.status)
  }
})

/** Bodies that are right, so that it is the job that decides. */
const BODIES: Readonly<Record<string, unknown>> = {
  'POST /api/v1/jobs/:id/reject': { comment: 'no' },
  'POST /api/v1/jobs/:id/retry': {},
  'PATCH /api/v1/jobs/:id/window': { concurrency: 1 },
  'PATCH /api/v1/admin/workers/jobs/:id/priority': { priority: 1 },
}

function outcomeOf(status: number): 'done' | 'forbidden' | 'hidden' | number {
  if (status === 403) return 'forbidden'
  if (status === 404) return 'hidden'
  // 409: the job is in no state for it, or not of the kind that has it, which is told only to those who may see it.
  return status < 400 || status === 409 ? 'done' : status
}

function expected({ name, method, url }: Route, role: keyof typeof ROLES, whose: 'own' | 'foreign') {
  if (url.startsWith('/api/v1/admin/')) return 'done'
  if (whose === 'foreign' && !may(role, 'jobs:read:all')) return 'hidden'
  if (method === 'GET') return 'done'
  if (/\/(approve|reject)$/.test(name))
    return whose === 'foreign' || role === 'platform_admin' ? 'done' : 'forbidden'
  return whose === 'own' || may(role, 'workers:manage') ? 'done' : 'forbidden'
}

async function newJob(owner: string, url: string): Promise<string> {
  const gated = /approve|reject/.test(url)
  const { submitter } = server.app.room
  const submission = await server.app.room.toSubmission(gated ? 'gated' : 'plain', null, {}, owner)
  return (await submitter.submit(submission)).id
}
