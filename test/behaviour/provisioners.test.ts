import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { hasCode } from '../../src/errors.ts'
import { createProvisioner } from '../../src/fleet/create-provisioner.ts'
import { loadSdk, type Provisioner, type StartRequest } from '../../src/fleet/provisioner.ts'
import type { PoolSettings } from '../../src/model/fields/pool.ts'
import { FakeEcs } from '../support/fake-ecs.ts'
import { FakeKubernetes } from '../support/fake-kubernetes.ts'
import { expectGone } from '../support/processes.ts'

/** What a suite has to know and change of the place where workers are started. */
/** Legal for a pool, while Kubernetes and ECS allow less in what they know workers by. */
const POOL = '_eu.burst-'

interface Place {
  readonly options: Readonly<Record<string, unknown>>
  /** The environments of all that was ever started there. */
  environments(): Readonly<Record<string, string>>[]
  /** What has been started works by now. */
  settle?(): void
  become(change: Partial<Behaviour>): void
  close(): Promise<void>
}

interface Behaviour {
  readonly throttles: number
  readonly noRoomFor: readonly number[]
  readonly denies: boolean
  readonly hangs: boolean
}

const USUAL: Behaviour = { throttles: 0, noRoomFor: [], denies: false, hangs: false }
const folder = mkdtempSync(join(tmpdir(), 'sluice-provisioners-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function ecs(): Promise<Place> {
  process.env.AWS_ACCESS_KEY_ID = 'AKIAEXAMPLE'
  process.env.AWS_SECRET_ACCESS_KEY = 'secret'
  const server = new FakeEcs()
  const endpoint = await server.listen()
  return {
    options: {
      cluster: 'jobs',
      taskDefinition: 'sluice-worker:7',
      container: 'worker',
      launchType: 'FARGATE',
      subnets: ['subnet-1'],
      region: 'eu-central-1',
      endpoint,
    },
    environments: () => [...server.tasks.values()].map(({ environment }) => environment),
    settle: () => {
      for (const task of server.tasks.values()) task.lastStatus = 'RUNNING'
    },
    become: (change) => Object.assign(server, change),
    close: () => server.close(),
  }
}

function kubeconfigOf(server: string): string {
  const file = join(folder, 'kubeconfig')
  writeFileSync(
    file,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'here', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'me', user: { token: 'secret' } }],
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'me', namespace: 'work' } }],
      'current-context': 'here',
    }),
  )
  return file
}

async function kubernetes(): Promise<Place> {
  const server = new FakeKubernetes()
  const kubeconfig = kubeconfigOf(await server.listen())
  const started = server.jobs
  const everything: Readonly<Record<string, string>>[] = []
  return {
    options: { image: 'registry.example/jobs:7', args: ['worker'], secrets: ['sluice'], kubeconfig },
    environments: () => {
      const now = [...started.values()].map(({ body }) =>
        Object.fromEntries(
          body.spec.template.spec.containers[0]!.env.map(({ name, value }) => [name, value]),
        ),
      )
      for (const each of now)
        if (!everything.some(({ SLUICE_REQUEST }) => SLUICE_REQUEST === each.SLUICE_REQUEST))
          everything.push(each)
      return everything
    },
    settle: () => {
      for (const job of started.values()) job.status = { active: 1, ready: 1 }
    },
    become: (change) => Object.assign(server, change),
    close: () => server.close(),
  }
}

async function command(): Promise<Place> {
  const file = join(folder, 'world.json')
  const read = () => JSON.parse(readFileSync(file, 'utf8'))
  const write = (change: object) => writeFileSync(file, JSON.stringify({ ...read(), ...change }))
  writeFileSync(file, JSON.stringify({ ...USUAL, instances: {} }))
  const program = fileURLToPath(new URL('../support/fixtures/provisioner.mjs', import.meta.url))
  return {
    options: { argv: [program, file] },
    environments: () =>
      Object.values(read().instances as Record<string, { environment: Record<string, string> }>).map(
        ({ environment }) => environment,
      ),
    settle: () => {
      const { instances } = read()
      for (const instance of Object.values(instances)) Object.assign(instance as object, { state: 'running' })
      write({ instances })
    },
    become: write,
    close: async () => {},
  }
}

