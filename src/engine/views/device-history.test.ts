import { expect, test } from 'vitest'
import type { DeviceSnapshot, ModelSnapshot, SystemSnapshot } from '../../store/read-snapshot.ts'
import { devicesOver } from './device-history.ts'

const on = (model: string, running = 0, state: ModelSnapshot['state'] = 'loaded'): ModelSnapshot => ({
  model,
  worker: 'w',
  state,
  running,
})

function moment(seconds: number, models: readonly ModelSnapshot[]): SystemSnapshot {
  const device: DeviceSnapshot = {
    budget: 'vram',
    key: 'gpu',
    host: 'h',
    name: 'gpu0',
    bytes: true,
    capacity: 10,
    held: models.length,
    running: 0,
    measuredUsed: null,
    lostAt: null,
    models,
  }
  return { at: seconds * 1000, devices: [device] } as unknown as SystemSnapshot
}

test('a model that stays is one span; one that comes back after a while is another', () => {
  const [device] = devicesOver([
    moment(0, [on('a', 0, 'loading')]),
    moment(10, [on('a', 2)]),
    moment(20, [on('a', 4), on('b')]),
    moment(30, [on('b', 1)]),
    moment(90, [on('b', 1)]),
  ])
  const told = device!.spans.map(({ model, state, since, until, jobs }) => [
    model,
    state,
    since.getTime() / 1000,
    until.getTime() / 1000,
    jobs,
  ])
  expect(told).toEqual([
    ['a', 'loading', 0, 0, 0],
    ['a', 'loaded', 10, 20, 4],
    ['b', 'loaded', 20, 30, 1],
    ['b', 'loaded', 90, 90, 1],
  ])
  expect(device).toMatchObject({ budget: 'vram', name: 'gpu0', capacity: 10 })
  expect(device!.points.map(({ held }) => held)).toEqual([1, 1, 2, 1, 1])
})

test('of a long time each point stands for a stretch, with the most that was held in it', () => {
  const held = [0, 3, 1, 0, 0, 2, 1]
  const moments = held.map((count, at) =>
    moment(
      at * 10,
      Array.from({ length: count }, (_, n) => on(`m${n}`)),
    ),
  )
  const pointsOf = (most: number) =>
    devicesOver(moments, most)[0]!.points.map((point) => [point.at.getTime() / 10_000, point.held])
  expect(pointsOf(7)).toHaveLength(7)
  expect(pointsOf(3)).toEqual([
    [1, 3],
    [5, 2],
    [6, 1],
  ])
  expect(pointsOf(2)).toEqual([
    [1, 3],
    [5, 2],
  ])
  expect(pointsOf(0)).toEqual([])
})

test('a model that stays while nothing runs, and so nothing is sampled, is one span', () => {
  const loaded = (since: number) => ({ ...on('a'), since: since * 1000 })
  const [device] = devicesOver([
    moment(10, [loaded(4)]),
    moment(600, [loaded(4)]),
    moment(900, [loaded(880)]),
  ])
  expect(device!.spans.map(({ since, until }) => [since.getTime() / 1000, until.getTime() / 1000])).toEqual([
    [4, 600],
    [880, 900],
  ])
})
