import { expect, test } from 'vitest'
import type { Attempt, AttemptServices } from '../../src/worker/attempt.ts'
import { Stop } from '../../src/worker/attempt.ts'
import { type AnyModel, model } from '../../src/worker/models/model.ts'
import { ModelKeeper } from '../../src/worker/models/model-keeper.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const MIB = 1024 ** 2

/** An attempt as far as loading a model needs one. */
function attempt() {
  const controller = new AbortController()
  const messages: string[] = []
  const services = { progress: (_: number, message?: string) => void messages.push(message ?? '') }
  return {
    messages,
    signal: controller.signal,
    services: services as Partial<AttemptServices> as AttemptServices,
    stop: () => controller.abort(new Stop('cancelled', 'on request')),
  } as unknown as Attempt & { readonly messages: string[]; stop(): void }
}

/** What a worker does with a job's model before it runs. */
async function enter(
  keeper: ModelKeeper,
  name: string,
  devices: readonly string[],
  job: Attempt,
  self: boolean,
) {
  const copy = keeper.join(name, devices)
  try {
    await keeper.ready(copy, job, self)
    return copy
  } catch (error) {
    keeper.leave(copy, false)
    throw error
  }
}

/** A model whose hooks a test holds up, and the keeper that has it. */
function keep(options: Partial<Parameters<typeof model>[0]> = {}) {
  const calls: string[] = []
  const loads = new Map<string, Gate>()
  const used = new Map([
    ['x', 100 * MIB],
    ['y', 100 * MIB],
  ])
  const llama: AnyModel = model({
    name: 'llama',
    async load({ devices }) {
      calls.push(`load ${devices}`)
      await loads.get(devices.join())?.pass()
      for (const device of devices) used.set(device, (used.get(device) ?? 0) + 2000 * MIB)
      return { on: devices }
    },
    unload(_, { devices }) {
      calls.push(`unload ${devices}`)
    },
    ...options,
  })
  const errors: string[] = []
  const keeper = new ModelKeeper({
    models: new Map([['llama', llama]]),
    devices: {
      usedNow: async () => new Map(used),
      get lastUsed() {
        return new Map(used)
      },
      expectChange: async () => void calls.push('look'),
      refresh: async () => {},
    },
    log: { info() {}, error: (_, message) => void errors.push(message) },
    onNews() {},
  })
  const news = () => {
    const taken = keeper.takeNews()
    keeper.told(true)
    return taken
  }
  return { keeper, calls, loads, used, errors, news }
}

test('a model is loaded for the first job that needs it, and kept for the next', async () => {
  const { keeper, calls, news } = keep()
  const first = attempt()
  const copy = await enter(keeper, 'llama', ['x'], first, false)
  expect(copy.value).toEqual({ on: ['x'] })
  expect(first.messages).toEqual(['loading llama'])
  expect(news()).toEqual({
    loaded: [{ model: 'llama', devices: ['x'], loadMs: expect.any(Number), observed: { x: 2000 * MIB } }],
    unloaded: [],
    ran: [],
  })
  keeper.leave(copy, true)
  const second = attempt()
  expect(await enter(keeper, 'llama', ['x'], second, false)).toBe(copy)
  expect(second.messages).toEqual([])
  keeper.ran('llama', 20)
  expect(news()).toEqual({ loaded: [], unloaded: [], ran: [{ model: 'llama', jobs: 1, totalMs: 20 }] })
  expect(calls).toEqual(['load x'])
})

test('jobs that need a model at the same time wait for one load; other devices load meanwhile', async () => {
  const { keeper, calls, loads } = keep()
  const gate = new Gate()
  loads.set('x', gate)
  const waiting = [
    enter(keeper, 'llama', ['x'], attempt(), false),
    enter(keeper, 'llama', ['x'], attempt(), false),
  ]
  await enter(keeper, 'llama', ['y'], attempt(), false)
  await until(() => calls.length === 2, 'both loads to begin')
  gate.open()
  const [one, two] = await Promise.all(waiting)
  expect(one).toBe(two)
  expect(calls).toEqual(['load x', 'load y'])
})

