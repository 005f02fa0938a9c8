import { randomBytes } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { offerSignIn } from '../../src/engine/access/sessions.ts'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, type Request, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const server = useServer(database, { tasks: [task({ name: 'plain', run: async () => ({ done: true }) })] })

const random = () => randomBytes(32).toString('base64url')
/** Secrets by what they are. None of them may be found anywhere but where its test says. */
const secrets = new Map<string, string>()
const answers: { readonly what: string; readonly answer: Answer }[] = []

async function ask(method: string, path: string, request: Request = {}): Promise<Answer> {
  const answer = await server.at(method, path, { hangUp: true, ...request })
  answers.push({ what: `${method} ${path.slice(0, 60)}`, answer })
  return answer
}

beforeAll(async () => {
  const admin = await server.keyOf('platform_admin', 'root')
  secrets.set('a key', admin)
  secrets.set('a wrong key', `slk_${random()}`)
  secrets.set('a key in an address', `slk_${random()}`)
  secrets.set('a key in a query', `slk_${random()}`)
  secrets.set('a key in a wrong field', `slk_${random()}`)
  secrets.set('a key in a body that is no JSON', `slk_${random()}`)
  secrets.set('a header', `header-${random()}`)
  secrets.set('a foreign cookie', `cookie-${random()}`)
  secrets.set('a value of a query', `query-${random()}`)
  secrets.set('a password', `basic-${random()}`)

  const created = await server.call('POST', '/keys', { key: admin, body: { name: 'made', role: 'viewer' } })
  secrets.set('a key that was made', created.json<{ key: string }>().key)
  const { db } = server.app.services
  const signIn = await transactWithRetries(db, (tx) => offerSignIn(tx, authorOfDatabase('up')))
  secrets.set('a token for one session', signIn!)
  const signedIn = await server.call('POST', '/session', { body: { token: signIn } })
  const cookie = signedIn.headers['set-cookie']![0]!.split(';')[0]!
  secrets.set('a session', cookie.split('=')[1]!)
  await ask('GET', '/api/v1/keys', { headers: { cookie } })
  await ask('DELETE', '/api/v1/keys/1', { headers: { cookie, 'x-sluice-csrf': 'wrong' } })

  // Every route there is, with secrets wherever a caller could put one.
  const headers = {
    'x-secret': secrets.get('a header')!,
    cookie: `other=${secrets.get('a foreign cookie')}`,
    'user-agent': secrets.get('a header')!,
  }
  for (const { method, url, config } of server.http.routeTable) {
    if (config!.access === 'public' || url.includes('*')) continue
    const each = [method].flat()[0]!
    const path = url.replaceAll(/:id/g, '1').replaceAll(/:\w+/g, 'default')
    const wrong = secrets.get('a key in a wrong field')!
    const body = {
      [wrong]: wrong,
      name: wrong,
      role: wrong,
      task: wrong,
      permissions: [wrong],
      input: {},
      key: 3,
    }
    const bad: Request[] = [
      { key: secrets.get('a wrong key') },
      {
        headers: {
          authorization: `Basic ${Buffer.from(`u:${secrets.get('a password')}`).toString('base64')}`,
        },
      },
      { key: admin, raw: `{"key": ${secrets.get('a key in a body that is no JSON')}` },
      { key: admin, raw: secrets.get('a key in a body that is no JSON')! },
      ...(each === 'GET'
        ? []
        : [
            { key: admin, body },
            { key: admin, body: [wrong] },
            { key: admin, body: wrong },
          ]),
    ]
    for (const request of bad)
      await ask(each, path, { ...request, headers: { ...headers, ...request.headers } })
    const query = `?secret=${secrets.get('a value of a query')}&key=${secrets.get('a key in a query')}`
    await ask(each, path + query, { headers })
    const filled = url.replaceAll(/:\w+/g, secrets.get('a key in an address')!)
    if (filled !== url)
      await ask(each, filled, { key: admin, headers, ...(each === 'GET' ? {} : { body: {} }) })
    await ask(each, filled, { key: secrets.get('a key that was made'), headers })
  }
  await ask('GET', `/${secrets.get('a key in an address')}`, { key: admin })
  await ask('POST', '/api/v1/session', { body: { key: secrets.get('a wrong key') } })
}, 240_000)

