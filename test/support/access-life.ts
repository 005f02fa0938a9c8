import type { Database } from '../../src/db/database.ts'
import { transactWithRetries, withRetries } from '../../src/db/with-retries.ts'
import { readAudit } from '../../src/engine/access/audit-list.ts'
import { authenticate } from '../../src/engine/access/authenticate.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import {
  changeKey,
  createFirstKey,
  createKey,
  getKey,
  listKeys,
  revokeKey,
} from '../../src/engine/access/keys.ts'
import { changeRole, createRole, deleteRole } from '../../src/engine/access/roles.ts'
import {
  authenticateSession,
  closeSession,
  offerSignIn,
  openSession,
} from '../../src/engine/access/sessions.ts'
import { hasCode } from '../../src/index.ts'
import { repeated } from './persistent-caller.ts'
import { patiently } from './until.ts'

/**
 * What happens to keys, roles and sessions, on an address where any statement may fail: a change and its line in the
 * audit are both there or both missing, however often it had to be repeated.
 */
export async function liveAccess(db: Database, round: number): Promise<string[]> {
  const violations: string[] = []
  const calls = withRetries(db)
  const author = authorOfDatabase('life')
  const change = <T>(what: string, work: Parameters<typeof transactWithRetries<T>>[1]) =>
    repeated(what, () => transactWithRetries(db, work))
  const expect = (what: string, expected: unknown, found: unknown) => {
    if (expected !== found) violations.push(`${what}: ${found} instead of ${expected}`)
  }

  await repeated('createFirstKey', () => createFirstKey(calls))
  expect('a second first key', undefined, await repeated('createFirstKey', () => createFirstKey(calls)))

  // A name of its own each try: an answer that was lost may have been kept.
  let tries = 0
  const role = await change('createRole', (tx) =>
    createRole(tx, { name: `life-${round}-${++tries}`, permissions: ['jobs:read'] }, author),
  )
  await change('changeRole', (tx) => changeRole(tx, role.name, ['jobs:submit'], author))
  const key = await change('createKey', (tx) =>
    createKey(tx, { name: 'owner of life', role: 'worker' }, author),
  )
  const narrowed = await change('changeKey', (tx) => changeKey(tx, key.id, { tasks: ['life'] }, author))
  expect('what the key runs', 'life', narrowed.runs?.tasks.join())
  await patiently(async () => {
    const caller = await repeated('authenticate', () => authenticate(calls, key.key))
    expect('the key', key.id, caller?.keyId)
    return (await repeated('getKey', () => getKey(calls, key.id))).lastUsedAt !== null
  }, `key ${key.id} to be marked as used`)

  const opened = await change('openSession', (tx) => openSession(tx, { keyId: key.id }, 'life'))
  const found = await repeated('authenticateSession', () => authenticateSession(calls, opened!.token))
  expect('the session', opened!.id, found?.id)
  await change('closeSession', (tx) => closeSession(tx, opened!.id, author))
  expect(
    'a closed session',
    undefined,
    await repeated('authenticateSession', () => authenticateSession(calls, opened!.token)),
  )
  const signIn = await change('offerSignIn', (tx) => offerSignIn(tx, author))
  await change('openSession', (tx) => openSession(tx, { signIn: signIn! }, 'life'))
  expect(
    'a token used twice',
    undefined,
    await change('openSession', (tx) => openSession(tx, { signIn: signIn! }, 'life')),
  )

  await change('revokeKey', (tx) => revokeKey(tx, key.id, author, { withSchedules: true }))
  expect('a revoked key', undefined, await repeated('authenticate', () => authenticate(calls, key.key)))
  await repeated('listKeys', () => listKeys(calls))
  await change('deleteRole', (tx) => deleteRole(tx, role.name, author)).catch((error) => {
    if (!hasCode(error.cause, 'ROLE_NOT_FOUND')) throw error
  })
  const { entries } = await repeated('readAudit', () => readAudit(calls, { target: `key ${key.id}` }))
  expect(
    `what happened to key ${key.id}`,
    'key.revoke,key.change,key.create',
    // A change whose answer was lost is made again.
    [...new Set(entries.map(({ action }) => action))].join(),
  )
  return violations
}
