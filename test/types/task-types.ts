// Not run: compiled by `tsc --noEmit`. Each `@ts-expect-error` fails the build when the line below it compiles.

import { z } from 'zod'
import type { JobHandle, Sluice, Task } from '../../src/index.ts'
import { fail, type Model, model, outOfMemory, retryAt, snooze, task } from '../../src/index.ts'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : never
declare function same<A, B>(proof: Equal<A, B>): void
declare const app: Sluice

const resize = task({
  name: 'resize',
  run: async (input: { url: string; width?: number }, ctx) => {
    ctx.progress(0.5)
    const size = await ctx.step('size', () => 7)
    same<typeof size, number>(true)
    return { url: input.url, bytes: size }
  },
})
const nothing = task({ name: 'nothing', run: () => {} })
const sync = task({ name: 'sync', run: (n: number) => `${n}` })
const schema = z.object({ email: z.email(), tries: z.number().default(1), at: z.string().transform(Number) })
const checked = task({ name: 'checked', input: schema, run: (input) => input.tries + input.at })

export async function inputsAndResultsAreTyped(): Promise<void> {
  same<typeof resize, Task<{ url: string; width?: number }, { url: string; bytes: number }>>(true)
  const job = await app.submit(resize, { url: 'a', width: 3 }, { key: 'k', priority: 1, tags: ['x'] })
  same<typeof job, JobHandle<{ url: string; bytes: number }>>(true)
  const result = await job.result()
  same<typeof result, { url: string; bytes: number }>(true)
  const text = await (await app.submit(sync, 1)).result()
  same<typeof text, string>(true)
  const many = await app.submitMany(sync, [1, 2, 3])
  same<typeof many, JobHandle<string>[]>(true)
  await app.submit(nothing, undefined)
  const unknown = await (await app.submit('resize', { anything: true })).result()
  same<typeof unknown, unknown>(true)
  const named = await app.job<number>('7').result()
  same<typeof named, number>(true)
}

export async function wrongInputsDoNotCompile(): Promise<void> {
  // @ts-expect-error a field is missing
  await app.submit(resize, {})
  // @ts-expect-error a field has another type
  await app.submit(resize, { url: 7 })
  // @ts-expect-error a field is unknown
  await app.submit(resize, { url: 'a', height: 3 })
  // @ts-expect-error another input altogether
  await app.submit(sync, '1')
  // @ts-expect-error one of many
  await app.submitMany(sync, [1, '2'])
  // @ts-expect-error no input where one is needed
  await app.submit(resize)
  // @ts-expect-error an input where none is taken
  await app.submit(nothing, { a: 1 })
  // @ts-expect-error an option nobody knows
  await app.submit(sync, 1, { prio: 1 })
  // @ts-expect-error an option of another type
  await app.submit(sync, 1, { priority: 'high' })
  // @ts-expect-error a transaction that is none
  await app.submit(sync, 1, { transaction: 'begin' })
}

export async function theSchemaDecidesWhatIsTaken(): Promise<void> {
  // What the schema takes, not what it gives: a default may be left out, a transformed field is as before.
  await app.submit(checked, { email: 'a@b.c', at: '7' })
  const sum = await (await app.submit(checked, { email: 'a@b.c', tries: 2, at: '7' })).result()
  same<typeof sum, number>(true)
  // @ts-expect-error the schema wants a text
  await app.submit(checked, { email: 'a@b.c', at: 7 })
  // @ts-expect-error the schema wants an email
  await app.submit(checked, { at: '7' })
}

export function resultsCannotBeMistaken(): void {
  // @ts-expect-error a result is not its input
  const wrong: Promise<number> = app.submit(sync, 1).then((job) => job.result())
  void wrong
}

export function modelsGiveWhatTheyLoad(): void {
  const llama = model({
    name: 'llama',
    load: async ({ devices, signal }) => {
      same<typeof signal, AbortSignal>(true)
      return { port: devices.length }
    },
    unload: ({ port }) => port.toFixed(),
  })
  same<typeof llama, Model<{ port: number }>>(true)
  task({
    name: 'ask',
    model: llama,
    uses: { vram: '5GB' },
    perJob: { vram: 1 },
    run: (_, ctx) => llama.of(ctx).port,
  })
  task({
    name: 'named',
    model: 'llama',
    uses: { vram: { devices: 2, each: '20GB' } },
    run: (_, ctx) => ctx.model?.name,
  })
  // @ts-expect-error a model has to be loaded somehow
  model({ name: 'llama' })
  // @ts-expect-error unload gets what load gave
  model({ name: 'llama', load: () => 7, unload: (value: string) => value })
  // @ts-expect-error an amount is no list
  task({ name: 'odd', uses: { vram: ['5GB'] }, run: () => 1 })
}

export function wrongTasksDoNotCompile(): void {
  // @ts-expect-error a task needs a function
  task({ name: 'empty' })
  // @ts-expect-error an option nobody knows
  task({ name: 'odd', run: () => 1, retries: 3 })
  // @ts-expect-error a backoff nobody knows
  task({ name: 'odd', run: () => 1, retry: { backoff: 'linear' } })
  // @ts-expect-error the function does not fit the schema
  task({ name: 'odd', input: z.object({ a: z.string() }), run: (input: { a: number }) => input.a })
}

export function endingsAreErrors(): never {
  const endings: Error[] = [fail('for good'), retryAt(new Date()), retryAt(1000, 'why'), snooze(1000)]
  endings.push(outOfMemory(), outOfMemory({ needed: 1024 ** 3, reason: 'the cache grew' }))
  // @ts-expect-error bytes are a number
  outOfMemory({ needed: '1GB' })
  // @ts-expect-error a time is needed
  snooze()
  throw endings[0]
}

export async function optionsOfEachSeeTheirInput(): Promise<void> {
  await app.submitMany(resize, [{ url: 'a' }], { each: ({ url }, index) => ({ key: `${url} ${index}` }) })
  await app.submitMany('resize', [1], { each: () => ({ priority: 1 }) })
  // @ts-expect-error: the input has no such field
  await app.submitMany(resize, [{ url: 'a' }], { each: ({ id }) => ({ key: id }) })
  // @ts-expect-error: a key is a text
  await app.submitMany(resize, [{ url: 'a' }], { each: () => ({ key: 7 }) })
}
