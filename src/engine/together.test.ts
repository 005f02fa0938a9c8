import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Together, type TogetherOptions } from './together.ts'

/** Answers with the text in capitals, when it is let. */
function open(options: Partial<TogetherOptions<string, string>> = {}) {
  const asked: (readonly string[])[] = []
  const letGo: (() => void)[] = []
  const together = new Together<string, string>({
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

  test('fail together when none of them is to blame, and the next is asked all the same', async () => {
    const { asked, together, answer } = open()
    const settled = Promise.allSettled(['a', 'bad'].map((each) => together.ask(each)))
    await answer()
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const next = together.ask('c')
    await answer()
    expect(await next).toBe('C')
    expect(asked).toEqual([['a', 'bad'], ['c']])
  })

  test('that come within the pause after a beginning wait for its end', async () => {
    const began: number[] = []
    const together = new Together<string, string>({
      atOnce: 1,
      most: 10,
      everyMs: 30,
      answer: async (questions) => {
        began.push(performance.now())
        return questions
      },
    })
    await together.ask('a')
    await Promise.all([together.ask('b'), together.ask('c')])
    expect(began).toHaveLength(2)
    expect(began[1]! - began[0]!).toBeGreaterThanOrEqual(28)
  })
})