async function local(): Promise<Place> {
  const program = join(folder, 'worker.mjs')
  const notes = join(folder, 'started')
  writeFileSync(notes, '')
  writeFileSync(
    program,
    `import { appendFileSync } from 'node:fs'
     const { SLUICE_POOL, SLUICE_REQUEST, SLUICE_CAPACITY, SLUICE_LABELS } = process.env
     appendFileSync(${JSON.stringify(notes)}, JSON.stringify({ SLUICE_POOL, SLUICE_REQUEST, SLUICE_CAPACITY, SLUICE_LABELS }) + '\\n')
     setInterval(() => {}, 1000)`,
  )
  const read = () =>
    readFileSync(notes, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, string>)
  return {
    options: { argv: [process.execPath, program] },
    environments: read,
    become: () => {},
    close: async () => {},
  }
}

/** What a kind of place cannot do, with the reason. */
const CANNOT: Readonly<Record<string, Partial<Record<'throttle' | 'deny' | 'partly' | 'hang', string>>>> = {
  local: {
    throttle: 'a machine does not throttle',
    deny: 'its own test: a program that does not exist',
    partly: 'all its members are the same program',
    hang: 'starting a process does not hang',
  },
  command: { throttle: 'an operator decides in the program how to wait' },
}
const KINDS: [PoolSettings['provisioner'], () => Promise<Place>][] = [
  ['local', local],
  ['command', command],
  ['ecs', ecs],
  ['kubernetes', kubernetes],
]

describe.each(KINDS)('the provisioner %s', (kind, open) => {
  const cannot = CANNOT[kind] ?? {}
  let place: Place
  let provisioner: Provisioner
  let requests = 0
  const request = (count: number): StartRequest => ({
    token: `0f8fad5b-d9cb-469f-a165-70867728950${requests++}`,
    pool: POOL,
    members: Array.from({ length: count }, (_, index) => index + 1),
    capacity: 4,
    labels: { gpu: true },
  })
  const soon = () => AbortSignal.timeout(10_000)

  beforeAll(async () => {
    place = await open()
    provisioner = await createProvisioner(kind, {
      pool: POOL,
      options: place.options,
      folder,
      configFile: undefined,
      environment: {},
    })
  })
  beforeEach(() => place.become(USUAL))
  afterAll(async () => {
    await provisioner.close()
    await place.close()
  })

  test('starts each member once, however often it is asked, and gives it what it is known by', async () => {
    const asked = request(3)
    const first = await provisioner.start(asked, soon())
    expect(first.failures).toEqual([])
    expect(first.instances.map(({ member }) => member)).toEqual([1, 2, 3])
    expect(new Set(first.instances.map(({ id }) => id)).size).toBe(3)

    expect(await provisioner.start(asked, soon())).toEqual(first)

    const mine = () =>
      place.environments().filter(({ SLUICE_REQUEST }) => SLUICE_REQUEST?.startsWith(asked.token))
    // A process notes it when it has come up, not when it was started.
    await expect.poll(mine, { timeout: 60_000 }).toHaveLength(3)
    const sorted = mine().sort((a, b) => (a.SLUICE_REQUEST! < b.SLUICE_REQUEST! ? -1 : 1))
    expect(sorted[1]).toEqual({
      SLUICE_POOL: POOL,
      SLUICE_REQUEST: `${asked.token}.2`,
      SLUICE_CAPACITY: '4',
      SLUICE_LABELS: '{"gpu":true}',
    })
  })

  test('tells what runs and what has ended; stopping twice, or what nobody knows, is no failure', async () => {
    const { instances } = await provisioner.start(request(2), soon())
    const [first, second] = instances.map(({ id }) => id) as [string, string]
    place.settle?.()
    expect((await provisioner.describe([first, second], soon())).map(({ state }) => state)).toEqual([
      'running',
      'running',
    ])

    await provisioner.stop([first], 'it did not come', soon())
    await provisioner.stop([first, 'nobody-knows-me'], 'it did not come', soon())

    const state = async () => (await provisioner.describe([first], soon()))[0]!.state
    await expect.poll(state, { timeout: 60_000 }).toBe('stopped')
    expect((await provisioner.describe([second], soon()))[0]!.state).toBe('running')
  })

  test.skipIf(cannot.partly !== undefined)('tells which ones it could not start', async () => {
    place.become({ noRoomFor: [2] })
    const { instances, failures } = await provisioner.start(request(3), soon())
    expect(instances.map(({ member }) => member)).toEqual([1, 3])
    expect(failures).toEqual([{ member: 2, message: expect.stringMatching(/room|RESOURCE:MEMORY|quota/) }])
  })

  test.skipIf(cannot.partly !== undefined)('fails when it could start none', async () => {
    place.become({ noRoomFor: [1, 2] })
    await expect(provisioner.start(request(2), soon())).rejects.toMatchObject({ code: 'PROVISIONER_FAILED' })
  })

  test.skipIf(cannot.deny !== undefined)('says so when it has no rights', async () => {
    place.become({ denies: true })
    const error: unknown = await provisioner.start(request(2), soon()).catch((thrown: unknown) => thrown)
    expect(hasCode(error, 'PROVISIONER_FAILED')).toBe(true)
    expect(error).toMatchObject({
      details: { kind: kind === 'command' ? 'refused' : 'denied' },
      message: expect.stringMatching(/not authorized|forbidden|not for you/),
    })
  })

  test.skipIf(cannot.throttle !== undefined)(
    'waits out a short throttling and reports a long one',
    async () => {
      place.become({ throttles: 2 })
      expect((await provisioner.start(request(1), soon())).instances).toHaveLength(1)
      place.become({ throttles: 1000 })
      await expect(provisioner.start(request(1), soon())).rejects.toMatchObject({
        details: { kind: 'throttled' },
      })
    },
  )

  test.skipIf(cannot.hang !== undefined)('gives up when nobody answers in time', async () => {
    place.become({ hangs: true })
    const began = performance.now()
    const limit = () => AbortSignal.timeout(500)
    await expect(provisioner.start(request(2), limit())).rejects.toMatchObject({
      details: { kind: 'timeout' },
    })
    await expect(provisioner.describe(['x'], limit())).rejects.toMatchObject({ details: { kind: 'timeout' } })
    expect(performance.now() - began).toBeLessThan(8000)
  })
})

