import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { createKey } from '../../src/engine/access/keys.ts'
import { declareSchedules } from '../../src/engine/schedules/declare-schedules.ts'
import { readSchedule } from '../../src/engine/schedules/schedules.ts'
import { type Task, task, type Workflow, workflow } from '../../src/index.ts'
import type { Permission } from '../../src/model/permissions.ts'
import { EVERYTHING, type TestServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

/** What a request came to. Anything else, 400 and 409 for example, decides nothing about who may do it. */
export type Outcome = 'done' | 'forbidden' | 'hidden' | 'unauthenticated'

export type Whose = 'own' | 'foreign'

/** Who asks. */
export interface Asker {
  readonly role: string
  readonly name: string
  readonly key: string
  may(permission: Permission): boolean
}

interface Probe {
  /**
   * Makes what the request is about, of the asker or of somebody else, in a state that allows the request, and sends it with
   * a body that is right: then it is the right of the asker that decides.
   */
  ask(probes: Probes, route: Sent, asker: Asker, whose: Whose): Promise<Outcome | number>
  /** What should come of it, for those whose permissions let them call the route. */
  expected(asker: Asker, whose: Whose): Outcome
}

export interface Sent {
  readonly method: string
  readonly url: string
}

export const STRANGER = 'somebody else'

const plain = task({ name: 'plain', run: async () => null })
const gated = task({ name: 'gated', approval: true, run: async () => null })
const broken = task({
  name: 'broken',
  retry: { attempts: 1 },
  run: async (mark: string) => {
    throw new Error(`broken by ${mark}`)
  },
})
const wide = workflow({
  name: 'wide',
  steps: (flow) => {
    flow.each('fan', [1, 2, 3], plain as unknown as Task<number, null>, (n) => n, { concurrency: 2 })
  },
})
export const TASKS = [plain, gated, broken]
export const WORKFLOWS: readonly Workflow[] = [wide as Workflow]

/** Makes things for owners, each once where reading leaves it as it is. */
export class Probes {
  readonly server: TestServer
  readonly #fans = new Map<string, Promise<string>>()
  readonly #failures = new Map<string, Promise<string>>()
  #count = 0

  constructor(server: TestServer) {
    this.server = server
  }

  mark(): string {
    return `mark-${++this.#count}`
  }

  async job(owner: string, name = 'plain', options: object = {}, input: unknown = null): Promise<string> {
    const { submitter } = this.server.app.services
    return (await submitter.submit(await this.server.app.services.toSubmission(name, input, options, owner)))
      .id
  }

  /** A fan-out that waits for its children, which nobody runs. */
  fan(owner: string): Promise<string> {
    const known = this.#fans.get(owner) ?? this.#makeFan(owner)
    this.#fans.set(owner, known)
    return known
  }

  /** A job that has failed with a message that names its owner. */
  failure(owner: string): Promise<string> {
    const known = this.#failures.get(owner) ?? this.#makeFailure(owner)
    this.#failures.set(owner, known)
    return known
  }

  async schedule(owner: string): Promise<string> {
    const name = this.mark()
    const { calls } = this.server.app.services
    // As a program does: one that is declared can also be reset.
    const fields = readSchedule({ task: 'plain', cron: '0 3 * * *' }, name)
    await declareSchedules(calls, { [name]: fields }, owner, { debug() {}, info() {}, warn() {}, error() {} })
    return name
  }

  async keyId(name: string, role: string): Promise<string> {
    // A worker's key names nothing: then nobody who has its permission may do less.
    const runs = role === 'platform_admin' ? EVERYTHING : undefined
    const { db } = this.server.app.services
    const author = authorOfDatabase('test')
    return (await transactWithRetries(db, (tx) => createKey(tx, { name, role, runs }, author))).id
  }

  /** Sends a request whose parameters are filled in. */
  async send({ method, url }: Sent, asker: Asker, params: Readonly<Record<string, string>>, body?: unknown) {
    const path = Object.entries(params).reduce((text, [name, value]) => text.replace(`:${name}`, value), url)
    return this.server.at(method, path, {
      key: asker.key,
      hangUp: url.endsWith('/stream'),
      ...(body !== undefined && { body }),
    })
  }

  /** The first event of a stream with a page of jobs. */
  async firstPage(path: string, key: string): Promise<string> {
    const stop = new AbortController()
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(`${this.server.url}${path}`, { headers, signal: stop.signal })
    let text = ''
    for await (const chunk of answer.body!) {
      text += Buffer.from(chunk).toString()
      if (/event: jobs\n[\s\S]*\n\n/.test(text)) break
    }
    stop.abort()
    return text
  }

  async #makeFan(owner: string): Promise<string> {
    const root = await this.job(owner, 'wide')
    return until(async () => {
      const { children } = await this.server.app.tree(root)
      return children[0]?.children.length === 0 && children[0]?.counts === undefined
        ? undefined
        : children[0]?.id
    }, `the fan-out of ${owner}`)
  }

  async #makeFailure(owner: string): Promise<string> {
    const id = await this.job(owner, 'broken', {}, owner)
    await until(async () => (await this.server.app.getJob(id)).status === 'failed', `job ${id} to fail`)
    return id
  }
}