test('a copy on several devices is one, whatever their order', async () => {
  const { keeper, news } = keep()
  const copy = await enter(keeper, 'llama', ['y', 'x'], attempt(), false)
  expect(await enter(keeper, 'llama', ['x', 'y'], attempt(), false)).toBe(copy)
  expect(news()!.loaded).toMatchObject([{ devices: ['x', 'y'], observed: { x: 2000 * MIB, y: 2000 * MIB } }])
  keeper.leave(copy, true)
  keeper.leave(copy, true)
  keeper.unload([{ model: 'llama', device: 'y' }])
  await until(() => copy.isGone && keeper.hasNews, 'the copy to be gone')
  expect(news()!.unloaded).toEqual([
    { model: 'llama', device: 'x' },
    { model: 'llama', device: 'y' },
  ])
})

test('a model that has to make room goes when its last job has ended, and not before', async () => {
  const { keeper, calls, news } = keep()
  const copy = await enter(keeper, 'llama', ['x'], attempt(), false)
  news()
  keeper.unload([{ model: 'llama', device: 'x' }])
  expect(calls).toEqual(['load x'])
  keeper.leave(copy, true)
  await until(() => keeper.hasNews, 'it to be unloaded')
  expect(calls).toEqual(['load x', 'unload x', 'look'])
  expect(news()).toMatchObject({ unloaded: [{ model: 'llama', device: 'x' }] })
  await enter(keeper, 'llama', ['x'], attempt(), false)
  expect(calls.at(-1)).toBe('load x')
})

test('a load that fails fails every job that waits for it; the next job loads again', async () => {
  let tries = 0
  const { keeper, news } = keep({
    load: async () => {
      if (++tries === 1) throw new Error('no such weights')
      return 'there'
    },
  })
  const both = await Promise.allSettled([
    enter(keeper, 'llama', ['x'], attempt(), false),
    enter(keeper, 'llama', ['x'], attempt(), false),
  ])
  expect(both).toMatchObject([
    { reason: { message: 'no such weights' } },
    { reason: { message: 'no such weights' } },
  ])
  expect(tries).toBe(1)
  await until(() => keeper.hasNews, 'the news')
  expect(news()).toMatchObject({ loaded: [], unloaded: [{ model: 'llama', device: 'x' }] })
  expect((await enter(keeper, 'llama', ['x'], attempt(), false)).value).toBe('there')
})

test('a stopped job does not wait for the load; the load is abandoned when no job waits for it', async () => {
  let told: unknown
  const { keeper, news } = keep({
    load: ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          told = signal.reason
          reject(signal.reason)
        })
      }),
  })
  const [first, second] = [attempt(), attempt()]
  const entering = [enter(keeper, 'llama', ['x'], first, false), enter(keeper, 'llama', ['x'], second, false)]
  first.stop()
  await expect(entering[0]).rejects.toMatchObject({ reason: 'cancelled' })
  expect(told).toBeUndefined()
  second.stop()
  await expect(entering[1]).rejects.toMatchObject({ reason: 'cancelled' })
  await until(() => keeper.hasNews, 'the news')
  expect(told).toMatchObject({ message: 'no job waits for the model any more' })
  expect(news()!.unloaded).toEqual([{ model: 'llama', device: 'x' }])
})

test('a load that comes through although nobody waits any more is kept warm', async () => {
  const gate = new Gate()
  const { keeper, loads, calls, news } = keep()
  loads.set('x', gate)
  const only = attempt()
  const entering = enter(keeper, 'llama', ['x'], only, false)
  await until(() => calls.length === 1, 'the load to begin')
  only.stop()
  await expect(entering).rejects.toBeInstanceOf(Stop)
  gate.open()
  await until(() => keeper.hasNews, 'the load to end')
  expect(news()).toMatchObject({ loaded: [{ model: 'llama' }], unloaded: [] })
  await enter(keeper, 'llama', ['x'], attempt(), false)
  expect(calls).toEqual(['load x'])
})

