import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { checkQueues } from '../../src/engine/diagnosis/queues.ts'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

const GB = 1024 ** 3
const budgets = { vram: { gpu0: '24GB' } }
const lanes = { default: { perWorker: null, poll: 200 } } as const

function models(gate: Gate) {
  return {
    chat: task({
      name: 'chat',
      model: 'llama',
      uses: { vram: '16GB' },
      run: (name: string) => gate.pass(name),
    }),
    draw: task({
      name: 'draw',
      model: 'flux',
      uses: { vram: '12GB' },
      run: (name: string) => gate.pass(name),
    }),
  }
}

test('a job that waits for a device says when it is estimated to start, and counts only jobs of its own model', async () => {
  const gate = new Gate()
  const { chat, draw } = models(gate)
  const app = await apps.open({ tasks: [chat, draw], budgets, lanes })
  await app.work({ capacity: 0 })
  await app.submit(chat, 'first')
  await gate.arrived(1)
  await app.submitMany(chat, ['second', 'third', 'fourth'])
  const { id } = await app.submit(draw, 'other')
  const told = await until(async () => {
    const found = await app.why(id)
    return found.wait.budget?.until != null && found
  }, 'a time to be known')
  expect(told).toMatchObject({
    // Three jobs of the lane are older, and of another model.
    position: 1,
    estimateSeconds: null,
    wait: { kind: 'budget', budget: { need: 12 * GB, room: 8 * GB, heldBy: ['llama'] } },
    reason: expect.stringMatching(
      /^its model flux needs 12GB of vram on \S+, where 8GB is free; llama holds the rest; estimated start \S+Z$/,
    ),
  })
  expect(told.words.join('\n')).not.toMatch(/before it|that takes about/)
  const [device] = (await app.budgets()).budgets[0]!.devices
  expect(device).toMatchObject({ room: 8 * GB })
  expect(device!.next.find(({ model }) => model === 'flux')).toMatchObject({ room: 8 * GB })
  gate.open()
  await until(async () => (await app.getJob(id)).state === 'completed', 'it to run')
})

test("a job that an operator's limit keeps from starting says so, and gets no estimate", async () => {
  const gate = new Gate()
  gate.open()
  const { chat } = models(gate)
  const app = await apps.open({ tasks: [chat], budgets, lanes })
  await app.work({ capacity: 0 })
  const { id } = await app.submit(chat, 'runs')
  await until(async () => (await app.getJob(id)).state === 'completed', 'a job to end in time')
  await app.stopWorking()
  const late = await app.submit(chat, 'cannot')
  await app.setBudget('vram', { limits: { gpu0: '12GB' } })
  await app.work({ capacity: 0 })
  const told = await until(async () => {
    const found = await app.why(late.id)
    return found.wait.kind === 'budget' && found
  }, 'the policy to be asked')
  expect(told).toMatchObject({ estimateSeconds: null, wait: { until: null } })
  expect(told.reason).toMatch(
    /^its model llama needs 16GB of vram on one device; an operator's limit holds \S+, the largest that a worker offers, at 12GB$/,
  )
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'doctor' })
  onTestFinished(() => db.close())
  const doctor = await until(async () => {
    const found = await checkQueues({ db })
    return found.some(({ level }) => level === 'note') && found
  }, 'a second to go by')
  expect(doctor).toMatchObject([
    {
      check: 'task chat',
      found: expect.stringMatching(
        /^1 waiting in lane default, .*an operator's limit holds \S+, the largest that a worker offers, at 12GB$/,
      ),
      advice: 'sluice devices shows what holds it, and what comes next',
    },
  ])
  await app.setBudget('vram', { limits: { gpu0: null } })
  await until(async () => (await app.getJob(late.id)).state === 'completed', 'it to run without the limit')
})

test('of several machines that are all too small, the job and the list of queues name the same', async () => {
  const { SLUICE_HOST } = process.env
  onTestFinished(() => {
    if (SLUICE_HOST === undefined) delete process.env.SLUICE_HOST
    else process.env.SLUICE_HOST = SLUICE_HOST
  })
  const { chat } = models(new Gate())
  const own = { ...lanes, default: { ...lanes.default, enabled: false } }
  const app = await apps.open({ tasks: [chat], budgets, lanes: own })
  for (const host of ['small', 'large']) {
    process.env.SLUICE_HOST = host
    await (await apps.open({ tasks: [chat], budgets, lanes: own })).work({ capacity: 0 })
  }
  await until(
    async () =>
      (await app.budgets()).budgets[0]!.devices.filter(({ workers }) => workers.length > 0).length === 2,
    'both devices',
  )
  const { id } = await app.submit(chat, 'nowhere')
  await app.setBudget('vram', { limits: { 'small/gpu0': '10GB', 'large/gpu0': '15GB' } })
  await app.setLane('default', { enabled: true })
  const holds = "an operator's limit holds large/gpu0, the largest that a worker offers, at 15GB"
  const { reason } = await until(async () => {
    const told = await app.why(id)
    return told.wait.kind === 'budget' && told
  }, 'the policy to be asked')
  expect(reason).toBe(`its model llama needs 16GB of vram on one device; ${holds}`)
  expect((await app.budgets()).queues).toMatchObject([
    {
      task: 'chat',
      why: 'too-big',
      room: 15 * GB,
      reason: `llama needs 16GB of vram on one device; ${holds}`,
    },
  ])
  await app.cancel(id)
  await app.resetBudget('vram')
})

test('a queue that its lane holds back names the lane and the limit', async () => {
  const gate = new Gate()
  const { chat, draw } = models(gate)
  const app = await apps.open({
    tasks: [chat, draw],
    budgets: { vram: { gpu0: '48GB' } },
    lanes: { default: { perWorker: 1, poll: 200 } },
  })
  await app.work({ capacity: 0 })
  await app.submit(chat, 'first')
  await gate.arrived(1)
  await app.submit(draw, 'second')
  const { queues } = await app.budgets()
  expect(queues).toMatchObject([
    {
      task: 'draw',
      why: 'lane-full',
      reason: 'each worker has as many jobs of lane default as perWorker allows: 1',
    },
  ])
  gate.open()
})