export function outcomeOf(status: number): Outcome | number {
  if (status < 400) return 'done'
  if (status === 401) return 'unauthenticated'
  if (status === 403) return 'forbidden'
  return status === 404 ? 'hidden' : status
}

const ownerOf = (asker: Asker, whose: Whose) => (whose === 'own' ? asker.name : STRANGER)

/** Who may see a job sees it; the rest find nothing. */
const seen = (asker: Asker, whose: Whose): Outcome =>
  whose === 'own' || asker.may('jobs:read:all') ? 'done' : 'hidden'

const changed = (asker: Asker, whose: Whose): Outcome =>
  whose === 'own'
    ? 'done'
    : seen(asker, whose) === 'hidden'
      ? 'hidden'
      : asker.may('workers:manage')
        ? 'done'
        : 'forbidden'

const judged = (asker: Asker, whose: Whose): Outcome =>
  whose === 'foreign' ? seen(asker, whose) : asker.role === 'platform_admin' ? 'done' : 'forbidden'

const scheduleSeen = (asker: Asker, whose: Whose): Outcome =>
  whose === 'own' || asker.may('jobs:read:all') || asker.may('workers:manage') ? 'done' : 'hidden'

const scheduleChanged = (asker: Asker, whose: Whose): Outcome =>
  scheduleSeen(asker, whose) === 'hidden'
    ? 'hidden'
    : whose === 'own' || asker.may('workers:manage')
      ? 'done'
      : 'forbidden'

type Make = (probes: Probes, owner: string) => Promise<string>

function ofJob(
  expected: Probe['expected'],
  make: Make = (probes, owner) => probes.job(owner),
  body?: unknown,
): Probe {
  return {
    expected,
    async ask(probes, route, asker, whose) {
      const id = await make(probes, ownerOf(asker, whose))
      return outcomeOf((await probes.send(route, asker, { id }, body)).status)
    },
  }
}

function ofSchedule(expected: Probe['expected'], body?: unknown): Probe {
  return {
    expected,
    async ask(probes, route, asker, whose) {
      const name = await probes.schedule(ownerOf(asker, whose))
      return outcomeOf((await probes.send(route, asker, { name }, body)).status)
    },
  }
}

/** A list: what the asker may not see is not in it. */
function ofList(
  expected: Probe['expected'],
  look: (probes: Probes, asker: Asker, owner: string) => Promise<boolean>,
): Probe {
  return {
    expected,
    ask: async (probes, _, asker, whose) =>
      (await look(probes, asker, ownerOf(asker, whose))) ? 'done' : 'hidden',
  }
}

const fan: Make = (probes, owner) => probes.fan(owner)
const awaiting: Make = (probes, owner) => probes.job(owner, 'gated')
const ended: Make = async (probes, owner) => {
  const id = await probes.job(owner)
  await probes.server.app.cancel(id)
  return id
}

const always = (): Outcome => 'done'

/** With the cookie of the asker: a session of their own, or one that is not. */
function ofSession(expected: Probe['expected']): Probe {
  return {
    expected,
    async ask({ server }, { method, url }, asker, whose) {
      const signIn = () => server.call('POST', '/session', { body: { key: asker.key } })
      const [mine, other] = [await signIn(), await signIn()]
      const cookie = mine.headers['set-cookie']![0]!.split(';')[0]!
      const csrf = (answer: typeof mine) => answer.json<{ csrfToken: string }>().csrfToken
      const headers = { cookie, 'x-sluice-csrf': csrf(whose === 'own' ? mine : other) }
      // To read, a foreign session is one that nobody has.
      const forged = whose === 'foreign' && method === 'GET'
      return outcomeOf(
        (
          await server.at(method, url, {
            headers: forged ? { cookie: `sluice_session=sls_${'A'.repeat(43)}` } : headers,
          })
        ).status,
      )
    },
  }
}

