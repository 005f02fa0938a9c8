import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { isTimeout, within } from './within.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

test('gives up after its time, whatever the garbage collector does meanwhile, and whether or not the work listens', async () => {
  const caller = new AbortController()
  let told: AbortSignal | undefined
  const waiting = within(50, caller.signal, (signal) => {
    told = signal
    return new Promise(() => {})
  })
  for (let n = 0; n < 3; n++) collectGarbage()
  await expect(waiting).rejects.toSatisfy(isTimeout)
  expect(told?.aborted).toBe(true)
})

test('gives the reason of the caller, and what the work gives or throws', async () => {
  const reason = new Error('enough')
  const caller = new AbortController()
  const waiting = within(60_000, caller.signal, () => new Promise(() => {}))
  caller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await expect(within(60_000, undefined, async () => 'done')).resolves.toBe('done')
  await expect(within(60_000, undefined, () => Promise.reject(reason))).rejects.toBe(reason)
})