async function rows(): Promise<{ table: string; text: string }[]> {
  const tables = await database.admin<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'sluice' and c.relkind = 'r'`,
  )
  const found = []
  for (const { name } of tables) {
    const all = await database.admin<{ text: string }>(
      `select to_jsonb(t)::text as text from sluice."${name}" t`,
    )
    found.push(...all.map(({ text }) => ({ table: name, text })))
  }
  return found
}

test('secrets are in no answer', () => {
  expect(answers.length).toBeGreaterThan(300)
  for (const { what, answer } of answers) {
    const said = answer.text + JSON.stringify(answer.headers)
    for (const [name, secret] of secrets) {
      const shown = said.includes(secret) || said.includes(secret.slice(4, 30))
      expect(shown, `${name} in the answer to ${what}: ${said.slice(0, 600)}`).toBe(false)
    }
  }
})

test('secrets are in no line of the log', async () => {
  await until(() => server.log().includes('"answered"'), 'the log to be written')
  for (const line of server.log().split('\n')) {
    for (const [name, secret] of secrets) {
      expect(line.includes(secret.slice(4, 30)), `${name} in the log: ${line.slice(0, 600)}`).toBe(false)
    }
  }
})

test('secrets are in no row of any table', async () => {
  const all = await rows()
  expect(all.map(({ table }) => table)).toEqual(expect.arrayContaining(['api_keys', 'audit', 'sessions']))
  for (const { table, text } of all) {
    for (const [name, secret] of secrets) {
      expect(text.includes(secret.slice(4, 30)), `${name} in sluice.${table}: ${text.slice(0, 600)}`).toBe(
        false,
      )
    }
  }
})

test('what a job was given is with the job, and neither in the log nor in the audit', async () => {
  const key = secrets.get('a key')!
  const input = `input-${random()}`
  const submit = () =>
    server.call('POST', '/jobs', { key, body: { task: 'plain', input: { password: input }, key: 'one' } })
  const { id } = (await submit()).json<{ id: string }>()
  const conflict = await server.call('POST', '/jobs', {
    key,
    body: { task: 'plain', input: { password: `${input}-2` }, key: 'one' },
  })
  expect(conflict.status).toBe(409)
  expect(conflict.text).not.toContain(input)
  expect((await server.call('GET', `/jobs/${id}`, { key })).text).toContain(input)
  const stranger = await server.keyOf('submitter', 'stranger')
  for (const path of [`/jobs/${id}`, `/jobs/${id}/tree`, `/jobs/${id}/trace`, `/jobs/${id}/logs`])
    expect((await server.call('GET', path, { key: stranger })).json().code, path).toBe('JOB_NOT_FOUND')
  expect((await server.call('DELETE', `/jobs/${id}`, { key })).status).toBeLessThan(300)
  expect(server.log()).not.toContain(input)
  for (const { table, text } of await rows()) if (table === 'audit') expect(text).not.toContain(input)
})

test('a key in the reason of a cancel does not get into the audit', async () => {
  const key = secrets.get('a key')!
  const written = `slk_${random()}`
  const body = { task: 'plain', runAt: '1h', tags: ['to-be-cancelled'] }
  await server.call('POST', '/jobs', { key, body })
  const answer = await server.call('POST', '/jobs/actions', {
    key,
    body: { action: 'cancel', filter: { tag: 'to-be-cancelled' }, reason: `leaked ${written}` },
  })
  expect(answer.json()).toMatchObject({ changed: 1 })
  const lines = (await rows()).filter(({ table }) => table === 'audit').map(({ text }) => text)
  expect(lines.filter((line) => line.includes('leaked slk_***'))).toHaveLength(1)
  expect(lines.join()).not.toContain(written)
})
