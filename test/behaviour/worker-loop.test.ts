import { expect, test } from 'vitest'
import { assignment, ControlledSource, startLoop as start } from '../support/controlled-source.ts'
import { until } from '../support/until.ts'

// The loop of a worker against a source that a test controls to the microtask. Its poll is so long that whatever is
// not reported at once is not reported within the test.

test.each(Array.from({ length: 24 }, (_, n) => n))(
  'an attempt that ends %i microtasks after the loop looked is reported without waiting for the poll',
  async (microtasks) => {
    const source = new ControlledSource()
    const worker = await start(source, async () => {
      await new Promise((resolve) => setImmediate(resolve))
      for (let i = 0; i < microtasks; i++) await null
    })
    source.waiting.push(assignment('1'))
    worker.nudge()

    await until(() => source.reported.includes('1'), 'the ending to be reported', 5000)
    await worker.stop()
  },
)

test.each(Array.from({ length: 12 }, (_, n) => n))(
  'a wake that comes %i microtasks after an answer is not lost',
  async (microtasks) => {
    const source = new ControlledSource()
    const worker = await start(source, () => null)
    const answer = source.cycle.bind(source)
    let armed = true
    source.cycle = async (request) => {
      const answered = await answer(request)
      if (armed) {
        armed = false
        void (async () => {
          for (let i = 0; i < microtasks; i++) await null
          source.waiting.push(assignment('1'))
          source.events!.wake(false)
        })()
      }
      return answered
    }
    source.events!.wake(false)

    await until(() => source.reported.includes('1'), 'the job to run', 5000)
    await worker.stop()
  },
)

test('endings that could not be sent are sent again, each once, when the other side is back', async () => {
  const source = new ControlledSource()
  const worker = await start(source, () => null)
  source.waiting.push(assignment('1'), assignment('2'))
  const answer = source.cycle.bind(source)
  let cycles = 0
  source.cycle = (request) => {
    source.away = cycles++ === 1
    return answer(request)
  }
  worker.nudge()

  await until(() => source.reported.length >= 2, 'both endings')
  await worker.stop()
  expect(source.reported.sort()).toEqual(['1', '2'])
})

test('one cycle takes no more than the cap, and no more than there is room for', async () => {
  const source = new ControlledSource()
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const worker = await start(source, () => held, { capacity: 7 })
  for (let i = 1; i <= 20; i++) source.waiting.push(assignment(String(i)))
  worker.nudge()

  await until(() => worker.running === 7, 'the worker to be full')
  expect(Math.max(...source.frees)).toBe(5)
  source.frees.length = 0
  worker.nudge()
  await until(() => source.frees.length > 0, 'another cycle')
  expect(new Set(source.frees)).toEqual(new Set([0]))
  release()
  await until(() => source.reported.length === 20, 'all to end')
  await worker.stop()
})
