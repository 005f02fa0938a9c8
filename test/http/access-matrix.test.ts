import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  PERMISSION_NAMES,
  PERMISSIONS,
  type Permission,
  permissionSet,
  ROLES,
} from '../../src/model/permissions.ts'
import type { Access } from '../../src/server/parts.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { type Asker, OWNED, Probes, TASKS, WORKFLOWS } from './owned-probes.ts'
import { DECISIONS, OPEN_PAGES } from './route-decisions.ts'

const database = useDatabase()
const server = useServer(database, { tasks: TASKS, workflows: WORKFLOWS })

/** Resources that belong to their creator. Workers of a key have tests of their own (remote-worker.test.ts). */
const OWNED_ROUTES =
  /^[A-Z]+ \/api\/v1\/(?:jobs|results|schedules|keys|session|live|errors|admin\/workers\/jobs)(?:\/|$)/

const probes = new Probes(server)

beforeAll(async () => {
  const admin = await server.keyOf('platform_admin', 'first')
  for (const [name, permissions] of Object.entries({ ...CUSTOM, ...SINGLE })) {
    const made = await server.call('POST', '/roles', { key: admin, body: { name, permissions } })
    expect(made.status, made.text).toBe(201)
  }
  // Jobs of other tasks wait for ever.
  await server.app.work({ name: 'breaker', tasks: ['broken'] })
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
/** A role for each permission, which shows that no route asks for a second one, or for a built-in role. */
const SINGLE: Readonly<Record<string, readonly Permission[]>> = Object.fromEntries(
  PERMISSION_NAMES.map((each) => [`just-${each.replaceAll(':', '-')}`, [each]]),
)
const may = (role: string, permission: Permission) =>
  permissionSet(SINGLE[role] ?? ROLES[role as keyof typeof ROLES]).has(permission)

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

describe.each([...roles, ...Object.keys(SINGLE)])('with the role %s', (role) => {
  // Only the door is asked here: what is allowed may still be 400, 404 or 409, and OWNED decides those with things that exist.
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
})

/** Permissions in other combinations than the built-in roles have: each rule must hang on a permission, not on a role. */
const CUSTOM: Readonly<Record<string, readonly Permission[]>> = {
  'only-submits': ['jobs:submit'],
  'only-reads': ['jobs:read'],
  'cancels-and-sees-all': ['jobs:read:all', 'jobs:cancel', 'jobs:submit'],
  'manages-blindly': ['workers:manage', 'jobs:submit', 'jobs:read', 'jobs:cancel'],
  'approves-blindly': ['jobs:approve', 'jobs:read'],
  'keeps-keys': ['access:manage', 'jobs:read'],
  'keeps-worker-keys': ['access:manage', 'workers:run', 'jobs:read:all'],
}

test('every route about something that has an owner is asked as its owner and as somebody else', () => {
  const owned = routes().filter(({ name, access }) => access !== 'public' && OWNED_ROUTES.test(name))
  expect(owned.map(({ name }) => name).sort()).toEqual(Object.keys(OWNED).sort())
})

describe.each([...roles, ...Object.keys(CUSTOM)])('what belongs to somebody, with the role %s', (role) => {
  test('is there for its owner, and for others as the role says', async () => {
    const permissions = permissionSet(CUSTOM[role] ?? ROLES[role as keyof typeof ROLES])
    const name = `owner-${role}`
    const asker: Asker = {
      role,
      name,
      key: await server.keyOf(role, name),
      may: (each) => permissions.has(each),
    }
    const found: unknown[] = []
    const right: unknown[] = []
    for (const route of routes()) {
      const probe = OWNED[route.name]
      if (probe === undefined) continue
      const any = route.access === 'caller' || route.access === 'sign-in'
      if (!any && !permissionsOf(route.access).some((each) => asker.may(each))) continue
      // A stream of jobs is for those who read some.
      if (route.name === 'GET /api/v1/live' && !asker.may('jobs:read')) continue
      for (const whose of ['own', 'foreign'] as const) {
        found.push([route.name, whose, await probe.ask(probes, route, asker, whose)])
        right.push([route.name, whose, probe.expected(asker, whose)])
      }
    }
    expect(found).toEqual(right)
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