test('a load that takes too long fails its jobs, and what it brings late is unloaded', async () => {
  const gate = new Gate()
  const unloaded: unknown[] = []
  const { keeper } = keep({
    timeout: 20,
    load: async () => {
      await gate.pass()
      return 'late'
    },
    unload: (value) => unloaded.push(value),
  })
  await expect(enter(keeper, 'llama', ['x'], attempt(), false)).rejects.toThrow(
    'model llama was not loaded within 20 ms',
  )
  gate.open()
  await until(() => unloaded.length === 1, 'what came late to be unloaded')
  expect(unloaded).toEqual(['late'])
})

test('memory is observed only where nothing else happened on the device', async () => {
  const { keeper, news } = keep()
  keeper.use(['x'], 1)
  await enter(keeper, 'llama', ['x'], attempt(), false)
  expect(news()!.loaded).toMatchObject([{ devices: ['x'], observed: {} }])
  keeper.use(['x'], -1)
  await enter(keeper, 'llama', ['y'], attempt(), false)
  expect(news()!.loaded).toMatchObject([{ devices: ['y'], observed: { y: 2000 * MIB } }])
})

test('a program that loads its model itself calls no hook, and the model counts as there', async () => {
  const { keeper, calls, news } = keep()
  const copy = await enter(keeper, 'llama', ['x'], attempt(), true)
  expect(copy.isLoaded).toBe(false)
  expect(news()!.loaded).toEqual([{ model: 'llama', devices: ['x'], loadMs: null, observed: {} }])
  keeper.leave(copy, true)
  expect(news()).toBeUndefined()
  const other = await enter(keeper, 'unknown', ['x'], attempt(), false)
  expect(other.value).toBeUndefined()
  keeper.leave(other, true)
  keeper.unload([{ model: 'llama', device: 'x' }])
  await until(() => keeper.hasNews, 'the end of it')
  expect(news()!.unloaded.map((each) => each.model)).toContain('llama')
  expect(calls).toEqual([])
})

test('reports a model to unload as gone if it is not loaded', () => {
  const { keeper, news } = keep()
  keeper.unload([{ model: 'ghost', device: 'x' }])
  expect(news()).toMatchObject({ unloaded: [{ model: 'ghost', device: 'x' }] })
})

test('logs a failed unload, and counts the model as gone', async () => {
  const { keeper, news, errors } = keep({
    unload: () => {
      throw new Error('it would not go')
    },
  })
  keeper.leave(await enter(keeper, 'llama', ['x'], attempt(), false), true)
  news()
  keeper.unload([{ model: 'llama', device: 'x' }])
  await until(() => keeper.hasNews, 'the end of it')
  expect(errors).toEqual(['a model could not be unloaded'])
})

test('a worker that starts over unloads models that nothing is charged for, silently, and can load them again', async () => {
  const gate = new Gate()
  const order: string[] = []
  const { keeper, news } = keep({
    load: async () => void order.push('load'),
    unload: async () => {
      await gate.pass()
      order.push('unload')
    },
  })
  keeper.leave(await enter(keeper, 'llama', ['x'], attempt(), false), true)
  keeper.startOver()
  const again = enter(keeper, 'llama', ['x'], attempt(), false)
  gate.open()
  await again
  expect(order).toEqual(['load', 'unload', 'load'])
  expect(news()).toMatchObject({ loaded: [{ model: 'llama' }], unloaded: [] })
})

test('a worker that stops unloads everything, and waits no longer than it may for a hook that does not end', async () => {
  const { keeper, calls } = keep()
  await enter(keeper, 'llama', ['x'], attempt(), false)
  keeper.leave(await enter(keeper, 'llama', ['y'], attempt(), false), true)
  await keeper.stop(5000)
  expect(calls.filter((call) => call.startsWith('unload')).sort()).toEqual(['unload x', 'unload y'])

  const stuck = keep({ unload: () => new Promise(() => {}) })
  await enter(stuck.keeper, 'llama', ['x'], attempt(), false)
  await stuck.keeper.stop(20)
})
