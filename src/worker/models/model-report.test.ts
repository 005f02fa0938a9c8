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

test('reports only the end of a model that was loaded and unloaded between two cycles', () => {
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

test('does not report a load whose report was lost once the model is unloaded', () => {
  const box = new ModelReport()
  box.loaded(loaded('a', 'x'))
  box.take()
  box.unloaded([{ model: 'a', device: 'x' }])
  box.settle(false)
  expect(box.take()).toMatchObject({ loaded: [], unloaded: [{ model: 'a', device: 'x' }] })
})