describe('options of provisioners', () => {
  const create = (kind: PoolSettings['provisioner'], options: Record<string, unknown>) =>
    createProvisioner(kind, { pool: 'burst', options, folder, configFile: undefined, environment: {} })

  test.each<[PoolSettings['provisioner'], Record<string, unknown>, string]>([
    ['local', {}, 'no config file names tasks'],
    ['local', { args: [] }, 'did you mean argv?'],
    ['command', {}, 'fleet.pools.burst.options.argv'],
    ['command', { argv: [] }, 'must be a program and its arguments'],
    ['ecs', { cluster: 'jobs' }, 'fleet.pools.burst.options.taskDefinition'],
    ['ecs', { taskDefinition: 'w', container: 'w', launchType: 'FARGATE' }, 'needs subnets'],
    ['ecs', { taskDefinition: 'w', container: 'w', launchType: 'MOON' }, 'must be one of EC2, FARGATE'],
    ['kubernetes', {}, 'set either image or template, not both'],
    ['kubernetes', { template: { spec: {} } }, 'a pod template with spec.containers'],
  ])('%s refuses %j', async (kind, options, message) => {
    await expect(create(kind, options)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining(message),
    })
  })

  test('a pod of Kubernetes is never restarted, whatever the template says', async () => {
    const server = new FakeKubernetes()
    const kubeconfig = kubeconfigOf(await server.listen())
    const spec = {
      containers: [{ name: 'worker', image: 'registry.example/jobs:7' }],
      restartPolicy: 'Always',
    }
    const provisioner = await create('kubernetes', { template: { spec }, kubeconfig })
    const request = { token: 't', pool: 'burst', members: [1], capacity: 1, labels: {} }
    await provisioner.start(request, AbortSignal.timeout(10_000))
    const pods = [...server.jobs.values()].map(({ body }) => body.spec.template.spec)
    expect(pods).toMatchObject([{ restartPolicy: 'Never', containers: [{ name: 'worker' }] }])
    await provisioner.close()
    await server.close()
  })

  test('a program that does not exist is a failure of the provisioner, not of the process', async () => {
    const request = { token: 't', pool: 'burst', members: [1], capacity: 1, labels: {} }
    for (const kind of ['local', 'command'] as const) {
      const provisioner = await create(kind, { argv: ['./does-not-exist'] })
      await expect(provisioner.start(request, AbortSignal.timeout(5000))).rejects.toMatchObject({
        code: 'PROVISIONER_FAILED',
        message: expect.stringContaining('does-not-exist'),
      })
    }
  })

  test.each([
    [
      'an id that no table could hold',
      `{ instances: [{ member: 1, id: 'vm\\0-1' }] }`,
      /id must have at most 1000 .* "vm\\u0000-1"/,
    ],
    [
      'an id of a MiB',
      `{ instances: [{ member: 1, id: 'x'.repeat(1e6) }] }`,
      /id must have at most 1000 characters/,
    ],
    [
      'a complaint of a MiB',
      `{ instances: [], failures: [{ member: 1, message: 'x'.repeat(1e6) }] }`,
      /^x{1000}… \(1000000 /,
    ],
    [
      'an answer of more than a MiB',
      `{ instances: [], text: 'x'.repeat(1 << 20) }`,
      /responded with more than 1048576 bytes/,
    ],
  ])('a program that answers with %s is refused in a few words', async (_, answer, message) => {
    const script = `process.stdin.resume().on('end', () => console.log(JSON.stringify(${answer})))`
    const provisioner = await create('command', { argv: [process.execPath, '-e', script] })
    const request = { token: 't', pool: 'burst', members: [1], capacity: 1, labels: {} }
    const error: unknown = await provisioner
      .start(request, AbortSignal.timeout(10_000))
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'PROVISIONER_FAILED', message: expect.stringMatching(message) })
    expect((error as Error).message.length).toBeLessThan(1200)
  })

  test('an SDK that is not installed is named, with how to get it', async () => {
    const missing = '@nobody/has-this'
    await expect(loadSdk(missing, 'ecs', () => import(missing))).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: `the provisioner ecs needs the package ${missing}, which is not installed: npm install ${missing}`,
    })
  })

  test('stops workers that a rejected response names', async () => {
    const answers: [string, string, object[]][] = [
      [
        '[{ member: 1, id: "a" }, { member: 2 }, { member: 2, id: "b\\0" }, null]',
        'instances must be a list of objects',
        [{ member: 1, id: 'a' }],
      ],
      [
        '[{ member: 7, id: "a" }, { member: 2, id: "b" }]',
        'member must be one of 1, 2',
        [
          { member: 0, id: 'a' },
          { member: 2, id: 'b' },
        ],
      ],
    ]
    const request = { token: 't', pool: 'burst', members: [1, 2], capacity: 1, labels: {} }
    for (const [instances, message, left] of answers) {
      const script = `process.stdin.resume().on('end', () => console.log(JSON.stringify({ instances: ${instances} })))`
      const provisioner = await create('command', { argv: [process.execPath, '-e', script] })
      const error: unknown = await provisioner
        .start(request, AbortSignal.timeout(10_000))
        .catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({
        code: 'PROVISIONER_FAILED',
        message: expect.stringContaining(message),
        instances: left,
      })
    }
  })

  test('a local worker is stopped by any server of its machine, and by none of another, which says so', async () => {
    const [owner, other] = await Promise.all(
      [1, 2].map(() =>
        create('local', { argv: [process.execPath, '-e', 'setInterval(() => {}, 1000)'] }),
      ) as [Promise<Provisioner>, Promise<Provisioner>],
    )
    const request = { token: 't', pool: 'burst', members: [1, 2], capacity: 1, labels: {} }
    const soon = () => AbortSignal.timeout(5000)
    const ids = (await owner.start(request, soon())).instances.map(({ id }) => id) as [string, string]
    const states = async (who: Provisioner, given: readonly string[]) =>
      (await who.describe(given, soon())).map(({ state }) => state)
    // The number of a process that has become another's.
    const reused = ids[1].replace('/t.2/', '/t.3/')
    const foreign = ids[1].replace(/^[^/]+/, 'elsewhere')
    expect(await states(other, [...ids, reused, foreign])).toEqual([
      'running',
      'running',
      'stopped',
      'unknown',
    ])

    await other.stop([ids[0], reused], 'test', soon())
    await expect.poll(() => states(owner, ids), { timeout: 60_000 }).toEqual(['stopped', 'running'])
    expect(await states(other, ids)).toEqual(['stopped', 'running'])
    await other.stop([ids[0]], 'test', soon())
    await expect(other.stop([foreign], 'test', soon())).rejects.toMatchObject({
      code: 'PROVISIONER_FAILED',
      message: `${foreign}: only a server on that machine can stop it`,
    })
    await Promise.all([owner.close(), other.close()])
  })

  test('children of a closed local provisioner are gone', async () => {
    const provisioner = await create('local', {
      argv: [process.execPath, '-e', 'setInterval(() => {}, 1000)'],
    })
    const request = { token: 't', pool: 'burst', members: [1], capacity: 1, labels: {} }
    const { instances } = await provisioner.start(request, AbortSignal.timeout(5000))
    await provisioner.close()
    await expectGone(Number(instances[0]!.id.split('/').at(-1)))
  })
})
