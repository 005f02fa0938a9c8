import { expect, test } from 'vitest'
import { CallerShares } from './caller-shares.ts'

test('each key has its own share, and what waits goes on in the order it came', async () => {
  const shares = new CallerShares({ atOnce: 2, waiting: 2 })
  const done: string[] = []
  const free = [await shares.take('a', 1), await shares.take('a', 1)]
  const waiting = ['third', 'fourth'].map((name) =>
    shares.take('a', 1).then((freed) => {
      done.push(name)
      return freed
    }),
  )
  await expect(shares.take('a', 1)).rejects.toMatchObject({
    code: 'TOO_MANY_REQUESTS',
    details: { retryAfter: 1 },
  })
  const other = await shares.take('b', 2)
  expect(done).toEqual([])
  free[0]!()
  // A second time it is nobody's to give.
  free[0]!()
  const third = await waiting[0]!
  expect(done).toEqual(['third'])
  third()
  const fourth = await waiting[1]!
  for (const each of [free[1]!, fourth, other]) each()
  expect([done, shares.size]).toEqual([['third', 'fourth'], 0])
})

test('a large request waits until there is room for it, and small ones behind it do not pass', async () => {
  const shares = new CallerShares({ atOnce: 4, waiting: 10 })
  const done: string[] = []
  const small = await shares.take('a', 1)
  const large = shares.take('a', 4).then((freed) => {
    done.push('large')
    return freed
  })
  const behind = shares.take('a', 1).then((freed) => {
    done.push('behind')
    return freed
  })
  await Promise.resolve()
  expect(done).toEqual([])
  small()
  ;(await large)()
  ;(await behind)()
  expect([done, shares.size]).toEqual([['large', 'behind'], 0])
})
