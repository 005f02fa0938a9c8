import { expect, test } from 'vitest'
import { ModelReport } from './model-report.ts'

const loaded = (model: string, ...devices: string[]) => ({ model, devices, loadMs: 1, observed: {} })

test('news is taken once, and again when it did not arrive, before what came after it', () => {
  const box = new ModelReport()
  expect(box.take()).toBeUndefined()
  box.loaded(loaded('a', 'x'))
  box.ran('a', 10)
  expect(box.take()).toEqual({
    loaded: [loaded('a', 'x')],
    unloaded: [],
    ran: [{ model: 'a', jobs: 1, totalMs: 10 }],
  })
  expect(box.take()).toBeUndefined()

  box.loaded(loaded('b', 'y'))
  box.ran('a', 5)
  box.settle(false)
  expect(box.take()).toEqual({
    loaded: [loaded('a', 'x'), loaded('b', 'y')],
    unloaded: [],
    ran: [{ model: 'a', jobs: 2, totalMs: 15 }],
  })
  box.settle(true)
  expect(box.isEmpty).toBe(true)
})

test('of a model that was loaded and unloaded between two cycles only the end is told', () => {
  const box = new ModelReport()
  box.loaded(loaded('a', 'x', 'y'))
  box.unloaded([
    { model: 'a', device: 'x' },
    { model: 'a', device: 'y' },
  ])
  expect(box.take()).toEqual({
    loaded: [],
    unloaded: [
      { model: 'a', device: 'x' },
      { model: 'a', device: 'y' },
    ],
    ran: [],
  })
})

test('a load whose news did not arrive is not told once the model is gone', () => {
  const box = new ModelReport()
  box.loaded(loaded('a', 'x'))
  box.take()
  box.unloaded([{ model: 'a', device: 'x' }])
  box.settle(false)
  expect(box.take()).toMatchObject({ loaded: [], unloaded: [{ model: 'a', device: 'x' }] })
})
