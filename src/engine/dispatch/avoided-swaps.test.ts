import { expect, test } from 'vitest'
import { AvoidedSwaps } from './avoided-swaps.ts'

const A = (since: number, depth = 9) => ({ class: 1, model: 'a', since, depth })
const B = (since: number, depth: number) => ({ class: 2, model: 'b', since, depth })
const start = { classId: 1, count: 1, model: 'a', newResident: false }

test('a job that starts on a loaded model past an older one of a model that is not avoids a swap', () => {
  const swaps = new AvoidedSwaps()
  expect(swaps.count({ queues: [A(2), B(1, 3)], residents: [{ model: 'a' }] }, [start])).toEqual({ a: 1 })
  expect(
    swaps.count({ queues: [A(2), B(1, 3)], residents: [{ model: 'a' }] }, [{ ...start, count: 5 }]),
  ).toEqual({
    a: 2,
  })
})

test('a hundred jobs that pass a single one avoid one swap', () => {
  const swaps = new AvoidedSwaps()
  let sum = 0
  for (let n = 0; n < 100; n++)
    sum += swaps.count({ queues: [A(10 + n), B(1, 1)], residents: [{ model: 'a' }] }, [start]).a ?? 0
  expect(sum).toBe(1)
})

test('one that was loaded in between may be passed again', () => {
  const swaps = new AvoidedSwaps()
  const passed = { queues: [A(2), B(1, 1)], residents: [{ model: 'a' }] }
  expect(swaps.count(passed, [start])).toEqual({ a: 1 })
  swaps.count({ ...passed, residents: [{ model: 'a' }, { model: 'b' }] }, [start])
  expect(swaps.count(passed, [start])).toEqual({ a: 1 })
})

test('nothing is avoided where order is kept, nothing waits cold, or the model is loaded for the job', () => {
  const swaps = new AvoidedSwaps()
  const residents = [{ model: 'a' }]
  expect(swaps.count({ queues: [A(1), B(2, 1)], residents }, [start])).toEqual({})
  expect(swaps.count({ queues: [A(2)], residents }, [start])).toEqual({})
  expect(swaps.count({ queues: [A(2), B(1, 1)], residents: [] }, [{ ...start, newResident: true }])).toEqual(
    {},
  )
  // Both are served: it is loaded beside the other.
  const beside = { classId: 2, count: 1, model: 'b', newResident: true }
  expect(swaps.count({ queues: [A(2), B(1, 1)], residents }, [beside, start])).toEqual({})
})