/** A key that may do no more than the asker, and one that may do everything. */
function ofKey(expected: Probe['expected'], body?: unknown): Probe {
  return {
    expected,
    async ask(probes, route, asker, whose) {
      const own = body === undefined ? asker.role : 'worker'
      const id = await probes.keyId(probes.mark(), whose === 'own' ? own : 'platform_admin')
      return outcomeOf((await probes.send(route, asker, { id }, body)).status)
    },
  }
}

const mayAll = (asker: Asker) => asker.role === 'platform_admin'

/** Every route about something that belongs to somebody. */
export const OWNED: Readonly<Record<string, Probe>> = {
  'POST /api/v1/jobs': {
    // Attaching to the key of somebody else's job tells its id and nothing more.
    expected: seen,
    async ask(probes, route, asker, whose) {
      const key = probes.mark()
      const id = await probes.job(ownerOf(asker, whose), 'plain', { key })
      const answer = await probes.send(route, asker, {}, { task: 'plain', input: null, key })
      if (answer.status >= 400) return outcomeOf(answer.status)
      const body = answer.json<{ id: string; readable?: boolean }>()
      return body.id !== id ? answer.status : body.readable === false ? 'hidden' : 'done'
    },
  },
  'POST /api/v1/jobs/bulk': {
    expected: seen,
    async ask(probes, route, asker, whose) {
      const key = probes.mark()
      await probes.job(ownerOf(asker, whose), 'plain', { key })
      const answer = await probes.send(route, asker, {}, { jobs: [{ task: 'plain', input: null, key }] })
      if (answer.status >= 400) return outcomeOf(answer.status)
      return answer.text.includes('"readable":false') ? 'hidden' : 'done'
    },
  },
  'GET /api/v1/jobs': ofList(seen, async (probes, asker, owner) => {
    const tag = probes.mark()
    const id = await probes.job(owner, 'plain', { tags: [tag] })
    const answer = await probes.server.call('GET', `/jobs?tag=${tag}`, { key: asker.key })
    return answer.text.includes(`"${id}"`)
  }),
  'GET /api/v1/live': ofList(seen, async (probes, asker, owner) => {
    const tag = probes.mark()
    const id = await probes.job(owner, 'plain', { tags: [tag] })
    const page = await probes.firstPage(`/api/v1/live?now=false&jobs=true&tag=${tag}`, asker.key)
    return page.includes(`"${id}"`)
  }),
  'GET /api/v1/errors': ofList(seen, async (probes, asker, owner) => {
    await probes.failure(owner)
    return (await probes.server.call('GET', '/errors', { key: asker.key })).text.includes(
      `broken by ${owner}`,
    )
  }),
  'POST /api/v1/jobs/actions': {
    // Of all that a filter fits, what the asker may see is changed.
    expected: seen,
    async ask(probes, route, asker, whose) {
      const tag = probes.mark()
      await probes.job(ownerOf(asker, whose), 'plain', { tags: [tag] })
      const answer = await probes.send(route, asker, {}, { action: 'cancel', filter: { tag } })
      const { changed: count } = answer.json<{ changed: number }>()
      return count === 1 ? outcomeOf(answer.status) : count === 0 ? 'hidden' : answer.status
    },
  },
  'GET /api/v1/jobs/:id': ofJob(seen),
  'GET /api/v1/jobs/:id/stream': ofJob(seen),
  'GET /api/v1/jobs/:id/why': ofJob(seen),
  'GET /api/v1/jobs/:id/tree': ofJob(seen, fan),
  'GET /api/v1/jobs/:id/graph': ofJob(seen, fan),
  'GET /api/v1/jobs/:id/strip': ofJob(seen, fan),
  'GET /api/v1/jobs/:id/children': ofJob(seen, fan),
  'GET /api/v1/jobs/:id/trace': ofJob(seen, (probes, owner) => probes.failure(owner)),
  'GET /api/v1/jobs/:id/timeline': ofJob(seen),
  'GET /api/v1/jobs/:id/waterfall': ofJob(seen, fan),
  'GET /api/v1/jobs/:id/attempts': ofJob(seen, (probes, owner) => probes.failure(owner)),
  'GET /api/v1/jobs/:id/logs': ofJob(seen),
  'DELETE /api/v1/jobs/:id': ofJob(changed),
  'POST /api/v1/jobs/:id/approve': ofJob(judged, awaiting, {}),
  'POST /api/v1/jobs/:id/reject': ofJob(judged, awaiting, { comment: 'no' }),
  'POST /api/v1/jobs/:id/retry': ofJob(changed, ended, {}),
  'PATCH /api/v1/jobs/:id/window': ofJob(changed, fan, { concurrency: 1 }),
  'POST /api/v1/admin/workers/jobs/:id/cancel': ofJob(always, undefined, {}),
  'PATCH /api/v1/admin/workers/jobs/:id/priority': ofJob(always, undefined, { priority: 1 }),

  'PUT /api/v1/results/:name/:key': {
    expected: seen,
    async ask(probes, route, asker, whose) {
      const key = probes.mark()
      await probes.job(ownerOf(asker, whose), 'plain', { key })
      const answer = await probes.send(route, asker, { name: 'plain', key }, { input: null })
      if (answer.status >= 400) return outcomeOf(answer.status)
      return answer.text.includes('"readable":false') ? 'hidden' : 'done'
    },
  },
  'GET /api/v1/results/:name/:key': {
    expected: seen,
    async ask(probes, route, asker, whose) {
      const key = probes.mark()
      await probes.job(ownerOf(asker, whose), 'plain', { key })
      return outcomeOf((await probes.send(route, asker, { name: 'plain', key })).status)
    },
  },

  'GET /api/v1/schedules': ofList(scheduleSeen, async (probes, asker, owner) => {
    const name = await probes.schedule(owner)
    return (await probes.server.call('GET', '/schedules', { key: asker.key })).text.includes(`"${name}"`)
  }),
  'GET /api/v1/schedules/:name': ofSchedule(scheduleSeen),
  'GET /api/v1/schedules/:name/firings': ofSchedule(scheduleSeen),
  'GET /api/v1/schedules/:name/next': ofSchedule(scheduleSeen),
  'POST /api/v1/schedules': {
    // What is created belongs to who creates it, whatever it runs.
    expected: always,
    async ask(probes, route, asker) {
      const name = probes.mark()
      const answer = await probes.send(route, asker, {}, { name, task: 'plain', cron: '0 3 * * *' })
      return answer.status < 400 && answer.json().owner !== asker.name
        ? answer.status
        : outcomeOf(answer.status)
    },
  },
  'PATCH /api/v1/schedules/:name': ofSchedule(scheduleChanged, { enabled: false }),
  'DELETE /api/v1/schedules/:name': ofSchedule(scheduleChanged),
  'POST /api/v1/schedules/:name/fire': ofSchedule(scheduleChanged),
  'POST /api/v1/schedules/:name/reset': ofSchedule(scheduleChanged),

  'GET /api/v1/keys': ofList(always, async (probes, asker, owner) => {
    const id = await probes.keyId(`${owner} ${probes.mark()}`, 'viewer')
    return (await probes.server.call('GET', '/keys?limit=1000', { key: asker.key })).text.includes(
      `"id":"${id}"`,
    )
  }),
  'POST /api/v1/keys': {
    // A key of somebody else's name reads that one's jobs.
    expected: (asker, whose) => (whose === 'own' || asker.may('jobs:read:all') ? 'done' : 'forbidden'),
    async ask(probes, route, asker, whose) {
      const name = whose === 'own' ? asker.name : probes.mark()
      if (whose === 'foreign') await probes.keyId(name, 'viewer')
      return outcomeOf((await probes.send(route, asker, {}, { name, role: asker.role })).status)
    },
  },
  'GET /api/v1/keys/:id': ofKey(always),
  'PATCH /api/v1/keys/:id': ofKey(
    (asker, whose) => (mayAll(asker) || (whose === 'own' && asker.may('workers:run')) ? 'done' : 'forbidden'),
    { runs: { tasks: [] } },
  ),
  'DELETE /api/v1/keys/:id': ofKey((asker, whose) =>
    whose === 'own' || mayAll(asker) ? 'done' : 'forbidden',
  ),

  'GET /api/v1/session': ofSession((_, whose) => (whose === 'own' ? 'done' : 'unauthenticated')),
  'DELETE /api/v1/session': ofSession((_, whose) => (whose === 'own' ? 'done' : 'forbidden')),
  'POST /api/v1/session': {
    expected: (_, whose) => (whose === 'own' ? 'done' : 'unauthenticated'),
    async ask({ server }, { method, url }, asker, whose) {
      const key = whose === 'own' ? asker.key : `slk_${'Z'.repeat(43)}`
      return outcomeOf((await server.at(method, url, { body: { key } })).status)
    },
  },
}
