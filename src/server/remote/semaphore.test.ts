import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Semaphore } from './semaphore.ts'

/** Goes through as often as it is asked to; each stays inside until it is let out, by name. */
function open(width: number) {
  const semaphore = new Semaphore(width)
  const inside: string[] = []
  const leave = new Map<string, (fails: boolean) => void>()
  const enter = (name: string) =>
    semaphore.pass(async () => {
      inside.push(name)
      const fails = await new Promise<boolean>((resolve) => leave.set(name, resolve))
      inside.splice(inside.indexOf(name), 1)
      if (fails) throw new Error(name)
      return name
    })
  const letOut = async (name: string, fails = false) => {
    leave.get(name)!(fails)
    await turn()
  }
  return { inside, enter, letOut }
}

describe('a semaphore', () => {
  test('lets in as many as it is wide, and the others in the order in which they came', async () => {
    const { inside, enter, letOut } = open(2)
    const all = Promise.all(['a', 'b', 'c', 'd'].map(enter))
    await turn()
    expect(inside).toEqual(['a', 'b'])
    await letOut('b')
    expect(inside).toEqual(['a', 'c'])
    await letOut('a')
    expect(inside).toEqual(['c', 'd'])
    await letOut('c')
    await letOut('d')
    expect(await all).toEqual(['a', 'b', 'c', 'd'])
  })

  test('hands on the place of one that fails, and tells only that one', async () => {
    const { inside, enter, letOut } = open(1)
    const settled = Promise.allSettled(['a', 'b'].map(enter))
    await turn()
    await letOut('a', true)
    expect(inside).toEqual(['b'])
    await letOut('b')
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
  })

  test('has all its places again when everybody has left', async () => {
    const { inside, enter, letOut } = open(2)
    const first = Promise.all(['a', 'b', 'c'].map(enter))
    await turn()
    for (const name of ['a', 'b', 'c']) await letOut(name)
    await first
    const second = Promise.all(['d', 'e', 'f'].map(enter))
    await turn()
    expect(inside).toEqual(['d', 'e'])
    for (const name of ['d', 'e', 'f']) await letOut(name)
    await second
  })
})
