import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { Batcher, type BatcherOptions } from './batcher.ts'

/** Answers with the text in capitals, when it is let. */
function open(options: Partial<BatcherOptions<string, string>> = {}) {
  const asked: (readonly string[])[] = []
  const letGo: (() => void)[] = []
  const together = new Batcher<string, string>({
    atOnce: 1,
    most: 3,
    everyMs: 0,
    answer: async (questions) => {
      asked.push(questions)
      await new Promise<void>((resolve) => letGo.push(resolve))
      if (questions.some((each) => each === 'bad')) throw new Error('bad')
      return questions.map((each) => each.toUpperCase())
    },
    ...options,
  })
  /** Lets all that is asked be answered, also what is asked because of it. */
  const answer = async () => {
    for (let quiet = 0; quiet < 5; quiet++) {
      await turn()
      if (letGo.length > 0) quiet = 0
      for (const go of letGo.splice(0)) go()
    }
  }
  return { asked, together, answer }
}

describe('questions of many callers', () => {
  test('go together while one is under way, in their order and no more than fit, and each gets its own answer', async () => {
    const { asked, together, answer } = open()
    const first = together.ask('a')
    await turn()
    const rest = ['b', 'c', 'd', 'e'].map((each) => together.ask(each))
    await answer()
    expect(await Promise.all([first, ...rest])).toEqual(['A', 'B', 'C', 'D', 'E'])
    expect(asked).toEqual([['a'], ['b', 'c', 'd'], ['e']])
  })

  test('go together only with their like, and keep nobody waiting for the others', async () => {
    const { asked, together, answer } = open({ likeness: (text) => text[0]!, atOnce: 2 })
    const all = ['a1', 'b1', 'a2', 'b2'].map((each) => together.ask(each))
    await answer()
    expect(await Promise.all(all)).toEqual(['A1', 'B1', 'A2', 'B2'])
    expect(asked).toEqual([
      ['a1', 'a2'],
      ['b1', 'b2'],
    ])
  })

  test('are asked one by one when one of them may be to blame, and only that one fails', async () => {
    const { asked, together, answer } = open({ blamesOne: () => true })
    const all = ['a', 'bad', 'c'].map((each) => together.ask(each))
    const settled = Promise.allSettled(all)
    await answer()
    expect((await settled).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(asked).toEqual([['a', 'bad', 'c'], ['a'], ['bad'], ['c']])
  })

  test('fail together when none of them is to blame, and the next request is still sent', async () => {
    const { asked, together, answer } = open()
    const settled = Promise.allSettled(['a', 'bad'].map((each) => together.ask(each)))
    await answer()
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const next = together.ask('c')
    await answer()
    expect(await next).toBe('C')
    expect(asked).toEqual([['a', 'bad'], ['c']])
  })

  describe('with a pause from one beginning to the next', () => {
    const EVERY_MS = 30

    /** Answers at once; keeps what was asked, and when. */
    function openPausing(atOnce: number) {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
      const from = performance.now()
      const asked: [atMs: number, ...questions: string[]][] = []
      const together = new Batcher<string, string>({
        atOnce,
        most: 10,
        everyMs: EVERY_MS,
        likeness: (text) => text[0]!,
        answer: async (questions) => {
          asked.push([performance.now() - from, ...questions])
          return questions
        },
      })
      return { asked, together }
    }

    /** Lets time pass, and what is due in it happen. */
    async function pass(ms: number) {
      await vi.advanceTimersByTimeAsync(ms)
      await turn()
    }

    afterEach(() => {
      vi.useRealTimers()
    })

    test('wait for its end when they come within it', async () => {
      const { asked, together } = openPausing(1)
      await together.ask('a1')
      const all = [together.ask('a2'), together.ask('a3')]
      await pass(EVERY_MS - 1)
      expect(asked).toEqual([[0, 'a1']])
      await pass(1)
      await Promise.all(all)
      expect(asked).toEqual([
        [0, 'a1'],
        [EVERY_MS, 'a2', 'a3'],
      ])
    })

    test('wait only for the pause of their own kind, whatever was sent in between', async () => {
      const { asked, together } = openPausing(1)
      for (const each of ['a1', 'b1']) await together.ask(each)
      const all = ['a2', 'b2', 'a3', 'b3'].map((each) => together.ask(each))
      await pass(EVERY_MS - 1)
      expect(asked).toHaveLength(2)
      await pass(1)
      await Promise.all(all)
      expect(asked).toEqual([
        [0, 'a1'],
        [0, 'b1'],
        [EVERY_MS, 'a2', 'a3'],
        [EVERY_MS, 'b2', 'b3'],
      ])
    })

    test('are not kept by the pause of others, though those have waited longer', async () => {
      const { asked, together } = openPausing(1)
      await together.ask('a1')
      const second = together.ask('a2')
      await pass(10)
      await together.ask('b1')
      await pass(EVERY_MS - 10)
      await second
      expect(asked).toEqual([
        [0, 'a1'],
        [10, 'b1'],
        [EVERY_MS, 'a2'],
      ])
    })
  })
})
